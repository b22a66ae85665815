"""Judgements on native libraries, on facts of made-up images."""

from __future__ import annotations

from tests.validate.sample import SITE, distribution, facts, library
from validate import native


def _unresolved(*rows: dict[str, object], **other: object) -> list[tuple[str, str]]:
    return [(row.user.path, row.name) for row in native.unresolved(facts(elf_rows=rows, **other), [])]


def test_missing_library_is_told_with_its_user() -> None:
    user = library(f"{SITE}/x/_x.so", needed=["libgone.so.1"], owners=["x"])
    assert _unresolved(user) == [(f"{SITE}/x/_x.so", "libgone.so.1")]


def test_own_distribution_and_required_ones_are_loaded_before() -> None:
    rows = [
        library(f"{SITE}/vision/_C.so", needed=["libtorch.so", "libown.so"], owners=["vision"]),
        library(f"{SITE}/vision.libs/libown.so", soname="libown.so", owners=["vision"]),
        library(f"{SITE}/torch/lib/libtorch.so", soname="libtorch.so", owners=["torch"]),
    ]
    torch = distribution("torch")
    assert _unresolved(*rows, distributions=[torch, distribution("vision", requires=["torch (==2.0)"])]) == []
    assert _unresolved(*rows, distributions=[torch, distribution("vision")]) == [
        (f"{SITE}/vision/_C.so", "libtorch.so")
    ]


def test_requirements_are_followed_through_others() -> None:
    rows = [
        library(f"{SITE}/a/_a.so", needed=["libcudart.so.13"], owners=["a"]),
        library(f"{SITE}/nvidia/libcudart.so.13", soname="libcudart.so.13", owners=["nvidia-cuda-runtime"]),
    ]
    chain = [
        distribution("a", requires=["Torch>=2; python_version > '3'"]),
        distribution("torch", requires=["nvidia_cuda_runtime==13.*; sys_platform == 'linux'"]),
        distribution("nvidia-cuda-runtime"),
    ]
    assert _unresolved(*rows, distributions=chain) == []


def test_neighbours_of_a_private_folder_are_loaded_before() -> None:
    rows = [
        library("/usr/lib/systemd/libcore.so", needed=["libshared.so"]),
        library("/usr/lib/systemd/libshared.so", soname="libshared.so"),
    ]
    assert _unresolved(*rows) == []


def test_missing_symbol_version() -> None:
    seen = facts(
        elf_rows=[
            library("/usr/lib/libefa.so.1", versions_needed={"libibverbs.so.1": ["IBVERBS_PRIVATE_34"]}),
            library("/usr/lib/libibverbs.so.1", soname="libibverbs.so.1", versions_given=["IBVERBS_PRIVATE_59"]),
        ]
    )
    (row,) = native.missing_versions(seen, [])
    assert (row.user.path, row.library, row.version) == (
        "/usr/lib/libefa.so.1",
        "/usr/lib/libibverbs.so.1",
        "IBVERBS_PRIVATE_34",
    )


def test_cuda_majors_by_what_is_there_and_what_is_needed() -> None:
    seen = facts(
        elf_rows=[
            library(f"{SITE}/nvidia/libcudart.so.13", soname="libcudart.so.13"),
            library(f"{SITE}/x/_x.so", needed=["libcudart.so.12"]),
            # cuFFT 12 is CUDA 13's; CUPTI is not linked by programs.
            library(f"{SITE}/nvidia/libcufft.so.12", soname="libcufft.so.12"),
            library(f"{SITE}/triton/libcupti.so.12", soname="libcupti.so.12"),
        ]
    )
    assert native.cuda_majors(seen) == {
        13: [f"{SITE}/nvidia/libcudart.so.13 is libcudart.so.13"],
        12: [f"{SITE}/x/_x.so needs libcudart.so.12"],
    }

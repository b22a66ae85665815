"""Rules about locks: dependency paths, one CUDA major, one owner per file."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildspec import rules
from buildspec.errors import NotProvenError
from buildspec.index import Cache, Index
from buildspec.rules import locked, majors
from tests.local_index import Wheel, serving
from tests.rules.checkout import LLM, TRAIN, judge, write, write_lock

TEXT = f"""\
# Lock of stack llm-2.60. Its inputs:
#: python 3.13.5
#: platform x86_64-manylinux_2_40
#: ray[default,llm]==2.60.0
#: Torch==2.13.0
#: without nixl-cu12
# body sha256:0
nixl==1.3.2 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
    # via ray
nixl-cu13==1.3.2 \\
    --hash=sha256:{"c" * 64}
    # via
    #   nixl
    #   ray
numpy==2.3.0
    # via nixl-cu13
py-spy==0.4.1
ray[default,llm]==2.60.0
torch==2.13.0
    # via
    #   nixl-cu13
    #   vllm
vllm==0.29.0
    # via ray
"""


def test_a_lock_is_read_with_its_paths() -> None:
    read = locked.parse(TEXT)
    assert read.versions["nixl-cu13"] == "1.3.2"
    assert read.hashes["nixl"] == {"a" * 64, "b" * 64}
    assert read.required_by["torch"] == ("nixl-cu13", "vllm")
    # Asked for although something requires it too; and without an annotation nothing requires it.
    assert read.roots == {"ray", "torch", "py-spy"}
    assert read.path("torch") == ("torch",)
    assert read.shown_path("numpy") == "ray 2.60.0 → nixl-cu13 1.3.2 → numpy 2.3.0"


def test_a_circle_has_an_end() -> None:
    read = locked.parse("a==1\n    # via b\nb==1\n    # via a\n")
    assert read.path("a") in {("a",), ("b", "a")}


@pytest.mark.parametrize(
    ("name", "version", "major"),
    [
        ("nvidia-nccl-cu12", "2.29.3", 12),
        ("nixl-cu13", "1.3.2", 13),
        ("nvidia-cutlass-dsl-libs-cu12", "4.6.2", 12),
        ("cupy-cuda12x", "13.6.0", 12),
        ("nvidia-dali-cuda120", "1.50", 12),
        ("jax-cuda12-plugin", "0.7", 12),
        ("mxnet-cu112", "1.9", 11),
        ("torch", "2.15.0+cu130", 13),
        ("torch", "2.15.0+cu129", 12),
        ("torch", "2.15.0", None),
        ("cuda-bindings", "12.9.4", 12),
        ("cuda-toolkit", "13.2.2", 13),
        ("nvidia-cuda-runtime", "13.2.86", 13),
        ("nvidia-cuda-runtime", "0.0.1a1", None),
        ("nvidia-cufft", "12.2.0.57", None),
        ("cuda-pathfinder", "1.9.1", None),
        ("cuda-tile", "1.4.0", None),
        ("ncu", "12", None),
        ("discuss12", "1", None),
        ("flash-attn", "2.8.3+cu12torch2.8", 12),
        ("nvidia-nvjitlink", "no version", None),
    ],
)
def test_cuda_major_of_a_distribution(name: str, version: str, major: int | None) -> None:
    assert majors.cuda_major(name, version) == major


def test_another_major_can_be_allowed_with_a_reason(tmp_path: Path) -> None:
    body = "cupy-cuda12x==13.6.0\n    # via optuna\noptuna==4.5.0\n"
    forbidden = write(tmp_path / "forbidden", {"train-2.60": TRAIN})
    allowed = write(
        tmp_path / "allowed", {"train-2.60": TRAIN}, top={"other_cuda_majors": {"cupy-cuda12x": "loads either"}}
    )
    for project in (forbidden, allowed):
        write_lock(project, "train-2.60", body)
    assert [finding.rule for finding in judge(forbidden)] == ["cuda.one_major"]
    assert judge(allowed) == []


def test_a_stale_lock_is_a_warning_and_an_edited_one_an_error(tmp_path: Path) -> None:
    project = write(tmp_path / "checkout", {"train-2.60": TRAIN})
    assert [(f.severity, f.rule) for f in judge(project)] == [("warning", "lock.fresh")]
    text = write_lock(project, "train-2.60", "ray==2.60.0\n")
    assert judge(project) == []
    (project.locks / "train-2.60.txt").write_text(text.replace("ray==2.60.0", "ray==2.60.1", 2))
    assert [(f.severity, f.rule) for f in judge(project)] == [("error", "lock.fresh")]


WHEELS = [
    Wheel("nixl-cu12", "1.3.2", files={"nixl_ep/__init__.py": "12", "nixl_cu12/a.py": "a"}),
    Wheel("nixl-cu13", "1.3.2", files={"nixl_ep/__init__.py": "13", "nixl_cu13/a.py": "a"}),
    Wheel("census", "1.0", files={"census/__init__.py": "# same\n", "census/more.py": "1"}),
    Wheel("census-context", "1.0", files={"census/__init__.py": "# same\n", "census/context.py": "1"}),
    Wheel("ray", "2.60.0", files={"ray/__init__.py": "ray"}),
]


def lock_of(*wheels: Wheel) -> str:
    import hashlib  # noqa: PLC0415

    rows = []
    for wheel in wheels:
        digest = hashlib.sha256(wheel.content()).hexdigest()
        via = "" if wheel.name == "ray" else "\n    # via ray"
        rows.append(f"{wheel.name}=={wheel.version} \\\n    --hash=sha256:{digest}{via}\n")
    return "#: ray==2.60.0\n# body sha256:0\n" + "".join(rows)


def test_two_owners_of_a_file(tmp_path: Path) -> None:
    project = write(tmp_path / "checkout", {"llm-2.60": LLM}, top={"other_cuda_majors": {"nixl-cu12": "test"}})
    with serving(WHEELS, metadata=False) as served:
        index = Index([served.url], Cache(tmp_path / "cache"))
        found = rules.of_lock(project, "llm-2.60", lock_of(*WHEELS), index)
        with pytest.raises(NotProvenError, match=r"nixl-cu12 1\.3\.2 and nixl-cu13 1\.3\.2: both write nixl_ep"):
            rules.prove_lock(project, "llm-2.60", lock_of(*WHEELS), index)
        assert rules.prove_lock(project, "llm-2.60", lock_of(*WHEELS[1:2], WHEELS[4]), index) == []

    assert [(finding.severity, finding.rule, finding.pinned) for finding in found] == [
        ("error", "files.one_owner", "nixl-cu12 1.3.2 and nixl-cu13 1.3.2"),
        ("warning", "files.one_owner", "census 1.0 and census-context 1.0"),
    ]
    assert found[0].says == ("ray 2.60.0 → nixl-cu12 1.3.2", "ray 2.60.0 → nixl-cu13 1.3.2")
    assert "both write nixl_ep/__init__.py: the one that is installed last wins" in found[0].reason
    assert "with the same content" in found[1].reason


def test_a_shared_file_can_be_allowed_with_a_reason(tmp_path: Path) -> None:
    top = {"other_cuda_majors": {"nixl-cu12": "test"}, "shared_files": {"nixl_ep/__init__.py": "test"}}
    project = write(tmp_path / "checkout", {"llm-2.60": LLM}, top=top)
    with serving(WHEELS) as served:
        index = Index([served.url], Cache(tmp_path / "cache"))
        assert rules.of_lock(project, "llm-2.60", lock_of(*WHEELS[:2], WHEELS[4]), index) == []


def test_what_is_built_from_source_is_unknown(tmp_path: Path) -> None:
    project = write(tmp_path / "checkout", {"train-2.60": TRAIN})
    with serving(WHEELS) as served:
        index = Index([served.url], Cache(tmp_path / "cache"))
        # A hash that no wheel has: the lock took the source.
        text = lock_of(WHEELS[4]).replace("--hash=sha256:", "--hash=sha256:0", 1)
        found = rules.of_lock(project, "train-2.60", text, index)
    assert [(finding.severity, finding.pinned) for finding in found] == [("unknown", "ray 2.60.0")]


def test_without_an_index_it_says_that_files_were_not_compared(tmp_path: Path) -> None:
    project = write(tmp_path / "checkout", {"train-2.60": TRAIN})
    found = rules.of_lock(project, "train-2.60", lock_of(WHEELS[4]), None)
    assert [(finding.severity, finding.rule) for finding in found] == [("unknown", "files.one_owner")]

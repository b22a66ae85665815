"""`drydock bump` against a real index on the loopback interface, resolved by the real uv."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from buildspec import cli
from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError, ExitCode, NotProvenError
from tests.local_index import LocalIndex, Wheel, serving

pytestmark = pytest.mark.integration

PYTHON = "cp313-cp313-manylinux_2_28_x86_64"
VERSIONS = """\
schema: 1
source: https://git.example.org/harbour/ships
licenses: Apache-2.0
images:
  train: {title: T, description: T, size_budget_gb: 8.0}
  llm: {title: L, description: L, size_budget_gb: 8.0}
bases:
  debian13: {suite: trixie, bootstrap: mmdebstrap}
fabrics:
  distro: {kind: distro}

stacks:
  # the one that trains
  tug:
    image: train
    status: current
    support_end: 2030-01-31
    base: debian13
    fabric: distro
    python: &python "3.13.5"
    cuda: "13.0"
    torch: "2.13.0"  # as vLLM pins it
    nccl: "2.29.7"
    ray: &ray "2.60.0"

  barge:
    image: llm
    status: current
    support_end: 2030-01-31
    base: debian13
    fabric: distro
    python: *python
    cuda: "13.0"
    torch: "2.13.0"
    nccl: "2.29.7"
    ray: *ray
    vllm: "0.29.0"
    nixl: "1.3.2"
"""
TRAIN = "ray[default]=={ray}\ntorch=={torch}\nnvidia-nccl-cu{cuda_major}=={nccl}\ncuda-toolkit=={cuda}.*\nrope\n"
LLM = TRAIN.replace("[default]", "[default,llm]") + "vllm=={vllm}\nnixl-cu{cuda_major}=={nixl}\n"


def ray(version: str, vllm: str, nixl: str, *, yanked: str | None = None) -> Wheel:
    requires = (
        'rope ; extra == "default"',
        f'vllm=={vllm} ; extra == "llm"',
        f'nixl=={nixl} ; extra == "llm"',
        f'nixl-cu13=={nixl} ; extra == "llm"',
    )
    return Wheel("ray", version, requires, PYTHON, yanked=yanked)


def torch(version: str, cuda: str, nccl: str, *more: str, tags: str = PYTHON) -> Wheel:
    return Wheel("torch", version, (f"cuda-toolkit=={cuda}", f"nvidia-nccl-cu13=={nccl}", *more), tags)


def wheels() -> list[Wheel]:
    """An index on which everything is pinned at its newest: nothing can move."""
    return [
        ray("2.60.0", "0.29.0", "1.3.2"),
        torch("2.13.0", "13.0.3", "2.29.7"),
        Wheel("cuda-toolkit", "13.0.2"),
        Wheel("cuda-toolkit", "13.0.3"),
        Wheel("nvidia-nccl-cu13", "2.29.7", files={"nvidia/nccl/lib/libnccl.so.2": "13"}),
        Wheel("vllm", "0.29.0", ("torch==2.13.0",), PYTHON),
        Wheel("nixl", "1.3.2", ("nixl-cu12==1.3.2", "nixl-cu13==1.3.2")),
        Wheel("nixl-cu12", "1.3.2", files={"nixl_ep/__init__.py": "12"}),
        Wheel("nixl-cu13", "1.3.2", files={"nixl_ep/__init__.py": "13"}),
        Wheel("rope", "1.0.0"),
    ]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalIndex]:
    for name in ("UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "PIP_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("DRYDOCK_CACHE", str(tmp_path / "cache"))
    with serving(wheels()) as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield index


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "checkout"
    for image, lines in (("train", TRAIN), ("llm", LLM)):
        (folder / "images" / image).mkdir(parents=True)
        (folder / "images" / image / "requirements.in").write_text(lines)
    (folder / "images" / "llm" / "exclude.txt").write_text("nixl-cu12\n")
    (folder / "images" / "packages.txt").write_text("bash\ngrep\nopenssl\nwget\n")
    (folder / "images" / "locks").mkdir()
    (folder / "versions.yaml").write_text(VERSIONS)
    monkeypatch.chdir(folder)
    return folder


def files(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def bump(*arguments: str) -> int:
    return cli.dispatch(["bump", *arguments])


def plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, object]]:
    capsys.readouterr()
    assert bump("--plan", "--json", *arguments) == 0
    return {row["stack"]: row for row in json.loads(capsys.readouterr().out)["stacks"]}


def test_nothing_newer(served: LocalIndex, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(checkout)
    assert bump("--check") == ExitCode.DONE
    assert bump() == ExitCode.DONE
    assert files(checkout) == before
    assert "tug: no pin can move\n" in capsys.readouterr().out


def test_the_newest_consistent_set_and_not_each_newest(
    served: LocalIndex, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served.add(torch("2.15.0", "13.2.2", "2.30.7"))
    for name, version in (("cuda-toolkit", "13.2.2"), ("cuda-toolkit", "13.5.0"), ("nvidia-nccl-cu13", "2.30.7"),
                          ("nvidia-nccl-cu13", "2.32.3"), ("nixl", "1.5.1"), ("nixl-cu13", "1.5.1")):  # fmt: skip
        served.add(Wheel(name, version))
    served.add(Wheel("vllm", "0.33.0", ("torch==2.14.0",), PYTHON))

    found = plan(capsys)

    assert found["tug"]["moved"] == {
        "cuda": {"old": "13.0", "new": "13.2"},
        "torch": {"old": "2.13.0", "new": "2.15.0"},
        "nccl": {"old": "2.29.7", "new": "2.30.7"},
    }
    assert found["tug"]["stays"] == [
        {
            "pin": "nccl",
            "version": "2.30.7",
            "newest": "2.32.3",
            "reasons": ["torch 2.15.0 requires nccl ==2.30.7"],
        },
        {"pin": "cuda", "version": "13.2", "newest": "13.5", "reasons": ["torch 2.15.0 requires cuda ==13.2.2"]},
    ]
    assert found["barge"]["moved"] == {}
    reasons = {row["pin"]: row["reasons"] for row in found["barge"]["stays"]}  # type: ignore[attr-defined]
    assert reasons["vllm"] == ["ray[llm] 2.60.0 requires vllm ==0.29.0"]
    assert reasons["torch"] == ["vllm 0.29.0 requires torch ==2.13.0"]
    assert reasons["nixl"] == ["ray[llm] 2.60.0 requires nixl ==1.3.2"]
    assert bump("--check") == ExitCode.NOT_PROVEN
    assert bump("--check", "barge") == ExitCode.DONE


def newer_ray(served: LocalIndex) -> None:
    served.add(ray("2.61.0", "0.30.0", "1.4.0"))
    served.add(Wheel("vllm", "0.30.0", ("torch==2.13.0",), PYTHON))
    for name in ("nixl", "nixl-cu12", "nixl-cu13"):
        more = ("nixl-cu12==1.4.0", "nixl-cu13==1.4.0") if name == "nixl" else ()
        served.add(Wheel(name, "1.4.0", more))


def test_versions_and_locks_are_written_together(
    served: LocalIndex, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer_ray(served)

    assert bump() == ExitCode.DONE

    text = (checkout / "versions.yaml").read_text()
    assert text == VERSIONS.replace('&ray "2.60.0"', '&ray "2.61.0"').replace("0.29.0", "0.30.0").replace(
        "1.3.2", "1.4.0"
    )
    lock = (checkout / "images" / "locks" / "barge.txt").read_text()
    assert "\nvllm==0.30.0 \\\n" in lock
    assert "nixl-cu12" not in lock.partition("# body")[2]
    assert cli.dispatch(["matrix", "--check", "--offline"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "high risk" in out
    assert "  - ray 2.60.0 → 2.61.0" in out
    assert bump("--check") == ExitCode.DONE


def test_only_some_pins(served: LocalIndex, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer_ray(served)

    found = plan(capsys, "--only", "vllm")

    assert found["tug"]["moved"] == found["barge"]["moved"] == {}
    reasons = {row["pin"]: row["reasons"] for row in found["barge"]["stays"]}  # type: ignore[attr-defined]
    assert reasons == {
        "ray": ["--only does not name it"],
        "vllm": ["ray[llm] 2.60.0 requires vllm ==0.29.0"],
        "nixl": ["--only does not name it"],
    }
    with pytest.raises(BadInputError, match=r"'tourch' is no pin that moves \(did you mean 'torch'\?\)"):
        bump("--only", "tourch")
    with pytest.raises(BadInputError, match="names no pin"):
        bump("--only", ",")


def test_ranges_hold(served: LocalIndex, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer_ray(served)
    (checkout / "versions.yaml").write_text(
        VERSIONS.replace('&ray "2.60.0"', '&ray "2.60.0"\n    ranges: {ray: "==2.60.*"}')
    )

    found = plan(capsys)

    assert found["tug"]["moved"] == {}
    assert found["tug"]["stays"] == [
        {
            "pin": "ray",
            "version": "2.60.0",
            "newest": "2.61.0",
            "reasons": ["its range in versions.yaml is ==2.60.*"],
        }
    ]
    assert "ray" in found["barge"]["moved"]  # type: ignore[operator]


def test_a_stack_that_shares_an_anchor_stays(served: LocalIndex, checkout: Path) -> None:
    newer_ray(served)
    assert bump("tug") == ExitCode.DONE
    text = (checkout / "versions.yaml").read_text()
    assert 'ray: &ray "2.61.0"' in text
    assert 'ray: "2.60.0"' in text
    assert [file.name for file in (checkout / "images" / "locks").iterdir()] == ["tug.txt"]


def test_releases_that_can_not_be_taken_are_named(
    served: LocalIndex, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served.add(ray("2.61.0", "0.29.0", "1.3.2", yanked="loses tasks"))
    served.add(torch("2.14.0", "13.0.3", "2.29.7", tags="cp312-cp312-manylinux_2_28_x86_64"))
    served.add(Wheel("torch", "2.16.0rc1", (), PYTHON))

    found = plan(capsys, "tug")["tug"]

    assert found["moved"] == {}
    assert found["passed_over"] == [
        "ray 2.61.0 was yanked: loses tasks",
        "torch 2.14.0 has no wheel for Python 3.13 on x86_64, glibc 2.41",
    ]


def yank_pinned(served: LocalIndex) -> None:
    served.remove("ray")
    served.add(ray("2.60.0", "0.29.0", "1.3.2", yanked="loses tasks"))
    served.add(ray("2.60.1", "0.29.0", "1.3.2"))


def lose_file(served: LocalIndex) -> None:
    served.add(torch("2.15.0", "13.0.3", "2.29.7"))
    served.wheels[-1].missing = True


def lose_pinned_file(served: LocalIndex) -> None:
    next(wheel for wheel in served.wheels if wheel.name == "torch").missing = True


def lose_file_of_a_dependency(served: LocalIndex) -> None:
    newer_ray(served)
    served.add(Wheel("rope", "1.1.0", missing=True))


@pytest.mark.parametrize(
    ("break_index", "message"),
    [
        (LocalIndex.stop, "is out of reach"),
        (lambda served: served.status.update({"/simple/torch": 503}), "HTTP 503"),
        (yank_pinned, r"ray 2\.60\.0, which tug pins, was yanked: loses tasks"),
        (lambda served: served.remove("nvidia-nccl-cu13"), "no distribution named 'nvidia-nccl-cu13'"),
        (lambda served: served.remove("rope"), "no distribution 'rope'"),
        (lose_file, r"torch-2\.15\.0-\S+ does not exist|lacks a file"),
        (lose_pinned_file, r"torch-2\.13\.0-\S+ does not exist|lacks a file"),
        (lose_file_of_a_dependency, r"lacks a file\b[\s\S]*rope-1\.1\.0|out of reach[\s\S]*rope-1\.1\.0"),
        (lambda served: served.status.update({"/files/torch": 403}), "403"),
    ],
    ids=["no network", "server down", "yanked", "pin vanished", "dependency vanished", "newest lacks its file",
         "pinned lacks its file", "dependency lacks its file", "refused"],
)  # fmt: skip
def test_what_the_index_lacks_is_named_and_nothing_is_written(
    served: LocalIndex, checkout: Path, break_index: Callable[[LocalIndex], None], message: str
) -> None:
    # Everything was seen before: neither cache may hide what is wrong now.
    assert bump("--check") == ExitCode.DONE
    before = files(checkout)
    break_index(served)

    with pytest.raises(EnvironmentLacksError, match=message) as caught:
        bump()

    assert caught.value.code == ExitCode.ENVIRONMENT
    assert files(checkout) == before


def test_a_set_that_is_known_to_be_broken_is_not_written(served: LocalIndex, checkout: Path) -> None:
    served.add(torch("2.14.0", "13.0.3", "2.29.2"))
    served.add(Wheel("nvidia-nccl-cu13", "2.29.2"))
    before = files(checkout)
    with pytest.raises(NotProvenError, match=r"NCCL 2\.29\.2 brought a hang"):
        bump("tug")
    assert files(checkout) == before


@pytest.mark.parametrize(
    ("intruder", "message"),
    [
        (
            Wheel("cupy-cuda12x", "13.6.0"),
            r"torch 2.14.0 → cupy-cuda12x|cupy-cuda12x 13\.6\.0 \(CUDA 12\): two CUDA major versions",
        ),
        (
            Wheel("fast-nccl", "1.0", files={"nvidia/nccl/lib/libnccl.so.2": "fast"}),
            r"fast-nccl 1\.0 and nvidia-nccl-cu13 2\.29\.7: both write nvidia/nccl/lib/libnccl\.so\.2",
        ),
    ],
)
def test_a_lock_that_violates_rules_is_not_written(
    served: LocalIndex, checkout: Path, intruder: Wheel, message: str
) -> None:
    served.add(torch("2.14.0", "13.0.3", "2.29.7", intruder.name))
    served.add(intruder)
    before = files(checkout)
    with pytest.raises(NotProvenError, match=message):
        bump("tug")
    assert files(checkout) == before


def test_newer_releases_of_what_only_the_lock_pins(
    served: LocalIndex, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.dispatch(["lock"]) == ExitCode.DONE
    served.add(Wheel("rope", "1.1.0"))

    assert bump("--check") == ExitCode.DONE
    assert "1 that only the lock pins could move too" in capsys.readouterr().out
    assert bump("--check", "--locks") == ExitCode.NOT_PROVEN
    assert bump("--locks") == ExitCode.DONE

    assert (checkout / "versions.yaml").read_text() == VERSIONS
    assert all("rope==1.1.0" in file.read_text() for file in (checkout / "images" / "locks").iterdir())


def test_ranges_without_a_solution_are_bad_input(served: LocalIndex, checkout: Path) -> None:
    (checkout / "versions.yaml").write_text(
        VERSIONS.replace('nccl: "2.29.7"', 'nccl: "2.29.7"\n    ranges: {torch: "<2"}', 1)
    )
    with pytest.raises(BadInputError, match="no set of versions satisfies stack tug within its ranges"):
        bump("tug")


def test_names_are_checked(served: LocalIndex, checkout: Path) -> None:
    with pytest.raises(DrydockError, match=r"no stack is named 'tog' \(did you mean 'tug'\?\)"):
        bump("tog")
    (checkout / "versions.yaml").write_text(VERSIONS.replace("status: current", "status: retired", 1))
    with pytest.raises(BadInputError, match="stack tug is retired"):
        bump("tug")

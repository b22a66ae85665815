"""Rules from package metadata against a real index: what it has, took back, or lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from buildspec import rules
from buildspec.index import Cache, Index
from buildspec.rules import EMPTY, Catalog, Finding
from tests.local_index import LocalIndex, Wheel, serving
from tests.rules.checkout import TODAY, TRAIN, cases, write

LINUX = "cp313-cp313-manylinux_2_28_x86_64"


def shelf() -> list[Wheel]:
    return [
        Wheel("ray", "2.60.0", ('nothing ; extra == "default"',), LINUX),
        Wheel("ray", "2.59.0", (), LINUX),
        Wheel("ray", "2.61.0", (), LINUX),
        Wheel(
            "torch",
            "2.15.0",
            ("cuda-toolkit[cudart]==13.2.2 ; platform_system == 'Linux'", "nvidia-nccl-cu13==2.30.7"),
            LINUX,
        ),
        Wheel("torch", "2.14.0", ("cuda-toolkit[cudart]==13.0.3", "nvidia-nccl-cu13==2.30.7"), LINUX),
        Wheel("nvidia-nccl-cu13", "2.30.7"),
        Wheel("nvidia-nccl-cu13", "2.29.7"),
        Wheel("cuda-toolkit", "13.0.3"),
        Wheel("cuda-toolkit", "13.2.2"),
    ]


@pytest.fixture
def served() -> Iterator[LocalIndex]:
    with serving(shelf()) as index:
        yield index


@pytest.fixture
def judge(served: LocalIndex, tmp_path: Path) -> Callable[..., list[Finding]]:
    def ask(fall_back: bool = True, **pins: str) -> list[Finding]:
        project = write(tmp_path / f"checkout{len(list(tmp_path.iterdir()))}", {"train-2.60": TRAIN | pins})
        catalog = Catalog(Index([served.url], Cache(tmp_path / "cache"), fresh=0, fall_back=fall_back), EMPTY)
        return rules.of_case(cases(project, catalog)["train-2.60"])

    return ask


def one(found: list[Finding], rule: str) -> Finding:
    matching = [finding for finding in found if finding.rule == rule]
    assert len(matching) == 1, [finding.rule for finding in found]
    return matching[0]


def test_what_fits_is_silent(judge: Callable[..., list[Finding]]) -> None:
    assert judge() == []


def test_a_release_that_does_not_exist(judge: Callable[..., list[Finding]]) -> None:
    finding = one(judge(ray="2.60.5"), "packages.exists")
    assert (finding.severity, finding.pinned) == ("error", "ray 2.60.5")
    assert finding.nearest == ("ray 2.61.0 (up)", "ray 2.60.0 (down)")


def test_a_yanked_release(judge: Callable[..., list[Finding]], served: LocalIndex) -> None:
    next(w for w in served.wheels if (w.name, w.version) == ("ray", "2.60.0")).yanked = "loses tasks"
    finding = one(judge(), "packages.yanked")
    assert finding.severity == "error"
    assert finding.reason == "its publisher took ray 2.60.0 back: loses tasks"
    assert finding.nearest == ("ray 2.61.0 (up)", "ray 2.59.0 (down)")


def test_a_distribution_that_vanished(judge: Callable[..., list[Finding]], served: LocalIndex) -> None:
    served.remove("nvidia-nccl-cu13")
    finding = one(judge(), "packages.exists")
    assert (finding.severity, finding.pinned) == ("error", "nvidia-nccl-cu13 2.30.7")


def test_a_wheel_that_the_index_lists_and_lacks(judge: Callable[..., list[Finding]], served: LocalIndex) -> None:
    next(w for w in served.wheels if (w.name, w.version) == ("torch", "2.15.0")).missing = True
    finding = one(judge(), "packages.readable")
    assert (finding.severity, finding.essential) == ("unknown", True)
    assert "torch-2.15.0" in finding.reason


def test_a_release_without_a_wheel_for_this_python(
    judge: Callable[..., list[Finding]], served: LocalIndex
) -> None:
    served.add(Wheel("ray", "2.60.1", (), "cp312-cp312-manylinux_2_28_x86_64"))
    finding = one(judge(ray="2.60.1"), "packages.wheel")
    assert finding.nearest == ("ray 2.61.0 (up)", "ray 2.60.0 (down)", "python 3.12 (down)")


def test_a_release_that_requires_another_python(judge: Callable[..., list[Finding]], served: LocalIndex) -> None:
    served.add(Wheel("ray", "2.60.1", (), "py3-none-any", requires_python=">=3.14"))
    finding = one(judge(ray="2.60.1"), "packages.python")
    assert (finding.pinned, finding.needed) == ("python 3.13.5", "python >=3.14")


def test_requirements_are_compared_with_the_pins(judge: Callable[..., list[Finding]]) -> None:
    finding = one(judge(nccl="2.29.7"), "packages.requires")
    assert (finding.pinned, finding.needed) == ("nvidia-nccl-cu13 2.29.7", "nvidia-nccl-cu13 ==2.30.7")
    assert finding.nearest == ("nccl 2.30.7 (up)",)
    finding = one(judge(cuda="13.0"), "packages.requires")
    assert finding.nearest == ("cuda 13.2 (up)", "torch 2.14.0 (down) with cuda 13.0")


def test_two_wheels_that_exclude_each_other(judge: Callable[..., list[Finding]], served: LocalIndex) -> None:
    served.add(Wheel("ray", "2.60.1", ("numpy<2",), LINUX))
    served.add(
        Wheel("torch", "2.15.1", ("numpy==2.3.0", "cuda-toolkit==13.2.2", "nvidia-nccl-cu13==2.30.7"), LINUX)
    )
    finding = one(judge(ray="2.60.1", torch="2.15.1"), "packages.conflict")
    assert finding.needed == "numpy ==2.3.0 and numpy <2"
    assert [says.partition(" (")[0] for says in finding.says] == ["torch 2.15.1", "ray 2.60.1"]


def test_a_wheel_for_cpus(judge: Callable[..., list[Finding]], served: LocalIndex) -> None:
    served.add(Wheel("torch", "2.15.1", ("filelock",), LINUX))
    finding = one(judge(torch="2.15.1"), "packages.cuda")
    assert "computes on CPUs only" in finding.reason


def test_out_of_reach_without_a_lock_is_unknown_and_not_guessed(
    judge: Callable[..., list[Finding]], served: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buildspec.index.web._PAUSES", ())
    served.stop()
    finding = one(judge(), "packages.requires")
    assert (finding.severity, finding.essential) == ("unknown", True)
    assert finding.remedy.startswith("run it with the index in reach")


def test_rules_are_judged_on_the_day_that_is_given(tmp_path: Path) -> None:
    project = write(tmp_path / "checkout", {"train-2.60": TRAIN})
    early = rules.of_project(project, None, today=TODAY)
    late = rules.of_project(project, None, today=TODAY.replace(year=2031))
    assert "support.ended" not in {finding.rule for finding in early}
    assert "support.ended" in {finding.rule for finding in late}

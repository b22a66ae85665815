"""What `pip check` would say, on facts."""

from __future__ import annotations

from tests.validate.sample import distribution, facts
from validate.requirements import broken


def say(*rows: dict[str, object], excluded: frozenset[str] = frozenset()) -> list[str]:
    seen = facts(distributions=rows)
    assert seen.python is not None
    return [str(row) for row in broken(seen.sites, seen.python.markers, excluded)]


def test_satisfied() -> None:
    assert (
        say(distribution("a", requires=["B_b>=1,<2", "c; sys_platform == 'win32'"]), distribution("b-b", "1.5"))
        == []
    )


def test_missing() -> None:
    assert say(distribution("a", requires=["b>=1"])) == ["a 1.0 requires b>=1: b is not installed"]


def test_other_version() -> None:
    assert say(distribution("a", requires=["b>=2"]), distribution("b", "1.9")) == [
        "a 1.0 requires b>=2: b 1.9 is installed"
    ]


def test_local_and_pre_versions_count() -> None:
    assert say(distribution("a", requires=["torch==2.15.0", "b>=1"]), distribution("torch", "2.15.0+cu132"),
               distribution("b", "2.0rc1")) == []  # fmt: skip


def test_extras_only_where_asked_for() -> None:
    ray = distribution("ray", requires=["aiohttp>=3; extra == 'default'"])
    assert say(ray) == []
    assert say(ray, distribution("user", requires=["ray[default]"])) == [
        "ray 1.0 requires aiohttp>=3; extra == 'default': aiohttp is not installed"
    ]


def test_declared_absence() -> None:
    nixl = distribution("nixl", requires=["nixl-cu12", "nixl-cu13"])
    rows = (nixl, distribution("nixl-cu13"))
    assert say(*rows, excluded=frozenset({"nixl-cu12"})) == []
    assert say(*rows) == ["nixl 1.0 requires nixl-cu12: nixl-cu12 is not installed"]


def test_requirement_that_nobody_can_read_is_passed_over() -> None:
    assert say(distribution("a", requires=["b>=1.*.*", "c (unknown syntax"])) == []

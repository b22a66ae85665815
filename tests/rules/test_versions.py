"""Versions and ranges: AWS' own numbering, the nearest that fits, ranges of known problems."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from buildspec.rules import facts
from buildspec.rules.target import Target
from buildspec.rules.versions import minor, nearest, parse, parse_or_none

numbers = st.integers(0, 120)
triples = st.tuples(numbers, numbers, numbers)
versions = st.builds(lambda parts: Version(".".join(map(str, parts))), triples)


def text(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("2.4.0amzn3.0", "2.4.0amzn5.0"),
        ("2.4.0amzn5.0", "2.4.0amzn10.0"),
        ("2.4.0", "2.4.0amzn1.0"),
        ("2.4.0amzn5.0", "2.6.0amzn1.0"),
        ("60.amzn0", "61.0"),
        ("57.amzn0", "57.amzn1"),
        ("9.amzn0", "57.amzn1"),
        ("2.30.7-1", "2.31.2-1"),
        ("1.9.0", "1.44.0"),
        ("1.44.0", "1.100.0"),
    ],
)
def test_upstream_versions_are_ordered_by_number(lower: str, higher: str) -> None:
    assert parse(lower) < parse(higher)


def test_a_packaging_revision_is_not_a_version() -> None:
    assert parse("2.30.7-1") == parse("2.30.7")
    assert parse_or_none("none") is None
    with pytest.raises(InvalidVersion):
        parse("latest")


@given(triples, numbers, triples, numbers)
def test_amazons_builds_order_by_upstream_then_by_build(
    a: tuple[int, ...], build_a: int, b: tuple[int, ...], build_b: int
) -> None:
    left, right = parse(f"{text(a)}amzn{build_a}.0"), parse(f"{text(b)}amzn{build_b}.0")
    assert (left < right) == ((a, build_a) < (b, build_b))
    assert left > parse(text(a))


@given(triples, numbers, triples)
def test_a_range_looks_at_the_upstream_version(a: tuple[int, ...], build: int, bound: tuple[int, ...]) -> None:
    assert SpecifierSet(f">={text(bound)}").contains(parse(f"{text(a)}amzn{build}.0")) == (a >= bound)


@given(st.lists(versions, max_size=30), versions, st.sets(versions, max_size=10))
def test_nearest_is_what_a_search_through_all_would_find(
    known: list[Version], pinned: Version, bad: set[Version]
) -> None:
    found = nearest(known, pinned, lambda version: version not in bad)
    above = [version for version in known if version > pinned and version not in bad]
    below = [version for version in known if version < pinned and version not in bad]
    assert found.up == min(above, default=None)
    assert found.down == max(below, default=None)


@given(st.lists(versions, max_size=12), versions, st.integers(0, 4))
def test_nearest_asks_about_few(known: list[Version], pinned: Version, tries: int) -> None:
    asked: list[Version] = []

    def never(version: Version) -> bool:
        asked.append(version)
        return False

    found = nearest(known, pinned, never, tries=tries)
    assert (found.up, found.down) == (None, None)
    assert len(asked) <= 2 * tries
    assert pinned not in asked


def test_prereleases_are_near_to_prereleases_only() -> None:
    known = [Version("1.0"), Version("1.1rc1"), Version("1.2")]
    assert nearest(known, Version("1.0"), lambda _: True).up == Version("1.2")
    assert nearest(known, Version("1.0rc1"), lambda _: True).up == Version("1.0")
    assert nearest(known, Version("1.1rc0"), lambda _: True).up == Version("1.1rc1")
    assert nearest(known, Version("1.0"), lambda _: True).texts("ray") == ("ray 1.2 (up)",)


@given(triples)
def test_the_minor_version_is_the_first_two_parts(parts: tuple[int, ...]) -> None:
    assert minor(Version(text(parts))) == f"{parts[0]}.{parts[1]}"


@pytest.mark.parametrize("rule", facts.load().known.rules, ids=lambda rule: rule.id)
def test_ranges_of_known_problems_hold_at_their_bounds(rule: facts.Known) -> None:
    """Each bound belongs where its operator says, whatever the order of texts."""
    for wanted in rule.when.ranges().values():
        for specifier in wanted:
            version = Version(specifier.version)
            assert specifier.contains(version) == (specifier.operator in (">=", "<=", "=="))
            above = Version(re.sub(r"\d+$", lambda last: str(int(last[0]) + 1), specifier.version))
            assert specifier.contains(above) == (specifier.operator in (">=", ">"))


pythons = st.builds("3.{}.{}".format, st.integers(8, 14), st.integers(0, 20))


@given(pythons, st.integers(17, 45), st.sampled_from(["x86_64", "aarch64"]))
def test_wheels_run_where_their_tags_say(python: str, glibc: int, arch: str) -> None:
    from packaging.tags import Tag  # noqa: PLC0415

    target = Target(python, arch, f"2.{glibc}")  # type: ignore[arg-type]
    abi = f"cp3{Version(python).minor}"
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[arch]

    assert target.rank([Tag(abi, abi, f"manylinux_2_{glibc}_{arch}")]) is not None
    assert target.rank([Tag(abi, abi, f"manylinux_2_{glibc + 1}_{arch}")]) is None
    assert target.rank([Tag(abi, abi, f"manylinux_2_{glibc}_{other}")]) is None
    assert target.rank([Tag(abi, f"{abi}t", f"manylinux_2_{glibc}_{arch}")]) is None
    assert target.rank([Tag(f"cp3{Version(python).minor + 1}", "abi3", f"manylinux_2_17_{arch}")]) is None
    assert target.rank([Tag("cp38", "abi3", f"manylinux2014_{arch}")]) is not None
    exact, pure = target.rank([Tag(abi, abi, f"manylinux_2_17_{arch}")]), target.rank([Tag("py3", "none", "any")])
    assert exact is not None
    assert pure is not None
    assert exact < pure


@given(pythons)
def test_markers_are_judged_for_the_image_and_not_for_this_machine(python: str) -> None:
    target = Target(python, "aarch64", "2.36")
    assert target.applies(Requirement('a ; platform_machine == "aarch64" and sys_platform == "linux"'))
    assert not target.applies(Requirement('a ; platform_machine == "x86_64"'))
    assert target.applies(Requirement(f'a ; python_full_version == "{python}"'))
    assert not target.applies(Requirement('a ; extra == "llm"'))
    assert target.applies(Requirement('a ; extra == "llm" and os_name == "posix"'), ["serve", "llm"])
    assert target.applies(Requirement('a ; extra == "llm" or sys_platform == "linux"'))
    assert not target.applies(Requirement('a ; extra == "llm" and sys_platform == "win32"'), ["llm"])

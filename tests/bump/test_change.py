"""How much care a step asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from buildspec.bump.change import Change, Risk, changelog, changes, risk

triples = st.builds("{}.{}.{}".format, *[st.integers(0, 60)] * 3)


@pytest.mark.parametrize(
    ("old", "new", "pinned", "expected"),
    [
        ("2.15.0", "2.15.1", False, Risk.LOW),
        ("2.15.0", "2.15.1", True, Risk.MEDIUM),
        ("2.9.0", "2.10.0", False, Risk.MEDIUM),
        ("2.9.0", "2.10.0", True, Risk.HIGH),
        ("0.29.0", "0.33.0", True, Risk.HIGH),
        ("1.9", "2.0", False, Risk.HIGH),
        ("2026.10.0", "2026.11.0", False, Risk.MEDIUM),
        ("2.10.0", "2.9.0", False, Risk.HIGH),
        ("2.10.0", "2.9.9", True, Risk.HIGH),
        (None, "1.0", False, Risk.MEDIUM),
        ("1.0", None, False, Risk.MEDIUM),
        ("1.0", "1!1.0", False, Risk.HIGH),
        ("1.0", "no version", False, Risk.HIGH),
    ],
)
def test_risk(old: str | None, new: str | None, pinned: bool, expected: Risk) -> None:
    assert risk(old, new, pinned=pinned) is expected


@given(triples, triples, st.booleans())
def test_a_step_down_is_never_a_small_matter(old: str, new: str, pinned: bool) -> None:
    found = risk(old, new, pinned=pinned)
    if Version(new) < Version(old):
        assert found is Risk.HIGH
    if pinned and Version(new) != Version(old):
        assert found is not Risk.LOW


def test_the_changelog_is_grouped_by_risk() -> None:
    old = {"torch": "2.13.0", "requests": "2.32.1", "click": "8.1.0", "gone": "1.0", "same": "1.0"}
    new = {"torch": "2.15.0", "requests": "2.32.2", "click": "8.2.0", "new": "0.1", "same": "1.0"}

    assert changelog(changes(old, new, {"torch"})) == [
        "high risk (interfaces or native code change, or a step down: try it on a cluster):",
        "  - torch 2.13.0 → 2.15.0",
        "medium risk (new features, or a distribution that comes or goes: run the smoke tests):",
        "  - click 8.1.0 → 8.2.0",
        "  - gone 1.0 (gone)",
        "  - new 0.1 (new)",
        "low risk (repairs):",
        "  - requests 2.32.1 → 2.32.2",
    ]
    assert changelog([]) == []
    assert str(Change("a", None, "1", Risk.LOW)) == "a 1 (new)"

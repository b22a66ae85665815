"""versions.yaml is written back with nothing changed but the pins."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from buildspec.bump.rewrite import with_pins
from buildspec.errors import BadInputError

TEXT = """\
# The matrix.
schema: 1   # trailing
stacks:
  train-2.60:
    status: current
    support_end: 2027-11-30
    python: &python "3.13.5"
    torch: "2.15.0"   # pinned by hand

    ray: &ray '2.60.0'
    instances: [p5.48xlarge, "g5.48xlarge"]
    budget: 8.20
  llm-2.60:
    python: *python
    torch: "2.13.0"
    ray: *ray
    # the end
"""


def changed(pins: dict[str, dict[str, str]], text: str = TEXT) -> list[str]:
    diff = difflib.unified_diff(text.splitlines(), with_pins(text, pins).splitlines(), lineterm="", n=0)
    return [line for line in diff if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def test_nothing_to_move_changes_nothing() -> None:
    assert with_pins(TEXT, {}) == TEXT


def test_a_value_keeps_its_quotes_and_comment() -> None:
    assert changed({"train-2.60": {"torch": "2.16.0"}}) == [
        '-    torch: "2.15.0"   # pinned by hand',
        '+    torch: "2.16.0"   # pinned by hand',
    ]


def test_an_anchor_moves_with_its_alias() -> None:
    moved = {"train-2.60": {"ray": "2.61.0"}, "llm-2.60": {"ray": "2.61.0"}}
    assert changed(moved) == ["-    ray: &ray '2.60.0'", "+    ray: &ray '2.61.0'"]


def test_an_alias_that_stays_becomes_a_value_of_its_own() -> None:
    assert changed({"train-2.60": {"ray": "2.61.0"}}) == [
        "-    ray: &ray '2.60.0'",
        "+    ray: &ray '2.61.0'",
        "-    ray: *ray",
        "+    ray: '2.60.0'",
    ]


def test_an_alias_that_moves_alone_becomes_a_value_of_its_own() -> None:
    assert changed({"llm-2.60": {"ray": "2.61.0"}}) == ["-    ray: *ray", "+    ray: '2.61.0'"]


def test_the_projects_own_matrix_is_kept_byte_by_byte(root: Path) -> None:
    text = (root / "versions.yaml").read_text()
    assert with_pins(text, {}) == text
    assert changed({"train-2.60": {"torch": "9.9.9"}}, text) == ['-    torch: "2.15.0"', '+    torch: "9.9.9"']


@pytest.mark.parametrize("text", ["stacks: [", "stacks: {a: b", "a: *nobody"])
def test_what_is_no_yaml_is_bad_input(text: str) -> None:
    with pytest.raises(BadInputError, match=r"versions\.yaml can't be rewritten"):
        with_pins(text, {"a": {"b": "1"}})


versions = st.builds("{}.{}.{}".format, *[st.integers(0, 40)] * 3)
moves = st.dictionaries(
    st.sampled_from(["train-2.60", "llm-2.60"]),
    st.dictionaries(st.sampled_from(["python", "torch", "ray"]), versions, max_size=3),
    max_size=2,
)


@given(moves)
def test_exactly_the_pins_change_whatever_moves(pins: dict[str, dict[str, str]]) -> None:
    wanted = yaml.safe_load(TEXT)
    for stack, moved in pins.items():
        wanted["stacks"][stack] |= moved
    text = with_pins(TEXT, pins)
    assert yaml.safe_load(text) == wanted
    assert [line.partition("#")[2] for line in text.splitlines()] == [
        line.partition("#")[2] for line in TEXT.splitlines()
    ]

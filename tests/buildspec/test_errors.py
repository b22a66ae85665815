"""Failure classes."""

from __future__ import annotations

import pytest

from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError, ExitCode, NotProvenError


@pytest.mark.parametrize(
    ("kind", "code"),
    [(DrydockError, 1), (NotProvenError, 1), (BadInputError, 2), (EnvironmentLacksError, 3)],
)
def test_each_class_has_its_exit_code(kind: type[DrydockError], code: int) -> None:
    assert int(kind("x").code) == code


def test_exit_codes_of_the_contract() -> None:
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 130]


def test_the_text_says_what_why_and_what_to_do() -> None:
    error = DrydockError("it broke", why="of age", remedy="mend it")
    assert str(error) == "it broke\n  why: of age\n  do:  mend it"
    assert str(DrydockError("it broke")) == "it broke"
    assert str(DrydockError("it broke", remedy="mend it")) == "it broke\n  do:  mend it"

"""Broken images: each must be killed by its check, and by nothing unrelated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.validate.mutants.harness import Mutant, assert_killed, build, failures, install, judge, remove
from tests.validate.mutants.real import MUTANTS as REAL
from tests.validate.mutants.small import MUTANTS, QUICK
from validate.outcome import Level

if TYPE_CHECKING:
    from buildspec.engine import Engine

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("name", ["small", "plain"])
def test_what_they_are_made_from_is_good(engine: Engine, bases: dict[str, str], folder: Path, name: str) -> None:
    levels = [Level.STATIC] if name == "small" else [Level.STATIC, Level.CONTAINER]
    evidence = judge(engine, bases[name], levels, folder)
    assert failures(evidence) == {}
    assert evidence.passed


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.id, marks=() if mutant.id in QUICK else pytest.mark.mutants)
        for mutant in MUTANTS
    ],
)
def test_mutant_is_killed(engine: Engine, bases: dict[str, str], folder: Path, mutant: Mutant) -> None:
    image = build(engine, bases[mutant.base], mutant.lines, mutant.files)
    try:
        assert_killed(mutant, judge(engine, image, [mutant.level], folder))
    finally:
        remove(engine, image)


def test_ids_are_unique_and_quick_ones_exist() -> None:
    ids = [mutant.id for mutant in MUTANTS]
    assert len(ids) == len(set(ids))
    assert set(ids) >= QUICK


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", REAL, ids=lambda mutant: mutant.id)
def test_real_mutant_is_killed(
    engine: Engine, built: dict[str, str], folder: Path, tmp_path: Path, mutant: Mutant
) -> None:
    tree = install(mutant.wheels, tmp_path / "tree") if mutant.wheels else None
    image = build(engine, built[mutant.base], mutant.lines, mutant.files, tree=tree)
    try:
        assert_killed(mutant, judge(engine, image, [mutant.level], folder))
    finally:
        remove(engine, image)

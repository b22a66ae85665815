"""The suite: its hash, its catalogue, and what becomes of checks that fail, break, block or never come."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.validate.mutants.harness import judge
from validate import suite
from validate.catalogue import ANY, Check
from validate.errors import EngineGoneError, ImageMissingError, SuiteBrokenError
from validate.evidence import CheckResult, Evidence, environment
from validate.outcome import Level, Outcome

if TYPE_CHECKING:
    from buildspec.engine import Engine

CHECKS = """
import os
from validate.catalogue import Rule, check
from validate.outcome import BlockedError, CheckFailedError, Level

def one(name, applies=Rule("exist")):
    return check("x." + name, level=Level.STATIC, proves="p of " + name, remedy="r", source="s", applies=applies)

@one("pass")
def test_pass(said): said.because("seen"); said.line("a line")

@one("plain")
def test_plain(): pass

@one("fail")
def test_fail(said): said.line("later"); raise CheckFailedError("is broken", ["first"])

@one("blocked")
def test_blocked(): raise BlockedError("needs a GPU")

@one("error")
def test_error(): 1 / 0

@one("na", Rule("are blue", lambda claims: False))
def test_na(): raise AssertionError("must not run")"""
DIES = (
    CHECKS
    + """
@one("zdies")
def test_zdies(): os._exit(9)

@one("zzlast")
def test_zzlast(): pass
"""
)


def _use(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "test_x.py").write_text(text)
    names = ["pass", "plain", "fail", "blocked", "error", "na"]
    names += ["zdies", "zzlast"] if "zdies" in text else []
    entries = {f"x.{name}": Check(f"x.{name}", Level.STATIC, "p", "r", "s", ANY, ()) for name in names}
    monkeypatch.setattr(suite, "CHECKS", folder)
    monkeypatch.setattr(suite, "catalogue", lambda: entries)


def _rows(evidence: Evidence) -> dict[str, CheckResult]:
    return {row.id: row for row in evidence.checks}


def test_hash_changes_with_any_file_of_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "HERE", tmp_path)
    (tmp_path / "nccl").mkdir()
    (tmp_path / "a.py").write_text("x")

    def now() -> str:
        suite.suite_hash.cache_clear()
        return suite.suite_hash()

    first = now()
    assert len(first) == 64
    (tmp_path / "nccl/other.py").write_text("not of the suite")
    assert now() == first
    (tmp_path / "data.yaml").write_text("")
    second = now()
    assert second != first
    (tmp_path / "data.yaml").rename(tmp_path / "renamed.yaml")
    assert now() != second
    monkeypatch.undo()
    suite.suite_hash.cache_clear()


def test_every_level_has_a_check() -> None:
    assert {entry.level for entry in suite.catalogue().values()} == set(Level)


@pytest.mark.integration
def test_each_outcome(engine: Engine, minimal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, tmp_path / "checks", CHECKS)
    evidence = judge(engine, minimal, [Level.STATIC], tmp_path / "report")
    seen = {name: (row.outcome, row.reason) for name, row in _rows(evidence).items()}
    assert seen == {
        "x.pass": (Outcome.PASS, "seen"),
        "x.plain": (Outcome.PASS, "p of plain"),
        "x.fail": (Outcome.FAIL, "is broken"),
        "x.blocked": (Outcome.BLOCKED, "needs a GPU"),
        "x.error": (Outcome.ERROR, "the check itself broke: ZeroDivisionError: division by zero"),
        "x.na": (Outcome.NOT_APPLICABLE, "applies to images that are blue"),
    }
    assert _rows(evidence)["x.fail"].evidence == ("first", "later")
    assert Evidence.read(tmp_path / "report/report.json") == evidence
    assert (tmp_path / "report/report.html").stat().st_size > 1000
    assert (tmp_path / "report/junit.xml").stat().st_size > 100


@pytest.mark.integration
def test_checks_that_never_came_are_errors(
    engine: Engine, minimal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, tmp_path / "checks", DIES)
    evidence = judge(engine, minimal, [Level.STATIC], tmp_path / "report")
    rows = _rows(evidence)
    assert rows["x.pass"].outcome is Outcome.PASS
    for name in ("x.zdies", "x.zzlast"):
        assert rows[name].outcome is Outcome.ERROR
        assert "the suite ended (code 9) before this check" in rows[name].reason
    assert not evidence.passed


@pytest.mark.integration
def test_a_suite_that_can_not_start_says_why(
    engine: Engine, minimal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, tmp_path / "checks", "this is no Python")
    with pytest.raises(SuiteBrokenError, match="no outcome"):
        judge(engine, minimal, [Level.STATIC], tmp_path / "report")


@pytest.mark.integration
def test_missing_image(engine: Engine, tmp_path: Path) -> None:
    nothing = "sha256:" + "0" * 64
    with pytest.raises(ImageMissingError, match="the engine has no image"):
        judge(engine, nothing, [Level.STATIC], tmp_path)


# docker-py leaves the socket of a failed connection to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.integration
def test_missing_engine(tmp_path: Path) -> None:
    with pytest.raises(EngineGoneError, match="does not answer"):
        environment(f"unix://{tmp_path}/none.sock")
    gc.collect()


@pytest.mark.integration
def test_asked_for_a_gpu_it_says_what_is_missing(engine: Engine, minimal: str, tmp_path: Path) -> None:
    evidence = judge(engine, minimal, [Level.GPU, Level.EFA, Level.CLUSTER], tmp_path)
    assert {row.outcome for row in evidence.checks} == {Outcome.BLOCKED}
    assert not evidence.passed
    assert all("needs" in row.reason for row in evidence.checks)


@pytest.mark.integration
def test_two_runs_at_once_do_not_disturb_each_other(engine: Engine, minimal: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(judge, engine, minimal, [Level.STATIC], tmp_path / str(n)) for n in range(2)]
        assert all(run.result().passed for run in runs)

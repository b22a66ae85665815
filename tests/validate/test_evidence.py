"""Evidence: when it proves, what it covers, and that it survives JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.validate.sample import ENVIRONMENT, IMAGE, evidence, result
from validate.evidence import CheckResult, Evidence
from validate.outcome import Level, Outcome

PASS = result("a.one", Outcome.PASS)
NOT_APPLICABLE = result("a.two", Outcome.NOT_APPLICABLE)


@pytest.mark.parametrize(
    ("rows", "passed"),
    [
        ([PASS], True),
        ([PASS, NOT_APPLICABLE], True),
        ([], False),
        ([NOT_APPLICABLE], False),
        ([PASS, result("a.x", Outcome.FAIL)], False),
        ([PASS, result("a.x", Outcome.ERROR)], False),
        ([PASS, result("g.x", Outcome.BLOCKED, Level.GPU)], False),
        ([PASS, result("g.x", Outcome.BLOCKED, Level.GPU), result("g.y", Outcome.PASS, Level.GPU)], True),
    ],
)
def test_passed(rows: list[CheckResult], passed: bool) -> None:
    assert evidence(*rows).passed is passed


def test_covers_the_same_image_suite_levels_and_environment_only() -> None:
    seen = evidence(PASS, result("c.x", Outcome.PASS, Level.CONTAINER))
    levels = [Level.STATIC, Level.CONTAINER]
    assert seen.covers(IMAGE.id, "f" * 64, levels, ENVIRONMENT)
    assert seen.covers(IMAGE.id, "f" * 64, [Level.STATIC], ENVIRONMENT)
    assert not seen.covers("sha256:" + "b" * 64, "f" * 64, levels, ENVIRONMENT)
    assert not seen.covers(IMAGE.id, "e" * 64, levels, ENVIRONMENT)
    assert not seen.covers(IMAGE.id, "f" * 64, [*levels, Level.GPU], ENVIRONMENT)
    assert not seen.covers(IMAGE.id, "f" * 64, levels, dataclasses.replace(ENVIRONMENT, kernel="6.2.0"))


def test_summary_names_every_outcome() -> None:
    assert evidence(PASS, PASS).summary == {"pass": 2, "fail": 0, "not-applicable": 0, "blocked": 0, "error": 0}


def test_json_is_the_contract() -> None:
    data = evidence(result("native.single_cuda_major", Outcome.FAIL, Level.STATIC, "line")).to_json()
    assert list(data) == ["schema", "image", "stack", "suite", "environment", "checks", "summary"]
    assert data["checks"] == [
        {
            "id": "native.single_cuda_major",
            "level": "static",
            "outcome": "fail",
            "reason": "reason of native.single_cuda_major",
            "evidence": ["line"],
        }
    ]
    assert list(data["image"]) == ["ref", "id", "digest"]


texts = st.text(max_size=40)
rows = st.builds(
    CheckResult,
    texts,
    st.sampled_from(Level),
    st.sampled_from(Outcome),
    texts,
    st.lists(texts, max_size=3).map(tuple),
)


@given(st.lists(rows, max_size=5))
def test_round_trip(checks: list[CheckResult]) -> None:
    seen = evidence(*checks, stack="train-2.60")
    assert Evidence.from_json(json.loads(json.dumps(seen.to_json()))) == seen


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 2}', "nonsense", '{"schema": 1, "image": {}}'])
def test_what_is_no_evidence_reads_as_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(content)
    assert Evidence.read(file) is None
    assert Evidence.read(tmp_path / "none.json") is None


def test_written_and_read(tmp_path: Path) -> None:
    seen = evidence(PASS)
    seen.write(tmp_path / "report.json")
    assert Evidence.read(tmp_path / "report.json") == seen

"""Every log gets the right verdict and cause, and the lines that decide it are named."""

from __future__ import annotations

import pytest

from tests.nccl.logs import FOLDER, Case, cases, path
from validate.nccl import judge, judge_text
from validate.nccl.cause import known
from validate.nccl.line import decode
from validate.nccl.result import VERDICTS


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["log"]))
def test_log_gets_the_right_answer(case: Case) -> None:
    judgement = judge([path(case["log"])])
    assert (judgement.verdict, judgement.cause.id) == (case["verdict"], case["cause"])
    assert judgement.multi_node == case["multi_node"]
    shown = [line.text for line in judgement.evidence]
    for part in case["evidence"]:
        assert any(part in text for text in shown), f"{part!r} is not among {shown}"


def test_evidence_stands_where_it_says() -> None:
    for case in cases():
        lines = path(case["log"]).read_bytes().split(b"\n")
        for line in judge([path(case["log"])]).evidence:
            last = line.text.split("NCCL INFO ")[-1].split("NCCL WARN ")[-1][:24]
            assert last in decode(lines[line.line - 1]), (case["log"], line)


def test_every_log_has_an_answer_and_every_verdict_a_log() -> None:
    named = {case["log"] for case in cases()}
    assert named == {file.stem for file in (FOLDER / "logs").glob("*.log")}
    assert {case["verdict"] for case in cases()} == set(VERDICTS)
    assert len(named) >= 73


def test_causes_of_the_cases_are_known() -> None:
    assert {case["cause"] for case in cases()} <= set(known())


def test_prose_in_a_log_makes_it_no_document() -> None:
    advice = (
        "You should probably TRAIN this model on a down-stream task.\nIf you see this, look for an update.\n" * 20
    )
    assert judge_text(path("202").read_bytes() + advice.encode()).verdict == "socket"
    fences = b"### My job is slow\n```\n" + path("202").read_bytes() + b"```\n"
    assert judge_text(fences).verdict == "socket"


def test_only_a_version_is_no_transport() -> None:
    assert judge_text("NCCL version 2.21.5+cuda12.4\n").cause.id == "no-transport-lines"

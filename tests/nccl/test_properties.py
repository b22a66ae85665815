"""What must not change a verdict, tried on every log that is not about that very thing."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.nccl.logs import FOLDER, Case, cases, path
from validate.nccl import Judgement, judge_text
from validate.nccl.line import decode, messages
from validate.nccl.result import VERDICTS

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Logs about prefixes, documents or broken lines themselves are left out where the change would be another one.
_SPECIAL = re.compile(
    r"shell_trace|document|headless|loose|glued|cut_lines|redacted|docker_json|cloudwatch|databricks|106|107|203|training|no_transport"
)
PLAIN = [case for case in cases() if not _SPECIAL.search(case["log"])]
ANY_CASE = st.sampled_from(PLAIN)

PREFIXES = st.sampled_from(
    [
        b"",
        b"[rank3]: ",
        b"[1,7]<stdout>:",
        b"12: ",
        b"(RayTrainWorker pid=731, ip=10.60.9.4) ",
        b"(EngineCore_DP0 pid=71) (RayWorkerWrapper pid=93) ",
        b"2025-04-02T11:09:10.073456789Z stderr F ",
        b"2026-01-02 03:04:05,678 INFO worker.py:12 -- ",
        b"  | 2024-12-04T05:27:48.126Z | ",
        b"worker-0: ",
        b"\x1b[36m(pid=12)\x1b[0m ",
        b"    ",
        b"> ",
        b"trainer/0 [0]:",
        b"[default0]:",
    ]
)
NOISE = st.sampled_from(
    [
        b"epoch 3 | step 100 | loss 1.234 | 5.1 it/s",
        b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        b"ec2-host:12:99 [3] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1",
        b"100%|##########| 5148/5148 [00:00<00:00, 18792234.11it/s]",
        b"",
        b'  File "train.py", line 12, in main',
        b"NCCL_DEBUG=INFO torchrun --nproc-per-node 8 train.py",
        b"\xff\xfe\x00 not text",
    ]
)


def _lines(case: Case) -> list[bytes]:
    return path(case["log"]).read_bytes().split(b"\n")


def _answer(data: bytes) -> tuple[str, str]:
    judgement = judge_text(data)
    return judgement.verdict, judgement.cause.id


def _is_ours(line: bytes) -> bool:
    return bool(messages(decode(line))) or b"NCCL version" in line


def _owner(line: bytes) -> str:
    found = messages(decode(line))
    return found[0].owner.rsplit(":", 1)[0] if found else ""


@given(ANY_CASE, PREFIXES)
@QUICK
def test_a_prefix_changes_nothing(case: Case, prefix: bytes) -> None:
    data = b"\n".join(prefix + line if messages(decode(line)) else line for line in _lines(case))
    assert _answer(data) == (case["verdict"], case["cause"])


@given(ANY_CASE)
@QUICK
def test_crlf_changes_nothing(case: Case) -> None:
    data = b"\r\n".join(line.rstrip(b"\r") for line in _lines(case))
    assert _answer(data) == (case["verdict"], case["cause"])


@given(ANY_CASE, st.integers(0, 2**32))
@QUICK
def test_colours_change_nothing(case: Case, seed: int) -> None:
    chance = random.Random(seed)
    coloured = []
    for line in _lines(case):
        if not line.isascii() or b"\x1b" in line or b"[36m" in line:
            coloured.append(line)
            continue
        at = sorted(chance.randrange(len(line) + 1) for _ in range(4))
        codes = [b"\x1b[32m", b"\x1b[0m", b"\x1b[1;31m", b"\x1b[m"]
        for place, code in reversed(list(zip(at, codes, strict=True))):
            line = line[:place] + code + line[place:]  # noqa: PLW2901 - the line grows from its end
        coloured.append(line)
    assert _answer(b"\n".join(coloured)) == (case["verdict"], case["cause"])


@given(ANY_CASE, st.integers(0, 2**32))
@QUICK
def test_interleaving_of_processes_changes_nothing(case: Case, seed: int) -> None:
    chance = random.Random(seed)
    queues: dict[str, list[bytes]] = {}
    for line in _lines(case):
        queues.setdefault(_owner(line), []).append(line)
    mixed = []
    while queues:
        name = chance.choice(sorted(queues))
        mixed.append(queues[name].pop(0))
        if not queues[name]:
            del queues[name]
    assert _answer(b"\n".join(mixed)) == (case["verdict"], case["cause"])


@given(ANY_CASE, st.integers(0, 2**32), st.lists(NOISE, min_size=1, max_size=6))
@QUICK
def test_lines_of_others_change_nothing(case: Case, seed: int, noise: list[bytes]) -> None:
    chance = random.Random(seed)
    lines = _lines(case)
    if case["multi_node"] is not True:
        # A line of another host is no noise where one host is the point.
        noise = [line for line in noise if b"NCCL INFO" not in line]
    if case["verdict"] == "unknown" or not noise:
        return
    for line in noise:
        lines.insert(chance.randrange(len(lines) + 1), line)
    assert _answer(b"\n".join(lines)) == (case["verdict"], case["cause"])


@given(ANY_CASE, st.integers(0, 2**32))
@QUICK
def test_cutting_lines_of_others_changes_nothing(case: Case, seed: int) -> None:
    chance = random.Random(seed)
    foreign = b"iteration 12/ 500 | loss 2.5 | host-z:77:88 is fast [0] NCCL tuned | provider efa"
    lines = _lines(case)
    for _ in range(3):
        lines.insert(chance.randrange(len(lines) + 1), foreign[: chance.randrange(len(foreign))])
    assert _answer(b"\n".join(lines)) == (case["verdict"], case["cause"])


@given(st.binary(max_size=4000))
@settings(max_examples=150, deadline=None)
def test_random_bytes_never_crash(data: bytes) -> None:
    assert judge_text(data).verdict in VERDICTS


# One piece a line, and the bytes that stand between pieces of lines.
_TEXTS = (FOLDER / "pieces.txt").read_bytes().splitlines()
_PIECES = st.sampled_from([*_TEXTS, b" ", b"\n", b"\n", b"\r", b"\x1b[0m", b"\xff", b"\x00", b"```"])


@given(st.lists(_PIECES, max_size=60))
@settings(max_examples=300, deadline=None)
def test_pieces_of_logs_in_any_order_never_crash(pieces: list[bytes]) -> None:
    judgement: Judgement = judge_text(b"".join(pieces))
    assert judgement.verdict in VERDICTS


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: str(case["log"]))
def test_twice_the_same_log_gives_the_same_verdict(case: Case) -> None:
    data = path(case["log"]).read_bytes()
    assert judge_text(data + b"\n" + data).verdict == case["verdict"]

"""Lines that no program should print neither crash it nor keep it busy."""

from __future__ import annotations

import json

import pytest

from validate.nccl import judge_text
from validate.nccl.result import VERDICTS, to_json

_MANY = "9" * 6000
_ONE = "h:1:2 [0] NCCL INFO "


@pytest.mark.parametrize(
    "line",
    [
        f"{_ONE}comm 0x1 rank {_MANY} nranks {_MANY} nNodes {_MANY}",
        f"{_ONE}Channel 00/0 : {_MANY}[0] -> {_MANY}[0] [send] via NET/IB/0",
        f"{_ONE}Using network IB [repeated {_MANY}x across cluster]",
        f"NCCL version {_MANY}.1",
        f"{_ONE}NCCL version 2.28.3.4.5.6.7.8",
        " 1024 256 float sum -1 1.2.3 1.0 1.0 0",
        f"{_MANY} {_MANY} float sum 1.2 1.0 1.0 0",
        '{"busbw": 1' + "0" * 400 + ', "size": 8}',
        '{"busbw": NaN, "size": 8}',
        '{"busbw": Infinity, "size": 8}',
        '{"busbw": 1, "size": NaN}',
        '{"busbw": true, "size": {}}',
        f"# Rank {_MANY} Pid {_MANY} on h device 0",
        f"h:{_MANY}:{_MANY} [{_MANY}] NCCL INFO Using network IB",
        f"{_ONE}init.cc:{_MANY} -> {_MANY}",
        f"{_ONE}Channel 00/02 : {_MANY} {_MANY}",
    ],
)
def test_numbers_of_any_length(line: str) -> None:
    judgement = judge_text(line + "\n")
    assert judgement.verdict in VERDICTS
    json.dumps(to_json(judgement), allow_nan=False)


@pytest.mark.parametrize(
    "line",
    [
        b"1" * 60 + b"x NCCL INFO Using network IB",
        b"a" * 300_000 + b" NCCL INFO x",
        b"h:1:2 [0] NCCL INFO " + b" " * 100_000 + b'x"',
        b"h:1:2 [0] NCCL INFO " + b"| ` \\" * 20_000 + b"x]",
        b"h:1:2 [0] NCCL INFO " + b"a/" * 50_000 + b".cc",
        b"h:1:2 [0] f.cc:1 NCCL WARN " + b"NET/OFI " * 20_000,
        b"\x1b]" * 100_000,
        b"h:1:2 [0] NCCL INFO \x1b]" * 5000,
        b"h:1:2 [0] " * 20_000 + b"NCCL",
        b"[36m" * 50_000 + b" NCCL INFO ",
        b"(" * 50_000 + b"NCCL INFO x",
        b"1 " * 9000 + b"float",
        b"{" * 10_000 + b'"busbw"',
    ],
)
def test_long_lines_end(line: bytes) -> None:
    assert judge_text(line).verdict in VERDICTS

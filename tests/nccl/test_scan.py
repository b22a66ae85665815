"""The quick pass finds what a line-by-line reading finds."""

from __future__ import annotations

import io
import random

import pytest

from validate.nccl import judge_text
from validate.nccl import scan as scanning
from validate.nccl.job import Job
from validate.nccl.result import Judgement, to_json
from validate.nccl.scan import scan


def _log(ranks: int, lines: int, seed: int = 1) -> bytes:
    """A log of many ranks on EFA, one of them on TCP, with the lines of ranks in turns."""
    chance = random.Random(seed)
    log = []
    for rank in range(ranks):
        log.append(
            f"n-{rank // 8}:{100 + rank}:{500 + rank} [{rank % 8}] NCCL INFO NET/OFI Selected provider is efa,"
            " fabric is efa (found 32 nics)"
        )
        log.append(
            f"n-{rank // 8}:{100 + rank}:{500 + rank} [{rank % 8}] NCCL INFO Using network"
            f" {'Socket' if rank == 3 else 'Libfabric'}"
        )
    for number in range(lines):
        rank = chance.randrange(ranks)
        who = f"n-{rank // 8}:{100 + rank}:{500 + rank} [{rank % 8}] NCCL INFO Channel {number % 16:02d}/0 : "
        via = "NET/Socket/0" if rank == 3 else f"NET/Libfabric/{rank % 8 * 4}/GDRDMA"
        log.append(
            f"{who}{rank}[{rank % 8}] -> {(rank + 8) % ranks}[{rank % 8}] [send] via {via}"
            if number % 5
            else f"{who}{rank}[{rank % 8}] -> {rank + 1}[0] via P2P/CUMEM"
        )
        if number % 50 == 0:
            log.append(f"step {number} loss {chance.random()}")
    return "\n".join(log).encode() + b"\n"


def test_channels_are_counted_exactly_in_small_logs() -> None:
    judgement = judge_text(_log(64, 5000))
    assert dict(judgement.network_channels) == {
        "NET/Libfabric/GDRDMA": 4000 - dict(judgement.network_channels)["NET/Socket"],
        "NET/Socket": dict(judgement.network_channels)["NET/Socket"],
    }
    assert dict(judgement.intra_node_channels) == {"P2P/CUMEM": 1000}
    ranks = [rank for comm in judgement.communicators for rank in comm.ranks]
    assert sum(count for rank in ranks for _, count in rank.channels) == 4000
    assert judgement.verdict == "mixed"
    assert dict(judgement.hosts)["socket"] == ("n-0",)


def test_totals_stay_exact_and_odd_ranks_named_in_big_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_EXACT", 3000)
    monkeypatch.setattr(scanning, "_BLOCK", 20_000)
    judgement = judge_text(_log(64, 30_000))
    assert sum(dict(judgement.network_channels).values()) == 24_000
    assert dict(judgement.intra_node_channels) == {"P2P/CUMEM": 6000}
    assert judgement.verdict == "mixed"
    assert dict(judgement.hosts)["socket"] == ("n-0",)
    assert any("sample" in note for note in judgement.notes)


def _without_files(judgement: Judgement) -> dict[str, object]:
    return {key: value for key, value in to_json(judgement).items() if key not in {"files", "lines", "notes"}}


@pytest.mark.parametrize("block", [200, 1000, 5000, 1 << 20])
def test_block_size_changes_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _log(32, 2000)
    whole = judge_text(data)
    monkeypatch.setattr(scanning, "_BLOCK", block)
    assert _without_files(judge_text(data)) == _without_files(whole)


def test_stretches_give_every_line_once() -> None:
    data = _log(32, 400)
    whole = scan(io.BytesIO(data))
    for size in (1, 7, 100, 5000, len(data)):
        parts = [
            scan(io.BytesIO(data), start, min(start + size, len(data))) for start in range(0, len(data), size)
        ]
        assert sum(part.lines for part in parts) == whole.lines
        if size >= 5000:
            job, first = Job(), 0
            for part in parts:
                job.replay("x", first, part.events)
                first += part.lines
            assert sum(job.network.values()) == 320


def test_line_numbers_hold_across_stretches() -> None:
    data = _log(8, 10) + b"n-0:100:500 [0] NCCL INFO Using network IB\n"
    half = len(data) // 2
    first, second = scan(io.BytesIO(data), 0, half), scan(io.BytesIO(data), half, len(data))
    job = Job()
    job.replay("x", 0, first.events)
    job.replay("x", first.lines, second.events)
    line = job.processes["n-0", "100"].chosen_line
    assert line is not None
    assert line.line == data.count(b"\n")


def test_log_without_newlines_is_read() -> None:
    assert scan(io.BytesIO(b"x" * 100)).lines == 1
    assert scan(io.BytesIO(b"")).lines == 0


def test_glued_lines_among_many_channels_are_not_lost() -> None:
    data = (
        _log(16, 3000)
        + b"n-1:108:508 [0] NCCL INFO Using network IBn-1:108:508 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [send]"
        b" via NET/Libfabric/0/GDRDMA\n"
    )
    job = Job()
    job.replay("x", 0, scan(io.BytesIO(data)).events)
    assert job.processes["n-1", "108"].chosen == "IB"

"""Growing logs are followed until the verdict is certain, and no longer."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from buildspec.errors import BadInputError, NotProvenError
from tests.nccl.logs import path
from validate.nccl import judge_text
from validate.nccl import watch as watching
from validate.nccl.watch import settled, watch

_COMM = (
    "ncclCommInitRankConfig comm 0x{host}0 rank {rank} nranks 2 cudaDev 0 nvmlDev 0"
    " busId 53000 commId 0xaa - Init {phase}"
)


def _lines(*bodies: str) -> str:
    """Bodies as both hosts print them."""
    written = ""
    for rank, host in enumerate("ab"):
        for body in bodies:
            written += f"{host}:1:9 [0] NCCL INFO {body.format(host=host, rank=rank, peer=1 - rank)}\n"
    return written


START = _lines(
    "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)",
    "Using network Libfabric",
    _COMM.replace("{phase}", "START"),
)
CHANNELS = _lines("Channel 00/0 : {peer}[0] -> {rank}[0] [receive] via NET/Libfabric/0/GDRDMA")
END = _lines(_COMM.replace("{phase}", "COMPLETE"))


def test_settled_needs_channels_of_connected_ranks() -> None:
    assert not settled(judge_text(START), quiet=True)
    assert not settled(judge_text(START + CHANNELS), quiet=True)
    assert settled(judge_text(START + CHANNELS + END), quiet=False)
    assert not settled(judge_text("no line of NCCL\n"), quiet=True)


def test_settled_waits_for_ranks_that_may_come() -> None:
    half = judge_text(
        "".join(line + "\n" for line in (START + CHANNELS + END).splitlines() if line.startswith("a:"))
    )
    assert not settled(half, quiet=False)
    assert settled(half, quiet=True)


def test_failure_is_final() -> None:
    assert settled(judge_text(path("106").read_bytes()), quiet=False)


def _write_slowly(file: Path, parts: list[str]) -> threading.Thread:
    def write() -> None:
        for part in parts:
            time.sleep(0.05)
            with file.open("a") as stream:
                stream.write(part)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_POLL", 0.01)


def test_growing_file_ends_when_certain(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(START)
    writer = _write_slowly(log, [CHANNELS[:70], CHANNELS[70:], END, "later training output\n"])
    judgement = watch([log], timeout=20)
    writer.join()
    assert (judgement.verdict, judgement.certain) == ("efa-gdr", True)
    assert [rank.channels for comm in judgement.communicators for rank in comm.ranks] == [
        (("NET/Libfabric/GDRDMA", 1),)
    ] * 2


def test_file_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("x" * 5000 + "\n")

    def rewrite() -> None:
        time.sleep(0.1)
        log.write_text(START + CHANNELS + END)

    writer = threading.Thread(target=rewrite)
    writer.start()
    assert watch([log], timeout=20).verdict == "efa-gdr"
    writer.join()


def test_new_files_of_a_folder_join(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(
        "".join(line + "\n" for line in (START + CHANNELS + END).splitlines() if line[0] == "a")
    )
    writer = _write_slowly(
        tmp_path / "rank1.log",
        ["".join(line + "\n" for line in (START + CHANNELS + END).splitlines() if line[0] == "b")],
    )
    judgement = watch([tmp_path], timeout=20)
    writer.join()
    assert len(judgement.files) == 2


def test_timeout_says_what_is_known(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(START)
    with pytest.raises(NotProvenError, match=r"no certain verdict within 0\.1 seconds; so far: efa"):
        watch([log], timeout=0.1)


def test_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such file"):
        watch([tmp_path / "none.log"], timeout=1)


def test_standard_input_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.write(write, (START + CHANNELS).encode())
    os.close(write)
    with os.fdopen(read) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert watch(["-"], timeout=20).verdict == "efa-gdr"


def test_standard_input_stops_when_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.write(write, (START + CHANNELS + END).encode())
    with os.fdopen(read) as stream, os.fdopen(write, "wb"):
        monkeypatch.setattr(sys, "stdin", stream)
        assert watch(["-"], timeout=20).verdict == "efa-gdr"

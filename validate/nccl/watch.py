"""Follow growing logs, and stop as soon as the verdict is certain."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildspec.errors import BadInputError, NotProvenError
from validate.nccl import bandwidth
from validate.nccl.job import Job
from validate.nccl.judge import conclude, take
from validate.nccl.result import Judgement
from validate.nccl.scan import Scan
from validate.nccl.source import STDIN, find

__all__ = ["settled", "watch"]

_POLL = 0.5
_CHUNK = 4 << 20
# A rank of which nothing was seen yet may write into another log; when no line came for so long, none will.
_QUIET = 10.0


@dataclass(slots=True)
class _Tail:
    name: str
    at: int = 0
    rest: bytes = b""
    lines: int = 0


def settled(judgement: Judgement, *, quiet: bool) -> bool:
    """Tell whether more lines could not change the verdict.

    A failure is final. Otherwise the ranks of every communicator that was seen must be connected and have
    shown what carries their bytes, and all must have been seen, or nothing new came for a while.
    """
    if judgement.verdict == "failed":
        return True
    if judgement.verdict == "unknown" or not judgement.certain:
        return False
    ranks = [rank for comm in judgement.communicators for rank in comm.ranks]
    if not all(rank.connected for rank in ranks):
        return False
    complete = all(comm.size is not None and len(comm.ranks) >= comm.size for comm in judgement.communicators)
    return bool(ranks) and (complete or quiet)


def watch(logs: Sequence[str | Path], *, instance: str = "", timeout: float | None = None) -> Judgement:
    """Follow files, folders, globs or standard input until the verdict is certain, or standard input ends.

    Raises BadInputError for what does not exist at the start, NotProvenError when `timeout` seconds pass first.
    """
    bandwidth.check(instance)
    job, tails = Job(), {name: _Tail(name) for name in find(logs)}
    if STDIN in tails and sys.stdin is None:
        raise BadInputError("standard input is closed", remedy="name a file, or pipe a log in")
    began = last_news = time.monotonic()
    while True:
        ended = list(tails) == [STDIN] and _read_stdin(job, tails[STDIN])
        # Every file is read, also after one that has grown.
        grown = [_read_file(job, tail) for tail in tails.values() if tail.name != STDIN]
        news = ended or any(grown) or (STDIN in tails and tails[STDIN].lines > 0)
        now = time.monotonic()
        if news:
            last_news = now
        judgement = conclude(job, instance=instance)
        if ended or settled(judgement, quiet=now - last_news > _QUIET):
            return judgement
        if timeout is not None and now - began > timeout:
            raise NotProvenError(
                f"no certain verdict within {timeout:g} seconds; so far: {judgement.verdict}",
                why=judgement.cause.sentence,
                remedy=judgement.cause.remedy,
            )
        if STDIN not in tails:
            time.sleep(_POLL)
            tails |= {name: _Tail(name) for name in find(logs) if name not in tails}


def _read_stdin(job: Job, tail: _Tail) -> bool:
    """Take what standard input has; tell whether it ended."""
    stream = sys.stdin.buffer.fileno()
    ready, _, _ = select.select([stream], [], [], _POLL)
    if not ready:
        return False
    chunk = os.read(stream, _CHUNK)
    _take(job, tail, chunk, last=not chunk)
    return not chunk


def _read_file(job: Job, tail: _Tail) -> bool:
    """Take what a file has grown by; tell whether there was something."""
    news = False
    for chunk in _grown(tail):
        _take(job, tail, chunk, last=False)
        news = True
    return news


def _grown(tail: _Tail) -> Iterator[bytes]:
    try:
        with Path(tail.name).open("rb") as stream:
            if os.fstat(stream.fileno()).st_size < tail.at:
                # The file was cut and is written anew.
                tail.at, tail.rest, tail.lines = 0, b"", 0
            stream.seek(tail.at)
            while chunk := stream.read(_CHUNK):
                tail.at += len(chunk)
                yield chunk
    except FileNotFoundError:
        return


def _take(job: Job, tail: _Tail, chunk: bytes, *, last: bool) -> None:
    block = tail.rest + chunk
    cut = len(block) if last else block.rfind(b"\n") + 1
    tail.rest = block[cut:]
    if not cut:
        return
    scan = Scan()
    scan.feed(block[:cut])
    found = scan.finish()
    take(job, "<stdin>" if tail.name == STDIN else tail.name, tail.lines, found)
    tail.lines += found.lines

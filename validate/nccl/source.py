"""Where logs come from: files, folders, globs, standard input; plain, gz or zst; big files in stretches."""

from __future__ import annotations

import gc
import glob
import gzip
import io
import marshal
import multiprocessing
import os
import signal
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from buildspec.errors import BadInputError, EnvironmentLacksError
from validate.nccl.reading import Reader
from validate.nccl.scan import Found, scan

__all__ = ["STDIN", "find", "read_all"]

STDIN = "-"
# Stretches of this many bytes are scanned apart, by one process or by several: the result is the same.
_STRETCH = 128 << 20
_SUFFIXES = (".log", ".txt", ".out", ".err", ".stdout", ".stderr", ".gz", ".zst", ".nccl")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def find(logs: Sequence[str | Path]) -> list[str]:
    """Resolve names, folders and globs to files. Raises BadInputError for what gives none."""
    if not logs:
        raise BadInputError("no log given", remedy="name files, folders or globs, or - for standard input")
    found: list[str] = []
    for log in logs:
        name = str(log)
        if name == STDIN:
            found.append(name)
        elif Path(name).is_dir():
            found += _in_folder(name)
        elif Path(name).exists():
            found.append(name)
        elif matches := sorted(path for path in glob.glob(name, recursive=True) if Path(path).is_file()):  # noqa: PTH207 - user's glob
            found += matches
        else:
            raise BadInputError(
                f"{name}: no such file", why="neither a file, a folder nor a glob that matches one has this name"
            )
    return list(dict.fromkeys(found))


def _in_folder(name: str) -> list[str]:
    files = sorted(
        path
        for path in Path(name).rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(name).parts)
    )
    named = [
        str(path)
        for path in files
        if path.name.lower().endswith(_SUFFIXES) or "nccl" in path.name.lower() or "log" in path.name.lower()
    ]
    if not files:
        raise BadInputError(
            f"{name}: the folder holds no files",
            remedy="give the folder that NCCL_DEBUG_FILE or the job's output was written to",
        )
    return named or [str(path) for path in files]


@contextmanager
def _open(name: str) -> Iterator[tuple[BinaryIO, bool]]:
    """Open a log; also tell whether it is a plain file that can be read from the middle."""
    if name == STDIN:
        if sys.stdin is None:
            raise BadInputError("standard input is closed", remedy="name a file, or pipe a log in")
        with _unpacked(sys.stdin.buffer, "<stdin>") as (stream, _):
            yield stream, False
        return
    with _raw(name) as raw, _unpacked(raw, name) as (stream, packed):
        yield stream, raw.seekable() and not packed


@contextmanager
def _unpacked(stream: BinaryIO, name: str) -> Iterator[tuple[BinaryIO, bool]]:
    """Unpack what begins like gzip or zstd; also tell whether it did."""
    magic = stream.peek(len(_ZSTD)) if isinstance(stream, io.BufferedReader) else b""
    if magic.startswith(_GZIP):
        with gzip.open(stream) as unpacked:
            yield cast("BinaryIO", unpacked), True
    elif magic.startswith(_ZSTD):
        with _zstd(stream, name) as unpacked_zst:
            yield unpacked_zst, True
    else:
        yield stream, False


def _raw(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise BadInputError(f"{name}: cannot be read: {error.strerror}") from error


@contextmanager
def _zstd(raw: IO[bytes], name: str) -> Iterator[BinaryIO]:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - only in Python 3.14 and newer

        with zstd.open(raw) as unpacked:
            yield cast("BinaryIO", unpacked)
        return
    try:
        import zstandard  # noqa: PLC0415 - optional
    except ImportError as error:
        raise EnvironmentLacksError(
            f"{name}: this Python cannot unpack zstd",
            why="the zstandard package is not installed",
            remedy="pip install 'drydock-images[logs]', or unpack with zstd -d",
        ) from error
    try:
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as reader:
            yield cast("BinaryIO", reader)
    except zstandard.ZstdError as error:
        raise BadInputError(f"{name}: broken zstd file: {error}", remedy="copy it again; it seems cut") from error


def read_all(files: Iterable[str]) -> Iterator[tuple[str, int, Found]]:
    """Scan files in order: name, lines before, what was found. Raises BadInputError for a broken archive."""
    reader = Reader()
    for name in files:
        shown = "<stdin>" if name == STDIN else name
        with _open(name) as (stream, plain):
            size = os.fstat(stream.fileno()).st_size if plain else 0
            if size > _STRETCH:
                yield from _in_stretches(name, size)
                continue
            try:
                yield shown, 0, scan(stream, reader=reader)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise BadInputError(
                    f"{shown}: broken gzip file: {error}", remedy="copy it again; it seems cut"
                ) from error
            except OSError as error:
                raise BadInputError(f"{shown}: cannot be read: {error.strerror or error}") from error


def _in_stretches(name: str, size: int) -> Iterator[tuple[str, int, Found]]:
    """Scan a big file's stretches, on two cores or more where there are some."""
    jobs = [(name, start, min(start + _STRETCH, size)) for start in range(0, size, _STRETCH)]
    cores = min(len(jobs), _cores())
    lines = 0
    if cores < 2 or "fork" not in multiprocessing.get_all_start_methods():
        for job in jobs:
            found = _stretch(job)
            yield name, lines, found
            lines += found.lines
        return
    with multiprocessing.get_context("fork").Pool(cores, _worker) as pool:
        for count, packed in pool.imap(_packed, jobs):
            yield name, lines, Found(count, marshal.loads(packed))  # noqa: S302 - our own process made it
            lines += count
        pool.close()
        pool.join()


def _cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _worker() -> None:
    """Leave Ctrl-C to the process that waits, and end quietly when it says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # What a scan makes holds no reference cycles.
    gc.disable()


def _packed(job: tuple[str, int, int]) -> tuple[int, bytes]:
    """Scan a stretch and pack its events; marshal is much quicker than pickle for tuples of text."""
    found = _stretch(job)
    return found.lines, marshal.dumps(found.events)


def _stretch(job: tuple[str, int, int]) -> Found:
    name, start, end = job
    with Path(name).open("rb", buffering=0) as stream:
        return scan(cast("BinaryIO", stream), start, end)

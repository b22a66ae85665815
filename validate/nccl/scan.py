"""One pass over raw log bytes: find the lines that say something without looking at each one closely.

Most lines of a big log repeat a few wordings in which only the digits differ. A line's *shape* is the line
without its digits; what a shape means is found out once. Three kinds matter: shapes that say nothing, shapes
of channel lines, which are only counted per owner, and shapes whose lines are read one by one. Where channel
lines are dense their last bytes already tell the wording, which is quicker than making shapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from typing import BinaryIO, Final, NamedTuple

from validate.nccl.counted import CHANNEL_HEAD, TAIL, Wording
from validate.nccl.reading import DIGITS, NOTHING, Event, Reader, Shape

__all__ = ["Found", "Scan", "scan"]

_BLOCK: Final = 256 << 10
_MAX_LINE: Final = 8 << 20
# After so many channel lines in one stretch of a log, blocks that hold nothing else are only added up by wording,
# and one block in _SAMPLE still by owner.
_EXACT: Final = 20_000
_SAMPLE: Final = 16
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\n]{0,200}\x07")
_LAST: Final[Callable[[bytes], bytes]] = itemgetter(slice(-TAIL, None))
_NONE: Final = Wording("net", (), clean=False, code=-1)


class Found(NamedTuple):
    """What a scan found, per owner in the order of the log."""

    lines: int
    events: list[Event]


class Scan:
    """What a scan has found so far; feed it a log piece by piece, then `finish`.

    A reader that has read other logs knows their wordings already.
    """

    def __init__(self, reader: Reader | None = None) -> None:
        self.lines = 0
        self._reader = reader or Reader()
        self._rest = b""
        self._dense = False
        self._blocks = 0
        self._counted = 0

    def feed(self, block: bytes) -> None:
        """Take the next bytes; a line that is cut at their end is kept for the next ones."""
        if b"\x1b" in block:
            whole = self._rest + block
            cut = whole.rfind(b"\n") + 1
            block, self._rest = _ESCAPE.sub(b"", whole[:cut]), b""
            self._take(block)
            self._rest = whole[cut:]
        elif b"\n" in block:
            self._take(block)
        else:
            self._rest += block
        if len(self._rest) > _MAX_LINE:
            self._last_line()

    def finish(self) -> Found:
        """Report what was only counted, and give everything that was found."""
        if self._rest:
            self._last_line()
        return Found(self.lines, self._reader.finish())

    def _last_line(self) -> None:
        """Take what is kept as if the line ended there."""
        self.lines += 1
        self._reader.take(self.lines, self._rest, None)
        self._rest = b""

    def _take(self, block: bytes) -> None:
        """Take bytes that hold at least one end of a line, or none at all."""
        number = self.lines
        self._blocks += 1
        if self._dense:
            lines = self._split(block)
            meanings = list(map(self._reader.tails.get, map(_LAST, lines)))
            if self._counted > _EXACT and self._blocks % _SAMPLE:
                self._add_up(number, lines, meanings)
                return
            counted = self._by_tails(number, lines, meanings)
        else:
            shapes = block.translate(None, DIGITS).split(b"\n")
            shapes[0] = self._rest.translate(None, DIGITS) + shapes[0]
            shapes.pop()
            shape_meanings = list(map(self._reader.shapes.get, shapes))
            if shape_meanings.count(NOTHING) == len(shape_meanings):
                self.lines += len(shapes)
                self._rest = block[block.rfind(b"\n") + 1 :]
                return
            lines = self._split(block)
            counted = self._by_shapes(number, lines, shape_meanings)
        self._counted += counted
        self._dense = counted * 2 > len(lines)

    def _split(self, block: bytes) -> list[bytes]:
        """Split into lines, the first one with what was kept before; keep the last one."""
        lines = block.split(b"\n")
        lines[0] = self._rest + lines[0]
        self._rest = lines.pop()
        self.lines += len(lines)
        return lines

    def _add_up(self, number: int, lines: list[bytes], meanings: list[int | None]) -> None:
        """Count the channel lines of a block by their last bytes alone, and take the other lines."""
        reader = self._reader
        counted = 0
        for code in reader.codes:
            found = meanings.count(code)
            reader.numbered[code].added_up += found
            counted += found
        if counted < len(lines):
            code_of, shape_of = reader.ends.get, reader.shapes.get
            for at in [at for at, meaning in enumerate(meanings) if meaning is None]:
                line = lines[at]
                end_code = code_of(line[line.rfind(b"[") :])
                if end_code is not None:
                    reader.numbered[end_code].added_up += 1
                    counted += 1
                    continue
                shape = shape_of(line.translate(None, DIGITS))
                if shape is not NOTHING:
                    reader.take(number + at + 1, line, shape)
        self._dense = counted * 2 > len(lines)

    def _by_tails(self, number: int, lines: list[bytes], meanings: list[int | None]) -> int:
        """Take lines by their last bytes, else by their shapes; give how many were counted."""
        wording, code, owner, limit, run, others = _NONE, -1, b"", 0, 0, 0
        for meaning, line in zip(meanings, lines, strict=True):
            number += 1
            if meaning == code and line.startswith(owner) and len(line) < limit:
                # Neighbouring channel lines of one owner are added up before they are written down.
                run += 1
                continue
            if run:
                wording[owner] += run
                run = 0
            if meaning is None:
                meaning = self._reader.ends.get(line[line.rfind(b"[") :])  # noqa: PLW2901 - looked up a second way
            if meaning is not None:
                found = line[: line.find(CHANNEL_HEAD) + len(CHANNEL_HEAD)]
                if found in self._reader.numbered[meaning] and line.find(b"NCCL", len(found)) < 0:
                    # A line that is much longer holds more than one message.
                    wording, code, owner, limit = self._reader.numbered[meaning], meaning, found, len(line) + 10
                    wording[found] += 1
                    continue
            others += 1
            code = -1
            self._reader.take(number, line, self._reader.shapes.get(line.translate(None, DIGITS)))
        if run:
            wording[owner] += run
        return len(lines) - others

    def _by_shapes(self, number: int, lines: list[bytes], meanings: list[Shape | None]) -> int:
        """Take lines by what their shapes mean; give how many were counted."""
        wording, owner, run, counted = _NONE, b"", 0, 0
        for meaning, line in zip(meanings, lines, strict=True):
            number += 1
            if meaning is NOTHING:
                continue
            if meaning is wording and line.startswith(owner):
                run += 1
                continue
            if run:
                wording[owner] += run
                counted += run
                run = 0
            if type(meaning) is Wording and meaning.clean:
                wording, owner = meaning, line[: line.find(CHANNEL_HEAD) + len(CHANNEL_HEAD)]
                counted += 1
                if owner in meaning:
                    meaning[owner] += 1
                else:
                    self._reader.begin(number, line, owner, meaning)
                continue
            wording = _NONE
            self._reader.take(number, line, meaning)
        if run:
            wording[owner] += run
        return counted + run


def scan(stream: BinaryIO, start: int = 0, end: int | None = None, reader: Reader | None = None) -> Found:
    """Scan a stream, or the lines of a file that begin in [start, end)."""
    found = Scan(reader)
    if start:
        stream.seek(start - 1)
        start += len(stream.readline()) - 1
    at = start
    while end is None or at < end:
        block = stream.read(_BLOCK if end is None else min(_BLOCK, end - at))
        if not block:
            break
        at += len(block)
        found.feed(block)
        if end is not None and at >= end and not block.endswith(b"\n"):
            found.feed(stream.readline(_MAX_LINE))
    return found.finish()

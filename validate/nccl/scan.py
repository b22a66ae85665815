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
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from validate.nccl.application import read_application
from validate.nccl.counted import ENDS, TEXT, WITH_TEXT, Wording, owner_of, process_of
from validate.nccl.line import Message, decode, messages
from validate.nccl.wording import DECISIVE_WORDS, Fact, Kind, read

__all__ = ["Event", "Found", "Scan", "scan"]

# line number, owner, kind, values, text (empty where many others like it have one), how many lines
Event: TypeAlias = tuple[int, str, str, tuple[str, ...], str, int]

_BLOCK: Final = 256 << 10
_DIGITS: Final = b"0123456789"
_MAX_SHAPES: Final = 40_000
_MAX_SHAPE: Final = 400
_MAX_LINE: Final = 8 << 20
# After so many channel lines in one stretch of a log, blocks that hold nothing else are only added up by wording,
# and one block in _SAMPLE still by owner.
_EXACT: Final = 100_000
_SAMPLE: Final = 8
_MAX_FACTS: Final = 20_000
_MAX_NAMES: Final = 100_000
_TAIL: Final = 24
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\n]*\x07")
_HEAD: Final = b"] NCCL INFO Channel"
_COMM = re.compile(
    rb"([^\s:|()\[\]{}<>\"'`/,;=]+:\d+:\d+ \[-?\d+)\] NCCL INFO (?:\[Rank \d+\] )?(?:nccl\w+ )?comm (0x[0-9a-f]+) rank (\d+) "
    rb"n[rR]anks (\d+) (?:cudaDev \d+ (?:nvmlDev \d+ )?busId \w+ commId (0x[0-9a-f]+) - Init (START|COMPLETE)"
    rb"|nNodes (\d+) localRanks \d+ localRank \d+ MNNVL \d)\s*$"
)
# Lines that say nothing here, and differ in more than digits.
_LONG = re.compile(rb"\S+:\d+ \[\d+\] NCCL INFO (?:Trees \[|Setting affinity |=== System)")
_BODY: Final = b"] NCCL INFO "

_NOTHING: Final = 0
_READ: Final = 1
_Shape: TypeAlias = int | list[int] | Wording
_NONE: Final = Wording("net", (), clean=False, code=-1)


class Found(NamedTuple):
    """What a scan found, per owner in the order of the log."""

    lines: int
    events: list[Event]


class Scan:
    """What a scan has found so far; feed it blocks of whole lines, then `finish`."""

    def __init__(self) -> None:
        self.lines = 0
        self.events: list[Event] = []
        self._shapes: dict[bytes, _Shape] = {b"": _NOTHING}
        # Wordings have numbers, since equal numbers are found quicker than equal dicts.
        self._tails: dict[bytes, int] = {}
        self._ends: dict[bytes, int] = {}
        self._numbered: list[Wording] = []
        self._wordings: dict[tuple[Kind, tuple[str, ...], bool], Wording] = {}
        self._open: dict[str, list[tuple[Wording, bytes, str]]] = {}
        self._ranked: set[str] = set()
        self._prose = [0]
        self._facts: dict[str, Fact | None] = {}
        self._bodies: dict[bytes, Fact | None] = {}
        self._names: dict[bytes, tuple[str, str]] = {}
        self._chosen: dict[str, set[tuple[str, ...]]] = {}
        self._texts: dict[str, int] = {}
        self._dense = False
        self._blocks = 0
        self._counted = 0

    def feed(self, block: bytes) -> None:
        """Take a block of whole lines."""
        if b"\x1b" in block:
            block = _ESCAPE.sub(b"", block)
        number = self.lines
        self._blocks += 1
        if self._dense:
            lines = block.split(b"\n")
            meanings = list(map(self._tails.get, map(_LAST, lines)))
            self.lines += len(lines) - (not lines[-1])
            if self._counted > _EXACT and self._blocks % _SAMPLE:
                self._add_up(number, lines, meanings)
                return
            counted = self._by_tails(number, lines, meanings)
        else:
            shapes = block.translate(None, _DIGITS).split(b"\n")
            shape_meanings = list(map(self._shapes.get, shapes))
            self.lines += len(shapes) - block.endswith(b"\n")
            if shape_meanings.count(_NOTHING) == len(shape_meanings):
                return
            lines = block.split(b"\n")
            counted = self._by_shapes(number, lines, shape_meanings)
        self._counted += counted
        self._dense = counted * 2 > len(lines)

    def finish(self) -> Found:
        """Report what was only counted, and give everything that was found."""
        for process in list(self._open):
            self._report(process)
        for wording in self._wordings.values():
            if wording.added_up:
                self.events.append((0, "", wording.kind, (*wording.says, ""), "", wording.added_up))
        if self._prose[0]:
            self.events.append((0, "", "doc", (), "", self._prose[0]))
        return Found(self.lines, self.events)

    def _add_up(self, number: int, lines: list[bytes], meanings: list[int | None]) -> None:
        """Count the channel lines of a block by their last bytes alone, and take the other lines."""
        counted = 0
        for code, wording in enumerate(self._numbered):
            found = meanings.count(code)
            wording.added_up += found
            counted += found
        if counted < len(lines) - 1:
            code_of, shape_of = self._ends.get, self._shapes.get
            for at, line in [
                (at, line) for at, line in enumerate(lines, number + 1) if meanings[at - number - 1] is None
            ]:
                end_code = code_of(line[line.rfind(b"[") :])
                if end_code is not None:
                    self._numbered[end_code].added_up += 1
                    counted += 1
                    continue
                shape = shape_of(line.translate(None, _DIGITS))
                if shape is not _NOTHING:
                    self._line(at, line, shape)
        self._dense = counted * 2 > len(lines)

    def _by_tails(self, number: int, lines: list[bytes], meanings: list[int | None]) -> int:
        """Take lines by their last bytes, and by their shapes where those tell nothing; give how many were counted."""
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
                meaning = self._ends.get(line[line.rfind(b"[") :])  # noqa: PLW2901 - looked up a second way
            if meaning is not None:
                found = line[: line.find(_HEAD) + 19]
                if found in self._numbered[meaning] and line.find(b"NCCL", len(found)) < 0:
                    # A line that is much longer holds more than one message.
                    wording, code, owner, limit = self._numbered[meaning], meaning, found, len(line) + 10
                    wording[found] += 1
                    continue
            others += 1
            code = -1
            self._line(number, line, self._shapes.get(line.translate(None, _DIGITS)))
        if run:
            wording[owner] += run
        return len(lines) - others

    def _by_shapes(self, number: int, lines: list[bytes], meanings: list[_Shape | None]) -> int:
        """Take lines by what their shapes mean; give how many were counted."""
        wording, owner, run, counted = _NONE, b"", 0, 0
        for meaning, line in zip(meanings, lines, strict=True):
            number += 1
            if meaning is _NOTHING:
                continue
            if meaning is wording and line.startswith(owner):
                run += 1
                continue
            if run:
                wording[owner] += run
                counted += run
                run = 0
            if type(meaning) is Wording and meaning.clean:
                wording, owner = meaning, line[: line.find(_HEAD) + 19]
                counted += 1
                if owner in meaning:
                    meaning[owner] += 1
                else:
                    self._first(number, line, owner, meaning)
                continue
            wording = _NONE
            self._line(number, line, meaning)
        if run:
            wording[owner] += run
        return counted + run

    def _line(self, number: int, line: bytes, shape: _Shape | None) -> None:
        """Take a line whose shape means this, or something not yet known."""
        if shape is None:
            self._learn(number, line)
        elif type(shape) is Wording:
            owner = owner_of(line)
            if owner in shape:
                shape[owner] += 1
            else:
                self._first(number, line, owner, shape)
        elif type(shape) is list:
            shape[0] += 1
        elif shape is _READ:
            self._read(number, line)

    def _learn(self, number: int, line: bytes) -> None:
        """Find out what the shape of a line means, and take the line."""
        comm = _COMM.match(line)
        if comm:
            self._communicator(number, comm, line)
            return
        if _LONG.match(line):
            return
        key = line.translate(None, _DIGITS)
        meaning = self._shapes.get(key)
        if meaning is None:
            meaning = self._meaning(line)
            if len(line) <= _MAX_SHAPE and len(self._shapes) < _MAX_SHAPES:
                self._shapes[key] = meaning
        self._line(number, line, meaning)

    def _meaning(self, line: bytes) -> _Shape:
        text = decode(line)
        found = messages(text)
        if not found:
            fact = read_application(text)
            return _NOTHING if fact is None else self._prose if fact[0] == "doc" else _READ
        if len(found) > 1 or not found[0].owner or found[0].folded or found[0].level != "INFO":
            return _READ
        told = read(found[0])
        if told is None:
            return _READ if DECISIVE_WORDS.search(found[0].body) else _NOTHING
        kind, values = told
        owner = found[0].owner.encode() + _HEAD
        if (
            kind in {"net", "intra"}
            and line.count(b" via ") == 1
            and owner_of(line) == owner
            and ENDS.search(line)
        ):
            clean = line.startswith(owner)
            named = (kind, values[:-1], clean)
            wording = self._wordings.get(named)
            if wording is None:
                wording = self._wordings[named] = Wording(kind, values[:-1], clean=clean, code=len(self._numbered))
                self._numbered.append(wording)
            return wording
        return _READ

    def _first(self, number: int, line: bytes, owner: bytes, wording: Wording) -> None:
        """Remember an owner's first line of a wording; further ones are counted."""
        who = self._who(owner[: -len(_HEAD)])
        # The rank is looked up in the line only where no communicator line tells it.
        wording.begin(number, line, owner, asks_rank=who[1] not in self._ranked)
        if wording.clean and len(self._tails) < _MAX_SHAPES:
            if wording.kind == "net":
                self._tails[line[-_TAIL:]] = wording.code
            self._ends[line[line.rfind(b"[") :]] = wording.code
        self._open.setdefault(who[1], []).append((wording, owner, who[0]))

    def _who(self, owner: bytes) -> tuple[str, str]:
        """Give an owner's name, and its process with device."""
        who = self._names.get(owner)
        if who is None:
            name = owner.decode("utf-8", "replace")
            who = (name, process_of(name))
            if len(self._names) < _MAX_NAMES:
                self._names[owner] = who
        return who

    def _read(self, number: int, line: bytes) -> None:
        at = line.find(_BODY)
        who = self._names.get(line[:at]) if at > 0 else None
        if who is not None:
            body = line[at + 12 :]
            try:
                known = self._bodies[body]
            except KeyError:
                known = None
            else:
                if known is not None:
                    self._take(number, who[0], who[1], known, "", line)
                return
        text = decode(line)
        found = messages(text)
        if not found:
            fact = read_application(text)
            if fact is not None and fact[0] == "doc":
                self._prose[0] += 1
            elif fact is not None:
                self.events.append((number, "", fact[0], fact[1], text.strip()[:TEXT], 1))
            return
        known = None
        for message in found:
            known = self._fact(message)
            if known is not None:
                self._message(number, message, known, text if len(found) == 1 else _as_printed(message))
        if at > 0 and len(found) == 1 and not found[0].folded and found[0].level == "INFO":
            self._remember(line, at, found[0], known)

    def _remember(self, line: bytes, at: int, message: Message, fact: Fact | None) -> None:
        """Remember an owner that lines begin with, and the body of a line without a warning."""
        owner = line[:at]
        if owner == message.owner.encode():
            self._who(owner)
            if len(self._bodies) < _MAX_FACTS and len(line) <= _MAX_SHAPE and not (fact and fact[0] == "comm"):
                self._bodies[line[at + 12 :]] = fact

    def _communicator(self, number: int, comm: re.Match[bytes], line: bytes) -> None:
        """Read the most frequent communicator lines without the general reader."""
        owner, at, rank, size, comm_id, phase, nodes = comm.groups()
        who = self._who(owner)
        self._ranked.add(who[1])
        if who[1] in self._open:
            self._report(who[1])
        if nodes:
            values = (at.decode(), rank.decode(), size.decode(), nodes.decode(), "", "")
            text = decode(line)[:TEXT] if self._tells("nodes") else ""
        else:
            phase_name = "start" if phase == b"START" else "complete"
            values, text = (at.decode(), rank.decode(), size.decode(), "", comm_id.decode(), phase_name), ""
        self.events.append((number, who[0], "comm", values, text, 1))

    def _fact(self, message: Message) -> Fact | None:
        """Read a message; the same words from many owners are read once."""
        if message.level != "INFO" or len(message.body) > _MAX_SHAPE:
            return read(message)
        try:
            return self._facts[message.body]
        except KeyError:
            fact = read(message)
            if len(self._facts) < _MAX_FACTS and not (fact and fact[0] == "comm"):
                self._facts[message.body] = fact
            return fact

    def _message(self, number: int, message: Message, fact: Fact, text: str) -> None:
        if message.folded:
            self.events.append((number, message.owner, "folded", (fact[0],), "", message.folded))
        self._take(number, message.owner, process_of(message.owner), fact, text, b"")

    def _take(self, number: int, owner: str, process: str, fact: Fact, text: str, line: bytes) -> None:  # noqa: PLR0913
        """Make an event of what a message says, unless its owner has just said the same."""
        kind, values = fact
        if kind in _TURNS:
            # Channels that were counted so far came before this line, and belong to an earlier communicator.
            if process in self._open:
                self._report(process)
            if kind != "comm":
                self._chosen.pop(process, None)
        elif kind == "rings" and process in self._open:
            # Its channels say as much.
            return
        elif kind == "choice":
            said = self._chosen.setdefault(process, set())
            if values in said:
                return
            if said and next(iter(said))[0] != values[0]:
                said.clear()
            said.add(values)
        if kind in _COMMON and owner:
            key = "nodes" if kind == "comm" and values[3] else f"{kind}{values[0]}" if kind in _NAMED else kind
            if not self._tells(key):
                self.events.append((number, owner, kind, values, "", 1))
                return
        self.events.append((number, owner, kind, values, (text or decode(line)).strip()[:TEXT], 1))

    def _tells(self, key: str) -> bool:
        """Tell whether a line of a common kind is among the first, whose text is kept."""
        shown = self._texts[key] = self._texts.get(key, 0) + 1
        return shown <= WITH_TEXT

    def _report(self, process: str) -> None:
        """Turn what was counted for a process into events."""
        for wording, owner, name in self._open.pop(process):
            number, rank, text = wording.first.pop(owner)
            self.events.append((number, name, wording.kind, (*wording.says, rank), text, wording.pop(owner)))


_LAST: Final[Callable[[bytes], bytes]] = itemgetter(slice(-_TAIL, None))
_TURNS: Final = frozenset({"comm", "sign", "warn", "trail"})
_NAMED: Final = frozenset({"choice", "provider", "devices"})
_COMMON: Final = _NAMED | {"comm", "rings", "socket", "env", "version"}


def _as_printed(message: Message) -> str:
    """Write a message as NCCL does, for lines that hold several."""
    where = f"{message.where} " if message.where else ""
    owner = f"{message.owner}] " if message.owner else ""
    return f"{owner}{where}NCCL {message.level} {message.body}"


def scan(stream: BinaryIO, start: int = 0, end: int | None = None) -> Found:
    """Scan a stream, or the lines of a file that begin in [start, end)."""
    found = Scan()
    if start:
        stream.seek(start - 1)
        start += len(stream.readline()) - 1
    at, rest = start, b""
    while end is None or at < end:
        block = stream.read(_BLOCK if end is None else min(_BLOCK, end - at))
        if not block:
            break
        at += len(block)
        if end is not None and at >= end and not block.endswith(b"\n"):
            block += stream.readline(_MAX_LINE)
        block = rest + block
        cut = block.rfind(b"\n") + 1
        if not cut and len(block) > _MAX_LINE:
            cut = len(block)
        rest = block[cut:]
        if cut:
            found.feed(block[:cut])
    if rest:
        found.feed(rest)
    return found.finish()

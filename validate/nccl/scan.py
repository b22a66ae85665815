"""One pass over raw log bytes: find the lines that say something without looking at each one closely.

Most lines of a big log repeat a few wordings in which only the digits differ. A line's *shape* is the line
without its digits; what a shape means is found out once. Three kinds matter: shapes that say nothing, shapes
of channel lines, which are only counted per owner, and shapes whose lines are read one by one.
"""

from __future__ import annotations

import re
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from validate.nccl.application import read_application
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
# Channel lines inside a node show that a process exists; beyond this many of one wording they are only counted.
_ENOUGH: Final = 20_000
_TEXT: Final = 320
_MAX_FACTS: Final = 20_000
# So many owners of one wording keep the text of their line as evidence.
_WITH_TEXT: Final = 64
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\n]*\x07")
_OWNER = re.compile(rb"([^\s:|()\[\]{}<>\"'`/,;=]+:\d+:\d+ \[-?\d+\] )NCCL INFO ")
_COMM = re.compile(
    rb"(?P<owner>[^\s:|()\[\]{}<>\"'`/,;=]+:\d+:\d+ \[-?\d+)\] NCCL INFO (?:\[Rank \d+\] )?(?:nccl\w+ )?comm (?P<at>0x[0-9a-f]+) "
    rb"rank (?P<rank>\d+) n[rR]anks (?P<n>\d+) (?:cudaDev \d+ (?:nvmlDev \d+ )?busId \w+ commId (?P<id>0x[0-9a-f]+) - Init (?P<phase>START|COMPLETE)"
    rb"|nNodes (?P<nodes>\d+) localRanks \d+ localRank \d+ MNNVL \d)\s*$"
)
# Long lines that say nothing here, and differ in more than digits.
_LONG = re.compile(rb"\S+:\d+ \[\d+\] NCCL INFO (?:Trees \[|Setting affinity |=== System)")
_ENDS = re.compile(rb"(\d+)(?:\[\w+\])? -> (\d+)(?:\[\w+\])? (\[r)?")

_NOTHING: Final = 0
_READ: Final = 1


class Found(NamedTuple):
    """What a scan found, per owner in the order of the log."""

    lines: int
    events: list[Event]


class _Counted(dict[bytes, int]):
    """A wording of channel lines: how many lines each owner has since its last communicator line."""

    __slots__ = ("clean", "first", "kind", "says", "warm")

    def __init__(self, kind: Kind, says: tuple[str, ...], *, clean: bool) -> None:
        self.kind, self.says, self.clean = kind, says, clean
        self.warm = True
        self.first: dict[bytes, tuple[int, str, str]] = {}


_Shape: TypeAlias = int | list[int] | _Counted
_NO_WORDING: Final = _Counted("net", (), clean=False)


class Scan:
    """What a scan has found so far; feed it blocks of whole lines, then `finish`."""

    def __init__(self) -> None:
        self.lines = 0
        self.events: list[Event] = []
        self._shapes: dict[bytes, _Shape] = {b"": _NOTHING}
        self._open: dict[str, list[tuple[_Counted, bytes]]] = {}
        self._cold: list[tuple[_Counted, list[int]]] = []
        self._wordings: dict[tuple[Kind, tuple[str, ...], bool], _Counted] = {}
        self._prose = [0]
        self._facts: dict[str, Fact | None] = {}
        self._chosen: dict[str, set[tuple[str, ...]]] = {}
        self._texts: dict[str, int] = {}

    def feed(self, block: bytes) -> None:
        """Take a block of whole lines."""
        if b"\x1b" in block:
            block = _ESCAPE.sub(b"", block)
        shapes = block.translate(None, _DIGITS).split(b"\n")
        meanings = list(map(self._shapes.get, shapes))
        number = self.lines
        self.lines += len(shapes) - (not shapes[-1] and block.endswith(b"\n"))
        if meanings.count(_NOTHING) == len(meanings):
            return
        # Neighbouring channel lines of one owner are added up before they are written down.
        wording, owner, run = _NO_WORDING, b"", 0
        for meaning, line in zip(meanings, block.split(b"\n"), strict=True):
            number += 1
            if meaning is _NOTHING:
                continue
            if meaning is wording and line.startswith(owner):
                run += 1
                continue
            if run:
                wording[owner] += run
                run = 0
            if type(meaning) is _Counted:
                owner = line[: line.find(b"] NCCL") + 2] if meaning.clean else _owner(line)
                wording = meaning
                if owner in meaning:
                    meaning[owner] += 1
                else:
                    self._first(number, line, owner, meaning)
                if not meaning.clean:
                    wording = _NO_WORDING
                continue
            wording = _NO_WORDING
            if meaning is None:
                self._learn(number, line)
            elif type(meaning) is list:
                meaning[0] += 1
            else:
                self._read(number, line)
        if run:
            wording[owner] += run
        self._cool()

    def finish(self) -> Found:
        """Report what was only counted, and give everything that was found."""
        for process in list(self._open):
            self._report(process)
        for wording, total in self._cold:
            if total[0]:
                self.events.append((0, "", wording.kind, (*wording.says, ""), "", total[0]))
        if self._prose[0]:
            self.events.append((0, "", "doc", (), "", self._prose[0]))
        return Found(self.lines, self.events)

    def _learn(self, number: int, line: bytes) -> None:
        """Find out what the shape of a line means, and read the line."""
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
        if isinstance(meaning, _Counted):
            owner = line[: line.find(b"] NCCL") + 2] if meaning.clean else _owner(line)
            if owner in meaning:
                meaning[owner] += 1
            else:
                self._first(number, line, owner, meaning)
        elif isinstance(meaning, list):
            meaning[0] += 1
        elif meaning is _READ:
            self._read(number, line)

    def _meaning(self, line: bytes) -> _Shape:
        text = decode(line)
        found = messages(text)
        if not found:
            fact = read_application(text)
            return _NOTHING if fact is None else self._prose if fact[0] == "doc" else _READ
        if len(found) > 1 or not found[0].owner or found[0].folded or found[0].level != "INFO":
            return _READ
        fact_found = read(found[0])
        if fact_found is None:
            return _READ if DECISIVE_WORDS.search(found[0].body) else _NOTHING
        kind, values = fact_found
        owner = found[0].owner.encode() + b"] "
        if kind in {"net", "intra"} and line.count(b" via ") == 1 and _owner(line) == owner and _ENDS.search(line):
            clean = line.startswith(owner + b"NCCL")
            named = (kind, values[:-1], clean)
            if named not in self._wordings:
                self._wordings[named] = _Counted(kind, values[:-1], clean=clean)
            return next((total for wording, total in self._cold if wording is self._wordings[named]), self._wordings[named])
        return _READ

    def _first(self, number: int, line: bytes, owner: bytes, wording: _Counted) -> None:
        """Remember an owner's first line of a wording; further ones are counted."""
        ends = _ENDS.search(line)
        rank = (ends[2] if ends[3] else ends[1]).decode() if ends else ""
        wording[owner] = 1
        wording.first[owner] = (number, rank, decode(line)[:_TEXT] if len(wording.first) < _WITH_TEXT else "")
        process = _process(_name(owner))
        counts = self._open.get(process)
        if counts is None:
            self._open[process] = [(wording, owner)]
        else:
            counts.append((wording, owner))

    def _read(self, number: int, line: bytes) -> None:
        text = decode(line)
        found = messages(text)
        if not found:
            fact = read_application(text)
            if fact is not None and fact[0] == "doc":
                self._prose[0] += 1
            elif fact is not None:
                self.events.append((number, "", fact[0], fact[1], text.strip()[:_TEXT], 1))
            return
        for message in found:
            known = self._fact(message)
            if known is not None:
                self._message(number, message, known, text if len(found) == 1 else "")

    def _communicator(self, number: int, comm: re.Match[bytes], line: bytes) -> None:
        """Read the most frequent communicator lines without the general reader."""
        owner, at, rank, size, comm_id, phase, nodes = (part.decode() if part else "" for part in comm.groups())
        process = _process(owner)
        if process in self._open:
            self._report(process)
        text = ""
        if nodes:
            shown = self._texts["nodes"] = self._texts.get("nodes", 0) + 1
            text = decode(line)[:_TEXT] if shown <= _WITH_TEXT else ""
        self.events.append((number, owner, "comm", (at, rank, size, nodes, comm_id, phase.lower()), text, 1))

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
        kind, values = fact
        process = _process(message.owner)
        if message.folded:
            self.events.append((number, message.owner, "folded", (kind,), "", message.folded))
        if kind in {"comm", "sign", "warn", "trail"}:
            # Channels that were counted so far came before this line, and belong to an earlier communicator.
            if process in self._open:
                self._report(process)
            if kind != "comm":
                self._chosen.pop(process, None)
        elif kind == "choice":
            said = self._chosen.setdefault(process, set())
            if values in said:
                return
            if said and next(iter(said))[0] != values[0]:
                said.clear()
            said.add(values)
        if (
            kind in {"comm", "choice", "rings", "provider", "devices", "socket", "env", "version"}
            and message.owner
        ):
            key = (
                "nodes"
                if kind == "comm" and values[3]
                else f"{kind}{values[0]}"
                if kind in {"choice", "provider", "devices"}
                else kind
            )
            shown = self._texts[key] = self._texts.get(key, 0) + 1
            if shown > _WITH_TEXT:
                self.events.append((number, message.owner, kind, values, "", 1))
                return
        if not text:
            text = _as_printed(message)
        self.events.append((number, message.owner, kind, values, text.strip()[:_TEXT], 1))

    def _report(self, process: str) -> None:
        """Turn what was counted for a process into events."""
        for wording, owner in self._open.pop(process):
            number, rank, text = wording.first.pop(owner)
            self.events.append(
                (
                    number,
                    _name(owner),
                    wording.kind,
                    (*wording.says, rank),
                    text,
                    wording.pop(owner),
                )
            )

    def _cool(self) -> None:
        """Stop asking for the owner where a wording inside a node was seen often."""
        for wording in [found for found in self._wordings.values() if found.kind == "intra"]:
            if wording.warm and sum(wording.values()) > _ENOUGH:
                wording.warm = False
                total = [0]
                self._cold.append((wording, total))
                for shape, meaning in self._shapes.items():
                    if meaning is wording:
                        self._shapes[shape] = total


def _as_printed(message: Message) -> str:
    """Write a message as NCCL does, for lines that hold several."""
    where = f"{message.where} " if message.where else ""
    owner = f"{message.owner}] " if message.owner else ""
    return f"{owner}{where}NCCL {message.level} {message.body}"


def _owner(line: bytes) -> bytes:
    match = _OWNER.search(line)
    return match[1] if match else b""


def _name(owner: bytes) -> str:
    return owner[:-2].decode("utf-8", "replace")


def _process(owner: str) -> str:
    """Name the process and device of an owner: the owner without its thread."""
    left, _, device = owner.rpartition(" [")
    return f"{left.rpartition(':')[0]} [{device}"


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

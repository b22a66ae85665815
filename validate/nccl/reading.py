"""Reading single lines of a log, once what their shapes mean is known or has to be found out."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from validate.nccl.application import read_application
from validate.nccl.counted import CHANNEL_HEAD, ENDS, TAIL, TEXT, WITH_TEXT, Wording, owner_of, process_of
from validate.nccl.line import Message, decode, messages
from validate.nccl.wording import DECISIVE_WORDS, Fact, Kind, read

__all__ = ["DIGITS", "NOTHING", "Event", "Reader", "Shape"]

# line number, owner, kind, values, text (empty where many others like it have one), how many lines
Event: TypeAlias = tuple[int, str, str, tuple[str, ...], str, int]
# What a shape means: nothing, lines to be read one by one, lines of prose to be counted, a channel wording.
Shape: TypeAlias = int | list[int] | Wording

DIGITS: Final = b"0123456789"
NOTHING: Final = 0
_READ: Final = 1
_MAX_SHAPES: Final = 40_000
_MAX_SHAPE: Final = 400
_MAX_FACTS: Final = 20_000
_MAX_NAMES: Final = 100_000
_BODY: Final = b"] NCCL INFO "
_NAME = re.compile(rb"([^\s:|()\[\]{}<>\"'`/,;=]{1,255}:\d+:\d+ \[-?\d+)$")
_COMM = re.compile(
    rb"([^\s:|()\[\]{}<>\"'`/,;=]{1,255}:\d+:\d+ \[-?\d+)\] NCCL INFO (?:\[Rank \d+\] )?(?:nccl\w+ )?"
    rb"comm (0x[0-9a-f]+) rank (\d{1,9}) n[rR]anks (\d{1,9}) "
    rb"(?:cudaDev \d+ (?:nvmlDev \d+ )?busId \w+ commId (0x[0-9a-f]+) - Init (START|COMPLETE)"
    rb"|nNodes (\d{1,9}) localRanks \d+ localRank \d+ MNNVL \d)\s*$"
)
# Lines that say nothing here, and differ in more than digits.
_LONG = re.compile(rb"\] NCCL INFO (?:Trees \[|Setting affinity |=== System)")
_TURNS: Final = frozenset({"comm", "sign", "warn", "trail"})
_NAMED: Final = frozenset({"choice", "provider", "devices"})
_COMMON: Final = _NAMED | {"comm", "rings", "socket", "env", "version"}


class Reader:
    """Reads lines into events; what it has learned about wordings is there for whoever finds the lines."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.shapes: dict[bytes, Shape] = {b"": NOTHING}
        # Channel wordings by number, since equal numbers are found quicker than equal dicts: by a line's last
        # bytes, and by what follows the last bracket.
        self.numbered: list[Wording] = []
        self.tails: dict[bytes, int] = {}
        self.ends: dict[bytes, int] = {}
        self.codes: set[int] = set()
        # How many lines have marks of a document, and how many phrases of one.
        self.prose = {"mark": [0], "phrase": [0]}
        self._wordings: dict[tuple[Kind, tuple[str, ...], bool], Wording] = {}
        self._open: dict[str, list[tuple[Wording, bytes, str]]] = {}
        self._ranked: set[str] = set()
        self._facts: dict[str, Fact | None] = {}
        self._bodies: dict[bytes, Fact | None] = {}
        self._names: dict[bytes, tuple[str, str]] = {}
        self._chosen: dict[str, set[tuple[str, ...]]] = {}
        self._texts: dict[str, int] = {}

    def finish(self) -> list[Event]:
        """Give all events with what was only counted; what was learned of wordings is kept for the next log."""
        for process in list(self._open):
            self._report(process)
        for wording in self._wordings.values():
            if wording.added_up:
                self.events.append((0, "", wording.kind, (*wording.says, ""), "", wording.added_up))
                wording.added_up = 0
        for name, lines in self.prose.items():
            if lines[0]:
                self.events.append((0, "", "doc", (name,), "", lines[0]))
                lines[0] = 0
        events, self.events = self.events, []
        self._chosen.clear()
        self._ranked.clear()
        return events

    def take(self, number: int, line: bytes, shape: Shape | None) -> None:
        """Take a line whose shape means this, or something not yet known."""
        if shape is None:
            self._learn(number, line)
        elif type(shape) is Wording:
            owner = owner_of(line)
            if owner in shape:
                shape[owner] += 1
            else:
                self.begin(number, line, owner, shape)
        elif type(shape) is list:
            shape[0] += 1
        elif shape is _READ:
            self._read(number, line)

    def _learn(self, number: int, line: bytes) -> None:
        """Find out what the shape of a line means, and take the line."""
        if line.count(b"NCCL") == 1:
            comm = _COMM.search(line) if b" comm 0x" in line else None
            if comm and (comm.start() == 0 or line[: comm.end(1)] in self._names):
                self._communicator(number, comm, line)
                return
            if _LONG.search(line):
                return
        key = line.translate(None, DIGITS)
        meaning = self.shapes.get(key)
        if meaning is None:
            meaning = self._meaning(line)
            if len(line) <= _MAX_SHAPE and len(self.shapes) < _MAX_SHAPES:
                self.shapes[key] = meaning
        self.take(number, line, meaning)

    def _meaning(self, line: bytes) -> Shape:
        text = decode(line)
        found = messages(text)
        if not found:
            fact = read_application(text)
            return NOTHING if fact is None else self.prose[fact[1][0]] if fact[0] == "doc" else _READ
        if len(found) > 1 or not found[0].owner or found[0].folded or found[0].level != "INFO":
            return _READ
        told = read(found[0])
        if told is None:
            return _READ if DECISIVE_WORDS.search(found[0].body) else NOTHING
        kind, values = told
        owner = found[0].owner.encode() + CHANNEL_HEAD
        if (
            kind in {"net", "intra"}
            and line.count(b" via ") == 1
            and owner_of(line) == owner
            and ENDS.search(line)
        ):
            # A prefix without a clock is the same on all lines of an owner, and can be part of its key.
            before = line.find(owner)
            clean = b":" not in line[: max(before, 0)] and line.find(CHANNEL_HEAD) + len(
                CHANNEL_HEAD
            ) == before + len(owner)
            named = (kind, values[:-1], clean)
            wording = self._wordings.get(named)
            if wording is None:
                wording = self._wordings[named] = Wording(kind, values[:-1], clean=clean, code=len(self.numbered))
                self.numbered.append(wording)
            return wording
        return _READ

    def begin(self, number: int, line: bytes, owner: bytes, wording: Wording) -> None:
        """Remember an owner's first line of a wording; further ones are counted."""
        who = self._who(owner[: -len(CHANNEL_HEAD)])
        # The rank is looked up in the line only where no communicator line tells it.
        wording.begin(number, line, owner, asks_rank=who[1] not in self._ranked)
        if wording.clean and len(self.tails) < _MAX_SHAPES:
            # The last bytes tell the wording only if the end of the network's name is among them.
            if wording.kind == "net" and len(line) - line.rfind(b"NET/") - 4 - len(wording.says[0]) + 3 <= TAIL:
                self.tails[line[-TAIL:]] = wording.code
                self.codes.add(wording.code)
            self.ends[line[line.rfind(b"[") :]] = wording.code
        self._open.setdefault(who[1], []).append((wording, owner, who[0]))

    def _who(self, owner: bytes) -> tuple[str, str]:
        """Give an owner's name, and its process with device."""
        who = self._names.get(owner)
        if who is None:
            match = _NAME.search(owner)
            name = (match[1] if match else owner).decode("utf-8", "replace")
            who = (name, process_of(name))
            if len(self._names) < _MAX_NAMES:
                self._names[owner] = who
        return who

    def _read(self, number: int, line: bytes) -> None:
        at = line.find(_BODY)
        who = self._names.get(line[:at]) if at > 0 else None
        fact = self._bodies.get(line[at + len(_BODY) :]) if who is not None else None
        if who is not None and fact is not None:
            self._take(number, who, fact, "", line)
            return
        text = decode(line)
        found = messages(text)
        if not found:
            self._application(number, text)
        for message in found:
            fact = self._fact(message)
            if fact is not None:
                self._message(number, message, fact, text if len(found) == 1 else _as_printed(message))
        if at > 0 and len(found) == 1 and not found[0].folded and found[0].level == "INFO":
            self._remember(line, at, found[0], fact)

    def _application(self, number: int, text: str) -> None:
        """Read a line that is not NCCL's."""
        told = read_application(text)
        if told is not None and told[0] == "doc":
            self.prose[told[1][0]][0] += 1
        elif told is not None:
            self.events.append((number, "", told[0], told[1], text.strip()[:TEXT], 1))

    def _remember(self, line: bytes, at: int, message: Message, fact: Fact | None) -> None:
        """Remember an owner that lines begin with, and the body of a line without a warning."""
        owner = line[:at]
        if owner.endswith(message.owner.encode()) and owner.count(b":") == 2:
            self._who(owner)
            if len(self._bodies) < _MAX_FACTS and len(line) <= _MAX_SHAPE and not (fact and fact[0] == "comm"):
                self._bodies[line[at + len(_BODY) :]] = fact

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
        self._take(number, (message.owner, process_of(message.owner)), fact, text, b"")

    def _take(self, number: int, who: tuple[str, str], fact: Fact, text: str, line: bytes) -> None:
        """Make an event of what a message says, unless its owner has just said the same."""
        (owner, process), (kind, values) = who, fact
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


def _as_printed(message: Message) -> str:
    """Write a message as NCCL does, for lines that hold several."""
    where = f"{message.where} " if message.where else ""
    owner = f"{message.owner}] " if message.owner else ""
    return f"{owner}{where}NCCL {message.level} {message.body}"

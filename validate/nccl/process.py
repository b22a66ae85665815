"""What one process and its ranks said, in the order in which they said it.

What is kept is bounded per rank, not by the length of the log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from validate.nccl.result import Evidence

__all__ = ["HANDLERS", "MAX_SIGNS", "UNTOLD", "CommRank", "Process", "Said", "Sign", "channel_name"]

MAX_SIGNS = 24
# Stands for a line whose text was not kept because many like it were.
UNTOLD = Evidence(file="", line=0, text="")


def channel_name(network: str, *, gdr: bool) -> str:
    """Write a network transport as NCCL does, without device numbers."""
    return f"NET/{network}{'/GDRDMA' if gdr else ''}"


@dataclass(slots=True)
class Sign:
    """A cause that a process's lines show, or a warning: when first and last, and the first line."""

    evidence: Evidence
    first: int
    last: int
    values: dict[str, str]
    where: str = ""


@dataclass(slots=True)
class CommRank:
    """One rank of one communicator, as one process saw it."""

    device: str
    address: str = ""
    comm_id: str = ""
    rank: int | None = None
    size: int | None = None
    nodes: int | None = None
    choice: str = ""
    choice_line: Evidence | None = None
    gdr: bool | None = None
    gdr_line: Evidence | None = None
    connected: bool = False
    channels: dict[tuple[str, bool], int] = field(default_factory=dict)
    channel_lines: dict[tuple[str, bool], Evidence] = field(default_factory=dict)
    intra: Evidence | None = None
    nodes_line: Evidence | None = None
    ended: bool = False

    def learn_rank(self, rank: str) -> None:
        """Take the rank that a channel line shows, where no communicator line has said it."""
        if self.rank is None and rank:
            self.rank = int(rank)

    def absorb(self, other: CommRank) -> None:
        """Take over what was seen before this communicator had a name."""
        for key, count in other.channels.items():
            self.channels[key] = self.channels.get(key, 0) + count
        for key, line in other.channel_lines.items():
            self.channel_lines.setdefault(key, line)
        self.intra = self.intra or other.intra
        self.connected = self.connected or other.connected
        if other.gdr is not None:
            self.gdr, self.gdr_line = other.gdr, other.gdr_line
        if other.choice:
            self.choice, self.choice_line = other.choice, other.choice_line
        if self.rank is None:
            self.rank = other.rank


@dataclass(slots=True)
class Process:
    """One process: what it loaded, which signs of trouble it printed, and its ranks."""

    host: str
    pid: str
    version: str = ""
    plugin: str = ""
    libfabric: str = ""
    provider: str = ""
    fabric: str = ""
    nics: str = ""
    provider_line: Evidence | None = None
    devices: str = ""
    devices_line: Evidence | None = None
    interfaces: str = ""
    socket_line: Evidence | None = None
    other: str = ""
    other_line: Evidence | None = None
    loaded: str = ""
    aws: bool = False  # the plugin's own words name AWS or EFA
    settings: dict[str, str] = field(default_factory=dict)
    signs: dict[str, Sign] = field(default_factory=dict)
    clock: int = 0
    chosen: str = ""
    chosen_line: Evidence | None = None
    chosen_at: int = -1
    went_on_at: int = -1
    comms: dict[tuple[str, str, str], CommRank] = field(default_factory=dict)
    _at: dict[tuple[str, str], CommRank] = field(default_factory=dict)
    _pending: dict[tuple[str, str], CommRank] = field(default_factory=dict)
    _thread: dict[tuple[str, str], CommRank] = field(default_factory=dict)
    _latest: dict[str, CommRank] = field(default_factory=dict)
    _starts: bool = False

    def pending(self, device: str, thread: str) -> CommRank:
        """Give the place for what a thread says before its communicator has a name."""
        key = (device, thread)
        found = self._pending.get(key)
        if found is None:
            found = self._pending[key] = CommRank(device)
        return found

    def current(self, device: str, thread: str) -> CommRank:
        """Give the communicator that a thread's line without a name belongs to."""
        found = self._thread.get((device, thread))
        if found is not None:
            return found
        latest = self._latest.get(device)
        if latest is not None and self._starts and (device, thread) not in self._pending:
            return latest
        return self.pending(device, thread)

    def comm(self, device: str, thread: str, values: tuple[str, ...], line: Evidence) -> None:
        """Take a line that names a communicator: address, rank, ranks, nodes, id, phase."""
        address, rank, size, nodes, comm_id, phase = values
        if phase == "end":
            return
        record = self._named(device, address, comm_id)
        record.rank, record.size = int(rank), int(size)
        if nodes:
            record.nodes, record.nodes_line = int(nodes), line
        if phase == "start":
            self._starts = True
        before = self._pending.pop((device, thread), None)
        if before is not None:
            record.absorb(before)
        if phase == "complete":
            record.connected = True
            self.went_on_at = self.clock
        self._latest[device] = record
        # Versions that do not announce a start name the communicator only after its channels: what comes
        # after that is the next one's.
        if phase == "complete" and not self._starts and not record.nodes:
            self._thread.pop((device, thread), None)
        else:
            self._thread[device, thread] = record

    def _named(self, device: str, address: str, comm_id: str) -> CommRank:
        known = self._at.get((device, address))
        if known is None or (comm_id and known.comm_id and known.comm_id != comm_id):
            # Addresses are used again for later communicators, ids are not.
            known = self.comms.get((device, address, comm_id)) if comm_id else None
            if known is None:
                known = CommRank(device, address)
        if comm_id and not known.comm_id:
            self.comms.pop((device, address, ""), None)
            known.comm_id = comm_id
        self._at[device, address] = self.comms[device, address, known.comm_id] = known
        return known

    def ranks(self) -> list[CommRank]:
        """All its ranks; what never got a name joins the device's latest communicator or stands alone."""
        made = list(self.comms.values())
        for (device, _), loose in sorted(self._pending.items()):
            at = next((index for index in reversed(range(len(made))) if made[index].device == device), None)
            home = made[at] if at is not None else None
            said = bool(loose.channels or loose.intra or loose.connected)
            if home is not None and home.choice and not said and loose.choice in {"", home.choice}:
                continue
            if home is None or (loose.choice and home.choice and loose.choice != home.choice):
                made.append(CommRank(device))
                made[-1].absorb(loose)
            elif at is not None:
                made[at] = dataclasses.replace(
                    home, channels=dict(home.channels), channel_lines=dict(home.channel_lines)
                )
                made[at].absorb(loose)
        if not made and (self.chosen or self.devices_line or self.socket_line or self.other_line):
            made.append(CommRank(""))
        return made

    def note(self, name: str, line: Evidence, values: dict[str, str], where: str = "") -> None:
        """Remember a sign of trouble."""
        known = self.signs.get(name)
        if known:
            known.last, known.where = self.clock, where
        elif len(self.signs) < MAX_SIGNS:
            self.signs[name] = Sign(line, self.clock, self.clock, values, where)


class Said(NamedTuple):
    """What a message of a process says: on which device and thread, its values, its line, and how many like it."""

    device: str
    thread: str
    values: tuple[str, ...]
    line: Evidence
    lines: int


def _net(process: Process, said: Said) -> None:
    record = process.current(said.device, said.thread)
    key = (said.values[0], said.values[1] == "gdr")
    record.channels[key] = record.channels.get(key, 0) + said.lines
    record.channel_lines.setdefault(key, said.line)
    record.learn_rank(said.values[-1])
    process.went_on_at = process.clock


def _intra(process: Process, said: Said) -> None:
    record = process.current(said.device, said.thread)
    record.intra = record.intra or said.line
    record.learn_rank(said.values[-1])
    process.went_on_at = process.clock


def _comm(process: Process, said: Said) -> None:
    process.comm(said.device, said.thread, said.values, said.line)


def _choice(process: Process, said: Said) -> None:
    name, way = said.values
    record = process.pending(said.device, said.thread)
    if record.choice_line is None or name != process.chosen or way != "assigned":
        record.choice, record.choice_line = name, said.line
    process.chosen, process.chosen_at, process.chosen_line = name, process.clock, record.choice_line


def _rings(process: Process, said: Said) -> None:
    record = process.current(said.device, said.thread)
    record.connected = True
    if said.values[1]:
        record.gdr, record.gdr_line = said.values[1] != "0", said.line
    process.went_on_at = process.clock


def _provider(process: Process, said: Said) -> None:
    process.provider, process.fabric, process.nics = said.values
    process.provider_line = said.line


def _sign(process: Process, said: Said) -> None:
    process.note(said.values[0], said.line, dict(value.split("=", 1) for value in said.values[1:]))


def _warn(process: Process, said: Said) -> None:
    process.note("?", said.line, {}, said.values[0])


def _trail(process: Process, said: Said) -> None:
    # Old versions print this one for a network card without a PCI path, and go on.
    harmless = said.values[0] == "include/net.h"
    process.note("-> harmless" if harmless else "->", said.line, {}, said.values[0])


def _devices(process: Process, said: Said) -> None:
    process.devices, process.interfaces = said.values
    process.devices_line = said.line


def _socket(process: Process, said: Said) -> None:
    process.socket_line, process.interfaces = said.line, said.values[0]


def _other(process: Process, said: Said) -> None:
    process.other, process.other_line = said.values[0], said.line


def _env(process: Process, said: Said) -> None:
    if len(process.settings) < MAX_SIGNS:
        process.settings[said.values[0]] = said.values[1]


def _version(process: Process, said: Said) -> None:
    process.version = said.values[0]


def _plugin(process: Process, said: Said) -> None:
    process.plugin = said.values[0]


def _libfabric(process: Process, said: Said) -> None:
    process.libfabric = said.values[0]


def _loaded(process: Process, said: Said) -> None:
    process.loaded = said.values[0]


def _aws(process: Process, _: Said) -> None:
    process.aws = True


def _nothing(_: Process, __: Said) -> None:
    """What is remembered for the job, not for the process."""


HANDLERS: dict[str, Callable[[Process, Said], None]] = {
    "net": _net,
    "intra": _intra,
    "comm": _comm,
    "choice": _choice,
    "rings": _rings,
    "provider": _provider,
    "sign": _sign,
    "warn": _warn,
    "trail": _trail,
    "devices": _devices,
    "socket": _socket,
    "other": _other,
    "env": _env,
    "version": _version,
    "plugin": _plugin,
    "libfabric": _libfabric,
    "loaded": _loaded,
    "aws": _aws,
    "ranks": _nothing,
}

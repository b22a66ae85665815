"""What each process and each communicator's rank said, in the order in which it said it.

Events are replayed once, in order; what is kept is bounded per rank, not by the length of the log.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from validate.nccl.line import owner as split_owner
from validate.nccl.result import Bandwidth, Evidence
from validate.nccl.scan import Event

__all__ = ["channel_name", "CommRank", "Job", "Process", "Sign"]

_MAX_SIGNS = 24
# Stands for a line whose text was not kept because many like it were.
_UNTOLD = Evidence(file="", line=0, text="")
_MAX_ROWS = 512


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
            self.gdr = other.gdr
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
        elif len(self.signs) < _MAX_SIGNS:
            self.signs[name] = Sign(line, self.clock, self.clock, values, where)


class Job:
    """Everything that the logs of one job said."""

    def __init__(self) -> None:
        self.processes: dict[tuple[str, str], Process] = {}
        self.loose = Process("", "")
        # Channel lines of all ranks by transport, over the network and inside nodes.
        self.network: dict[str, int] = {}
        self.intra: dict[str, int] = {}
        self.sampled = False
        self.failures: list[Evidence] = []
        self.timeouts: list[Evidence] = []
        self.refused: list[Evidence] = []
        self.versions: dict[str, None] = {}
        self.test_hosts: dict[str, None] = {}
        self.size_seen = 0
        self.prose = 0
        self.rows: dict[tuple[str, int], Bandwidth] = {}
        self.folded = False
        self.processes_folded = 0
        self.instance = ""
        self.messages = 0
        self.lines = 0
        self.files: list[str] = []
        self._owners: dict[str, tuple[Process, str, str]] = {}
        self._texts: dict[str, str] = {}

    def replay(self, file: str, first_line: int, events: list[Event]) -> None:
        """Take the events of a stretch of a file whose lines before it were `first_line` many."""
        for number, owner, kind, values, text, count in events:
            line = (
                (Evidence(file=file, line=first_line + number, text=text) if text else _UNTOLD) if number else None
            )
            if owner or kind in _NCCL_KINDS:
                self._message(owner, str(kind), values, line, count)
            else:
                self._application(str(kind), values, line, count)

    def _process(self, owner: str) -> tuple[Process, str, str]:
        known = self._owners.get(owner)
        if known is None:
            host, pid, thread, device = split_owner(owner)
            process = self.loose if not owner else self.processes.get((host, pid))
            if process is None:
                process = self.processes[host, pid] = Process(host, pid)
            known = self._owners[owner] = (process, device, thread)
        return known

    def _message(self, owner: str, kind: str, values: tuple[str, ...], line: Evidence | None, count: int) -> None:  # noqa: C901, PLR0912
        if kind in {"net", "intra"}:
            name = channel_name(values[0], gdr=values[1] == "gdr") if kind == "net" else values[0]
            totals = self.network if kind == "net" else self.intra
            totals[name] = totals.get(name, 0) + count
            if line is None:
                self.sampled = True
                return
        self.messages += count
        if kind == "folded":
            self.folded = True
            if values[0] == "choice":
                self.processes_folded = max(self.processes_folded, count + 1)
            return
        process, device, thread = self._process(owner)
        if line is None:
            return
        process.clock += 1
        if kind == "net":
            record = process.current(device, thread)
            key = (values[0], values[1] == "gdr")
            record.channels[key] = record.channels.get(key, 0) + count
            record.channel_lines.setdefault(key, line)
            record.learn_rank(values[-1])
            process.went_on_at = process.clock
        elif kind == "intra":
            record = process.current(device, thread)
            record.intra = record.intra or line
            record.learn_rank(values[-1])
            process.went_on_at = process.clock
        elif kind == "comm":
            process.comm(device, thread, values, line)
        elif kind == "choice":
            record = process.pending(device, thread)
            named = values[0] == process.chosen and values[1] == "assigned"
            if not named or record.choice_line is None:
                record.choice, record.choice_line = values[0], line
            process.chosen, process.chosen_at = values[0], process.clock
            process.chosen_line = record.choice_line
        elif kind == "rings":
            record = process.current(device, thread)
            record.connected = True
            if values[1]:
                record.gdr = values[1] != "0"
            process.went_on_at = process.clock
        elif kind == "provider":
            process.provider, process.fabric, process.nics = values
            process.provider_line = line
        elif kind == "sign":
            process.note(values[0], line, dict(value.split("=", 1) for value in values[1:]))
        elif kind == "warn":
            process.note("?", line, {}, values[0])
        elif kind == "trail":
            process.note("->" if values[0] != "include/net.h" else "-> harmless", line, {}, values[0])
        elif kind == "devices":
            process.devices, process.devices_line = values[0], line
        elif kind == "socket":
            process.socket_line = line
        elif kind == "other":
            process.other, process.other_line = values[0], line
        elif kind == "ranks":
            self.size_seen = max(self.size_seen, int(values[0]))
        elif kind == "env":
            if len(process.settings) < _MAX_SIGNS:
                process.settings[values[0]] = values[1]
        elif kind == "version":
            process.version = values[0]
            self.versions[values[0]] = None
        elif kind == "aws":
            process.aws = True
            self.instance = self.instance or values[0]
        else:
            setattr(process, kind, values[0])

    def _application(self, kind: str, values: tuple[str, ...], line: Evidence | None, count: int) -> None:
        if kind == "doc":
            self.prose += count
        elif line is None:
            return
        elif kind == "version":
            self.versions[values[0]] = None
        elif kind == "host":
            self.test_hosts[values[0]] = None
            self.size_seen = max(self.size_seen, int(values[1]) + 1)
        elif kind == "bandwidth":
            key = (values[2], int(values[0]))
            if key in self.rows or len(self.rows) < _MAX_ROWS:
                self.rows[key] = Bandwidth(
                    collective=values[2], size=key[1], busbw=float(values[1]), evidence=line
                )
        else:
            kept = {"failure": self.failures, "timeout": self.timeouts, "libfabric-refused": self.refused}[kind]
            if len(kept) < _MAX_SIGNS:
                kept.append(line)


_NCCL_KINDS = {
    "net", "intra", "choice", "provider", "plugin", "libfabric", "devices", "socket", "comm", "rings", "ranks", "aws", "env", "sign",
    "warn", "trail", "loaded", "other", "folded",
}  # fmt: skip

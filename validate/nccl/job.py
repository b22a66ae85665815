"""Everything that the logs of one job said: events are replayed once, in order."""

from __future__ import annotations

from validate.nccl.line import owner as split_owner
from validate.nccl.process import HANDLERS, MAX_SIGNS, UNTOLD, Process, Said, channel_name
from validate.nccl.reading import Event
from validate.nccl.result import Bandwidth, Evidence

__all__ = ["Job"]

_MAX_ROWS = 512
# What only a message of NCCL can say, also one without an owner; version lines are often printed bare.
_OF_NCCL = (HANDLERS.keys() | {"folded"}) - {"version"}


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
        self.prose = {"mark": 0, "phrase": 0}
        self.rows: dict[tuple[str, int], Bandwidth] = {}
        self.folded = False
        self.processes_folded = 0
        self.instance = ""
        self.messages = 0
        self.lines = 0
        self.files: list[str] = []
        self._owners: dict[str, tuple[Process, str, str]] = {}

    def replay(self, file: str, first_line: int, events: list[Event]) -> None:
        """Take the events of a stretch of a file whose lines before it were `first_line` many."""
        for number, owner, kind, values, text, count in events:
            line = None
            if number:
                line = Evidence(file=file, line=first_line + number, text=text) if text else UNTOLD
            if owner or kind in _OF_NCCL:
                self._message(owner, kind, values, line, count)
            else:
                self._application(kind, values, line, count)

    def _process(self, owner: str) -> tuple[Process, str, str]:
        known = self._owners.get(owner)
        if known is None:
            host, pid, thread, device = split_owner(owner)
            process = self.loose if not owner else self.processes.get((host, pid))
            if process is None:
                process = self.processes[host, pid] = Process(host, pid)
            known = self._owners[owner] = (process, device, thread)
        return known

    def _message(self, owner: str, kind: str, values: tuple[str, ...], line: Evidence | None, count: int) -> None:
        if kind in {"net", "intra"}:
            name = channel_name(values[0], gdr=values[1] == "gdr") if kind == "net" else values[0]
            totals = self.network if kind == "net" else self.intra
            totals[name] = totals.get(name, 0) + count
        if line is None:
            self.sampled = True
            return
        self.messages += count
        if kind == "folded":
            self._folded(values[0], count)
            return
        if kind == "ranks":
            self.size_seen = max(self.size_seen, int(values[0]))
        elif kind == "version":
            self.versions[values[0]] = None
        elif kind == "aws":
            self.instance = self.instance or values[0]
        process, device, thread = self._process(owner)
        process.clock += 1
        HANDLERS[kind](process, Said(device, thread, values, line, count))

    def _folded(self, kind: str, count: int) -> None:
        """Take how many equal lines of other processes Ray left out."""
        self.folded = True
        if kind == "choice":
            self.processes_folded = max(self.processes_folded, count + 1)

    def _application(self, kind: str, values: tuple[str, ...], line: Evidence | None, count: int) -> None:
        if kind == "doc":
            self.prose[values[0]] += count
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
            if len(kept) < MAX_SIGNS:
                kept.append(line)

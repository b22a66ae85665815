"""The result of judging a log: immutable, and the same after a round trip through JSON."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from buildspec.errors import BadInputError

__all__ = [
    "VERDICTS",
    "Bandwidth",
    "Cause",
    "Communicator",
    "Evidence",
    "Issue",
    "Judgement",
    "Rank",
    "Verdict",
    "from_json",
    "to_json",
]

Verdict: TypeAlias = Literal[
    "efa", "efa-gdr", "ib", "ib-gdr", "roce", "socket", "other-plugin", "intra-node", "mixed", "failed", "unknown"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One line of a log that decided something."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why the verdict is what it is: a stable id, one sentence, what to do, where that is known from."""

    id: str
    sentence: str
    remedy: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A known bug of versions seen in the log."""

    id: str
    sentence: str
    remedy: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """What one rank of one communicator did. Empty strings and None where the log does not say.

    `channels` counts channels to other ranks over a network, by transport (`NET/Libfabric/GDRDMA`); in logs with
    more than 20,000 channel lines it counts a sample. `nics` is what NCCL or the plugin printed of its devices;
    `chosen` is the network that NCCL named as its choice; `gdr` is GPUDirect RDMA.
    """

    host: str
    pid: str
    device: str
    rank: int | None
    verdict: Verdict
    version: str
    plugin: str
    plugin_version: str
    libfabric: str
    provider: str
    fabric: str
    nics: str
    chosen: str
    gdr: bool | None
    connected: bool
    channels: tuple[tuple[str, int], ...]
    errors: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicator:
    """The ranks that share one communicator. `nodes` and `size` are None where the log does not say."""

    id: str
    size: int | None
    nodes: int | None
    verdict: Verdict
    hosts: tuple[tuple[str, tuple[str, ...]], ...]
    ranks: tuple[Rank, ...]

    @property
    def channels_shown(self) -> str:
        """Channels of all its ranks by transport, for people: `4 x NET/IB, 1 x NET/Socket`; may be empty."""
        used: Counter[str] = Counter()
        for rank in self.ranks:
            used.update(dict(rank.channels))
        return ", ".join(f"{count} x {name}" for name, count in sorted(used.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """A row of a benchmark's table: message size in bytes, bus bandwidth in GB/s."""

    collective: str
    size: int
    busbw: float
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a job's log.

    `hosts` names the hosts of each rank verdict; `settings` are NCCL's variables as it printed them;
    `certain` is False where the verdict rests on the choice alone, without a line that shows what carried bytes.
    `network_channels` and `intra_node_channels` count all channel lines of the log by transport.
    """

    verdict: Verdict
    certain: bool
    multi_node: bool | None
    cause: Cause
    evidence: tuple[Evidence, ...]
    hosts: tuple[tuple[Verdict, tuple[str, ...]], ...]
    communicators: tuple[Communicator, ...]
    network_channels: tuple[tuple[str, int], ...]
    intra_node_channels: tuple[tuple[str, int], ...]
    nccl_versions: tuple[str, ...]
    plugin_versions: tuple[str, ...]
    libfabric_versions: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    known_issues: tuple[Issue, ...]
    bandwidth: tuple[Bandwidth, ...]
    instance: str
    bandwidth_says: tuple[str, ...]
    notes: tuple[str, ...]
    files: tuple[str, ...]
    lines: int


SCHEMA = 1
# Pairs in Python, since they are immutable; objects in JSON, since they are easier to ask.
_OBJECTS = {"hosts", "channels", "network_channels", "intra_node_channels"}
_NESTED: dict[str, Any] = {
    "cause": Cause,
    "evidence": Evidence,
    "errors": Evidence,
    "communicators": Communicator,
    "ranks": Rank,
    "known_issues": Issue,
    "bandwidth": Bandwidth,
}


def to_json(judgement: Judgement) -> dict[str, Any]:
    """Make plain dicts and lists, ready for json.dumps; `schema` says which version of this shape it is."""
    return {"schema": SCHEMA, **_plain(dataclasses.asdict(judgement))}


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(value) if key in _OBJECTS else _plain_value(value) for key, value in data.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _plain(value)
    return [_plain_value(item) for item in value] if isinstance(value, tuple) else value


def from_json(data: dict[str, Any]) -> Judgement:
    """Rebuild a judgement from `to_json`'s value. Raises BadInputError for another shape."""
    if data.get("schema") != SCHEMA:
        raise BadInputError(
            f"this is not a judgement of schema {SCHEMA}", remedy="write it anew with drydock nccl --json"
        )
    try:
        made = _make(Judgement, {key: value for key, value in data.items() if key != "schema"})
    except (TypeError, AttributeError) as error:
        raise BadInputError(f"this is not a judgement: {error}") from error
    return made  # type: ignore[no-any-return]


def _make(kind: Any, data: dict[str, Any]) -> Any:
    return kind(**{key: _value(key, value) for key, value in data.items()})


def _value(key: str, value: Any) -> Any:
    if key in _NESTED:
        return (
            tuple(_make(_NESTED[key], item) for item in value)
            if isinstance(value, list | tuple)
            else _make(_NESTED[key], value)
        )
    if key in _OBJECTS and isinstance(value, dict):
        return tuple((name, _value("", item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(_value("", item) for item in value)
    return value

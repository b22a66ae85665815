"""Which network one rank used: its channels first, then what NCCL chose, then what it had at hand."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from validate.nccl.process import CommRank, Process
from validate.nccl.result import Evidence, Verdict

__all__ = ["Family", "Use", "family_of", "is_tcp", "use_of"]

Family: TypeAlias = Literal["efa", "ib", "roce", "socket", "other-plugin", "libfabric", ""]

_LIBFABRIC = {"aws libfabric", "libfabric", "ofi"}
_TCP_PROVIDERS = re.compile(r"(?:^|;)(?:tcp|sockets|udp|net)(?:$|;)")
_EC2_HOST = re.compile(r"^(?:ip-\d+-\d+-\d+-\d+|algo-\d+$)")


@dataclass(slots=True)
class Use:
    """What a rank used.

    `shown` is True where channel lines show it, False where only the choice does. It is `guessed` where all there
    is is that sockets were made ready, which old versions did in any case.
    """

    family: Family
    gdr: bool
    shown: bool
    name: str
    lines: tuple[Evidence, ...]
    provider: str = ""
    guessed: bool = False

    def verdict(self) -> Verdict:
        """Name the verdict that this use alone would give."""
        if self.family in {"efa", "ib"}:
            plain: Verdict = "efa" if self.family == "efa" else "ib"
            with_gdr: Verdict = "efa-gdr" if self.family == "efa" else "ib-gdr"
            return with_gdr if self.gdr else plain
        if self.family == "libfabric":
            return "other-plugin"
        return self.family or "unknown"


@functools.lru_cache(maxsize=1024)
def is_tcp(provider: str) -> bool:
    """Tell whether a libfabric provider is TCP or UDP underneath."""
    return bool(_TCP_PROVIDERS.search(provider))


@functools.lru_cache(maxsize=1024)
def family_of(name: str, provider: str, fabric: str) -> Family:
    """Name the family of a network by NCCL's name for it, libfabric's provider, and InfiniBand's link layer."""
    lower = name.lower()
    if lower == "socket":
        return "socket"
    if lower in _LIBFABRIC:
        if not provider:
            return "libfabric"
        if provider.startswith("efa"):
            return "efa"
        if is_tcp(provider):
            return "socket"
        return "ib" if provider.startswith("verbs") else "other-plugin"
    if re.fullmatch(r"ib[\w-]*|nccl rdma plugin.*|collnet/sharp.*|sharp", lower):
        return "roce" if fabric == "roce" else "ib"
    return "other-plugin" if name else ""


def use_of(process: Process, rank: CommRank, job_provider: str, job_fabric: str) -> Use:
    """Judge one rank; `job_provider` and `job_fabric` are what all other processes agree on."""
    provider = process.provider or job_provider
    fabric = process.devices or job_fabric
    if rank.channels:
        # A plugin can carry most channels while a few stay on another network: the most used one counts, but
        # TCP beside something faster would be a disagreement within the rank; NCCL never does that.
        if len(rank.channels) == 1:
            ((name, gdr),) = rank.channels
            lines = tuple(rank.channel_lines.values())
        else:
            name = max(rank.channels, key=lambda key: (rank.channels[key], key))[0]
            gdr = any(key[1] for key in rank.channels if key[0] == name)
            keys = [key for key in sorted(rank.channel_lines, reverse=True) if key[0] == name]
            lines = tuple(rank.channel_lines[key] for key in keys[:2])
        lines += _some(rank.choice_line or process.chosen_line)
        return _use(process, name, provider, fabric, gdr=gdr or rank.gdr is True, shown=True, lines=lines)
    name, line = rank.choice or process.chosen, rank.choice_line or process.chosen_line
    if name:
        lines = _some(line, rank.gdr_line if rank.gdr else None)
        return _use(process, name, provider, fabric, gdr=rank.gdr is True, shown=False, lines=lines)
    if process.devices:
        found: Family = "roce" if process.devices == "roce" else "ib"
        return Use(found, gdr=rank.gdr is True, shown=False, name="IB", lines=_some(process.devices_line))
    if process.other_line:
        return Use("other-plugin", gdr=False, shown=False, name=process.other, lines=(process.other_line,))
    if process.socket_line and not process.provider:
        guessed = not {"no-rdma-device", "no-verbs-library"} & process.signs.keys()
        return Use("socket", False, False, "Socket", _some(process.socket_line), guessed=guessed)
    return Use("", gdr=False, shown=False, name="", lines=())


def _use(
    process: Process, name: str, provider: str, fabric: str, *, gdr: bool, shown: bool, lines: tuple[Evidence, ...]
) -> Use:
    family = family_of(name, provider, fabric)
    if family == "libfabric" and (process.aws or (gdr and _EC2_HOST.match(process.host))):
        # The plugin's own words name EFA, or GPUDirect was used on EC2, where EFA is the only network that can.
        family = "efa" if gdr or process.aws else family
    if name.lower() in _LIBFABRIC or name.lower().startswith("ib"):
        lines += _some(process.provider_line if name.lower() in _LIBFABRIC else process.devices_line)
    return Use(family, gdr=gdr and family != "socket", shown=shown, name=name, lines=lines, provider=provider)


def _some(*lines: Evidence | None) -> tuple[Evidence, ...]:
    return tuple(line for line in lines if line is not None)

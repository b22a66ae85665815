"""Whether a process failed, and by which of its lines.

NCCL prints warnings that do no harm, and a plugin that cannot start says so and is simply not used. A warning
is a failure where nothing good comes after it from the same process: no choice of a network, no channel.
"""

from __future__ import annotations

from dataclasses import dataclass

from validate.nccl.cause import known
from validate.nccl.process import Process, Sign

__all__ = ["Failure", "failure_of"]


# Parts of NCCL that only run once a network is chosen.
_AT_WORK = ("transport/", "proxy.cc", "misc/socket.cc", "enqueue.cc")


@dataclass(frozen=True, slots=True)
class Failure:
    """The sign that a process failed by; `cause` is an id, empty for a warning of no known kind."""

    cause: str
    sign: Sign
    rank: int


def failure_of(process: Process) -> Failure | None:
    """Find what a process failed by; the best explanation where there are several."""
    found = []
    for name, sign in process.signs.items():
        if name == "-> harmless":
            continue
        cause = known().get(name)
        effect = cause.effect if cause else "unknown"
        if effect == "failure":
            # Errors of a network that was given up before another was chosen are why it was given up.
            failed = sign.last > process.chosen_at and not (
                cause and cause.recoverable and sign.last < process.went_on_at
            )
        elif effect == "fallback":
            failed = sign.last > process.chosen_at and _aborted(process, sign)
        elif effect == "unknown":
            begun = process.chosen_at >= 0 or process.went_on_at >= 0 or sign.where.startswith(_AT_WORK)
            failed = sign.last > max(process.chosen_at, process.went_on_at) and (begun or _aborted(process, sign))
        else:
            failed = False
        if failed:
            found.append(Failure(name if cause else "", sign, cause.rank if cause else -1 if name == "->" else 0))
    return max(found, key=lambda failure: (failure.rank, -failure.sign.first), default=None)


def _aborted(process: Process, sign: Sign) -> bool:
    """Tell whether the error went up through NCCL's own calls after a sign: `init.cc:1402 -> 2`."""
    trail = process.signs.get("->")
    return (
        trail is not None
        and trail.last > sign.first
        and trail.where.startswith(("init.cc", "group.cc", "enqueue.cc", "bootstrap.cc"))
    )

"""The cause of a verdict in one sentence, and the lines of the log that show it."""

from __future__ import annotations

from collections.abc import Iterable

from validate.nccl.cause import KnownCause, known, sign
from validate.nccl.job import Job
from validate.nccl.network import is_tcp
from validate.nccl.process import Process, Sign
from validate.nccl.result import Cause, Evidence, Verdict
from validate.nccl.verdict import Decision, Member

__all__ = ["explain"]

_MOST_LINES = 10
_IN_USE: dict[Verdict, str] = {
    "efa-gdr": "efa-gdr-in-use",
    "efa": "efa-without-gdr",
    "ib-gdr": "ib-gdr-in-use",
    "ib": "ib-in-use",
    "roce": "roce-in-use",
    "socket": "socket-in-use",
    "other-plugin": "other-plugin-in-use",
    "intra-node": "single-node",
    "mixed": "ranks-disagree",
    "failed": "nccl-error",
    "unknown": "no-transport-lines",
}
# Reasons that NCCL's own InfiniBand support gives, told beside the plugin's.
_ALSO = {
    "no-verbs-library": "libibverbs is not in the image either.",
    "no-rdma-device": "NCCL's own InfiniBand support saw no device either.",
    "ib-disabled": "NCCL_IB_DISABLE=1 forbade InfiniBand as well.",
}


def explain(job: Job, decision: Decision) -> tuple[Cause, tuple[Evidence, ...]]:
    """Name the cause and the decisive lines."""
    match decision.verdict:
        case "failed":
            return _failed(job, decision)
        case "socket":
            return _slow(decision.crossing, "")
        case "mixed":
            return _mixed(decision)
        case "unknown":
            return _unknown(job, decision)
        case "intra-node":
            lines = [
                line
                for member in decision.inside
                for line in (member.rank.nodes_line, member.rank.intra, *member.use.lines)
                if line
            ]
            return _cause("single-node", {}), _lines(lines)
        case _:
            return _good(decision)


def _good(decision: Decision) -> tuple[Cause, tuple[Evidence, ...]]:
    members = [member for member in decision.crossing if member.use.family]
    shown = [member for member in members if member.use.shown] or members
    use = shown[0].use
    name = _IN_USE[decision.verdict]
    if use.family == "libfabric":
        name = "provider-not-in-log"
    elif decision.verdict == "efa" and not use.shown:
        name = "efa-chosen"
    values = {
        "network": f"{use.name} on provider {use.provider}" if use.provider else use.name,
        "provider": use.provider,
    }
    return _cause(name, values), _lines(line for member in shown for line in member.use.lines)


def _slow(members: list[Member], prefix: str) -> tuple[Cause, tuple[Evidence, ...]]:
    """Say why TCP was used."""
    tcp = [member for member in members if is_tcp(member.use.provider) and member.use.name != "Socket"]
    lines = [line for member in members for line in member.use.lines]
    if tcp:
        return _cause("provider-tcp", {"provider": tcp[0].use.provider}, prefix), _lines(
            line for member in tcp for line in member.use.lines
        )
    found = _best([member.process for member in members], {"fallback"})
    if found is None:
        return _cause("socket-in-use", {}, prefix), _lines(lines)
    cause, process, shown = found
    also = (
        [text for name, text in _ALSO.items() if name in process.signs and name != cause.id]
        if cause.id.startswith("plugin")
        else []
    )
    own = [member for member in members if member.process is process]
    reasons = [known_sign.evidence for name, known_sign in process.signs.items() if _effect(name) == "fallback"]
    ordered = [shown.evidence, *reasons, *(line for member in own for line in member.use.lines), *lines]
    return _cause(cause.id, shown.values, prefix, " ".join(also)), _lines(ordered)


def _mixed(decision: Decision) -> tuple[Cause, tuple[Evidence, ...]]:
    by_use: dict[str, list[Member]] = {}
    for member in decision.crossing:
        if member.use.family:
            by_use.setdefault(member.use.verdict(), []).append(member)
    said = "; ".join(f"{_hosts(members)} used {name}" for name, members in sorted(by_use.items()))
    prefix = f"Ranks of one job used different networks: {said}. "
    first = [
        next((line for member in members for line in member.use.lines if line.text), None)
        for members in by_use.values()
    ]
    slow = by_use.get("socket")
    if slow is None:
        return _cause("ranks-disagree", {}, prefix.strip(), only_prefix=True), _lines(first)
    cause, lines = _slow(slow, f"{prefix}On {_hosts(slow)}: ")
    return cause, _lines([*first, *lines])


def _failed(job: Job, decision: Decision) -> tuple[Cause, tuple[Evidence, ...]]:
    processes = [process for process, _ in decision.failures] or [*job.processes.values(), job.loose]
    context = [line for member in decision.crossing + decision.inside for line in member.use.lines[:2]]
    context += [process.provider_line for process in processes if process.provider_line]
    earlier = [
        shown.evidence
        for process in processes
        for name, shown in process.signs.items()
        if _effect(name) == "fallback"
    ]
    told = [shown for line in job.failures if (shown := sign(line.text)) and _effect(shown[0]) == "failure"]
    if decision.failures:
        process, failure = max(decision.failures, key=lambda pair: (pair[1].rank, -pair[1].sign.first))
        name, values = failure.cause or "nccl-error", failure.sign.values
        if not failure.cause and told:
            name, values = told[0][0], _values(told[0])
        lines = [failure.sign.evidence, *job.failures[:1], *earlier, *context]
        reason = _before(process, name)
        return _cause(name, values, "", reason), _lines(lines)
    found = _best(processes, {"failure"}) or _best(processes, {"fallback"})
    lines = [*job.failures[:2], *earlier, *context]
    if found:
        return _cause(found[0].id, found[2].values), _lines([found[2].evidence, *lines])
    if told:
        return _cause(told[0][0], _values(told[0])), _lines(lines)
    return _cause("nccl-error", {}), _lines(lines)


def _before(process: Process, name: str) -> str:
    """Say why the network that failed was used at all, where the log says so."""
    cause = known()[name]
    found = _best([process], {"fallback"})
    if cause.effect != "failure" or found is None or found[0].rank < 60 or process.provider.startswith("efa"):
        return ""
    return "It was on TCP at all because of this: " + found[0].sentence(found[2].values)


def _unknown(job: Job, decision: Decision) -> tuple[Cause, tuple[Evidence, ...]]:
    if decision.document:
        return _cause("document", {}), ()
    processes = [*job.processes.values(), job.loose]
    found = _best(processes, {"fallback"})
    if found:
        reason = f"The log does not show which network NCCL used after this: {found[0].sentence(found[2].values)}"
        return _cause(found[0].id, found[2].values, reason, only_prefix=True), _lines([found[2].evidence])
    providers = [process.provider_line for process in processes if process.provider_line]
    if job.messages or job.versions:
        return _cause("no-transport-lines", {}), _lines(providers)
    if job.timeouts:
        return _cause("watchdog-only", {}), _lines(job.timeouts[:2])
    return _cause("no-nccl-lines", {}), ()


def _best(processes: Iterable[Process], effects: set[str]) -> tuple[KnownCause, Process, Sign] | None:
    found = [
        (known()[name], process, shown)
        for process in processes
        for name, shown in process.signs.items()
        if _effect(name) in effects
    ]
    return max(found, key=lambda item: item[0].rank, default=None)


def _effect(name: str) -> str:
    cause = known().get(name)
    return cause.effect if cause else ""


def _values(told: tuple[str, ...]) -> dict[str, str]:
    return dict(value.split("=", 1) for value in told[1:])


def _hosts(members: list[Member]) -> str:
    names = list(dict.fromkeys(member.process.host or "a host" for member in members))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _cause(
    name: str, values: dict[str, str], prefix: str = "", suffix: str = "", *, only_prefix: bool = False
) -> Cause:
    cause = known()[name]
    sentence = prefix if only_prefix else prefix + cause.sentence(values)
    remedy = cause.remedy
    for key, value in values.items():
        remedy = remedy.replace("{" + key + "}", value)
    return Cause(id=name, sentence=f"{sentence} {suffix}".strip(), remedy=remedy, source=cause.source)


def _lines(lines: Iterable[Evidence | None]) -> tuple[Evidence, ...]:
    """Keep the first few different lines whose text was kept."""
    kept: dict[Evidence, None] = {}
    for line in lines:
        if line is not None and line.text and len(kept) < _MOST_LINES:
            kept[line] = None
    return tuple(kept)

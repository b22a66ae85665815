"""From records to the verdict: per rank, per communicator, per job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from validate.nccl.failure import Failure, failure_of
from validate.nccl.group import ONE_NODE, Group, group
from validate.nccl.job import Job
from validate.nccl.network import Use, use_of
from validate.nccl.process import CommRank, Process, channel_name
from validate.nccl.result import Communicator, Evidence, Rank, Verdict

__all__ = ["Decision", "Member", "communicators", "decide"]


@dataclass(slots=True)
class Member:
    """One rank with what it used."""

    process: Process
    rank: CommRank
    use: Use
    verdict: Verdict


@dataclass(slots=True)
class Decision:
    """The verdict on a job and what it rests on."""

    verdict: Verdict
    multi_node: bool | None
    crossing: list[Member] = field(default_factory=list)
    inside: list[Member] = field(default_factory=list)
    failures: list[tuple[Process, Failure]] = field(default_factory=list)
    groups: list[tuple[Group, list[Member], Verdict]] = field(default_factory=list)
    document: bool = False
    loose: bool = False


def decide(job: Job) -> Decision:
    """Judge a job by its processes; by loose messages only where nothing else says anything."""
    if _is_document(job):
        return Decision("unknown", None, document=True)
    decision = _decide(job, list(job.processes.values()))
    if decision.verdict == "unknown" and job.loose.clock:
        loose = _decide(job, [*job.processes.values(), job.loose])
        loose.loose = True
        return loose
    return decision


def _is_document(job: Job) -> bool:
    """Tell prose that quotes NCCL's lines from a log with some prose in it."""
    marks, phrases = job.prose["mark"], job.prose["phrase"]
    return marks >= 2 and phrases >= 1 and (marks + phrases) * 2 >= job.messages and not job.rows


def _decide(job: Job, processes: list[Process]) -> Decision:
    providers = {process.provider for process in processes if process.provider}
    fabrics = {process.devices for process in processes if process.devices}
    provider = providers.pop() if len(providers) == 1 else ""
    fabric = fabrics.pop() if len(fabrics) == 1 else ""
    failures = [(process, failed) for process in processes if (failed := failure_of(process))]
    failed_here = {id(process) for process, _ in failures}
    decision = Decision("unknown", None, failures=failures)
    spans: list[bool | None] = []
    seen: list[tuple[Group, list[Member]]] = []
    for found in group(processes):
        across = found.spans_nodes()
        members = []
        for process, rank in found.members:
            use = use_of(process, rank, provider, fabric)
            verdict = _rank_verdict(use, across, alone=across is None and _only_inside(rank, use, job))
            members.append(Member(process, rank, use, "failed" if id(process) in failed_here else verdict))
            (decision.inside if verdict == "intra-node" else decision.crossing).append(members[-1])
        spans.append(False if all(member.verdict == "intra-node" for member in members) else across)
        seen.append((found, members))
    _drop_guesses(decision.crossing)
    _agree_on_gdr(decision.crossing)
    decision.groups = [(found, members, _joint(members)) for found, members in seen]
    decision.multi_node = _multi_node(job, spans, processes)
    if decision.multi_node is False:
        decision.inside += decision.crossing
        decision.crossing = []
    uses = [member.use for member in decision.crossing if member.use.family]
    if failures or job.failures:
        decision.verdict = "failed"
    elif uses:
        decision.verdict = _of_uses(uses)
    elif decision.inside and any(
        member.use.family or member.rank.intra or member.rank.nodes or member.rank.size
        for member in decision.inside
    ):
        decision.verdict = "intra-node"
    return decision


def _drop_guesses(members: list[Member]) -> None:
    """Forget guesses where other ranks show more."""
    if any(member.use.family and not member.use.guessed for member in members):
        for member in members:
            if member.use.guessed:
                member.use = replace(member.use, family="")
                member.verdict = "unknown" if member.verdict == "socket" else member.verdict


def _agree_on_gdr(members: list[Member]) -> None:
    """Give ranks whose channels are not shown the GDR of those of the same family that are, if those agree."""
    shown: dict[str, set[bool]] = {}
    for member in members:
        if member.use.shown:
            shown.setdefault(member.use.family, set()).add(member.use.gdr)
    for member in members:
        if not member.use.shown and shown.get(member.use.family) == {True} and not member.use.gdr:
            plain = member.use.verdict()
            member.use = replace(member.use, gdr=True)
            if member.verdict == plain:
                member.verdict = member.use.verdict()


def _rank_verdict(use: Use, across: bool | None, *, alone: bool) -> Verdict:
    if across is False or alone:
        return "intra-node"
    return use.verdict()


def _only_inside(rank: CommRank, use: Use, job: Job) -> bool:
    """Tell whether a rank shows channels, and all of them stay inside the node."""
    return rank.intra is not None and not use.shown and (rank.rank or 0) < ONE_NODE and _may_be_one_node(job)


def _may_be_one_node(job: Job) -> bool:
    """Tell whether nothing outside the communicators speaks for more than one node."""
    return job.size_seen <= ONE_NODE and job.processes_folded <= ONE_NODE and len(job.test_hosts) <= 1


def _joint(members: list[Member]) -> Verdict:
    """Judge one communicator by its ranks."""
    verdicts = {member.verdict for member in members}
    if "failed" in verdicts:
        return "failed"
    if verdicts == {"intra-node"}:
        return "intra-node"
    uses = [member.use for member in members if member.verdict != "intra-node" and member.use.family]
    return _of_uses(uses) if uses else "unknown"


def _of_uses(uses: list[Use]) -> Verdict:
    """Judge what several ranks used; GPUDirect counts where every rank that shows channels has it."""
    families = {use.family for use in uses}
    if families == {"efa", "libfabric"}:
        families = {"efa"}
    if len(families) > 1:
        return "mixed"
    best = uses[0].verdict()
    seen = [use for use in uses if use.shown] or uses
    plain = next((use for use in seen if not use.gdr), None)
    return plain.verdict() if plain is not None else (seen[0].verdict() if seen else best)


def _multi_node(job: Job, spans: list[bool | None], processes: list[Process]) -> bool | None:
    if True in spans or len(job.test_hosts) > 1:
        return True
    hosts = {process.host for process in processes}
    if spans and all(span is False for span in spans) and job.size_seen <= _most_ranks(processes):
        return False
    if len(hosts) > 1 or job.processes_folded > ONE_NODE:
        return True
    if len(job.test_hosts) == 1:
        return False
    ranks = [rank for process in processes for rank in process.ranks()]
    inside = any(rank.intra for rank in ranks) and not any(
        rank.channels or (rank.rank or 0) >= ONE_NODE for rank in ranks
    )
    return False if inside and len(hosts) == 1 and _may_be_one_node(job) and None in spans else None


def _most_ranks(processes: list[Process]) -> int:
    """Give how many ranks the biggest communicator has; without sizes any number fits."""
    sizes = [rank.size for process in processes for rank in process.ranks() if rank.size]
    return max(sizes, default=1 << 30)


def communicators(decision: Decision) -> tuple[Communicator, ...]:
    """Make the public records of all communicators."""
    failed = {id(process): (failure.sign.evidence,) for process, failure in decision.failures}
    made = []
    for found, members, verdict in decision.groups:
        by_verdict: dict[str, list[str]] = {}
        for member in members:
            hosts = by_verdict.setdefault(member.verdict, [])
            if member.process.host not in hosts:
                hosts.append(member.process.host)
        made.append(
            Communicator(
                id=found.id,
                size=found.size,
                nodes=found.nodes,
                verdict=verdict,
                hosts=tuple((name, tuple(hosts)) for name, hosts in sorted(by_verdict.items())),
                ranks=tuple(_rank(member, failed.get(id(member.process), ())) for member in members),
            )
        )
    return tuple(made)


def _rank(member: Member, errors: tuple[Evidence, ...]) -> Rank:
    process, rank, use = member.process, member.rank, member.use
    return Rank(
        host=process.host,
        pid=process.pid,
        device=rank.device,
        rank=rank.rank,
        verdict=member.verdict,
        version=process.version,
        plugin="aws-ofi-nccl" if process.plugin or process.provider else process.loaded,
        plugin_version=process.plugin,
        libfabric=process.libfabric,
        provider=process.provider,
        fabric=process.fabric,
        nics=process.nics or process.interfaces,
        chosen=rank.choice or process.chosen,
        gdr=use.gdr if use.shown or rank.gdr is not None else None,
        connected=rank.connected,
        channels=tuple(
            sorted((channel_name(name, gdr=gdr), count) for (name, gdr), count in rank.channels.items())
        ),
        errors=errors,
    )

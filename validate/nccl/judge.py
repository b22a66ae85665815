"""From logs to a judgement: the library's way in."""

from __future__ import annotations

import gc
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from validate.nccl import bandwidth, issue
from validate.nccl.explain import explain
from validate.nccl.job import Job
from validate.nccl.result import VERDICTS, Judgement, Verdict
from validate.nccl.scan import Found, scan
from validate.nccl.source import find, read_all
from validate.nccl.verdict import Decision, communicators, decide

__all__ = ["conclude", "judge", "judge_text"]


def judge(logs: Sequence[str | Path], *, instance: str = "") -> Judgement:
    """Judge one job's logs: files, folders, globs, `-` for standard input; gz and zst are unpacked.

    `instance` is an EC2 instance type to compare measured bandwidth with. Raises BadInputError for what is
    missing, empty or no instance type, EnvironmentLacksError for zst without the zstandard package.
    """
    bandwidth.check(instance)
    files = find(logs)
    with _without_collector():
        job = Job()
        for name, first_line, found in read_all(files):
            take(job, name, first_line, found)
        return conclude(job, instance=instance)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python from looking for reference cycles, of which there are none, in what is only ever added to."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def judge_text(text: str | bytes, *, name: str = "<text>", instance: str = "") -> Judgement:
    """Judge a log that is already in memory."""
    bandwidth.check(instance)
    job = Job()
    take(job, name, 0, scan(io.BytesIO(text.encode() if isinstance(text, str) else text)))
    return conclude(job, instance=instance)


def take(job: Job, name: str, first_line: int, found: Found) -> None:
    """Add what a scan found, after `first_line` lines of the same file."""
    if name not in job.files:
        job.files.append(name)
    job.lines += found.lines
    job.replay(name, first_line, found.events)


def conclude(job: Job, *, instance: str = "") -> Judgement:
    """Judge what was read so far."""
    decision = decide(job)
    cause, evidence = explain(job, decision)
    processes = [*job.processes.values(), job.loose]
    instance = instance or job.instance
    return Judgement(
        verdict=decision.verdict,
        certain=_is_certain(decision),
        multi_node=decision.multi_node,
        cause=cause,
        evidence=evidence,
        hosts=_hosts(decision),
        communicators=communicators(decision),
        network_channels=tuple(sorted(job.network.items())),
        intra_node_channels=tuple(sorted(job.intra.items())),
        nccl_versions=_sorted(job.versions),
        plugin_versions=_sorted(process.plugin for process in processes),
        libfabric_versions=_sorted(process.libfabric for process in processes),
        settings=tuple(sorted({pair for process in processes for pair in process.settings.items()})),
        known_issues=issue.of(job, processes),
        bandwidth=tuple(job.rows[key] for key in sorted(job.rows)),
        instance=instance,
        bandwidth_says=bandwidth.compare(list(job.rows.values()), instance, multi_node=decision.multi_node),
        notes=_notes(job, decision.verdict),
        files=tuple(job.files),
        lines=job.lines,
    )


def _is_certain(decision: Decision) -> bool:
    """Tell whether a line shows what carried bytes, and not only what was chosen."""
    if decision.verdict == "unknown" or decision.loose:
        return False
    if decision.verdict in {"failed", "intra-node"}:
        return True
    return any(member.use.shown for member in decision.crossing)


def _hosts(decision: Decision) -> tuple[tuple[Verdict, tuple[str, ...]], ...]:
    """List the hosts of each rank verdict; traffic inside a node is told only of hosts that had no other."""
    of_host: dict[str, set[Verdict]] = {}
    for _, members, _ in decision.groups:
        for member in members:
            of_host.setdefault(member.process.host, set()).add(member.verdict)
    hosts: dict[Verdict, list[str]] = {}
    for host, verdicts in sorted(of_host.items()):
        for verdict in sorted(verdicts - {"intra-node"} or verdicts):
            hosts.setdefault(verdict, []).append(host)
    return tuple((verdict, tuple(hosts[verdict])) for verdict in VERDICTS if verdict in hosts)


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))


def _notes(job: Job, verdict: str) -> tuple[str, ...]:
    notes = []
    if job.folded:
        notes.append(
            "Ray folded equal lines of several processes into one, so counts and hosts are incomplete;"
            " RAY_DEDUP_LOGS=0 shows all."
        )
    if job.sampled:
        notes.append(
            "The log has so many channel lines that ranks' channel counts are a sample; the totals are complete."
        )
    if job.timeouts and verdict != "unknown":
        notes.append(
            f"A collective timed out ({job.timeouts[0].file}:{job.timeouts[0].line}); that alone says nothing"
            " about the network."
        )
    if len(job.versions) > 1:
        notes.append(f"Several NCCL versions in one log: {', '.join(sorted(job.versions))}.")
    return tuple(notes)

"""From logs to a judgement: the library's way in."""

from __future__ import annotations

import gc
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from validate.nccl import bandwidth, issue
from validate.nccl.explain import explain
from validate.nccl.record import Job
from validate.nccl.result import Judgement
from validate.nccl.scan import Found, scan
from validate.nccl.source import find, read_all
from validate.nccl.verdict import communicators, decide

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
    hosts: dict[str, dict[str, None]] = {}
    for _, members, _ in decision.groups:
        for member in members:
            hosts.setdefault(member.verdict, {})[member.process.host] = None
    processes = [*job.processes.values(), job.loose]
    instance = instance or job.instance
    shown = [member for member in decision.crossing if member.use.family]
    return Judgement(
        verdict=decision.verdict,
        certain=decision.verdict not in {"unknown"}
        and (decision.verdict in {"failed", "intra-node"} or all(member.use.shown for member in shown))
        and not decision.loose,
        multi_node=decision.multi_node,
        cause=cause,
        evidence=evidence,
        hosts=tuple((name, tuple(sorted(found))) for name, found in sorted(hosts.items())),  # type: ignore[misc]
        communicators=communicators(decision),
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


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))


def _notes(job: Job, verdict: str) -> tuple[str, ...]:
    notes = []
    if job.folded:
        notes.append(
            "Ray folded equal lines of several processes into one, so counts and hosts are incomplete; RAY_DEDUP_LOGS=0 shows all."
        )
    if job.timeouts and verdict != "unknown":
        notes.append(
            f"A collective timed out ({job.timeouts[0].file}:{job.timeouts[0].line}); that alone says nothing about the network."
        )
    if len(job.versions) > 1:
        notes.append(f"Several NCCL versions in one log: {', '.join(sorted(job.versions))}.")
    return tuple(notes)

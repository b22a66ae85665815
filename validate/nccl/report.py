"""A judgement as text for a terminal."""

from __future__ import annotations

import textwrap

from validate.nccl.bandwidth import size_text
from validate.nccl.result import Evidence, Judgement

__all__ = ["HEADLINES", "one_line", "text"]

_WIDTH = 110
_MOST_COMMUNICATORS = 8
_MOST_HOSTS = 12

HEADLINES = {
    "efa-gdr": "EFA with GPUDirect RDMA",
    "efa": "EFA, without GPUDirect RDMA",
    "ib-gdr": "InfiniBand with GPUDirect RDMA",
    "ib": "InfiniBand",
    "roce": "RoCE",
    "socket": "TCP sockets",
    "other-plugin": "another network plugin",
    "intra-node": "no network: all ranks are on one node",
    "mixed": "different networks on different ranks",
    "failed": "NCCL failed",
    "unknown": "the log does not tell",
}


def one_line(evidence: Evidence) -> str:
    """Write where a line stands and what it says."""
    return f"{evidence.file}:{evidence.line}: {evidence.text}"


def text(judgement: Judgement) -> str:
    """Write the verdict, why, what to do, the lines that show it, and what else the log says."""
    headline = HEADLINES[judgement.verdict]
    if not judgement.certain and judgement.verdict not in {"unknown", "failed"}:
        headline += " (chosen; no line shows what carried bytes)"
    lines = [
        f"{judgement.verdict}: {headline}",
        *_field("why", f"{judgement.cause.sentence} [{judgement.cause.id}]"),
        *_field("do", judgement.cause.remedy),
    ]
    lines.append(f"  see     {judgement.cause.source}")
    if judgement.evidence:
        lines += ["", "  lines that decide:"]
        lines += [f"    {one_line(line)}" for line in judgement.evidence]
    lines += ["", *_facts(judgement)]
    lines += _communicators(judgement)
    for issue in judgement.known_issues:
        lines += [
            "",
            *_field("bug", f"{issue.sentence} [{issue.id}]"),
            *_field("do", issue.remedy),
            f"  see     {issue.source}",
        ]
    if judgement.bandwidth:
        lines += ["", "  bus bandwidth in the log:"]
        lines += [
            f"    {row.collective or 'collective':<14} {size_text(row.size):>9} {row.busbw:9.2f} GB/s"
            for row in judgement.bandwidth[-6:]
        ]
        for sentence in judgement.bandwidth_says:
            lines += _field("means", sentence)
    for note in judgement.notes:
        lines += _field("note", note)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _field(name: str, said: str) -> list[str]:
    return textwrap.wrap(
        said,
        _WIDTH,
        initial_indent=f"  {name:<8}",
        subsequent_indent=" " * 10,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _facts(judgement: Judgement) -> list[str]:
    nodes = {True: "several nodes", False: "one node", None: "the log does not say how many nodes"}[
        judgement.multi_node
    ]
    files = f"{len(judgement.files)} file{'s' if len(judgement.files) != 1 else ''}"
    lines = [f"  job     {nodes}; {judgement.lines} lines in {files}"]
    versions = [
        f"{name} {', '.join(found)}"
        for name, found in (
            ("NCCL", judgement.nccl_versions),
            ("aws-ofi-nccl", judgement.plugin_versions),
            ("libfabric", judgement.libfabric_versions),
        )
        if found
    ]
    if versions:
        lines.append(f"  runs    {'; '.join(versions)}".replace("NCCL RCCL", "RCCL"))
    for verdict, hosts in judgement.hosts:
        names = ", ".join(name or "(no host name)" for name in hosts[:_MOST_HOSTS])
        more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
        lines += _field("hosts", f"{verdict}: {names}{more}")
    if judgement.settings:
        lines += _field("set", ", ".join(f"{name}={value}" for name, value in judgement.settings))
    return lines


def _communicators(judgement: Judgement) -> list[str]:
    if not judgement.communicators:
        return []
    lines = ["", f"  communicators: {len(judgement.communicators)}"]
    biggest = sorted(judgement.communicators, key=lambda comm: (-(comm.size or 0), comm.id))
    for comm in biggest[:_MOST_COMMUNICATORS]:
        channels = comm.channels_shown or "no network channels"
        size = f"{comm.size} ranks" if comm.size else "ranks unknown"
        nodes = f", {comm.nodes} nodes" if comm.nodes else ""
        lines.append(f"    {comm.id:<20} {comm.verdict:<12} {size}{nodes}, {len(comm.ranks)} seen; {channels}")
    if len(biggest) > _MOST_COMMUNICATORS:
        lines.append(f"    and {len(biggest) - _MOST_COMMUNICATORS} smaller ones (--json lists all)")
    for where, totals in (
        ("over the network", judgement.network_channels),
        ("inside nodes", judgement.intra_node_channels),
    ):
        if totals:
            lines.append(f"    channels {where}: " + ", ".join(f"{count} x {name}" for name, count in totals))
    return lines

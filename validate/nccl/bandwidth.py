"""Bus bandwidth that a log reports, against what the instance type can do, from instances.yaml."""

from __future__ import annotations

import difflib
import functools
from importlib import resources
from typing import Any

import yaml

from buildspec.errors import BadInputError
from validate.nccl.result import Bandwidth

__all__ = ["check", "compare", "instances", "size_text"]

_KIB = 1024


@functools.cache
def _facts() -> dict[str, Any]:
    text = resources.files("validate.nccl").joinpath("instances.yaml").read_text("utf-8")
    facts: dict[str, Any] = yaml.safe_load(text)
    return facts


def instances() -> tuple[str, ...]:
    """List the instance types with known rates."""
    return tuple(_facts()["instances"])


def check(instance: str) -> None:
    """Raise BadInputError for an instance type without known rates; the empty string is none and passes."""
    if instance and instance not in instances():
        near = difflib.get_close_matches(instance, instances(), n=1, cutoff=0.4)
        raise BadInputError(
            f"{instance}: no rates are known for this instance type",
            remedy=f"did you mean {near[0]}?" if near else f"known are: {', '.join(instances())}",
        )


def size_text(size: int) -> str:
    """Write a size in bytes as people do: 1 GiB, 256 MiB, 8 B."""
    for unit, name in ((_KIB**3, "GiB"), (_KIB**2, "MiB"), (_KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}" if size % unit == 0 else f"{size / unit:.1f} {name}"
    return f"{size} B"


def compare(rows: list[Bandwidth], instance: str, *, multi_node: bool | None) -> tuple[str, ...]:
    """Say in sentences what the measured bandwidth means; empty without rows."""
    if not rows:
        return ()
    row = max(rows, key=lambda found: (found.size, found.busbw))
    what = f"{row.collective or 'collective'} at {size_text(row.size)}: {row.busbw:.1f} GB/s bus bandwidth"
    if multi_node is False:
        return (f"{what}, inside one node: this measures NVLink or PCIe, not the network.",)
    facts = _facts()
    rates = facts["instances"].get(instance)
    if rates is None:
        return (f"{what}. Give --instance TYPE to compare it with what that instance type's network can do.",)
    line_rate, tcp = rates["efa_gbps"] / 8, rates["tcp_gbps"] / 8
    floor = facts["floor"] * line_rate
    source = facts["sources"]["types"]
    can = f"EFA on {instance} is {rates['efa_gbps']} Gbit/s, {line_rate:g} GB/s ({source})"
    if rates.get("published"):
        can += (
            f"; {rates['published']:g} GB/s was measured at 1 GiB ({facts['sources'][rates['published_source']]})"
        )
    if row.size < facts["big_message"]:
        return (
            (
                f"{what}. {can}. Messages below {size_text(facts['big_message'])} are bound by latency: run up to"
                " 1 GiB to judge the network."
            ),
        )
    if row.busbw >= floor:
        return (f"{what}. {can}: this is what EFA gives.",)
    if row.busbw <= tcp * 1.1 and tcp < floor:
        return (
            (
                f"{what}: that is what TCP gives (one interface of {rates['tcp_gbps']} Gbit/s, {tcp:g} GB/s at"
                f" most). {can}; expect {floor:g} GB/s or more."
            ),
        )
    return (
        (
            f"{what}: less than expected. {can}; below {floor:g} GB/s ({facts['floor']:.0%} of it) look for"
            " missing EFA interfaces, no GPUDirect RDMA, or ranks on a slower network."
        ),
    )

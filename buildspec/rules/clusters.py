"""Rules about Ray clusters: one Ray and one Python on all nodes, and what KubeRay runs inside an image."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from buildspec.rules.facts import links
from buildspec.rules.finding import Finding
from buildspec.rules.versions import minor, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildspec.rules.case import Case

_NAMED = re.compile(r"(train|llm)-(\d+\.\d+)")
_SAME = (
    "every node of a cluster, its driver and its job submitter need the same Ray, and the same Python to the "
    "patch level: Ray refuses others with 'Version mismatch'"
)
_SAYS = ("ray-project/ray issue 44063, Python is compared: https://github.com/ray-project/ray/issues/44063",)


def check(case: Case) -> Iterator[Finding]:
    """Judge a stack's part in clusters."""
    yield from _name(case)
    yield from _head(case)
    yield from _kuberay(case)
    yield from _default_extra(case)


def _name(case: Case) -> Iterator[Finding]:
    """A stack's name becomes a tag: what it says of image and Ray must be so."""
    found = _NAMED.fullmatch(case.name)
    if found is None:
        return
    image, line = found.groups()
    if image != case.stack.image or line != minor(Version(case.stack.ray)):
        yield Finding(
            rule="stacks.name",
            severity="error",
            path=case.path("ray"),
            pinned=f"{case.name}: image {case.stack.image}, ray {case.stack.ray}",
            needed=f"image {image}, ray {line}.*",
            reason="the stack's name becomes the image's tag, and says another image or Ray than it holds",
            says=("versions.yaml",),
            remedy="rename the stack, or correct its pins",
        )


def _head(case: Case) -> Iterator[Finding]:
    head = case.matrix.stacks.get(case.stack.head or "")
    if head is not None:
        for pin in ("ray", "python"):
            ours, theirs = getattr(case.stack, pin), getattr(head, pin)
            if Version(ours) != Version(theirs):
                yield Finding(
                    rule="clusters.same",
                    severity="error",
                    path=case.path(pin),
                    pinned=f"{pin} {ours}, its head {case.stack.head} has {theirs}",
                    needed=f"{pin} {theirs}",
                    reason=_SAME,
                    says=_SAYS,
                    nearest=(f"{pin} {theirs} ({'up' if Version(theirs) > Version(ours) else 'down'})",),
                    remedy="give both the same version, or let the stack run its own head",
                )
    for name, other in case.matrix.stacks.items():
        if name <= case.name or other.status == "retired" or Version(other.ray) != Version(case.stack.ray):
            continue
        ours, theirs = Version(case.stack.python), Version(other.python)
        if ours != theirs:
            yield Finding(
                rule="clusters.same_ray",
                severity="warning",
                path=case.path("python"),
                pinned=f"python {case.stack.python}, {name} has {other.python}, both ray {other.ray}",
                needed="one Python",
                reason=f"a driver or worker from {name} looks as if it could join {case.name}, but can't: {_SAME}",
                says=_SAYS,
                nearest=(f"python {theirs} ({'up' if theirs > ours else 'down'})",),
                remedy="give all stacks of one Ray the same Python",
            )


def minimum_kuberay(case: Case) -> str | None:
    """Oldest KubeRay whose probes work in the image; None when every one's do."""
    facts = case.facts.kuberay
    if {"wget", "grep", "bash"} <= packages(case):
        return None
    return facts.http_probes.kuberay if SpecifierSet(facts.http_probes.ray).contains(case.stack.ray) else None


def packages(case: Case) -> set[str]:
    """Debian packages that every image is given by name."""
    try:
        text = (case.images / "packages.txt").read_text(encoding="utf-8")
    except OSError:
        return set()
    return {word for line in text.splitlines() if (word := line.partition("#")[0].strip())}


def _kuberay(case: Case) -> Iterator[Finding]:
    facts = case.facts.kuberay
    present = packages(case)
    http = SpecifierSet(facts.http_probes.ray).contains(case.stack.ray)
    claimed = case.stack.kuberay
    new_enough = http and claimed is not None and parse(claimed) >= parse(facts.http_probes.kuberay)
    for name, tool in facts.tools.items():
        if name in present:
            continue
        needed = tool.always or not new_enough
        optional = tool.always or name == "openssl"
        http_text = f"KubeRay {facts.http_probes.kuberay} or later with Ray {facts.http_probes.ray}"
        yield Finding(
            rule="kuberay.tools",
            severity="error" if needed and name != "openssl" else "warning",
            path=case.path("kuberay"),
            pinned=f"an image without {name}" + (f", kuberay {claimed}" if claimed else ""),
            needed=f"{name} in images/packages.txt" + ("" if optional else f", or {http_text}"),
            reason=tool.why,
            says=links(facts.sources, tool),
            nearest=() if tool.always or not http else (f"kuberay {facts.http_probes.kuberay} (up)",),
            remedy=f"add {name} to images/packages.txt",
            confidence=tool.confidence,
        )


def _default_extra(case: Case) -> Iterator[Finding]:
    ray = case.asked.get("ray")
    extra = case.facts.kuberay.extra
    if ray is not None and extra.name not in ray.extras:
        yield Finding(
            rule="kuberay.dashboard_agent",
            severity="error",
            path=case.path("ray"),
            pinned=f"ray[{','.join(sorted(ray.extras))}] {ray.text}",
            needed=f"ray[{extra.name}]",
            reason="without this extra no dashboard agent runs: probes never succeed, and no job can be submitted",
            says=links(case.facts.kuberay.sources, extra),
            remedy=f"ask for ray[{extra.name}] in images/{case.stack.image}/requirements.in",
        )

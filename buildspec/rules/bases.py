"""Rules about bases: their own Python, and images that are a trap as a base."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from buildspec.rules.facts import links
from buildspec.rules.finding import Finding, unknown
from buildspec.rules.versions import minor, nearest, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildspec.rules.case import Case
    from buildspec.rules.facts import Trap


def check(case: Case) -> Iterator[Finding]:
    """Judge a stack's base."""
    yield from _python_of_base(case)
    if case.base.image is not None:
        for trap in case.facts.systems.images:
            if _is(case.base.image, trap):
                yield from _trap(case, case.base.image, trap)
                return


def _is(reference: str, trap: Trap) -> bool:
    """Whether a reference is one of these images, wherever it is mirrored."""
    name = reference.partition("@")[0]
    registry, _, rest = name.partition("/")
    if "." not in registry and ":" not in registry and registry != "localhost":
        registry, rest = "docker.io", name
    repository = rest.rpartition(":")[0] or rest
    parts = repository.split("/")
    names = ["/".join(parts[number:]) for number in range(len(parts))]
    return bool(re.fullmatch(trap.registry, registry)) and any(re.fullmatch(trap.repository, n) for n in names)


def _trap(case: Case, image: str, trap: Trap) -> Iterator[Finding]:
    systems = case.facts.systems
    path = ("bases", case.stack.base, "image")
    shown = image.partition("@")[0]
    yield Finding(
        rule="base.image",
        severity=trap.severity,
        path=path,
        pinned=f"base {shown} ({case.name})",
        needed="a base with nothing but the operating system",
        reason=trap.reason,
        says=links(systems.sources, trap),
        remedy="take a plain image of the distribution, or bootstrap: mmdebstrap",
        confidence=trap.confidence,
    )
    fabric = case.efa
    if fabric is None or not trap.ngc or not SpecifierSet(systems.ngc.installer).contains(fabric.installer):
        return
    released = [parse(row.version) for row in case.facts.efa.installers]
    outside = [version for version in released if version not in SpecifierSet(systems.ngc.installer)]
    yield Finding(
        rule="efa.ngc",
        severity="error",
        path=path,
        pinned=f"base {shown} with EFA installer {fabric.installer} ({case.name})",
        needed="a base that the installer does not take for an NGC container",
        reason=f"EFA installers {systems.ngc.installer} take NVIDIA's images for NGC containers: libfabric is "
        "there, but no NCCL plugin under the name that NCCL looks for, and it would silently use sockets",
        says=links(systems.sources, systems.ngc),
        nearest=nearest(outside, parse(fabric.installer), lambda _: True).texts("installer"),
        remedy="take a plain image of the distribution (or build with the installer's option --disable-ngc)",
        confidence=systems.ngc.confidence,
    )


def _python_of_base(case: Case) -> Iterator[Finding]:
    """The environment's interpreter is the base's own python3."""
    suite = case.suite
    systems = case.facts.systems
    if suite is None:
        yield unknown(
            "base.python",
            ("bases", case.stack.base, "suite"),
            f"suite {case.base.suite}",
            "which Python this suite has is not recorded",
            "add a row to buildspec/facts/systems.yaml",
        )
        return
    pinned, own = Version(case.stack.python), Version(suite.python)
    if minor(pinned) != minor(own):
        fitting = [
            (Version(row.python), row.title)
            for row in systems.suites.values()
            if minor(Version(row.python)) == minor(pinned)
        ]
        yield Finding(
            rule="base.python",
            severity="error",
            path=case.path("python"),
            pinned=f"python {pinned} on {suite.title}",
            needed=f"python {own}",
            reason=f"the images run {suite.title}'s own Python, which is {own}",
            says=links(systems.sources, suite),
            nearest=(
                f"python {own} ({'up' if own > pinned else 'down'})",
                *(f"{title}, which has python {version}" for version, title in fitting),
            ),
            remedy="pin the base's Python, or take a base that has the pinned one",
            confidence=suite.confidence,
        )
    elif pinned != own:
        # An image as a base, or a snapshot, can be a point release behind or ahead.
        yield Finding(
            rule="base.python_patch",
            severity="error" if case.base.bootstrap and case.base.snapshot is None else "warning",
            path=case.path("python"),
            pinned=f"python {pinned} on {suite.title}",
            needed=f"python {own}",
            reason=f"{suite.title} has Python {own} as recorded; the build stops at another patch level",
            says=links(systems.sources, suite),
            nearest=(f"python {own} ({'up' if own > pinned else 'down'})",),
            remedy="pin the patch level that the base has",
            confidence=suite.confidence,
        )

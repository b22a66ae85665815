"""Rules about time: the base's Python, and until when things are repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from buildspec.rules.facts import links
from buildspec.rules.finding import Finding, unknown
from buildspec.rules.versions import minor, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildspec.rules.case import Case


def check(case: Case) -> Iterator[Finding]:
    """Judge a stack's dates, its Python against its base, and its pins against its own ranges."""
    yield from _python_of_base(case)
    yield from _ends(case)
    yield from _ranges(case)


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


def _ends(case: Case) -> Iterator[Finding]:
    stack, systems = case.stack, case.facts.systems
    if stack.support_end < case.today:
        yield Finding(
            rule="support.ended",
            severity="error",
            path=case.path("support_end"),
            pinned=f"status {stack.status}, support end {stack.support_end}",
            needed="status retired",
            reason=f"the stack's support ended on {stack.support_end}",
            says=("versions.yaml",),
            remedy="retire the stack, or extend its support",
        )
    line = systems.pythons.get(minor(Version(stack.python)))
    ends = [(f"Python {minor(Version(stack.python))}", line, "python")] if line else []
    if case.suite:
        ends.append((case.suite.title, case.suite, "base"))  # type: ignore[arg-type]
    for title, row, key in ends:
        if row.end < stack.support_end:
            over = row.end < case.today
            yield Finding(
                rule=f"support.{key}",
                severity="error" if over else "warning",
                path=case.path(key),
                pinned=f"{title}, support of the stack until {stack.support_end}",
                needed=f"something that is repaired until {stack.support_end}",
                reason=f"security fixes for {title} {'ended' if over else 'end'} on {row.end}",
                says=links(systems.sources, row),
                nearest=_longer(case, key),
                remedy="move to a newer one" + ("" if over else ", or end the stack's support earlier"),
                confidence=row.confidence,
            )


def _longer(case: Case, key: str) -> tuple[str, ...]:
    end = case.stack.support_end
    if key == "python":
        fitting = [Version(name) for name, row in case.facts.systems.pythons.items() if row.end >= end]
        return nearest(fitting, Version(case.stack.python), lambda _: True).texts("python")
    return tuple(row.title for row in case.facts.systems.suites.values() if row.end >= end)


def _ranges(case: Case) -> Iterator[Finding]:
    for pin, text in case.stack.ranges.items():
        pinned = case.stack.pins.get(pin)
        if pinned is None:
            yield Finding(
                rule="ranges.pin",
                severity="error",
                path=case.path("ranges"),
                pinned=f"a range for {pin}",
                needed=f"no range for {pin}",
                reason=f"a {case.stack.image} stack has no pin {pin}",
                says=("versions.yaml",),
                remedy="remove the range",
            )
        elif not SpecifierSet(text).contains(pinned, prereleases=True):
            yield Finding(
                rule="ranges.pin",
                severity="error",
                path=case.path(pin),
                pinned=f"{pin} {pinned}",
                needed=f"{pin} {text}",
                reason="the pin lies outside the range that the stack itself allows",
                says=(f"versions.yaml, stacks.{case.name}.ranges.{pin}",),
                remedy="correct the pin or the range",
            )

"""Rules about time and ranges: until when things are repaired, and where pins may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from buildspec.rules.facts import links
from buildspec.rules.finding import Finding
from buildspec.rules.versions import minor, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildspec.rules.case import Case


def check(case: Case) -> Iterator[Finding]:
    """Judge a stack's dates, and its pins against its own ranges."""
    yield from _ends(case)
    yield from _ranges(case)


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

"""What a bump would do to one stack."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from buildspec.bump import resolution
from buildspec.bump.change import Change, changes
from buildspec.bump.stay import UNEXPLAINED, Stay, newest_installable, skipped, stays
from buildspec.errors import EnvironmentLacksError, NotProvenError
from buildspec.rules import of_case
from buildspec.rules.versions import nearest

if TYPE_CHECKING:
    from collections.abc import Collection

    from buildspec.bump.resolution import Resolution
    from buildspec.rules import Case
    from buildspec.rules.case import Asked


@dataclass(frozen=True, slots=True)
class Proposal:
    """Old and new pins of a stack, why others stay, releases that were passed over, and all that would change.

    `locked` are changes of distributions that only the lock pins; without a fresh lock they are unknown (None).
    """

    stack: str
    old: dict[str, str]
    new: dict[str, str]
    stays: tuple[Stay, ...]
    passed_over: tuple[str, ...]
    changes: tuple[Change, ...]
    locked: tuple[Change, ...] | None

    @property
    def moved(self) -> dict[str, str]:
        """Pins that get another version."""
        return {pin: version for pin, version in self.new.items() if self.old[pin] != version}

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "stack": self.stack,
            "moved": {pin: {"old": self.old[pin], "new": version} for pin, version in self.moved.items()},
            "stays": [
                {"pin": s.pin, "version": s.version, "newest": s.newest, "reasons": list(s.reasons)}
                for s in self.stays
            ],
            "passed_over": list(self.passed_over),
            "changes": [
                {"name": c.name, "old": c.old, "new": c.new, "risk": c.risk.value}
                for c in (*self.changes, *(self.locked or ()))
            ],
        }


def propose(case: Case, only: Collection[str] | None = None) -> Proposal:
    """Find the newest set of versions for a stack; `only` these pins may move.

    Raises EnvironmentLacksError when the index is out of reach, lacks something, or a pinned release was yanked;
    BadInputError when the stack's own ranges have no solution; NotProvenError when a rule forbids the new set.
    """
    free = resolution.free(case, only)
    for asked in case.asked.values():
        _still_there(case, asked)
    try:
        found = resolution.resolve(case, free)
    except resolution.NoSolutionError as error:
        raise resolution.contradiction(case, error) from error
    found = _climb(case, free, found)
    _no_new_error(case, found)
    return _proposal(case, free, found)


def _still_there(case: Case, asked: Asked) -> None:
    """What is pinned now is on the index, with its wheel, and was not yanked."""
    page = case.catalog.page(asked.name)
    if asked.version is None:
        return
    shown = f"{asked.name} {asked.version}, which {case.name} pins,"
    files = page.releases.get(asked.version, ())
    usable = [v for v, rows in page.releases.items() if any(f.yanked is None for f in rows)]
    near = nearest(usable, asked.version, lambda v: case.catalog.wheel(asked.name, v, case.target) is not None)
    remedy = "pin another release in versions.yaml" + (
        f": {', '.join(near.texts(asked.pin))}" if near.texts("") else ""
    )
    if not files:
        raise EnvironmentLacksError(
            f"{shown} is not on the index", why="it was removed, or this index never had it", remedy=remedy
        )
    if all(file.yanked is not None for file in files):
        reason = next((file.yanked for file in files if file.yanked), "")
        raise EnvironmentLacksError(
            f"{shown} was yanked" + (f": {reason}" if reason else ""),
            why="its publisher took it back",
            remedy=f"{remedy}; nothing was written",
        )
    case.catalog.metadata(asked.name, asked.version, case.target)


def _climb(case: Case, free: list[str], found: Resolution) -> Resolution:
    """Try again for leading pins that no requirement holds back: uv's first answer need not be the newest."""
    for pin in (pin for pin in resolution.LEADING if pin in free):
        asked = next(a for a in case.asked.values() if a.pin == pin)
        newest = newest_installable(case, asked, resolution.allowed(case, pin))
        held = {stay.pin: stay for stay in stays(case, found, free)}
        if newest is None or pin not in held:
            continue
        if held[pin].reasons != (UNEXPLAINED,):
            continue
        above = {p: found.pins[p] for p in resolution.LEADING[: resolution.LEADING.index(pin)] if p in found.pins}
        try:
            found = resolution.resolve(case, free, {**above, pin: str(newest)})
        except resolution.NoSolutionError:
            continue
    return found


def _no_new_error(case: Case, found: Resolution) -> None:
    """The facts know no problem with the new set that they did not know with the old one."""
    stack = case.stack.model_copy(update=found.pins)
    stacks = {**case.matrix.stacks, case.name: stack}
    after = replace(case, matrix=case.matrix.model_copy(update={"stacks": stacks}), locked=found.locked)
    before = {(finding.rule, finding.path) for finding in of_case(case)}
    new = [f for f in of_case(after) if f.severity == "error" and (f.rule, f.path) not in before]
    if new:
        rows = "\n".join(f"  {finding.pinned}: {finding.reason} [{finding.rule}]" for finding in new)
        raise NotProvenError(
            f"the newest set of versions for {case.name} is known to be broken:\n{rows}",
            why="releases fit together by their requirements and still do not work together",
            remedy=f"leave the release out: stacks.{case.name}.ranges in versions.yaml, as in torch: '!=2.16.0'",
        )


def _proposal(case: Case, free: list[str], found: Resolution) -> Proposal:
    pinned = {name for name in case.asked if name in found.locked.versions}
    old_locked = case.locked.versions if case.locked else None
    old = {name: asked.text for name, asked in case.asked.items() if asked.version is not None}
    before = {name: version for name, version in (old_locked or old).items() if name in pinned}
    after = {name: version for name, version in found.locked.versions.items() if name in pinned}
    others = None
    if old_locked is not None:
        others = tuple(
            changes(
                {name: v for name, v in old_locked.items() if name not in pinned},
                {name: v for name, v in found.locked.versions.items() if name not in pinned},
                (),
            )
        )
    passed = [
        text
        for name, asked in case.asked.items()
        if name in pinned and asked.pin in free
        for text in skipped(case, asked, Version(found.pins[asked.pin]))
    ]
    return Proposal(
        case.name,
        case.stack.pins,
        found.pins,
        tuple(stays(case, found, free)),
        tuple(dict.fromkeys(passed)),
        tuple(changes(before, after, pinned)) if found.pins != case.stack.pins else (),
        others,
    )

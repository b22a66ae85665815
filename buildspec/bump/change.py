"""What changes from one set of versions to another, by how much care it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Risk(StrEnum):
    """How much care a change asks for."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


MEANING = {
    Risk.HIGH: "interfaces or native code change, or a step down: try it on a cluster",
    Risk.MEDIUM: "new features, or a distribution that comes or goes: run the smoke tests",
    Risk.LOW: "repairs",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A distribution's old and new version; None where it is not there."""

    name: str
    old: str | None
    new: str | None
    risk: Risk

    def __str__(self) -> str:
        if self.old is None:
            return f"{self.name} {self.new} (new)"
        if self.new is None:
            return f"{self.name} {self.old} (gone)"
        return f"{self.name} {self.old} → {self.new}"


def changes(old: Mapping[str, str], new: Mapping[str, str], pinned: Collection[str]) -> list[Change]:
    """What differs, gravest first; `pinned` are distributions that versions.yaml pins."""
    found = [
        Change(name, old.get(name), new.get(name), risk(old.get(name), new.get(name), pinned=name in pinned))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    order = list(Risk)
    return sorted(found, key=lambda change: (order.index(change.risk), change.name))


def risk(old: str | None, new: str | None, *, pinned: bool) -> Risk:
    """Care that a step asks for: by which part of the version moves, and whether the matrix pins it."""
    if old is None or new is None:
        return Risk.MEDIUM
    try:
        before, after = Version(old), Version(new)
    except InvalidVersion:
        return Risk.HIGH
    if after < before or before.major != after.major or before.epoch != after.epoch:
        return Risk.HIGH
    if before.minor != after.minor:
        return Risk.HIGH if pinned else Risk.MEDIUM
    return Risk.MEDIUM if pinned else Risk.LOW


def changelog(found: Collection[Change]) -> list[str]:
    """A line per package, grouped by risk."""
    lines: list[str] = []
    for level in Risk:
        rows = [change for change in found if change.risk is level]
        if rows:
            lines.append(f"{level} risk ({MEANING[level]}):")
            lines += [f"  - {change}" for change in rows]
    return lines

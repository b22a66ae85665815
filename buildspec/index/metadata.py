"""The METADATA of a wheel: what it requires, and of which Python."""

from __future__ import annotations

from dataclasses import dataclass
from email.parser import HeaderParser

from packaging.requirements import InvalidRequirement, Requirement


@dataclass(frozen=True, slots=True)
class Metadata:
    """What Drydock reads of a wheel's METADATA; `unreadable` are requirements that follow no rule."""

    name: str
    version: str
    requires_python: str
    requires: tuple[Requirement, ...]
    unreadable: tuple[str, ...] = ()


def parse(text: str) -> Metadata:
    """Read METADATA (an e-mail header with a body)."""
    headers = HeaderParser().parsestr(text)
    requires: list[Requirement] = []
    unreadable: list[str] = []
    for line in headers.get_all("Requires-Dist") or []:
        try:
            requires.append(Requirement(" ".join(line.split())))
        except InvalidRequirement:
            unreadable.append(line)
    return Metadata(
        headers.get("Name", ""),
        headers.get("Version", ""),
        headers.get("Requires-Python", ""),
        tuple(requires),
        tuple(unreadable),
    )

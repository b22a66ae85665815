"""A lock as the rules read it: what it holds, and along which path each thing came in."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from packaging.utils import canonicalize_name

_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)")
_VIA = re.compile(r"^ {4}# (?:via (.+)|via|  (.+))$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_ASKED = re.compile(r"^#: ([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*(?:[=<>!~;].*)?$", re.MULTILINE)
# Header lines that are no requirements.
_OTHER_INPUTS = ("python ", "platform ", "without ")


@dataclass(frozen=True, slots=True)
class Locked:
    """Distributions by canonical name: version, hashes, and by whom they are required.

    `roots` are those that were asked for.
    """

    versions: dict[str, str]
    hashes: dict[str, frozenset[str]]
    required_by: dict[str, tuple[str, ...]]
    roots: frozenset[str]

    def path(self, name: str) -> tuple[str, ...]:
        """The shortest way from something that was asked for to `name`, both included."""
        queue: deque[tuple[str, ...]] = deque([(name,)])
        seen = {name}
        while queue:
            way = queue.popleft()
            if way[0] in self.roots or not self.required_by.get(way[0]):
                return way
            for parent in self.required_by[way[0]]:
                if parent not in seen:
                    seen.add(parent)
                    queue.append((parent, *way))
        return (name,)

    def shown_path(self, name: str) -> str:
        """`ray 2.60.0 → nixl 1.3.2 → nixl-cu12 1.3.2`."""
        return " → ".join(
            f"{step} {self.versions[step]}" if step in self.versions else step for step in self.path(name)
        )


def parse(text: str) -> Locked:
    """Read the text of a lock that Drydock (uv pip compile) made."""
    versions: dict[str, str] = {}
    hashes: dict[str, set[str]] = {}
    parents: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if entry := _ENTRY.match(line):
            name = canonicalize_name(entry[1])
            versions[name] = entry[2]
            hashes[name], parents[name] = set(), []
        elif name and (found := _HASH.search(line)):
            hashes[name].add(found[1])
        elif name and (via := _VIA.match(line)) and (parent := via[1] or via[2]):
            parents[name].append(canonicalize_name(parent.strip()))
    asked = (line for line in text.splitlines() if line.startswith("#: "))
    roots: set[str] = {
        canonicalize_name(found[1])
        for line in asked
        if not line.removeprefix("#: ").startswith(_OTHER_INPUTS) and (found := _ASKED.match(line))
    }
    # A root that something requires too is annotated with that only; one that nothing requires has no annotation.
    roots |= {name for name, by in parents.items() if not by}
    return Locked(
        versions,
        {name: frozenset(found) for name, found in hashes.items()},
        {name: tuple(by) for name, by in parents.items()},
        frozenset(roots & versions.keys()),
    )

"""What `pip check` asks, on facts: is every requirement of every distribution satisfied in its environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from validate.facts import Distribution, Site


@dataclass(frozen=True, slots=True)
class Broken:
    """A requirement that is not satisfied: `found` is the installed version, or None."""

    distribution: Distribution
    requirement: str
    name: str
    found: str | None

    def __str__(self) -> str:
        have = f"{self.name} {self.found} is installed" if self.found else f"{self.name} is not installed"
        return f"{self.distribution.name} {self.distribution.version} requires {self.requirement}: {have}"


def broken(sites: tuple[Site, ...], markers: Mapping[str, str], excluded: frozenset[str]) -> Iterator[Broken]:
    """Requirements that fail, in the environment that these sites make together.

    Extras are followed as far as other distributions ask for them, as pip does. `excluded` are distributions
    whose absence is declared.
    """
    installed = {row.key: row for site in reversed(sites) for row in site.distributions}
    wanted: dict[str, set[str]] = {key: {""} for key in installed}
    todo = list(installed)
    seen: set[tuple[str, str]] = set()
    while todo:
        key = todo.pop()
        owner = installed[key]
        for text in owner.requires:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            marker = requirement.marker
            if marker and not any(marker.evaluate({**markers, "extra": extra}) for extra in wanted[key]):
                continue
            name = canonicalize_name(requirement.name)
            found = installed.get(name)
            if found is None:
                if name not in excluded and (key, text) not in seen:
                    yield Broken(owner, text, requirement.name, None)
                seen.add((key, text))
                continue
            if new := requirement.extras - wanted[name]:
                wanted[name] |= new
                todo.append(name)
            if not _satisfied(requirement, found.version) and (key, text) not in seen:
                yield Broken(owner, text, requirement.name, found.version)
                seen.add((key, text))


def _satisfied(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return True

"""Why a pin does not move to the newest release that there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from buildspec.bump.resolution import allowed
from buildspec.errors import EnvironmentLacksError
from buildspec.rules.requires import active, extra_of
from buildspec.rules.versions import minor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    from buildspec.bump.resolution import Resolution
    from buildspec.index import Page
    from buildspec.rules import Case
    from buildspec.rules.case import Asked


UNEXPLAINED = "uv finds no set of versions with it"


@dataclass(frozen=True, slots=True)
class Stay:
    """A pin, where it stands (after the bump), the newest release, and why it does not go there."""

    pin: str
    version: str
    newest: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.pin} {self.newest} not yet: {'; '.join(self.reasons)}"


def stays(case: Case, resolution: Resolution, free: Collection[str]) -> Iterator[Stay]:
    """Every pin that is not at its newest release. Raises what the index raises."""
    for name, asked in case.asked.items():
        if name == "nixl" and len(case.asked) > 1 and asked.pin == "nixl":
            # The variant for the stack's CUDA speaks for both.
            continue
        at = Version(resolution.pins[asked.pin])
        newest = newest_installable(case, asked)
        bounds = allowed(case, asked.pin)
        if newest is None or newest <= at:
            continue
        if asked.pin in free and not bounds.contains(newest):
            yield Stay(asked.pin, str(at), str(newest), (_bound(case, asked.pin),))
            newest = newest_installable(case, asked, bounds)
        if newest is not None and newest > at:
            reasons = tuple(_reasons(case, asked, newest, resolution, free))
            yield Stay(asked.pin, str(at), _shown(asked, newest), reasons or (UNEXPLAINED,))


def _bound(case: Case, pin: str) -> str:
    ranges = {str(name): text for name, text in case.stack.ranges.items()}
    if pin in ranges:
        return f"its range in versions.yaml is {ranges[pin]}"
    return "another CUDA major version is another stack"


def newest_installable(case: Case, asked: Asked, bounds: SpecifierSet | None = None) -> Version | None:
    """The newest release (in `bounds`) with a wheel for the stack that was not yanked; CUDA's minor version."""
    page = case.catalog.page(asked.name)
    usable = [
        version
        for version in page.releases
        if not version.is_prerelease
        and not _yanked(page, version)
        and case.catalog.wheel(asked.name, version, case.target) is not None
        and (bounds is None or bounds.contains(version))
    ]
    newest = max(usable, default=None)
    return Version(minor(newest)) if newest is not None and asked.pin == "cuda" else newest


def skipped(case: Case, asked: Asked, above: Version) -> Iterator[str]:
    """Newer releases that can't be taken whatever the others are: yanked, or without a wheel here."""
    page = case.catalog.page(asked.name)
    for version in page.releases:
        if version.is_prerelease or (Version(minor(version)) if asked.pin == "cuda" else version) <= above:
            continue
        reasons = [file.yanked for file in page.releases[version] if file.yanked]
        if _yanked(page, version):
            yield f"{asked.pin} {version} was yanked" + (f": {reasons[0]}" if reasons else "")
        elif case.catalog.wheel(asked.name, version, case.target) is None:
            yield f"{asked.pin} {version} has no wheel for {case.target}"


def _yanked(page: Page, version: Version) -> bool:
    return all(file.yanked is not None for file in page.releases[version])


def _shown(asked: Asked, version: Version) -> str:
    return minor(version) if asked.pin == "cuda" else str(version)


def _reasons(
    case: Case, asked: Asked, newest: Version, resolution: Resolution, free: Collection[str]
) -> Iterator[str]:
    if asked.pin not in free:
        yield "--only does not name it"
        return
    found = list(_required(case, asked, newest, resolution))
    yield from found or _requires(case, asked, newest, resolution)


def _required(case: Case, asked: Asked, newest: Version, resolution: Resolution) -> list[str]:
    """Who in the resolved set requires another version: pinned distributions, or else any."""
    pinned: list[str] = []
    others: list[str] = []
    for parent in resolution.locked.required_by.get(asked.name, ()):
        version = resolution.locked.versions.get(parent)
        if version is None or (parent in case.asked and case.asked[parent].pin == asked.pin):
            continue
        for requirement in _about(case, parent, version, asked.name):
            if not _takes(requirement, asked, newest, case):
                shown = f"{parent}{extra_of(requirement)} {version}"
                text = f"{shown} requires {asked.pin} {requirement.specifier}"
                # What nobody pins would move along.
                (pinned if parent in case.asked else others).append(text)
    return pinned or others


def _requires(case: Case, asked: Asked, newest: Version, resolution: Resolution) -> Iterator[str]:
    """What the newest release itself requires that the resolved set does not have."""
    release = newest
    if asked.pin == "cuda":
        release = max(v for v in case.catalog.page(asked.name).releases if Version(minor(v)) == newest)
    found = case.catalog.metadata(asked.name, release, case.target)
    for requirement in active(case, found, asked.extras) if found else ():
        name = canonicalize_name(requirement.name)
        has = resolution.locked.versions.get(name)
        if has is not None and not requirement.specifier.contains(has, prereleases=True):
            yield f"it requires {name} {requirement.specifier}, and {resolution.locked.shown_path(name)} is newest"


def _about(case: Case, parent: str, version: str, name: str) -> list[Requirement]:
    """What a distribution of the resolved set requires of another; for extras that nobody names, all of them."""
    try:
        found = case.catalog.metadata(parent, Version(version), case.target)
    except EnvironmentLacksError:
        return []
    if found is None:
        return []
    named = case.asked[parent].extras if parent in case.asked else frozenset()
    about = [r for r in active(case, found, frozenset(named)) if canonicalize_name(r.name) == name]
    return about or [r for r in found.requires if canonicalize_name(r.name) == name]


def _takes(requirement: Requirement, asked: Asked, version: Version, case: Case) -> bool:
    if asked.pin != "cuda":
        return requirement.specifier.contains(version, prereleases=True)
    releases = [v for v in case.catalog.page(asked.name).releases if Version(minor(v)) == version]
    return any(requirement.specifier.contains(v, prereleases=True) for v in releases)

"""Rules from package metadata: pinned releases exist, were not yanked, and have wheels for the stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from buildspec.errors import EnvironmentLacksError
from buildspec.index import IndexUnreachableError, NotOnIndexError
from buildspec.rules import requires
from buildspec.rules.finding import Finding, unknown
from buildspec.rules.target import Target
from buildspec.rules.versions import minor, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.tags import Tag

    from buildspec.index import File, Page
    from buildspec.rules.case import Asked, Case

_HOW = "run it with the index in reach, or `nox -s lock -- {stack}`: a fresh lock proves it too"


def check(case: Case) -> Iterator[Finding]:
    """Judge every pinned distribution of a stack."""
    silent: list[str] = []
    for asked in case.asked.values():
        try:
            version = asked.version or _newest_of_minor(case, asked)
            yield from _release(case, asked, version)
            # What a CUDA release requires are its own parts, and there are hundreds.
            if asked.version is not None and (
                found := case.catalog.metadata(asked.name, asked.version, case.target)
            ):
                yield from requires.check(case, asked, asked.version, found)
        except NotOnIndexError as error:
            yield Finding(
                rule="packages.exists",
                severity="error",
                path=case.path(asked.pin),
                pinned=f"{asked.name} {asked.text}",
                needed="a distribution that the index has",
                reason=error.what,
                says=("the package index",),
                remedy=f"{error.remedy}; distributions for CUDA carry its major version in their name",
            )
        except IndexUnreachableError:
            silent.append(asked.name)
        except EnvironmentLacksError as error:
            yield unknown(
                "packages.readable",
                case.path(asked.pin),
                f"{asked.name} {asked.text}",
                error.what,
                error.remedy or "try another index, or again later",
                essential=True,
            )
    if silent:
        proven = case.locked is not None
        reason = f"the index was not asked about {', '.join(silent)}" + (
            "; the stack's lock is fresh, so its versions fit together, but a release may have been yanked since"
            if proven
            else ", and there is no fresh lock that would prove that the pins fit together"
        )
        yield unknown(
            "packages.yanked" if proven else "packages.requires",
            case.path("torch"),
            ", ".join(f"{name} {case.asked[name].text}" for name in silent),
            reason,
            _HOW.format(stack=case.name),
            essential=not proven,
        )
    yield from requires.between(case)


def _newest_of_minor(case: Case, asked: Asked) -> Version | None:
    """CUDA's pin names a minor version; the resolver takes its newest release."""
    fitting = [v for v in case.catalog.page(asked.name).releases if minor(v) == asked.text and not v.is_prerelease]
    return max(fitting, default=None)


def _release(case: Case, asked: Asked, version: Version | None) -> Iterator[Finding]:
    """The release exists, was not yanked, and has a wheel for the stack."""
    page = case.catalog.page(asked.name)
    shown = f"{asked.name} {asked.text}"
    if version is None or version not in page.releases:
        if asked.name in case.catalog.from_snapshot:
            yield unknown(
                "packages.exists",
                case.path(asked.pin),
                shown,
                f"{shown} was not recorded on {case.catalog.snapshot.taken}; it may be newer, or not exist",
                _HOW.format(stack=case.name),
                essential=case.locked is None,
            )
            return
        near = nearest(page.releases, Version(asked.text), lambda v: case.target.rank(_tags(page, v)) is not None)
        yield Finding(
            rule="packages.exists",
            severity="error",
            path=case.path(asked.pin),
            pinned=shown,
            needed=f"a release of {asked.name}",
            reason=f"the index has no {shown}",
            says=(_index(case, asked.name),),
            nearest=near.texts(asked.pin),
            remedy="pin a release that exists",
        )
        return
    files = page.releases[version]
    reasons = [file.yanked for file in files if file.yanked is not None]
    if len(reasons) == len(files):
        yield _yanked(case, asked, page, version, reasons[0])
    if case.catalog.wheel(asked.name, version, case.target) is None:
        yield _no_wheel(case, asked, page, version)
    for file in filter(None, [case.catalog.wheel(asked.name, version, case.target)]):
        if not _python_fits(file, case.stack.python):
            yield Finding(
                rule="packages.python",
                severity="error",
                path=case.path("python"),
                pinned=f"python {case.stack.python}",
                needed=f"python {file.requires_python}",
                reason=f"{asked.name} {version} requires Python {file.requires_python}",
                says=(f"{asked.name} {version} (Requires-Python)",),
                nearest=nearest(page.releases, version, lambda v: _installs(case, asked.name, v)).texts(
                    asked.name
                ),
                remedy="pin another Python (a base with it), or another release",
            )


def _yanked(case: Case, asked: Asked, page: Page, version: Version, reason: str | None) -> Finding:
    def kept(v: Version) -> bool:
        return any(file.yanked is None for file in page.releases[v]) and _installs(case, asked.name, v)

    return Finding(
        rule="packages.yanked",
        severity="error",
        path=case.path(asked.pin),
        pinned=f"{asked.name} {version}",
        needed="a release that was not yanked",
        reason=f"its publisher took {asked.name} {version} back" + (f": {reason}" if reason else ""),
        says=(_index(case, asked.name),),
        nearest=nearest(page.releases, version, kept).texts(asked.pin),
        remedy="pin one of the nearest releases",
    )


def _no_wheel(case: Case, asked: Asked, page: Page, version: Version) -> Finding:
    wheels = [file for file in page.releases[version] if file.is_wheel]
    there = sorted(
        {
            f"{tag.interpreter}-{tag.abi}-{tag.platform}"
            for file in wheels
            for tag in file.tags
            if "linux" in tag.platform and tag.platform.endswith(case.arch)
        }
    )
    near = nearest(page.releases, version, lambda v: case.target.rank(_tags(page, v)) is not None)
    return Finding(
        rule="packages.wheel",
        severity="error",
        path=case.path(asked.pin),
        pinned=f"{asked.name} {version}",
        needed=f"a wheel for {case.target}",
        reason=f"{asked.name} {version} has no wheel that runs on {case.target}; it has "
        + (f"for Linux on {case.arch}: {', '.join(there)}" if there else f"none for Linux on {case.arch}"),
        says=(_index(case, asked.name),),
        nearest=(*near.texts(asked.pin), *_nearest_pythons(case, wheels)),
        remedy="pin another release, or another Python or base",
    )


def _nearest_pythons(case: Case, wheels: list[File]) -> tuple[str, ...]:
    """Minor versions of Python for which a release has wheels that would run here otherwise."""
    pinned = Version(case.stack.python)
    others = [Version(f"3.{number}") for number in range(7, pinned.minor + 5) if number != pinned.minor]

    def runs(python: Version) -> bool:
        target = Target(f"{python}.0", case.arch, case.target.glibc)
        return any(target.rank(file.tags) is not None for file in wheels)

    return nearest(others, Version(minor(pinned)), runs).texts("python")


def _tags(page: Page, version: Version) -> frozenset[Tag]:
    return frozenset(tag for file in page.releases[version] if file.is_wheel for tag in file.tags)


def _installs(case: Case, name: str, version: Version) -> bool:
    file = case.catalog.wheel(name, version, case.target)
    return file is not None and _python_fits(file, case.stack.python)


def _python_fits(file: File, python: str) -> bool:
    try:
        return not file.requires_python or SpecifierSet(file.requires_python).contains(python)
    except InvalidSpecifier:
        return True


def _index(case: Case, name: str) -> str:
    if name in case.catalog.from_snapshot:
        return f"the releases recorded on {case.catalog.snapshot.taken}"
    return "the package index"

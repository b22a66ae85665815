"""Rules from what wheels require: that it is what is pinned, and that two of them do not exclude each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from buildspec.errors import EnvironmentLacksError
from buildspec.rules.finding import Finding
from buildspec.rules.versions import minor, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.requirements import Requirement

    from buildspec.index import Metadata
    from buildspec.rules.case import Asked, Case

# Neighbours of a release whose metadata are read to find the nearest that fits.
_NEIGHBOURS = 6


def check(case: Case, asked: Asked, version: Version, found: Metadata) -> Iterator[Finding]:
    """What a pinned wheel requires of the other pins."""
    for requirement in active(case, found, asked.extras):
        name = canonicalize_name(requirement.name)
        other = case.asked.get(name)
        if other is not None and name != asked.name and not _satisfied(case, requirement, other):
            yield _violated(case, asked, version, requirement, other)
    if asked.pin == "torch":
        yield from _cuda_of_torch(case, asked, version, found)


def active(case: Case, found: Metadata, extras: frozenset[str]) -> Iterator[Requirement]:
    """Requirements that hold for the stack, those of extras that require the distribution itself included."""
    done: set[str] = set()
    waiting = {"", *extras}
    seen: set[str] = set()
    while waiting - done:
        extra = min(waiting - done)
        done.add(extra)
        for requirement in found.requires:
            if not case.target.applies(requirement, [extra]):
                continue
            if canonicalize_name(requirement.name) == canonicalize_name(found.name):
                waiting |= requirement.extras
            elif str(requirement) not in seen:
                seen.add(str(requirement))
                yield requirement


def _satisfied(case: Case, requirement: Requirement, other: Asked) -> bool:
    if other.version is not None:
        return requirement.specifier.contains(other.version, prereleases=True)
    return any(minor(version) == other.text for version in _allowed(case, requirement, other.name))


def _allowed(case: Case, requirement: Requirement, name: str) -> list[Version]:
    """Releases that a requirement allows; its exact versions alone when the index can't be asked."""
    try:
        known = list(case.catalog.page(name).releases)
    except EnvironmentLacksError:
        known = []
    exact = [
        Version(spec.version)
        for spec in requirement.specifier
        if spec.operator == "==" and "*" not in spec.version
    ]
    return [v for v in {*known, *exact} if requirement.specifier.contains(v, prereleases=True)]


def _violated(case: Case, asked: Asked, version: Version, requirement: Requirement, other: Asked) -> Finding:
    pinned = other.version or Version(other.text)
    allowed = _allowed(case, requirement, other.name)
    if other.version is None:
        allowed = [Version(minor(v)) for v in allowed]
    texts = nearest(allowed, pinned, lambda _: True).texts(other.pin)
    whose = f"{asked.name}{extra_of(requirement)} {asked.text}"
    return Finding(
        rule="packages.requires",
        severity="error",
        path=case.path(other.pin),
        pinned=f"{other.name} {other.text}",
        needed=f"{other.name} {requirement.specifier}",
        reason=f"{whose} requires {requirement.name}{requirement.specifier}",
        says=(f"{asked.name} {version} (Requires-Dist: {requirement})",),
        nearest=(*texts, *_nearest_requirers(case, asked, version, other)),
        remedy=f"move {other.pin}, or {asked.pin}",
    )


def _nearest_requirers(case: Case, asked: Asked, version: Version, other: Asked) -> tuple[str, ...]:
    """Releases of the requiring distribution that take the pinned version of the required one."""
    page = case.catalog.page(asked.name)

    def takes(candidate: Version) -> bool:
        try:
            found = case.catalog.metadata(asked.name, candidate, case.target)
        except EnvironmentLacksError:
            return False
        about = (
            []
            if found is None
            else [r for r in active(case, found, asked.extras) if canonicalize_name(r.name) == other.name]
        )
        return bool(about) and all(_satisfied(case, requirement, other) for requirement in about)

    around = sorted(page.releases)
    at = around.index(version)
    case.catalog.warm(
        (asked.name, v, case.target) for v in around[max(at - _NEIGHBOURS, 0) : at + _NEIGHBOURS + 1]
    )
    near = nearest(around, version, takes, tries=_NEIGHBOURS)
    return tuple(f"{text} with {other.pin} {other.text}" for text in near.texts(asked.pin))


def _cuda_of_torch(case: Case, asked: Asked, version: Version, found: Metadata) -> Iterator[Finding]:
    """Wheels of torch from before CUDA 13 require each CUDA library by itself, with the major in its name."""
    brought: dict[str, Requirement] = {canonicalize_name(r.name): r for r in active(case, found, asked.extras)}
    cuda = cuda_version(brought)
    if cuda is None:
        yield Finding(
            rule="packages.cuda",
            severity="error",
            path=case.path("torch"),
            pinned=f"torch {version}",
            needed=f"a torch with CUDA {case.stack.cuda}",
            reason=f"torch {version} for {case.target} requires no CUDA library: it computes on CPUs only",
            says=(f"torch {version} (Requires-Dist)",),
            nearest=_nearest_cuda(case, asked, version),
            remedy="pin a release whose wheel brings CUDA",
        )
        return
    if "cuda-toolkit" not in brought and minor(cuda) != case.stack.cuda:
        yield Finding(
            rule="packages.cuda",
            severity="error",
            path=case.path("cuda"),
            pinned=f"cuda {case.stack.cuda}",
            needed=f"cuda {minor(cuda)}",
            reason=f"torch {version} brings CUDA {minor(cuda)}",
            says=(f"torch {version} (Requires-Dist: {_cuda_requirement(brought)})",),
            nearest=(
                f"cuda {minor(cuda)} ({'up' if cuda > Version(case.stack.cuda) else 'down'})",
                *_nearest_cuda(case, asked, version),
            ),
            remedy="pin the CUDA that torch brings, or a torch that brings the pinned one",
        )
    own = f"nvidia-nccl-cu{case.stack.cuda_major}"
    for name, requirement in brought.items():
        if name.startswith("nvidia-nccl-cu") and name != own:
            yield Finding(
                rule="packages.nccl_twice",
                severity="error",
                path=case.path("nccl"),
                pinned=f"{own} {case.stack.nccl}",
                needed=str(requirement).partition(";")[0],
                reason=f"torch {version} brings {name}; with {own} there would be two NCCLs in the same files",
                says=(f"torch {version} (Requires-Dist: {requirement})",),
                nearest=_nearest_cuda(case, asked, version),
                remedy="pin CUDA and NCCL as torch brings them, or another torch",
            )


def cuda_version(brought: dict[str, Requirement]) -> Version | None:
    """CUDA version that a torch's requirements amount to."""
    requirement = _cuda_requirement(brought)
    exact = [spec.version for spec in requirement.specifier if spec.operator == "=="] if requirement else []
    return Version(exact[0].removesuffix(".*")) if exact else None


def _cuda_requirement(brought: dict[str, Requirement]) -> Requirement | None:
    for name, requirement in brought.items():
        if name == "cuda-toolkit" or name.startswith("nvidia-cuda-runtime"):
            return requirement
    return None


def _nearest_cuda(case: Case, asked: Asked, version: Version) -> tuple[str, ...]:
    page = case.catalog.page(asked.name)

    def brings(candidate: Version) -> bool:
        try:
            found = case.catalog.metadata(asked.name, candidate, case.target)
        except EnvironmentLacksError:
            return False
        if found is None:
            return False
        cuda = cuda_version({canonicalize_name(r.name): r for r in active(case, found, asked.extras)})
        return cuda is not None and minor(cuda) == case.stack.cuda

    around = sorted(page.releases)
    at = around.index(version)
    case.catalog.warm(
        (asked.name, v, case.target) for v in around[max(at - _NEIGHBOURS, 0) : at + _NEIGHBOURS + 1]
    )
    near = nearest(around, version, brings, tries=_NEIGHBOURS)
    return tuple(f"{text} with cuda {case.stack.cuda}" for text in near.texts(asked.pin))


def between(case: Case) -> Iterator[Finding]:
    """Two pinned wheels that pin a third distribution to different versions."""
    demands: dict[str, list[tuple[Asked, Requirement]]] = {}
    for asked in case.asked.values():
        if asked.version is None:
            continue
        try:
            found = case.catalog.metadata(asked.name, asked.version, case.target)
        except EnvironmentLacksError:
            continue
        for requirement in active(case, found, asked.extras) if found else ():
            demands.setdefault(canonicalize_name(requirement.name), []).append((asked, requirement))
    for name, rows in demands.items():
        if name in case.asked:
            continue
        for asked, requirement in rows:
            exact = [s.version for s in requirement.specifier if s.operator == "==" and "*" not in s.version]
            against = [
                (other, demand)
                for other, demand in rows
                if other is not asked and exact and not demand.specifier.contains(exact[0], prereleases=True)
            ]
            for other, demand in against:
                yield Finding(
                    rule="packages.conflict",
                    severity="error",
                    path=case.path(asked.pin),
                    pinned=f"{asked.name} {asked.text} with {other.name} {other.text}",
                    needed=f"{name} {requirement.specifier} and {name} {demand.specifier}",
                    reason=f"{asked.name} {asked.text} and {other.name} {other.text} can't be installed together",
                    says=(
                        f"{asked.name} {asked.version} (Requires-Dist: {requirement})",
                        f"{other.name} {other.version} (Requires-Dist: {demand})",
                    ),
                    remedy=f"move {asked.pin} or {other.pin}",
                )


def extra_of(requirement: Requirement) -> str:
    """`[llm]` where a requirement is that of an extra; else an empty text."""
    extra = str(requirement.marker or "").partition('extra == "')[2].partition('"')[0]
    return f"[{extra}]" if extra else ""

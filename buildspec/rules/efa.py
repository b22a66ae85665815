"""Rules about EFA fabrics: what an installer carries, and on which systems it brings the NCCL plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildspec.matrix import EfaFabric
from buildspec.rules.facts import links
from buildspec.rules.finding import Finding, unknown
from buildspec.rules.versions import Nearest, nearest, parse, parse_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packaging.version import Version

    from buildspec.matrix import Matrix
    from buildspec.rules.case import Case
    from buildspec.rules.facts import Efa, Facts, Installer

# A fabric's key in versions.yaml -> field of the facts, and what people call it.
_PARTS = {
    "aws_ofi_nccl": ("plugin", "aws-ofi-nccl"),
    "libfabric": ("libfabric", "libfabric"),
    "rdma_core": ("rdma_core", "rdma-core"),
}


def check_fabrics(matrix: Matrix, facts: Facts) -> Iterator[Finding]:
    """Judge every EFA fabric of a matrix, whether a stack uses it or not."""
    for name, fabric in matrix.fabrics.items():
        if isinstance(fabric, EfaFabric):
            yield from _installer(("fabrics", name), fabric, facts.efa)


def _installer(path: tuple[str, ...], fabric: EfaFabric, efa: Efa) -> Iterator[Finding]:
    known = {parse(row.version): row for row in efa.installers}
    version = parse(fabric.installer)
    row = known.get(version)
    if row is None:
        yield _not_recorded(path, fabric, efa)
    else:
        yield from _carried(path, fabric, row, efa)
    for other in efa.installers:
        if other.sha256 == fabric.sha256 and parse(other.version) != version:
            yield Finding(
                rule="efa.checksum",
                severity="error",
                path=(*path, "sha256"),
                pinned=f"installer {fabric.installer} with {fabric.sha256[:12]}…",
                needed="the checksum of that installer",
                reason=f"this is the checksum of installer {other.version}",
                says=links(efa.sources, other.sha256_source),
                remedy=f"correct the checksum, or pin installer {other.version}",
            )
    if (
        row
        and row.sha256
        and row.sha256 != fabric.sha256
        and not any(o.sha256 == fabric.sha256 for o in efa.installers)
    ):
        yield Finding(
            rule="efa.checksum",
            severity="error",
            path=(*path, "sha256"),
            pinned=f"installer {fabric.installer} with {fabric.sha256[:12]}…",
            needed=row.sha256,
            reason=f"others have another checksum for installer {row.version}",
            says=links(efa.sources, row.sha256_source),
            remedy="check the download against AWS' signature and published checksum",
            confidence="medium",
        )


def _not_recorded(path: tuple[str, ...], fabric: EfaFabric, efa: Efa) -> Finding:
    versions = [parse(row.version) for row in efa.installers]
    version = parse(fabric.installer)
    if min(versions) < version < max(versions):
        return Finding(
            rule="efa.installer_exists",
            severity="error",
            path=(*path, "installer"),
            pinned=f"EFA installer {fabric.installer}",
            needed="a release of the installer",
            reason="AWS' release notes know no such release between the first and the last that are recorded",
            says=(f"{efa.sources['notes'].what}: {efa.sources['notes'].url}",),
            nearest=nearest(versions, version, lambda _: True).texts("installer"),
            remedy="pin a release that exists",
        )
    if version < min(versions):
        return Finding(
            rule="efa.no_plugin",
            severity="error",
            path=(*path, "installer"),
            pinned=f"EFA installer {fabric.installer}",
            needed="an installer that brings aws-ofi-nccl: 1.38.0 or later",
            reason="installers before 1.38.0 bring no NCCL plugin: NCCL would use sockets without saying so",
            says=(f"{efa.sources['notes'].what}: {efa.sources['notes'].url}",),
            nearest=nearest(versions, version, lambda v: v >= parse("1.38.0")).texts("installer"),
            remedy="pin a later installer",
        )
    return unknown(
        "efa.installer_exists",
        (*path, "installer"),
        f"EFA installer {fabric.installer}",
        f"it is newer than what is recorded (up to {max(versions)}), so what it carries can't be compared",
        "read AWS' release notes and add a row to buildspec/facts/efa.yaml",
    )


def _carried(path: tuple[str, ...], fabric: EfaFabric, row: Installer, efa: Efa) -> Iterator[Finding]:
    for key, (field, title) in _PARTS.items():
        pinned, carried = getattr(fabric, key), getattr(row, field)
        if carried == "none":
            candidates = [r for r in efa.installers if r.plugin != "none"]
            yield Finding(
                rule="efa.no_plugin",
                severity="error",
                path=(*path, "installer"),
                pinned=f"EFA installer {fabric.installer} with {title} {pinned}",
                needed="an installer that brings aws-ofi-nccl: 1.38.0 or later",
                reason=f"installer {row.version} brings no NCCL plugin: NCCL would use sockets without saying so",
                says=links(efa.sources, row),
                nearest=_nearest_installers(fabric, candidates, lambda _: True).texts("installer"),
                remedy="pin a later installer",
                confidence=row.confidence,
            )
        elif carried is None:
            yield unknown(
                "efa.carries",
                (*path, key),
                f"{title} {pinned}",
                f"the release notes of installer {row.version} do not tell its {title}",
                "compare it with the installer's own list of packages",
            )
        elif parse_or_none(pinned) != parse(carried):
            yield _other_part(path, fabric, row, efa, key)


def _other_part(path: tuple[str, ...], fabric: EfaFabric, row: Installer, efa: Efa, key: str) -> Finding:
    field, title = _PARTS[key]
    pinned, carried = getattr(fabric, key), getattr(row, field)
    version = parse_or_none(pinned)
    with_it = [
        r for r in efa.installers if (has := getattr(r, field)) not in (None, "none") and parse(has) == version
    ]
    near = _nearest_installers(fabric, with_it, lambda _: True)
    unnamed = field in row.assumed
    return Finding(
        rule="efa.carries",
        severity="error",
        path=(*path, key),
        pinned=f"{title} {pinned}",
        needed=f"{title} {carried}",
        reason=f"EFA installer {row.version} carries {title} {carried}"
        + (" (its release notes name none, so that of the release before it)" if unnamed else ""),
        says=links(efa.sources, row),
        nearest=(
            f"{key} {carried}" + ("" if version is None else f" ({'up' if parse(carried) > version else 'down'})"),
            *(f"{text} with {key} {pinned}" for text in near.texts("installer")),
        ),
        remedy="write what the installer carries, or pin another installer",
        confidence="medium" if unnamed else row.confidence,
    )


def _nearest_installers(
    fabric: EfaFabric, rows: list[Installer], fits: Callable[[Version], bool]
) -> Nearest[Version]:
    return nearest([parse(row.version) for row in rows], parse(fabric.installer), fits)


def check(case: Case) -> Iterator[Finding]:
    """Judge a stack's fabric together with its base."""
    fabric = case.efa
    if fabric is None:
        return
    efa = case.facts.efa
    path = ("fabrics", case.stack.fabric, "installer")
    window = efa.systems.get(case.suite.system) if case.suite else None
    if case.suite is None or window is None:
        yield unknown(
            "efa.system",
            ("bases", case.stack.base, "suite"),
            f"suite {case.base.suite}",
            f"it is not recorded which EFA installers install on '{case.base.suite}'",
            "add a row to buildspec/facts/systems.yaml and efa.yaml",
        )
        return
    version, title = parse(fabric.installer), case.suite.title
    released = [parse(row.version) for row in efa.installers]

    def installs(candidate: Version) -> bool:
        return (window.from_ is None or candidate >= parse(window.from_)) and (
            window.until is None or candidate < parse(window.until)
        )

    def brings_plugin(candidate: Version) -> bool:
        return installs(candidate) and window.plugin != "none" and candidate >= parse(window.plugin)

    if not installs(version):
        bounds = [
            f"from {window.from_} on" if window.from_ else "",
            f"before {window.until}" if window.until else "",
        ]
        yield Finding(
            rule="efa.system",
            severity="error",
            path=path,
            pinned=f"EFA installer {fabric.installer} on {title} ({case.name})",
            needed=f"an installer {' and '.join(filter(None, bounds))}",
            reason=f"EFA installer {fabric.installer} does not install on {title}",
            says=links(efa.sources, window),
            nearest=nearest(released, version, installs).texts("installer"),
            remedy="pin one of these, or take a base that it supports",
            confidence=window.confidence,
        )
    elif not brings_plugin(version):
        yield Finding(
            rule="efa.system_plugin",
            severity="error",
            path=path,
            pinned=f"EFA installer {fabric.installer} on {title} ({case.name})",
            needed=f"an installer {window.plugin} or later" if window.plugin != "none" else "another system",
            reason=f"on {title}, EFA installer {fabric.installer} brings libfabric but no NCCL plugin: "
            "NCCL would use sockets without saying so",
            says=links(efa.sources, window),
            nearest=nearest(released, version, brings_plugin).texts("installer"),
            remedy="pin a later installer" if window.plugin != "none" else "take a base that has a plugin package",
            confidence=window.confidence,
        )

"""Rules about NCCL and aws-ofi-nccl: plugin APIs that both know, and GIN where a stack promises it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildspec.rules.facts import links
from buildspec.rules.finding import Finding, unknown
from buildspec.rules.versions import nearest, parse, parse_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version

    from buildspec.rules.case import Case
    from buildspec.rules.facts import Apis, Releases

# What GIN over EFA needs, by the release notes of aws-ofi-nccl 1.21.
_GIN = {"nccl": "2.31.2", "plugin": "1.21.0", "libfabric": "2.6"}


def check(case: Case) -> Iterator[Finding]:
    """Judge the plugin APIs of a stack with an EFA fabric, and GIN."""
    if "gin" in case.stack.features:
        yield from _gin(case)
    if case.efa is None:
        return
    nccl, plugin = _row(case.facts.nccl, case.stack.nccl), _row(case.facts.plugin, case.efa.aws_ofi_nccl)
    yield from _minimum(case, plugin)
    shown = f"nccl {case.stack.nccl} with aws-ofi-nccl {case.efa.aws_ofi_nccl}"
    if nccl is None or plugin is None or nccl.net is None or plugin.net is None:
        yield unknown(
            "nccl.net_api",
            case.path("nccl"),
            shown,
            "the net plugin APIs of one of them are not recorded",
            "compare the symbols ncclNetPlugin_v* of the plugin with those that libnccl looks up, "
            "and add them to buildspec/facts/nccl.yaml or plugin.yaml",
        )
        return
    yield from _overlap(case, nccl, plugin, "net")
    if nccl.tuner and plugin.tuner is not None:
        yield from _overlap(case, nccl, plugin, "tuner")


def _row(table: Releases, text: str) -> Apis | None:
    version = parse_or_none(text)
    return next((row for row in table.releases if parse(row.version) == version), None)


def _minimum(case: Case, plugin: Apis | None) -> Iterator[Finding]:
    if plugin is None or plugin.nccl_min is None or parse(case.stack.nccl) >= parse(plugin.nccl_min):
        return
    known = [parse(row.version) for row in case.facts.nccl.releases]
    least = parse(plugin.nccl_min)
    yield Finding(
        rule="nccl.plugin_minimum",
        severity="error",
        path=case.path("nccl"),
        pinned=f"nccl {case.stack.nccl}",
        needed=f"nccl >={plugin.nccl_min}",
        reason=f"aws-ofi-nccl {plugin.version} needs NCCL {plugin.nccl_min} or later",
        says=links(case.facts.plugin.sources, plugin),
        nearest=nearest(known, parse(case.stack.nccl), lambda v: v >= least).texts("nccl"),
        remedy="pin a later NCCL, or an installer with an older plugin",
        confidence=plugin.confidence,
    )


def _overlap(case: Case, nccl: Apis, plugin: Apis, kind: str) -> Iterator[Finding]:
    offered, accepted = getattr(plugin, kind), getattr(nccl, kind)
    if set(offered) & set(accepted):
        return
    release = parse(case.stack.nccl)

    def meets(version: Version) -> bool:
        row = _row(case.facts.nccl, str(version))
        return row is not None and bool(set(getattr(row, kind) or ()) & set(offered))

    known = [parse(row.version) for row in case.facts.nccl.releases]
    yield Finding(
        rule=f"nccl.{kind}_api",
        severity="error" if kind == "net" else "warning",
        path=case.path("nccl"),
        pinned=f"nccl {case.stack.nccl} with aws-ofi-nccl {plugin.version}",
        needed=f"a {kind} API that both know",
        reason=f"NCCL {nccl.version} accepts {kind} plugins of API {_list(accepted)}, "
        f"aws-ofi-nccl {plugin.version} offers {_list(offered)}: "
        + ("NCCL would use sockets without saying so" if kind == "net" else "NCCL tunes without knowing EFA"),
        says=(*links(case.facts.nccl.sources, nccl), *links(case.facts.plugin.sources, plugin)),
        nearest=nearest(known, release, meets).texts("nccl"),
        remedy="pin another NCCL, or an installer with another plugin",
        confidence="high" if "high" == nccl.confidence == plugin.confidence else "medium",
    )


def _gin(case: Case) -> Iterator[Finding]:
    sources = links(case.facts.plugin.sources, ("releases",))
    if case.efa is None:
        yield Finding(
            rule="nccl.gin",
            severity="error",
            path=case.path("features"),
            pinned=f"gin with fabric {case.stack.fabric}",
            needed="a fabric with aws-ofi-nccl 1.21.0 or later",
            reason="GIN between hosts needs a net plugin that offers it; the distribution's libfabric has none",
            says=sources,
            remedy="take an EFA fabric, or do not promise gin",
        )
        return
    for key, least in _GIN.items():
        version = case.versions[key]
        if version is not None and version < parse(least):
            known = {
                "nccl": [row.version for row in case.facts.nccl.releases],
                "plugin": [row.version for row in case.facts.plugin.releases],
                "libfabric": [row.libfabric for row in case.facts.efa.installers if row.libfabric],
            }[key]
            near = nearest([v for v in map(parse, known) if v >= parse(least)], version, lambda _: True)
            yield Finding(
                rule="nccl.gin",
                severity="error",
                path=case.place(key),
                pinned=f"{key} {version} with the feature gin",
                needed=f"{key} >={least}",
                reason=f"GIN over EFA needs NCCL {_GIN['nccl']}, aws-ofi-nccl {_GIN['plugin']} and libfabric "
                f"{_GIN['libfabric']} or later",
                says=sources,
                nearest=near.texts(key),
                remedy="pin later ones, or do not promise gin",
                confidence="medium",
            )
    nccl, plugin = _row(case.facts.nccl, case.stack.nccl), _row(case.facts.plugin, case.efa.aws_ofi_nccl)
    if nccl is None or plugin is None or nccl.gin is None or plugin.gin is None:
        yield unknown(
            "nccl.gin_api",
            case.path("nccl"),
            f"nccl {case.stack.nccl} with aws-ofi-nccl {case.efa.aws_ofi_nccl}",
            "the GIN APIs of one of them are not recorded",
            "compare the symbols ncclGinPlugin_v* of the plugin with those that libnccl looks up",
        )
    else:
        yield from _overlap_gin(case, nccl, plugin)


def _overlap_gin(case: Case, nccl: Apis, plugin: Apis) -> Iterator[Finding]:
    if set(nccl.gin or ()) & set(plugin.gin or ()):
        return
    yield Finding(
        rule="nccl.gin_api",
        severity="error",
        path=case.path("nccl"),
        pinned=f"nccl {nccl.version} with aws-ofi-nccl {plugin.version}",
        needed="a GIN API that both know",
        reason=f"NCCL {nccl.version} accepts GIN {_list(nccl.gin or ())}, aws-ofi-nccl {plugin.version} offers "
        f"{_list(plugin.gin or ())}",
        says=(*links(case.facts.nccl.sources, nccl), *links(case.facts.plugin.sources, plugin)),
        remedy="pin another NCCL, or an installer with another plugin",
        confidence="medium",
    )


def _list(apis: tuple[int, ...]) -> str:
    return ", ".join(f"v{api}" for api in apis) or "none"

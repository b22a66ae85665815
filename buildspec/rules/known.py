"""Rules from facts/known.yaml: combinations that are known to be broken."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from buildspec.errors import EnvironmentLacksError
from buildspec.rules.facts import links
from buildspec.rules.finding import Finding, unknown
from buildspec.rules.versions import nearest, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildspec.rules.case import Case
    from buildspec.rules.facts import Known


def check(case: Case) -> Iterator[Finding]:
    """Judge a stack by every known problem."""
    for rule in case.facts.known.rules:
        yield from _judge(case, rule)


def _judge(case: Case, rule: Known) -> Iterator[Finding]:
    conditions = list(_conditions(case, rule))
    if any(holds is False for _, holds in conditions):
        return
    met = [text for text, holds in conditions if holds]
    open_ = [text for text, holds in conditions if holds is None]
    if open_:
        yield unknown(
            rule.id,
            case.path(rule.change),
            ", ".join(met),
            f"whether this applies depends on {', '.join(open_)}: {rule.reason}",
            f"make the lock: `nox -s lock -- {case.name}`" if case.locked is None else rule.remedy,
        )
        return
    together = ", ".join(f"{n} {r}" for n, r in (*rule.when.ranges().items(), *rule.when.installed.items()))
    yield Finding(
        rule=rule.id,
        severity=rule.severity,
        path=case.place(rule.change),
        pinned=", ".join(met),
        needed=f"not together: {together}",
        reason=rule.reason,
        says=links(case.facts.known.sources, rule),
        nearest=_nearest(case, rule),
        remedy=rule.remedy,
        confidence=rule.confidence,
    )


def _conditions(case: Case, rule: Known) -> Iterator[tuple[str, bool | None]]:
    """Each condition as a text, and whether it holds; None where that can't be told."""
    names = {
        "image": case.stack.image,
        "suite": case.base.suite,
        "fabric": case.matrix.fabrics[case.stack.fabric].kind,
    }
    for key, value in names.items():
        if (name := getattr(rule.when, key)) is not None:
            yield f"{key} {value}", name == value
    for key, wanted in rule.when.ranges().items():
        version = case.versions.get(key)
        if version is None:
            # What the stack does not have is not broken; what can't be read may be.
            yield key, None if key in case.versions else False
        else:
            yield f"{key} {version.public}", wanted.contains(version, prereleases=True)
    for key, text in rule.when.installed.items():
        if case.locked is None:
            yield f"the locked {key}", None
        elif key not in case.locked.versions:
            yield key, False
        else:
            shown = f"{key} {case.locked.versions[key]} ({case.locked.shown_path(key)})"
            yield shown, SpecifierSet(text).contains(case.locked.versions[key], prereleases=True)


def _nearest(case: Case, rule: Known) -> tuple[str, ...]:
    """Recorded versions of what is to be changed that end the condition."""
    facts = case.facts
    known: dict[str, list[str]] = {
        "installer": [row.version for row in facts.efa.installers],
        "plugin": [row.version for row in facts.plugin.releases],
        "libfabric": [row.libfabric for row in facts.efa.installers if row.libfabric],
        "nccl": [row.version for row in facts.nccl.releases],
    }
    asked = next((asked for asked in case.asked.values() if asked.pin == rule.change), None)
    if asked is not None and rule.change not in known:
        with contextlib.suppress(EnvironmentLacksError):
            known[rule.change] = [str(version) for version in case.catalog.page(asked.name).releases]
    wanted = rule.when.ranges().get(rule.change)
    version = case.versions.get(rule.change)
    if wanted is None or version is None:
        return ()
    candidates: list[Version] = [parse(text) for text in known.get(rule.change, [])]
    return nearest(candidates, version, lambda v: not wanted.contains(v)).texts(rule.change)

"""Python: what is installed is whole, owned once, satisfies its requirements, and imports."""

from __future__ import annotations

from collections.abc import Iterator

from validate import requirements
from validate.allowances import allowances
from validate.bench import Bench
from validate.catalogue import CLAIMS_STACK, HAS_PYTHON_PACKAGES, Rule, check
from validate.experiments import versions
from validate.facts import Facts, Site
from validate.outcome import CheckFailedError, Level
from validate.plugin import Said

HAS_PYTHON = Rule("have Python 3.8 or newer", by_facts=lambda facts: facts.python is not None)
PROMISES_IMPORTS = Rule(
    "are of a kind that promises imports (train, llm)", lambda claims: claims.image in versions.PROMISED
)


def managed(sites: tuple[Site, ...]) -> tuple[Site, ...]:
    """Sites that pip or uv manage; the distribution's own leaves requirements to its package manager."""
    return tuple(site for site in sites if not site.site.startswith("/usr/lib/python3/"))


@check(
    "python.requirements",
    level=Level.STATIC,
    applies=HAS_PYTHON_PACKAGES & HAS_PYTHON,
    proves="every requirement of every installed distribution is satisfied (as `pip check`)",
    remedy="install what is missing, at the version asked for; or declare it in io.drydock.excluded",
    source="pip documentation, pip check",
)
def test_requirements(bench: Bench, facts: Facts, said: Said) -> None:
    sites = managed(facts.main_sites)
    markers = facts.python.markers if facts.python else {}
    rows = [
        str(row) for row in requirements.broken(facts.main_sites, markers, bench.claims.excluded)
        if any(row.distribution.folder.startswith(site.site) for site in sites)
    ]  # fmt: skip
    if rows:
        raise CheckFailedError(
            f"a declared dependency is missing or of another version: {rows[0]}"
            + (f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""),
            rows,
        )
    said.because(f"requirements of {sum(len(site.distributions) for site in sites)} distributions are satisfied")


@check(
    "python.single_owner",
    level=Level.STATIC,
    applies=HAS_PYTHON_PACKAGES,
    proves="no two distributions bring the same file with different content",
    remedy="uninstall one of them, then reinstall the other: its files were overwritten",
    source="aws/deep-learning-containers, ray_llm/pyproject.toml: nixl-cu12 over nixl-cu13",
)
def test_single_owner(facts: Facts, said: Said) -> None:
    lines = []
    for site in facts.sites:
        for row in site.overlaps:
            allowed = next((a for a in allowances().overlap if a.covers(row.path)), None)
            if allowed:
                said.line(f"allowed: {row.path} of {' and '.join(row.owners)}: {allowed.reason}")
            else:
                lines.append(
                    f"{row.path} is of {' and '.join(row.owners)}; on disk is {row.winner or 'neither'}'s"
                )
    if lines:
        raise CheckFailedError(
            f"{len(lines)} file{'s' if len(lines) > 1 else ''} with two owners: {lines[0]}", lines
        )
    said.because("every file has one owner")


def _changed(facts: Facts) -> Iterator[str]:
    for _, row in facts.distributions():
        altered = [
            path for path in row.altered
            if not any(a.covers(path, distribution=row.key) for a in allowances().record)
        ]  # fmt: skip
        yield from (f"{path} of {row.name} {row.version} is not what its RECORD says" for path in altered)
        yield from (f"{path} of {row.name} {row.version} is missing" for path in row.missing)


@check(
    "python.record",
    level=Level.STATIC,
    applies=HAS_PYTHON_PACKAGES,
    proves="the files of every distribution are there and have the hashes in its RECORD",
    remedy="reinstall the distribution; keep own changes in a distribution of their own",
    source="PyPA, recording installed projects",
)
def test_record(facts: Facts, said: Said) -> None:
    lines = list(_changed(facts))
    if lines:
        raise CheckFailedError(lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""), lines)
    files = sum(row.files for _, row in facts.distributions())
    said.because(f"{files} files are as their RECORDs say")


@check(
    "python.bytecode",
    level=Level.STATIC,
    applies=CLAIMS_STACK & HAS_PYTHON_PACKAGES,
    proves="compiled bytecode matches its sources, so that imports are quick and nothing needs to be written",
    remedy="compile after the last change to the sources, or with unchecked hashes",
    source="PEP 552; imports measured at 24 s without and 9 s with valid bytecode",
)
def test_bytecode(facts: Facts, said: Said) -> None:
    if facts.bytecode.stale:
        raise CheckFailedError(
            f"{facts.bytecode.stale} compiled files do not match their sources, as {facts.bytecode.examples[0]}",
            facts.bytecode.examples,
        )
    if not facts.bytecode.valid:
        raise CheckFailedError(
            "no file is compiled: every start compiles anew, and a read-only root can't keep it"
        )
    said.because(f"{facts.bytecode.valid} compiled files match their sources")


@check(
    "python.path",
    level=Level.STATIC,
    applies=CLAIMS_STACK,
    proves="PYTHONPATH and PYTHONHOME are not set",
    remedy="install into the environment instead",
    source="Python documentation, command line and environment",
)
def test_path(bench: Bench, said: Said) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME"):
        if value := bench.config.environment.get(name):
            raise CheckFailedError(
                f"ENV sets {name}={value}: it comes before what is installed, in every interpreter"
            )
    said.because("neither is set")


@check(
    "python.imports",
    level=Level.CONTAINER,
    applies=PROMISES_IMPORTS,
    needs=(versions.imports,),
    proves="everything that this kind of image promises imports without a GPU",
    remedy="reinstall what fails; its last error line names it",
    source="ray-project/ray#63187",
)
def test_imports(bench: Bench, said: Said) -> None:
    seen = bench.seen(versions.imports)
    failed = [f"import {name}: {row.problem}" for name, row in seen.items() if row.problem]
    for name, row in seen.items():
        said.line(f"import {name}: {row.problem or 'fine'}, {row.seconds} s")
    if failed:
        raise CheckFailedError(failed[0] + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""), failed)
    said.because(f"{len(seen)} promised imports work, {sum(row.seconds for row in seen.values()):.0f} s in all")

"""What fits together: rules from package metadata and from recorded facts, and what they say about a matrix.

`of_project` judges a checkout, `of_stack` one stack, `of_lock` the text of a lock before it is written.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from buildspec import lock
from buildspec.errors import BadInputError, NotProvenError
from buildspec.rules import (
    bases,
    clusters,
    efa,
    facts,
    hosts,
    known,
    locked,
    majors,
    overlaps,
    plugins,
    registry,
    support,
    wheels,
)
from buildspec.rules.case import ARCH, Case
from buildspec.rules.catalog import EMPTY, Catalog
from buildspec.rules.finding import Finding, Severity, ordered, unknown
from buildspec.rules.target import Arch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from buildspec.index import Index
    from buildspec.matrix import Matrix
    from buildspec.project import Project

__all__ = [
    "ARCH",
    "EMPTY",
    "Arch",
    "Case",
    "Catalog",
    "Finding",
    "Severity",
    "cases",
    "of_case",
    "of_lock",
    "of_matrix",
    "of_project",
    "ordered",
    "prove_lock",
]

# Each judges one stack; new rules go into the module whose noun they are about.
RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    wheels.check,
    bases.check,
    efa.check,
    plugins.check,
    hosts.check,
    clusters.check,
    support.check,
    known.check,
)


def of_project(
    project: Project, index: Index | None, *, arch: Arch = ARCH, today: date | None = None
) -> list[Finding]:
    """Everything that the rules say about a checkout: its matrix, its stacks, its locks.

    Raises BadInputError when the images' requirements can't be read.
    """
    catalog = Catalog(index)
    found = list(of_matrix(project.matrix))
    listed = cases(project, catalog, arch=arch, today=today)
    catalog.warm(
        (asked.name, asked.version, case.target)
        for case in listed
        for asked in case.asked.values()
        if asked.version
    )
    for case in listed:
        found += of_case(case)
        found += _of_lock_file(project, case)
    # Two stacks on one base or fabric have its findings once.
    return ordered(list(dict.fromkeys(found)))


def cases(project: Project, catalog: Catalog, *, arch: Arch = ARCH, today: date | None = None) -> list[Case]:
    """The stacks that are not retired, each as its rules see it."""
    return [
        Case(
            project.matrix,
            name,
            project.images,
            facts.load(),
            catalog,
            today or date.today(),  # noqa: DTZ011 - support ends on a day, wherever one is
            # Locks are made for one architecture and prove nothing about the other.
            _fresh_lock(project, name) if arch == ARCH else None,
            arch,
        )
        for name, stack in project.matrix.stacks.items()
        if stack.status != "retired"
    ]


def of_matrix(matrix: Matrix) -> Iterator[Finding]:
    """What is wrong whatever the stacks are: fabrics, registries."""
    yield from efa.check_fabrics(matrix, facts.load())
    yield from registry.check_matrix(matrix, facts.load())


def of_case(case: Case) -> list[Finding]:
    """What the rules say about one stack."""
    return [finding for rule in RULES for finding in rule(case)]


def of_lock(project: Project, name: str, text: str, index: Index | None) -> list[Finding]:
    """What the rules say about the text of a stack's lock, before it is written.

    Without an index the files of its wheels are not compared, and that is said. Raises IndexUnreachableError,
    FileVanishedError and NotReadableError when the index fails.
    """
    stack = project.matrix.stack(name)
    read = locked.parse(text)
    path = ("stacks", name)
    found = list(majors.check(path, stack.cuda_major, read, project.matrix.other_cuda_majors))
    case = Case(project.matrix, name, project.images, facts.load(), Catalog(index), date.today(), read)  # noqa: DTZ011
    found += [finding for finding in known.check(case) if finding.severity != "unknown"]
    if index is None:
        found.append(
            unknown(
                "files.one_owner", path, f"lock of {name}", "no index was asked", "run it with the index in reach"
            )
        )
    else:
        found += overlaps.check(path, read, index, case.target, project.matrix.shared_files)
    return ordered(found)


def prove_lock(project: Project, name: str, text: str, index: Index | None) -> list[Finding]:
    """As `of_lock`, but errors are raised, as NotProvenError; returns the rest."""
    found = of_lock(project, name, text, index)
    wrong = [finding for finding in found if finding.severity == "error"]
    if wrong:
        rows = "\n".join(f"  {f.pinned}: {f.reason} ({'; '.join(f.says)})\n    do: {f.remedy}" for f in wrong)
        raise NotProvenError(
            f"the new lock of {name} violates {len(wrong)} rule{'s' if len(wrong) != 1 else ''}:\n{rows}",
            remedy="nothing was written; correct it and lock again",
        )
    return found


def _fresh_lock(project: Project, name: str) -> locked.Locked | None:
    try:
        return locked.parse(lock.read(project, name).text)
    except BadInputError:
        return None


def _of_lock_file(project: Project, case: Case) -> Iterable[Finding]:
    """The lock as it lies in the checkout: fresh, and of one CUDA major."""
    path = ("stacks", case.name)
    if case.locked is not None:
        return majors.check(path, case.stack.cuda_major, case.locked, project.matrix.other_cuda_majors)
    try:
        lock.read(project, case.name)
    except BadInputError as error:
        # Pins are edited before the lock is made anew; a lock that was changed by hand is another matter.
        awaited = not lock.path(project, case.name).exists() or "is stale" in error.what
        return [
            Finding(
                rule="lock.fresh",
                severity="warning" if awaited else "error",
                path=path,
                pinned=error.what,
                needed="a lock made from these pins",
                reason=error.why or "the build refuses a lock that was made from other inputs",
                says=(f"images/locks/{case.name}.txt",),
                remedy=error.remedy,
            )
        ]
    return []

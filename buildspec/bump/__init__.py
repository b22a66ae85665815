"""Newer versions for the matrix: what could move, what could not and why, and the files that change for it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from buildspec import lock, matrix, rules
from buildspec.bump.proposal import Proposal, propose
from buildspec.bump.rewrite import with_pins
from buildspec.errors import BadInputError, EnvironmentLacksError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buildspec.index import Index
    from buildspec.project import Project

__all__ = ["Proposal", "files", "propose"]


def files(
    project: Project, proposals: Sequence[Proposal], index: Index, also: Sequence[str] = ()
) -> dict[Path, str]:
    """The texts of versions.yaml and of the locks that a bump writes; `also` are stacks that are only locked anew.

    Raises what resolving raises, NotProvenError when a new lock violates a rule. Nothing is written here.
    """
    moved = {proposal.stack: proposal.moved for proposal in proposals if proposal.moved}
    source = project.root / matrix.FILE_NAME
    texts: dict[Path, str] = {}
    after = project
    if moved:
        stacks = {
            name: stack.model_copy(update=moved[name]) if name in moved else stack
            for name, stack in project.matrix.stacks.items()
        }
        after = replace(project, matrix=project.matrix.model_copy(update={"stacks": stacks}))
        texts[source] = with_pins(source.read_text(encoding="utf-8"), moved)
        _reads_as(texts[source], source, after.matrix)
    for name in dict.fromkeys([*moved, *also]):
        texts[lock.path(project, name)] = _lock(after, name, index)
    return texts


def _reads_as(text: str, source: Path, wanted: matrix.Matrix) -> None:
    """Whoever reads the new text finds exactly the new matrix."""
    with tempfile.TemporaryDirectory(prefix="drydock-bump-") as folder:
        copy = Path(folder) / source.name
        copy.write_text(text, encoding="utf-8")
        read = matrix.load(copy)
    if read != wanted:
        raise BadInputError(
            f"{source} can't be rewritten safely: what was written back would read as another matrix",
            why="its YAML uses something that the writer does not keep",
            remedy="move the pins by hand",
        )


def _lock(project: Project, name: str, index: Index) -> str:
    try:
        text = lock.resolve(project, name)
    except BadInputError as error:
        raise EnvironmentLacksError(
            f"the index changed while {name} was resolved: {error.what}",
            why="a release was yanked or removed, or a mirror is being updated",
            remedy="nothing was written; run it again",
        ) from error
    rules.prove_lock(project, name, text, index)
    return text

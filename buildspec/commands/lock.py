"""Resolve and hash-lock what goes into the images.

  drydock lock                  lock every stack that is not retired
  drydock lock train-2.60       lock one stack
  drydock lock os               record the Debian packages of every base anew

A lock is written only when all that was asked for could be resolved and violates no rule: one CUDA major, no file
from two distributions.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from buildspec import base, baselock, lock, rules
from buildspec.atomic import write_all
from buildspec.console import console, note, step
from buildspec.index import lend_to_uv, open_index
from buildspec.project import Project

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from pathlib import Path

    from buildspec.base import Os

OS = "os"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("names", metavar="STACK", nargs="*", help="stacks to lock, or `os` for the bases")
    parser.add_argument("--plan", action="store_true", help="show what would change, write nothing")


def run(arguments: Namespace) -> int:
    """Resolve everything asked for, then write all files or none."""
    project = Project.find()
    names = arguments.names or [n for n, stack in project.matrix.stacks.items() if stack.status != "retired"]
    stacks = [name for name in names if name != OS]
    for name in stacks:
        project.matrix.stack(name)
    lend_to_uv()
    texts: dict[Path, str] = {}
    for name in stacks:
        with step(f"resolving {name}"):
            texts[lock.path(project, name)] = lock.resolve(project, name)
    index = open_index() if stacks else None
    for name in stacks:
        with step(f"comparing the files of {name}'s wheels"):
            found = rules.prove_lock(project, name, texts[lock.path(project, name)], index)
        for finding in found:
            note(f"{finding.severity}: {finding.pinned}: {finding.reason}")
    if OS in names:
        from buildspec.engine import find_engine  # noqa: PLC0415 - locking a stack needs no engine

        engine = find_engine()
        with project.exclusively(list(project.matrix.bases)):
            for name in project.matrix.bases:
                made = base.prepare(project, name, engine, anew=True)
                texts[baselock.path(project, name)] = baselock.text(made)
                _show(baselock.path(project, name), _moved(project, name, made))
    for name in stacks:
        file = lock.path(project, name)
        _show(file, _changed(file, texts[file]))
    if not arguments.plan:
        write_all(texts)
    return 0


def _moved(project: Project, name: str, made: Os) -> list[str]:
    if not baselock.path(project, name).exists():
        return [f"{len(made.packages)} packages recorded for the first time"]
    return baselock.moved(baselock.read(project, name), made)


def _changed(file: Path, text: str) -> list[str]:
    """Lines of a lock that change, without hashes and annotations."""
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    return [
        line.rstrip(" \\")
        for line in difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm="", n=0)
        if line[:1] in "+-" and line[:3] not in ("+++", "---") and "--hash=" not in line and "# " not in line[:8]
    ]


def _show(file: Path, changes: list[str]) -> None:
    console.print(f"{file.name}: {len(changes)} changes" if changes else f"{file.name}: unchanged")
    for line in changes[:60]:
        console.print(f"  {line}")
    if len(changes) > 60:
        console.print(f"  … and {len(changes) - 60} more")

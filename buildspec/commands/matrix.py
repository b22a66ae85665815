"""Show the version matrix, or check that everything in it fits together.

  drydock matrix                      the stacks as a table
  drydock matrix --markdown           the same for README.md (with --write: put it there)
  drydock matrix --check              every violated rule at once, with who says so and the nearest that fits
  drydock matrix --check --offline    ask nobody: from the cache, the locks, and what was recorded

A rule that can't be decided is told as unknown. Without errors the exit code is 3 when one of these is needed
to prove that the pins fit together (no index, no fresh lock), else 0; --strict makes it 1 for any warning or
unknown.
"""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

from buildspec import located, matrix, rules
from buildspec.atomic import write
from buildspec.console import console, note, step
from buildspec.errors import BadInputError, EnvironmentLacksError, ExitCode
from buildspec.index import Index, open_index
from buildspec.project import Project
from buildspec.rules import report, snapshot, table
from buildspec.rules.catalog import SNAPSHOT

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from pathlib import Path

    from buildspec.rules import Finding

README = "README.md"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--check", action="store_true", help="judge the matrix; exit code 1 for errors")
    parser.add_argument("--json", action="store_true", help="print a result for machines")
    parser.add_argument("--markdown", action="store_true", help="print the table of README.md")
    parser.add_argument("--write", action="store_true", help="with --markdown: put the table into README.md")
    parser.add_argument("--offline", action="store_true", help="with --check: do not ask the package index")
    parser.add_argument(
        "--strict", action="store_true", help="with --check: warnings and unknowns count as errors"
    )
    parser.add_argument("--record", action="store_true", help="ask the index and write facts/releases.json anew")
    parser.add_argument(
        "--arch",
        choices=("x86_64", "aarch64"),
        default=rules.ARCH,
        help="with --check: judge the wheels of this architecture (default: %(default)s)",
    )


def run(arguments: Namespace) -> int:
    """Show or check."""
    project = Project.find()
    if arguments.record:
        return _record(project)
    if arguments.check:
        return _check(project, arguments)
    shown = _rows(project)
    if arguments.write and not arguments.markdown:
        raise BadInputError("--write goes with --markdown")
    if arguments.json:
        print(json.dumps({"schema": 1, "stacks": [row.to_dict() for row in shown]}, indent=2))
    elif arguments.markdown and arguments.write:
        _write(project.root / README, table.markdown(shown))
    else:
        print(table.markdown(shown) if arguments.markdown else table.plain(shown))
    return ExitCode.DONE


def _check(project: Project, arguments: Namespace) -> int:
    index = _index(offline=arguments.offline)
    if index is None or index.offline:
        findings = rules.of_project(project, index, arch=arguments.arch)
    else:
        with step("asking the package index"):
            findings = rules.of_project(project, index, arch=arguments.arch)
    findings = rules.ordered([*findings, *_drift(project)])
    code = _code(findings, strict=arguments.strict)
    stacks = [name for name, stack in project.matrix.stacks.items() if stack.status != "retired"]
    unreachable = index.unreachable.what if index and index.unreachable else ""
    if arguments.json:
        result = {
            "schema": 1,
            "stacks": stacks,
            "index": unreachable or ("not asked" if arguments.offline else "asked"),
            "exit_code": int(code),
            "findings": [finding.to_dict() for finding in findings],
        }
        print(json.dumps(result, indent=2))
        return code
    if findings:
        print(report.text(findings, located.read(project.root / matrix.FILE_NAME)) + "\n")
    if unreachable:
        note(f"{unreachable}; answered from the cache and what was recorded")
    console.print(f"{len(stacks)} stacks ({', '.join(stacks)}): {report.summary(findings)}")
    return code


def _rows(project: Project) -> list[table.Row]:
    # There is no ledger of audited digests yet.
    return table.rows(project.matrix, {})


def _record(project: Project) -> int:
    """Write the recorded releases anew. Raises what the index raises; then the file stays as it was."""
    file = project.root / "buildspec" / "facts" / SNAPSHOT
    if not file.exists():
        raise BadInputError(f"{file} does not exist: releases are recorded in a checkout of Drydock itself")
    with step("recording releases"):
        text = snapshot.take(open_index(fall_back=False), date.today())  # noqa: DTZ011 - the day of the record
    write(file, text)
    note(f"{file.name}: {len(text.splitlines())} lines")
    return ExitCode.DONE


def _index(*, offline: bool) -> Index | None:
    """The index; None when none is known, which the rules then say."""
    try:
        return open_index(offline=offline)
    except EnvironmentLacksError as error:
        note(str(error))
        return None


def _code(findings: list[Finding], *, strict: bool) -> ExitCode:
    if any(finding.severity == "error" or strict for finding in findings):
        return ExitCode.NOT_PROVEN
    undecided = any(finding.severity == "unknown" and finding.essential for finding in findings)
    return ExitCode.ENVIRONMENT if undecided else ExitCode.DONE


def _drift(project: Project) -> list[Finding]:
    """README.md shows the table as it was generated."""
    readme = project.root / README
    shown = table.embedded(_text(readme)) if readme.exists() else None
    if shown is None or shown == table.markdown(_rows(project)):
        return []
    return [
        rules.Finding(
            rule="docs.table",
            severity="error",
            path=("stacks",),
            pinned=f"the table in {README}",
            needed="the table of this matrix",
            reason="the generated table was not made anew after the matrix changed, or was edited by hand",
            says=(README,),
            remedy="`nox -s matrix -- --markdown --write`",
        )
    ]


def _write(readme: Path, made: str) -> None:
    text = _text(readme)
    shown = table.embedded(text)
    if shown is None:
        raise BadInputError(
            f"{readme} has no place for the table",
            remedy=f"put these two lines where it belongs:\n{table.BEGIN}\n{table.END}",
        )
    write(readme, text.replace(shown, made))
    note(f"{readme.name}: {'unchanged' if shown == made else 'written'}")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file} can't be read: {error}") from error

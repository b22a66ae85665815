"""Move pins to the newest versions that fit together, and lock them.

  drydock bump --plan                  show what would move, what could not and why; write nothing
  drydock bump train-2.60              move one stack's pins
  drydock bump --only vllm,torch       move only these pins
  drydock bump --check                 exit code 1 when a pin could move (for a scheduled job)
  drydock bump --locks                 take newer releases of what only the locks pin, too

Pins move within the `ranges` of their stack in versions.yaml. versions.yaml and the locks are written together
or not at all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from buildspec import bump, rules
from buildspec.atomic import write_all
from buildspec.bump.change import changelog
from buildspec.bump.resolution import MOVABLE
from buildspec.console import console, step
from buildspec.errors import BadInputError, ExitCode
from buildspec.index import lend_to_uv, open_index
from buildspec.located import nearest
from buildspec.project import Project

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from buildspec.bump import Proposal


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("stacks", metavar="STACK", nargs="*", help="stacks (default: all that are not retired)")
    parser.add_argument("--only", metavar="PIN,...", help=f"pins that may move, of {', '.join(MOVABLE)}")
    parser.add_argument("--plan", action="store_true", help="write nothing")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 when something could move"
    )
    parser.add_argument("--locks", action="store_true", help="also move what only the locks pin")
    parser.add_argument("--json", action="store_true", help="print a result for machines")


def run(arguments: Namespace) -> int:
    """Propose for every stack, then write all files or none."""
    project = Project.find()
    only = _only(arguments.only)
    names = list(dict.fromkeys(arguments.stacks)) or [
        name for name, stack in project.matrix.stacks.items() if stack.status != "retired"
    ]
    for name in names:
        if project.matrix.stack(name).status == "retired":
            raise BadInputError(f"stack {name} is retired: it is not moved any more")
    # Nothing may be decided on an answer from before.
    index = open_index(fall_back=False, fresh=0)
    lend_to_uv()
    catalog = rules.Catalog(index, rules.EMPTY)
    proposals: list[Proposal] = []
    for case in rules.cases(project, catalog):
        if case.name in names:
            with step(f"resolving {case.name}"):
                proposals.append(bump.propose(case, only))
    if not arguments.json:
        print("\n\n".join(_text(proposal, locks=arguments.locks) for proposal in proposals))
    also = [proposal.stack for proposal in proposals if arguments.locks and proposal.locked]
    newer = bool(also) or any(proposal.moved for proposal in proposals)
    write = newer and not (arguments.plan or arguments.check)
    if write:
        with step("locking " + ", ".join(dict.fromkeys([*(p.stack for p in proposals if p.moved), *also]))):
            texts = bump.files(project, proposals, index, also)
        write_all(texts)
        console.print("written: " + ", ".join(str(file.relative_to(project.root)) for file in texts))
    if arguments.json:
        result = {"schema": 1, "newer": newer, "written": write, "stacks": [p.to_dict() for p in proposals]}
        print(json.dumps(result, indent=2, ensure_ascii=False))
    return ExitCode.NOT_PROVEN if arguments.check and newer else ExitCode.DONE


def _only(text: str | None) -> list[str] | None:
    if text is None:
        return None
    pins = [pin.strip() for pin in text.split(",") if pin.strip()]
    for pin in pins:
        if pin not in MOVABLE:
            raise BadInputError(
                f"--only: '{pin}' is no pin that moves{nearest(pin, MOVABLE)}",
                remedy=f"name some of {', '.join(MOVABLE)}; Python moves with the base",
            )
    if not pins:
        raise BadInputError("--only names no pin", remedy=f"name some of {', '.join(MOVABLE)}")
    return pins


def _text(proposal: Proposal, *, locks: bool) -> str:
    """What would happen to one stack."""
    lines = [f"{proposal.stack}: " + (_moves(proposal) or "no pin can move")]
    lines += [f"  stays   {stay}" for stay in proposal.stays]
    lines += [f"  passed  {text}" for text in proposal.passed_over]
    shown = list(proposal.changes)
    others = proposal.locked or ()
    if proposal.moved or locks:
        shown += others
    elif others:
        lines.append(f"  locks   {len(others)} that only the lock pins could move too: --locks")
    lines += [f"  {line}" for line in changelog(shown)]
    return "\n".join(lines)


def _moves(proposal: Proposal) -> str:
    return ", ".join(f"{pin} {proposal.old[pin]} → {version}" for pin, version in proposal.moved.items())

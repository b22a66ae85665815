"""Build the stacks of the matrix and check them.

  drydock build                       every current stack
  drydock build train-2.60 --plan     what would be done, to the last argument
  drydock build --push 127.0.0.1:5000/team

Each step is skipped when its result is still valid: a base with the same inputs, an image with the same
plan, evidence for the same image and suite. An interrupted run is finished by running it again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from buildspec import base, baselock, disk, lock, network, plan, push
from buildspec import build as builds
from buildspec.console import console, note, size, step
from buildspec.engine import Engine, NoEngineError, find_engine
from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError, ExitCode
from buildspec.project import Project

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from buildspec.base import Os
    from buildspec.build import Built
    from buildspec.plan import Target
    from buildspec.push import Pushed
    from validate.evidence import Evidence


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("stacks", metavar="STACK", nargs="*", help="stacks to build (default: every current one)")
    parser.add_argument("--plan", action="store_true", help="print what would be done, and do nothing")
    parser.add_argument(
        "--locked", action="store_true", help="refuse when Debian's archive moved since the base lock"
    )
    parser.add_argument(
        "--push", metavar="REGISTRY/NAMESPACE", help="push the images that passed every check there"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one stack."""

    built: Built
    evidence: Evidence
    reused: bool
    pushed: Pushed | None


def run(arguments: Namespace) -> int:
    """Build, check and push; the exit code tells whether every check passed."""
    project = Project.find()
    names = list(dict.fromkeys(arguments.stacks)) or project.matrix.current()
    if not names:
        raise BadInputError("no stack is current", remedy="name the stacks to build, or correct versions.yaml")
    if arguments.push:
        push.destination(arguments.push)
    _readable_locks(project, names)
    if arguments.plan:
        return _print_plan(project, names, arguments)
    engine = find_engine()
    bases = sorted({project.matrix.stack(name).base for name in names})
    with project.exclusively([*names, *bases]):
        if not all(base.cached(project, name, engine) for name in bases):
            disk.check(project, names, engine)
        made = {name: _base(project, name, engine, locked=arguments.locked) for name in bases}
        revision = project.revision()
        targets = [plan.target(project, n, made[project.matrix.stack(n).base], revision) for n in names]
        built = _build(project, targets, engine)
        outcomes = [_prove(project, built[name], engine, arguments.push) for name in names]
    _report(outcomes, as_json=arguments.json)
    return ExitCode.DONE if all(outcome.evidence.passed for outcome in outcomes) else ExitCode.NOT_PROVEN


def _readable_locks(project: Project, names: list[str]) -> None:
    """Read every lock before the first slow step, and report all that is wrong with them at once."""
    wrong: list[DrydockError] = []
    for name in names:
        try:
            lock.read(project, name)
        except BadInputError as error:
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise BadInputError("\n".join(str(error) for error in wrong))


def _base(project: Project, name: str, engine: Engine, *, locked: bool) -> Os:
    made = base.prepare(project, name, engine)
    if moved := baselock.moved(baselock.read(project, name), made):
        listed = "".join(f"\n    {change}" for change in moved)
        if locked:
            raise EnvironmentLacksError(
                f"Debian's archive moved on since the lock of {name} was recorded:{listed}",
                why="--locked wants exactly the recorded packages, and the archive no longer has them",
                remedy="record it anew (`nox -s lock -- os`), or give the base a mirror that keeps history",
            )
        note(f"Debian's archive moved on since the lock of {name} (`nox -s lock -- os` records it anew):{listed}")
    return made


def _build(project: Project, targets: list[Target], engine: Engine) -> dict[str, Built]:
    found = {target.stack: builds.existing(project, target, engine) for target in targets}
    done = {stack: built for stack, built in found.items() if built}
    todo = [target for target in targets if target.stack not in done]
    for stack in done:
        note(f"{stack} is built already: {done[stack].image[:19]}")
    if todo:
        disk.check(project, [target.stack for target in todo], engine)
        done |= builds.build(project, todo, engine)
    return done


def _prove(project: Project, built: Built, engine: Engine, to: str | None) -> Outcome:
    # pytest is slow to import, and --plan does without.
    from validate import suite  # noqa: PLC0415
    from validate.evidence import Evidence, environment  # noqa: PLC0415
    from validate.outcome import Level  # noqa: PLC0415

    levels = (Level.STATIC, Level.CONTAINER)
    folder = project.results(built.stack)
    evidence = Evidence.read(folder / "report.json")
    reused = evidence is not None and evidence.covers(
        built.image, suite.suite_hash(), levels, environment(engine.url)
    )
    if evidence is None or not reused:
        with step(f"checking {built.stack}") as detail:
            evidence = suite.run(
                suite.ImageUnderTest(built.tag, built.image),
                stack_name=built.stack,
                stack=project.matrix.stack(built.stack),
                levels=levels,
                report_dir=folder,
                docker_host=engine.url,
                progress=detail,
            )
    pushed = push.push(project, built, to, engine) if to and evidence.passed else None
    if to and not pushed:
        note(f"{built.stack} is not pushed: a check failed")
    return Outcome(built, evidence, reused, pushed)


def _print_plan(project: Project, names: list[str], arguments: Namespace) -> int:
    engine: Engine | None = None
    try:
        engine = find_engine(start=False)
        seen = f"{engine.url} ({engine.version}, buildx {engine.buildx})"
    except NoEngineError:
        seen = "to be started"
    except EnvironmentLacksError as error:
        # The plan can be told all the same; the build would end with this.
        seen = f"not usable: {error.what}"
    revision = project.revision()
    targets = []
    for name in names:
        base_name = project.matrix.stack(name).base
        os = base.cached(project, base_name, engine) if engine else None
        if os is None:
            os = base.Os(base_name, "", "to be made", baselock.read(project, base_name))
        targets.append(plan.target(project, name, os, revision))
    if arguments.json:
        print(json.dumps([_plan_row(target) for target in targets], indent=1))
        return ExitCode.DONE
    print(f"engine    {seen}")
    print(f"network   {', '.join(network.read().names) or 'nothing set'} (given to the build as secrets)")
    for target in targets:
        _print_target(project, target, engine)
    if arguments.push:
        print(f"\nthen push what passed every check to {arguments.push}")
    return ExitCode.DONE


def _print_target(project: Project, target: Target, engine: Engine | None) -> None:
    known = builds.existing(project, target, engine) if engine else None
    before = builds.recorded(project, target.stack)
    print(f"\n{target.stack}")
    print(f"  state     {'built already: ' + known.image if known else 'to be built'}")
    if before:
        print(f"  last      {size(before.size)} in {before.layers} layers, {before.seconds:.0f} s")
    print(f"  base      {target.os.name}: {target.os.reference}, {len(target.os.packages)} Debian packages")
    print(f"  lock      {len(target.lock.versions)} distributions, sha256:{target.lock.sha256[:12]}")
    print(f"  tag       {target.tag}")
    for title, table in (("argument", target.arguments), ("label", target.labels)):
        for key, value in table.items():
            print(f"  {title:<9} {key}={value}")


def _plan_row(target: Target) -> dict[str, object]:
    return {
        "stack": target.stack,
        "base": target.os.reference,
        "lock": target.lock.sha256,
        "tag": target.tag,
        "arguments": target.arguments,
        "labels": target.labels,
        "key": target.key,
    }


def _report(outcomes: list[Outcome], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                **asdict(outcome.built),
                "checks": outcome.evidence.summary,
                "passed": outcome.evidence.passed,
                "reference": outcome.pushed.reference if outcome.pushed else None,
            }
            for outcome in outcomes
        ]
        print(json.dumps(rows, indent=1))
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("stack", "image", "size", "layers", "checks", "seconds"):
        table.add_column(title, justify="right" if title in ("size", "layers", "seconds") else "left")
    for outcome in outcomes:
        built, summary = outcome.built, outcome.evidence.summary
        counted = ", ".join(f"{count} {word}" for word, count in summary.items() if count)
        table.add_row(
            built.stack,
            built.image.removeprefix("sha256:")[:12],
            size(built.size),
            str(built.layers),
            f"{counted}{' (still valid)' if outcome.reused else ''}",
            f"{built.seconds:.0f}",
        )
    Console(soft_wrap=True).print(table)
    for outcome in outcomes:
        _print_failures(outcome)
        if outcome.pushed:
            print(f"{outcome.built.stack} is {outcome.pushed.reference}")


def _print_failures(outcome: Outcome) -> None:
    """Print what failed, each reason once however many checks it felled."""
    reasons: dict[str, list[str]] = {}
    for check in outcome.evidence.checks:
        if check.outcome.value in ("fail", "error"):
            reasons.setdefault(check.reason, []).append(check.id)
    for reason, ids in reasons.items():
        others = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
        console.print(f"✗ {outcome.built.stack}: {ids[0]}{others}: {reason}", style="red")

"""Run the checks on any image: Drydock's own, one derived from it, or somebody else's.

Writes report.json, report.html and junit.xml.

examples:
  drydock validate --image drydock/train-2.60:local --stack train-2.60
  drydock validate --image registry.example/team/trainer:7 --level static --report out/trainer
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from docker.errors import DockerException, ImageNotFound
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from buildspec import project
from buildspec.engine import find_engine
from buildspec.errors import ExitCode
from validate import suite
from validate.errors import EngineGoneError, ImageMissingError
from validate.outcome import Level, Outcome

if TYPE_CHECKING:
    import argparse

    import docker

    from buildspec.matrix import Stack
    from validate.evidence import Evidence

STYLE = {
    Outcome.PASS: "green",
    Outcome.FAIL: "bold red",
    Outcome.ERROR: "bold magenta",
    Outcome.BLOCKED: "yellow",
    Outcome.NOT_APPLICABLE: "dim",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument(
        "--image", required=True, metavar="REF", help="name, id or digest of an image on the engine"
    )
    parser.add_argument(
        "--stack", metavar="NAME", help="hold the image to this stack of versions.yaml; default: to its labels"
    )
    parser.add_argument(
        "--level",
        action="append",
        choices=[level.value for level in Level],
        metavar="LEVEL",
        help=f"one of {', '.join(Level)}; may be given several times; default: static and container",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help="folder for the reports; default: out/validate/ and the image's name",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    """Check one image. Exit code 1 when something failed, broke, or could not be looked at."""
    name: str | None = arguments.stack
    stack: Stack | None = project.Project.find().matrix.stack(name) if name else None
    engine = find_engine()
    image = _image(engine.client, arguments.image)
    folder: Path = arguments.report or Path("out", "validate", re.sub(r"[^\w.-]+", "_", arguments.image))
    console = Console(stderr=True, highlight=False)
    begun = time.monotonic()
    with console.status(f"checking {escape(arguments.image)}") as status:
        evidence = suite.run(
            image,
            stack_name=name,
            stack=stack,
            levels=[Level(level) for level in arguments.level or (Level.STATIC, Level.CONTAINER)],
            report_dir=folder,
            docker_host=engine.url,
            progress=lambda text: status.update(escape(text)),
        )
    _show(evidence, folder, time.monotonic() - begun)
    return ExitCode.DONE if evidence.passed else ExitCode.NOT_PROVEN


def _image(client: docker.DockerClient, reference: str) -> suite.ImageUnderTest:
    try:
        attributes = client.images.get(reference).attrs
    except ImageNotFound as error:
        raise ImageMissingError(
            f"the engine has no image {reference}",
            why="it was not built or pulled here, or its name is mistyped",
            remedy=f"`docker pull {reference}`, or `drydock build`; `docker images` lists what is there",
        ) from error
    except DockerException as error:
        raise EngineGoneError(f"the engine can't look up {reference}: {error}") from error
    digests = [digest.partition("@")[2] for digest in attributes.get("RepoDigests") or ()]
    return suite.ImageUnderTest(reference, attributes["Id"], digests[0] if digests else None)


def _show(evidence: Evidence, folder: Path, seconds: float) -> None:
    console = Console(highlight=False)
    catalogue = suite.catalogue()
    for outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.BLOCKED):
        for row in evidence.checks:
            if row.outcome is outcome:
                console.print(f"[{STYLE[outcome]}]{outcome.value}[/] {row.id}: {escape(row.reason)}")
                if row.outcome is Outcome.FAIL:
                    console.print(f"  do: {escape(catalogue[row.id].remedy)}", style="dim")
    table = Table("level", *Outcome, box=None, pad_edge=False)
    for level in Level:
        if level in evidence.levels:
            counts = [sum(r.level is level and r.outcome is o for r in evidence.checks) for o in Outcome]
            table.add_row(
                level.value, *(f"[{STYLE[o]}]{n}[/]" if n else "0" for o, n in zip(Outcome, counts, strict=True))
            )
    console.print(table)
    verdict = "[green]proven[/]" if evidence.passed else "[bold red]not proven[/]"
    console.print(f"{escape(evidence.image.ref)}: {verdict}, {seconds:.0f} s; report: {folder / 'report.html'}")

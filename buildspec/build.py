"""Builds: a plan in, images on the engine out, known by the digest of their configuration."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uv
from docker.errors import ImageNotFound

from buildspec import atomic, network, plan, process
from buildspec.console import step
from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError, NotProvenError

if TYPE_CHECKING:
    from buildspec.engine import Engine
    from buildspec.plan import Target
    from buildspec.project import Project

RESULT = "build.json"


@dataclass(frozen=True, slots=True)
class Built:
    """An image that was built.

    `image` is the digest of its configuration, which every manifest of it names; `key` is its plan's key;
    `size` the bytes of its layers, uncompressed; `layers` their number; `seconds` what the build took.
    """

    stack: str
    image: str
    tag: str
    key: str
    size: int
    layers: int
    seconds: float


def existing(project: Project, target: Target, engine: Engine) -> Built | None:
    """Return the image of an earlier run when its plan is the same and the engine still has it."""
    built = recorded(project, target.stack)
    if built is None or built.key != target.key:
        return None
    try:
        engine.client.images.get(built.image)
    except ImageNotFound:
        return None
    return built


def recorded(project: Project, stack: str) -> Built | None:
    """Return what the last build of a stack recorded, whether or not the image still exists."""
    try:
        return Built(**json.loads((project.out / stack / RESULT).read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def build(project: Project, targets: list[Target], engine: Engine) -> dict[str, Built]:
    """Build all targets in one go; returns what was built by stack name.

    Raises DrydockError of the class that fits: disk full, network, a wheel with another hash, engine gone.
    The output of the build lies in out/<stack>/build.log.
    """
    began = time.monotonic()
    log = project.results(targets[0].stack) / "build.log"
    with tempfile.TemporaryDirectory(prefix="drydock-build-") as folder:
        contexts = _contexts(Path(folder), targets)
        secrets = network.read()
        file = contexts / "bake.json"
        content = plan.bake(targets, images=project.images, contexts=contexts, network=secrets)
        file.write_text(json.dumps(content, indent=1))
        command = ["docker", "buildx", "bake", "--file", str(file), "--progress=plain"]
        try:
            with step(f"building {', '.join(target.stack for target in targets)}") as detail:
                process.stream(
                    [*command, "--provenance=false"],
                    on_line=lambda line: detail(_readable(line)),
                    env=engine.environment | secrets.environment,
                    log_file=log,
                )
        except process.CommandFailedError as error:
            raise explain(error, log) from error
    for target in targets[1:]:
        shutil.copyfile(log, project.results(target.stack) / log.name)
    seconds = time.monotonic() - began
    return {target.stack: _record(project, target, engine, seconds) for target in targets}


def _contexts(folder: Path, targets: list[Target]) -> Path:
    (folder / "tools").mkdir()
    shutil.copy2(uv.find_uv_bin(), folder / "tools" / "uv")
    for target in targets:
        (folder / target.stack).mkdir()
        (folder / target.stack / "requirements.txt").write_text(target.lock.text, encoding="utf-8")
    return folder


def _record(project: Project, target: Target, engine: Engine, seconds: float) -> Built:
    attributes = engine.client.images.get(target.tag).attrs
    built = Built(
        stack=target.stack,
        image=str(attributes["Id"]),
        tag=target.tag,
        key=target.key,
        size=int(attributes["Size"]),
        layers=len(attributes["RootFS"]["Layers"]),
        seconds=round(seconds, 1),
    )
    atomic.write(project.results(target.stack) / RESULT, json.dumps(asdict(built), indent=1) + "\n")
    return built


def _readable(line: str) -> str:
    """Shorten a line of BuildKit's plain progress to what a person wants to see."""
    return re.sub(r"^#\d+ (\d+\.\d+ )?", "", line).split(" RUN ")[0].strip()


def explain(error: process.CommandFailedError, log: Path) -> DrydockError:
    """Turn the output of a failed build into an error of the class that fits."""
    output = log.read_text(errors="replace") if log.exists() else error.output
    remedy = f"the whole output is in {log}"
    if "no space left on device" in output.lower():
        return EnvironmentLacksError(
            "the disk became full in mid-build; what was built is kept in the engine's cache",
            remedy="free some (`drydock clean` shows what it would free), then run this again",
        )
    if found := re.search(r"Hash mismatch for `([^`]+)`[\s\S]*?Computed:\s*(?:#\d+ [\d.]+)?\s*(\S+)", output):
        return NotProvenError(
            f"the index served another file for {found[1]} than the lock names (it has {found[2]})",
            why="the file was tampered with, the release was replaced, or the index builds its own wheels",
            remedy="find out which before you lock anew; " + remedy,
        )
    if re.search(r"requirement(s)? .*without a hash|In `--require-hashes` mode", output):
        return BadInputError("the lock has a requirement without a hash", remedy="lock anew: `nox -s lock`")
    if found := re.search(r"pinned Python (\S+), but the base has Python (\S+)", output):
        return NotProvenError(
            f"the stack pins Python {found[1]}, but its base has {found[2]}",
            why="Debian moved on to another patch release",
            remedy=f'write python: "{found[2]}" in versions.yaml, then `nox -s lock`',
        )
    if re.search(
        r"Cannot connect to the Docker daemon|error reading from server: EOF|transport is closing", output
    ):
        return EnvironmentLacksError(
            "the Docker Engine went away in mid-build",
            why="it was stopped, restarted, or killed for memory",
            remedy="start it and run this again: what was built is kept in its cache",
        )
    if re.search(r"error sending request|dns error|Temporary failure in name resolution|Failed to fetch", output):
        return EnvironmentLacksError(
            "the package index is out of reach from the build:\n" + _last(error),
            why="no network, or a proxy, index or CA that is set elsewhere than in the environment",
            remedy="set HTTPS_PROXY, UV_DEFAULT_INDEX or SSL_CERT_FILE; they reach the build as secrets",
        )
    return NotProvenError(f"the build failed:\n{_last(error)}", remedy=remedy)


def _last(error: process.CommandFailedError) -> str:
    told = [line for line in error.output.splitlines() if re.search(r"error|ERROR|failed", line)]
    return "\n".join(f"    {line}" for line in (told or error.output.splitlines())[-8:])

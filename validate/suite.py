"""Runs the checks on one image: pytest in a process of its own, its outcomes gathered as evidence."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

import docker
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from buildspec.matrix import Stack
from validate import checks, lab, report
from validate.bench import ImageConfig
from validate.catalogue import Check
from validate.claims import Claims
from validate.errors import EngineGoneError, ImageMissingError, SuiteBrokenError
from validate.evidence import CheckResult, Evidence, ImageUnderTest, environment
from validate.outcome import Level, Outcome
from validate.request import Request

__all__ = ["ImageUnderTest", "catalogue", "run", "suite_hash"]

HERE = Path(__file__).parent
CHECKS = HERE / "checks"
# Seconds that the process with the checks gets at each step: interrupt, terminate, kill.
STOP_STEPS = ((signal.SIGINT, 20), (signal.SIGTERM, 5), (signal.SIGKILL, 5))

Progress = Callable[[str], None]


@cache
def suite_hash() -> str:
    """SHA-256 over every file that decides what the checks say, names included."""
    digest = hashlib.sha256()
    for file in sorted(HERE.rglob("*")):
        relative = file.relative_to(HERE)
        if file.suffix not in {".py", ".yaml"} or relative.parts[0] in {"nccl", "report"}:
            continue
        digest.update(str(relative).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


@cache
def catalogue() -> Mapping[str, Check]:
    """Every check by its id. Raises ValueError when two have the same."""
    found: dict[str, Check] = {}
    for module in pkgutil.iter_modules(checks.__path__, "validate.checks."):
        for _, function in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            entry = getattr(function, "drydock_check", None)
            if not isinstance(entry, Check):
                continue
            if entry.id in found:
                raise ValueError(f"two checks have the id {entry.id}")
            found[entry.id] = entry
    return found


def run(
    image: ImageUnderTest,
    *,
    stack_name: str | None,
    stack: Stack | None,
    levels: Collection[Level],
    report_dir: Path,
    docker_host: str,
    progress: Progress | None = None,
) -> Evidence:
    """Check an image at these levels; write report.json, report.html and junit.xml into `report_dir`.

    Raises EngineGoneError, ImageMissingError, SuiteBrokenError, KeyboardInterrupt; leaves nothing on the engine.
    """
    report_dir.mkdir(parents=True, exist_ok=True)
    seen = environment(docker_host)
    client = docker.DockerClient(base_url=docker_host)
    identity = uuid.uuid4().hex[:12]
    try:
        with _engine_errors(docker_host):
            lab.sweep(client)
            config = _config(client, image)
        claims = Claims.read(config.labels, stack_name, stack)
        request = Request(
            docker_host=docker_host,
            run=identity,
            image=image,
            config=config,
            claims=claims,
            environment=seen,
            levels=tuple(level for level in Level if level in set(levels)),
            facts_file=report_dir / "facts.json",
        )
        request.facts_file.unlink(missing_ok=True)
        try:
            rows = _run_checks(request, report_dir / "suite.log", progress or (lambda _: None))
        finally:
            with contextlib.suppress(DockerException, RequestException):
                lab.remove_run(client, identity)
    finally:
        client.close()
    evidence = Evidence(image, claims.stack, suite_hash(), seen, rows)
    report.write(evidence, config, claims, catalogue(), request.facts_file, report_dir)
    return evidence


@contextlib.contextmanager
def _engine_errors(docker_host: str) -> Iterator[None]:
    try:
        yield
    except (DockerException, RequestException) as error:
        raise EngineGoneError(
            f"the container engine at {docker_host} refused: {error}", remedy="look at the engine's own log"
        ) from error


def _config(client: docker.DockerClient, image: ImageUnderTest) -> ImageConfig:
    try:
        attributes: dict[str, Any] = client.images.get(image.id).attrs
        layers = client.images.get(image.id).history()
    except ImageNotFound as error:
        raise ImageMissingError(
            f"the engine has no image {image.ref}", remedy="build it, or pull it, then run this again"
        ) from error
    config = attributes["Config"]
    return ImageConfig(
        environment=lab.environment_of(config),
        labels=config.get("Labels") or {},
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        user=config.get("User") or "",
        architecture=attributes["Architecture"],
        size=attributes["Size"],
        history=tuple((row["CreatedBy"] or row.get("Comment", ""), row["Size"]) for row in reversed(layers)),
    )


def _run_checks(request: Request, log: Path, progress: Progress) -> tuple[CheckResult, ...]:
    rows: dict[str, CheckResult] = {}
    wanted = [entry.id for entry in catalogue().values() if entry.level in request.levels]
    with tempfile.TemporaryDirectory(prefix="drydock-") as folder, log.open("w", encoding="utf-8") as errors:
        file = Path(folder) / "request.json"
        request.write(file)

        def take(row: CheckResult) -> None:
            rows[row.id] = row
            progress(f"{row.outcome.value:<14} {row.id}")

        code = _stream(request, file, errors, take)
    missing = [name for name in wanted if name not in rows]
    if missing and not rows:
        raise SuiteBrokenError(
            f"the checks ended with code {code} and no outcome; {log} has their last words",
            why=log.read_text(encoding="utf-8")[-1500:].strip(),
        )
    # A check without an outcome is one that nobody looked at: said as such, never left out.
    for name in missing:
        reason = f"the suite ended (code {code}) before this check; see {log}"
        rows[name] = CheckResult(name, catalogue()[name].level, Outcome.ERROR, reason)
    return tuple(rows[name] for name in wanted)


def _stream(request: Request, file: Path, errors: IO[str], take: Callable[[CheckResult], None]) -> int:
    """Run the process with the checks and take its outcomes as they come; returns its exit code."""
    command = [
        *(sys.executable, "-m", "pytest", "--capture=no"),
        *("-c", os.devnull, "--rootdir", str(CHECKS), "--import-mode=importlib"),
        *("--disable-plugin-autoload", "-p", "no:terminal", "-p", "no:cacheprovider"),
        *("-p", "validate.plugin", "--drydock-request", str(file), str(CHECKS)),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=_child_environment(request),
        # Its own process group: the terminal's Ctrl-C reaches this process alone, which stops it in steps.
        start_new_session=True,
    ) as process:
        try:
            for line in process.stdout or ():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    take(CheckResult.from_json(json.loads(line)))
            return process.wait()
        except BaseException:
            _stop(process)
            raise


def _child_environment(request: Request) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    path = os.pathsep.join(filter(None, [str(HERE.parent), inherited.get("PYTHONPATH")]))
    return {**inherited, "DOCKER_HOST": request.docker_host, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _stop(process: subprocess.Popen[str]) -> None:
    for number, seconds in STOP_STEPS:
        if process.poll() is not None:
            return
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)

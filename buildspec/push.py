"""Push: an image on the engine in, its digest in a registry out."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from docker.errors import APIError, DockerException

from buildspec import atomic, process
from buildspec.console import size, step
from buildspec.errors import BadInputError, EnvironmentLacksError, NotProvenError

if TYPE_CHECKING:
    from buildspec.build import Built
    from buildspec.engine import Engine
    from buildspec.project import Project

RESULT = "push.json"
# A first part without dot, port or `localhost` would be a user of Docker Hub; the rest is the distribution
# specification's grammar of a repository.
_DESTINATION = re.compile(
    r"(?:localhost|[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)+|[a-z0-9][a-z0-9-]*(?=:))(?::[0-9]{1,5})?"
    r"(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)+"
)


@dataclass(frozen=True, slots=True)
class Pushed:
    """An image in a registry: `repository@digest` is its only identity there; `image` its configuration."""

    stack: str
    image: str
    repository: str
    digest: str

    @property
    def reference(self) -> str:
        """What to pull: `registry/namespace/name@sha256:…`."""
        return f"{self.repository}@{self.digest}"


def destination(text: str) -> str:
    """Check a REGISTRY/NAMESPACE. Raises BadInputError when it is not one."""
    if not _DESTINATION.fullmatch(text):
        raise BadInputError(
            f"'{text}' is not REGISTRY/NAMESPACE",
            why="a destination has a host, perhaps a port, and one or more names in small letters",
            remedy="write it as registry.example.com/team or 127.0.0.1:5000/team",
        )
    return text


def push(project: Project, built: Built, to: str, engine: Engine) -> Pushed:
    """Push one image to TO/drydock-<image>, read its manifest back, and record the digest.

    Raises EnvironmentLacksError (registry out of reach, no credentials), NotProvenError (it refuses, or
    holds another image than the one that was pushed).
    """
    stack = project.matrix.stack(built.stack)
    repository = f"{to}/drydock-{stack.image}"
    engine.client.images.get(built.image).tag(repository, tag=built.stack)
    try:
        digest = _send(engine, repository, built.stack)
    finally:
        # The name was only needed for the push.
        engine.client.images.remove(f"{repository}:{built.stack}", noprune=True)
    pushed = Pushed(built.stack, built.image, repository, digest)
    _read_back(engine, pushed)
    atomic.write(project.results(built.stack) / RESULT, json.dumps(asdict(pushed), indent=1) + "\n")
    return pushed


def _send(engine: Engine, repository: str, tag: str) -> str:
    sent: dict[str, int] = {}
    digest = ""
    try:
        with step(f"pushing {tag} to {repository}") as detail:
            for event in engine.client.api.push(repository, tag=tag, stream=True, decode=True):
                if "error" in event:
                    raise _refused(repository, str(event["error"]))
                progress = event.get("progressDetail") or {}
                if "current" in progress:
                    sent[event["id"]] = progress["current"]
                    detail(size(sum(sent.values())))
                digest = (event.get("aux") or {}).get("Digest", digest)
    except APIError as error:
        raise _refused(repository, str(error.explanation)) from error
    except DockerException as error:
        raise _refused(repository, str(error)) from error
    if not digest:
        raise NotProvenError(f"the registry of {repository} took the image but told no digest")
    return digest


def _read_back(engine: Engine, pushed: Pushed) -> None:
    command = ["docker", "buildx", "imagetools", "inspect", "--raw", pushed.reference]
    try:
        manifest = json.loads(process.run(command, env=engine.environment).output)
        config = manifest["config"]["digest"]
    except (process.CommandFailedError, ValueError, KeyError) as error:
        raise NotProvenError(f"{pushed.reference} was pushed but can't be read back: {error}") from error
    if config != pushed.image:
        raise NotProvenError(
            f"{pushed.reference} holds the image {config}, but {pushed.image} was pushed",
            why="something between here and the registry rewrites images",
            remedy="do not use this digest",
        )


def _refused(repository: str, told: str) -> Exception:
    if re.search(r"unauthorized|authentication required|no basic auth|denied|forbidden", told, re.IGNORECASE):
        return EnvironmentLacksError(
            f"the registry refuses the push to {repository}: {told}",
            why="no login for it on this machine, or one that may not write there",
            remedy=f"`docker login {repository.split('/', maxsplit=1)[0]}`, then run this again",
        )
    if re.search(r"refused|no such host|timeout|unreachable|EOF|server gave HTTP response", told, re.IGNORECASE):
        return EnvironmentLacksError(
            f"the registry of {repository} is out of reach: {told}",
            why="it is down, its name is wrong, or it speaks plain HTTP (which engines accept only on loopback)",
            remedy="check the name and the network, then run this again: layers that arrived are not sent twice",
        )
    return NotProvenError(
        f"the registry refuses the push to {repository}: {told}",
        remedy="correct what it names, then run this again: layers that arrived are not sent twice",
    )

"""Finds the Docker Engine to use; starts a private one, or installs one, where that is possible."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import docker
from docker.context import ContextAPI
from docker.context.config import get_current_context_name
from docker.errors import DockerException
from docker.utils import kwargs_from_env
from packaging.version import Version

from buildspec import process
from buildspec.console import note
from buildspec.engine import install, private
from buildspec.errors import EnvironmentLacksError

if TYPE_CHECKING:
    from docker import DockerClient

# BuildKit with named contexts and reproducible times; 25.0 is the oldest release that its project still names.
MINIMUM_ENGINE = Version("25.0")
# The first buildx that loads `docker-image://` contexts in bake files together with secrets from JSON.
MINIMUM_BUILDX = Version("0.12")

# How long an engine may take to answer at all, and to do a piece of work such as removing an image.
_ANSWER_SECONDS = 20
_WORK_SECONDS = 600

DEFAULT_SOCKET = Path("/var/run/docker.sock")
HOW_TO_GET = (
    "install Docker Engine with its buildx plugin (on Debian 13 and Ubuntu 24.04: "
    "`apt-get install docker.io docker-buildx`), start it, and run this again"
)


class NoEngineError(EnvironmentLacksError):
    """No engine was named and none answers: one could be started."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A Docker Engine that answers.

    `url` is what DOCKER_HOST would hold; `private` tells whether it is Drydock's own.
    """

    url: str
    client: DockerClient
    version: str
    buildx: str
    private: bool

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make the docker command talk to this engine."""
        return {"DOCKER_HOST": self.url, "DOCKER_CONTEXT": ""}

    @property
    def data_root(self) -> Path | None:
        """The engine's data folder when it lies on this machine."""
        root = Path(str(self.client.info().get("DockerRootDir", "")))
        return root if root.is_dir() else None


def find_engine(*, start: bool = True) -> Engine:
    """Return the engine to use: DOCKER_HOST, the docker context, the default socket, a private one.

    With `start`, a private engine is started, and on Debian or Ubuntu as root installed, when none answers.
    Raises EnvironmentLacksError: none to be had, one named that does not answer, or one that is too old.
    """
    if url := _named():
        return _checked(url, _connect(url))
    for url in _local():
        if client := _try(url):
            return _checked(url, client)
    if not start:
        raise NoEngineError("no Docker Engine answers", remedy=HOW_TO_GET)
    if not private.possible() and not install.possible():
        raise EnvironmentLacksError(
            "no Docker Engine answers, and none can be started here",
            why="dockerd is not installed, and this is not Debian or Ubuntu with root rights",
            remedy=HOW_TO_GET,
        )
    if not private.possible():
        install.install()
        # A distribution's package may have started the engine itself.
        if client := _try(f"unix://{DEFAULT_SOCKET}"):
            return _checked(f"unix://{DEFAULT_SOCKET}", client)
    url = private.start()
    return _checked(url, _connect(url))


def _named() -> str | None:
    """Return the engine that the user named: DOCKER_HOST first, then a docker context."""
    if url := os.environ.get("DOCKER_HOST"):
        return url
    name = os.environ.get("DOCKER_CONTEXT")
    try:
        context = ContextAPI.get_context(name) if name else ContextAPI.get_current_context()
    except DockerException as error:
        raise EnvironmentLacksError(
            f"the docker context '{name or 'current'}' can't be read: {error}",
            remedy="`docker context ls` lists the contexts; `docker context use default` leaves it",
        ) from error
    if context is None:
        raise EnvironmentLacksError(
            f"there is no docker context '{name or get_current_context_name()}'",
            remedy="`docker context ls` lists the contexts",
        )
    return None if context.Name == "default" else str(context.Host)


def _local() -> list[str]:
    if DEFAULT_SOCKET.exists() and not os.access(DEFAULT_SOCKET, os.W_OK):
        raise EnvironmentLacksError(
            f"{DEFAULT_SOCKET} may not be used by this user",
            why="the engine's socket belongs to root and the group docker",
            remedy="join the group (`sudo usermod -aG docker $USER`, then log in again), or set DOCKER_HOST",
        )
    return [f"unix://{DEFAULT_SOCKET}", private.url()]


def _try(url: str) -> DockerClient | None:
    if url.startswith("unix://") and not Path(url.removeprefix("unix://")).exists():
        return None
    try:
        return _connect(url)
    except EnvironmentLacksError:
        return None


def _connect(url: str) -> DockerClient:
    try:
        tls = kwargs_from_env().get("tls", False) if url.startswith("tcp://") else False
        client = docker.DockerClient(base_url=url, timeout=_ANSWER_SECONDS, tls=tls)
        client.ping()
        client.api.timeout = _WORK_SECONDS
    except DockerException as error:
        raise EnvironmentLacksError(
            f"the Docker Engine at {url} does not answer: {_short(error)}",
            why="DOCKER_HOST or the docker context names an engine that is stopped, or that this user may not use",
            remedy="start it, correct the name, or unset DOCKER_HOST to let Drydock find or start an engine",
        ) from error
    except ValueError as error:
        raise EnvironmentLacksError(
            f"DOCKER_HOST is '{url}', which is not an engine's address: {error}",
            remedy="write it as unix:///path/docker.sock or tcp://host:port",
        ) from error
    return client


def _short(error: Exception) -> str:
    """Return the innermost reason; docker-py wraps it in several layers of repr."""
    found = re.search(
        r"\[Errno \d+\] ([\w ]+)|Error\(\d+, '([\w ]+)'\)|'([A-Z][\w ]+ (?:refused|denied|timed out)[^']*)'",
        str(error),
    )
    return next(filter(None, found.groups())) if found else str(error)


def _checked(url: str, client: DockerClient) -> Engine:
    version = str(client.version()["Version"])
    # Debian writes 26.1.5+dfsg1, others 25.0.3-ce or 24.0.7-0ubuntu4.
    number = re.match(r"\d+(\.\d+)*", version)
    if number and Version(number[0]) < MINIMUM_ENGINE:
        raise EnvironmentLacksError(
            f"the Docker Engine at {url} is {version}; {MINIMUM_ENGINE} or newer is needed",
            why="older engines lack named build contexts or reproducible times",
            remedy=HOW_TO_GET,
        )
    return Engine(url, client, version, _buildx(), private=url == private.url())


def _buildx() -> str:
    process.find("docker", remedy=HOW_TO_GET)
    try:
        output = process.run(["docker", "buildx", "version"]).output
    except process.CommandFailedError as error:
        raise EnvironmentLacksError(
            f"the docker command has no buildx plugin; {MINIMUM_BUILDX} or newer is needed",
            why="distributions package it apart from the engine",
            remedy="install it (on Debian 13 and Ubuntu 24.04: `apt-get install docker-buildx`)",
        ) from error
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", output)
    if found is None:
        note(f"the version of buildx can't be told from {output.strip()!r}; going on")
        return output.strip()
    if Version(found[1]) < MINIMUM_BUILDX:
        raise EnvironmentLacksError(
            f"docker buildx is {found[1]}; {MINIMUM_BUILDX} or newer is needed",
            remedy="upgrade it (on Debian 13 and Ubuntu 24.04: `apt-get install docker-buildx`)",
        )
    return found[1]

"""The lab: containers made from the image under test, labelled with their owner, and never left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import testinfra  # type: ignore[import-untyped]
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container

LABEL = "io.drydock"
KIND = "validate"
OWNER_LABEL = "io.drydock.owner"
RUN_LABEL = "io.drydock.run"
# Keeps a container alive without any program but the shell, and ends at once when it is stopped.
IDLE = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done")


def _start_time(pid: int) -> str | None:
    """When a process of this machine started, in clock ticks; None when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def owner() -> str:
    """This process, so that another can tell whether it still lives: machine, process id, start time."""
    return f"{socket.gethostname()}/{os.getpid()}/{_start_time(os.getpid()) or '0'}"


def owner_is_dead(text: str) -> bool:
    """Tell whether the owner was a process of this machine that has ended; unknown ones count as living."""
    match = re.fullmatch(r"(.+)/(\d+)/(\d+)", text)
    if not match or match[1] != socket.gethostname():
        return False
    return _start_time(int(match[2])) != match[3]


def sweep(client: docker.DockerClient) -> int:
    """Remove what runs that were killed left on the engine; returns how many containers and networks."""
    removed = 0
    filters = {"label": f"{LABEL}={KIND}"}
    for container in client.api.containers(all=True, filters=filters):
        if owner_is_dead(container["Labels"].get(OWNER_LABEL, "")):
            removed += _remove(client, container["Id"])
    for network in client.api.networks(filters=filters):
        if owner_is_dead(network["Labels"].get(OWNER_LABEL, "")):
            with contextlib.suppress(APIError):
                client.api.remove_network(network["Id"])
                removed += 1
    return removed


def remove_run(client: docker.DockerClient, run: str) -> None:
    """Remove everything that one run made."""
    filters = {"label": f"{RUN_LABEL}={run}"}
    for container in client.api.containers(all=True, filters=filters):
        _remove(client, container["Id"])
    for network in client.api.networks(filters=filters):
        with contextlib.suppress(APIError):
            client.api.remove_network(network["Id"])


def _remove(client: docker.DockerClient, identity: str | None) -> int:
    if identity is None:
        return 0
    # Another sweep may have been quicker, or its removal may be under way.
    with contextlib.suppress(NotFound, APIError):
        client.api.remove_container(identity, force=True, v=True)
        return 1
    return 0


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ran in a container: what it said, how it ended, how long it took."""

    command: str
    code: int
    out: str
    err: str
    seconds: float
    out_of_memory: bool = False
    timed_out: bool = False

    @property
    def said(self) -> str:
        """The last lines of both streams, for a reason."""
        lines = [line for line in (self.out + "\n" + self.err).splitlines() if line.strip()]
        return "\n".join(lines[-12:])

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.out_of_memory:
            return "was killed for memory"
        if self.timed_out:
            return f"did not end within {self.seconds:.0f} s"
        if self.code == 127:
            return "was not found (exit code 127)"
        return f"ended with exit code {self.code}"


class Lab:
    """Starts containers from one image. Thread-safe; `close` removes everything."""

    def __init__(self, docker_host: str, image_id: str, run: str) -> None:
        self.image_id = image_id
        self.run_id = run
        self.docker_host = docker_host
        # One connection per concurrent experiment, or they would wait for each other.
        self.client = docker.DockerClient(base_url=docker_host, timeout=600, max_pool_size=32)
        self._main: Container | None = None
        self._main_error: DockerException | None = None
        self._lock = threading.Lock()
        self._network: Any = None

    def labels(self) -> dict[str, str]:
        """Labels of everything this lab makes."""
        return {LABEL: KIND, OWNER_LABEL: owner(), RUN_LABEL: self.run_id}

    def close(self) -> None:
        """Remove everything this lab made."""
        remove_run(self.client, self.run_id)
        self.client.close()

    @property
    def network(self) -> str:
        """Name of the run's own network, made on first use."""
        with self._lock:
            if self._network is None:
                self._network = self.client.networks.create(
                    f"drydock-{self.run_id}", labels=self.labels(), check_duplicate=True
                )
            return str(self._network.name)

    def create(self, command: Sequence[str], **options: Any) -> Container:
        """Create a container whose entrypoint is bypassed, as KubeRay does, and which is not yet started."""
        return self.client.containers.create(
            self.image_id,
            entrypoint=list(command[:1]),
            command=list(command[1:]),
            name=f"drydock-{self.run_id}-{uuid.uuid4().hex[:8]}",
            labels=self.labels(),
            **options,
        )

    @contextlib.contextmanager
    def container(self, command: Sequence[str], **options: Any) -> Iterator[Container]:
        """Run a container of its own, and remove it."""
        container = self.create(command, **options)
        try:
            container.start()
            yield container
        finally:
            _remove(self.client, container.id)

    @property
    def main(self) -> Container:
        """The image's long-lived container. Raises DockerException where the image can't keep one."""
        with self._lock:
            if self._main_error is not None:
                raise self._main_error
            if self._main is None:
                container = self.create(IDLE, shm_size="512m", user="0:0")
                try:
                    container.start()
                except DockerException as error:
                    self._main_error = error
                    raise
                self._main = container
            return self._main

    def host(self, container: Container) -> testinfra.host.Host:
        """Testinfra's view of a container, through its docker backend."""
        return testinfra.get_host(f"docker://{container.id}")

    def sh(self, container: Container, command: str, seconds: int = 60) -> Ran:
        """Run a shell command in a running container, with a time limit."""
        started = time.monotonic()
        limit = f"$(command -v timeout >/dev/null && echo timeout -k 5 {seconds}) "
        result = self.host(container).run(limit + "/bin/sh -c " + shlex.quote(command))
        took = time.monotonic() - started
        return Ran(
            command,
            result.rc,
            result.stdout,
            result.stderr,
            took,
            timed_out=result.rc in (124, 137) and took >= seconds,
        )

    def exec(self, container: Container, command: Sequence[str], seconds: int = 60) -> Ran:
        """Run a program in a running container with no shell around it, so that its name may be anything."""
        return self.sh(container, "exec " + shlex.join(command), seconds)

    def create_as_built(self, command: Sequence[str], **options: Any) -> Container:
        """Create a container that keeps the image's own entrypoint."""
        return self.client.containers.create(
            self.image_id,
            command=list(command),
            name=f"drydock-{self.run_id}-{uuid.uuid4().hex[:8]}",
            labels=self.labels(),
            **options,
        )

    def once_as_built(self, command: Sequence[str], *, seconds: int = 120) -> Ran:
        """Run one command through the image's own entrypoint, to its end."""
        return self._to_its_end(self.create_as_built(command), command, seconds)

    def once(self, command: Sequence[str], *, seconds: int = 120, **options: Any) -> Ran:
        """Run one command in a container of its own, to its end."""
        return self._to_its_end(self.create(command, **options), command, seconds)

    def _to_its_end(self, container: Container, command: Sequence[str], seconds: int) -> Ran:
        started = time.monotonic()
        timer = threading.Timer(seconds, _kill, [container])
        try:
            container.start()
            timer.start()
            code = int(container.wait()["StatusCode"])
            timed_out = not timer.is_alive()
            container.reload()
            return Ran(
                shlex.join(command),
                code,
                container.logs(stdout=True, stderr=False).decode("utf-8", "replace"),
                container.logs(stdout=False, stderr=True).decode("utf-8", "replace"),
                time.monotonic() - started,
                out_of_memory=bool(container.attrs["State"].get("OOMKilled")),
                timed_out=timed_out,
            )
        finally:
            timer.cancel()
            _remove(self.client, container.id)


def _kill(container: Container) -> None:
    with contextlib.suppress(APIError):
        container.kill()


def environment_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The ENV of an image's configuration."""
    return dict(row.partition("=")[::2] for row in config.get("Env") or [])

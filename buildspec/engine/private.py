"""A Docker Engine of Drydock's own: one folder holds its data, socket, pid and log."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import docker
from docker.errors import DockerException

from buildspec.console import note, step
from buildspec.errors import EnvironmentLacksError

if TYPE_CHECKING:
    from collections.abc import Iterator

LABEL = "io.drydock.engine=private"
_START_SECONDS = 60
_STOP_SECONDS = 60
# An engine stays when the process that started it ends. Python warns of a child that is forgotten while it runs.
_outliving: list[subprocess.Popen[bytes]] = []


def root() -> Path:
    """Return the engine's folder; DRYDOCK_ENGINE_ROOT moves it to another disk."""
    return Path(os.environ.get("DRYDOCK_ENGINE_ROOT") or "/var/lib/drydock/engine").expanduser().absolute()


def url() -> str:
    """Return the address that DOCKER_HOST would hold for this engine."""
    return f"unix://{root() / 'docker.sock'}"


def possible() -> bool:
    """Tell whether a private engine can be started: dockerd is installed and we are root."""
    return os.geteuid() == 0 and shutil.which("dockerd") is not None


def pid() -> int | None:
    """Return the process id of the running private engine, or None."""
    try:
        number = int((root() / "dockerd.pid").read_text())
        command = Path(f"/proc/{number}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    # After a restart of the machine the number may be another engine's: this one has its own folder's names.
    words = command.split(b"\0")
    return number if words[0].endswith(b"dockerd") and url().encode() in words else None


def start() -> str:
    """Start the private engine, or wait for one that is starting; returns its url.

    Raises EnvironmentLacksError with the end of its log when it does not come up.
    """
    folder = root()
    folder.mkdir(parents=True, exist_ok=True)
    # Unix sockets have short names (107 bytes), and dockerd adds its own folders below exec-root.
    if len(str(folder)) > 60:
        raise EnvironmentLacksError(
            f"the engine's folder {folder} has too long a name for a socket", remedy="set DRYDOCK_ENGINE_ROOT"
        )
    with _lock(folder), step(f"starting a private Docker Engine in {folder}"):
        child = _spawn(folder) if pid() is None else None
        deadline = time.monotonic() + _START_SECONDS
        while not _answers():
            if time.monotonic() > deadline or (child is not None and child.poll() is not None):
                log = (folder / "dockerd.log").read_text(errors="replace").splitlines()
                raise EnvironmentLacksError(
                    "the private Docker Engine did not start; its log ends with:\n"
                    + "\n".join(f"    {line}" for line in log[-8:]),
                    why="the machine forbids what engines need (cgroups, mounts, iptables), or its disk is full",
                    remedy="use an engine elsewhere: set DOCKER_HOST",
                )
            time.sleep(0.2)
    note("it stays for the next run; `drydock engine stop` stops it")
    return url()


def stop() -> bool:
    """Stop the private engine; returns False when none was running. Its data stays."""
    number = pid()
    if number is None:
        return False
    with step("stopping the private Docker Engine"):
        os.kill(number, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while pid() is not None:
            if time.monotonic() > deadline:
                raise EnvironmentLacksError(
                    f"the private Docker Engine (process {number}) did not stop in {_STOP_SECONDS} s",
                    why="a container of it does not end",
                    remedy=f"end its containers, or `kill -9 {number}`",
                )
            time.sleep(0.2)
    return True


def _spawn(folder: Path) -> subprocess.Popen[bytes]:
    for stale in ("dockerd.pid", "docker.sock"):
        (folder / stale).unlink(missing_ok=True)
    command = [
        "dockerd",
        *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
        *("--pidfile", str(folder / "dockerd.pid"), "--host", url(), "--label", LABEL),
    ]
    with (folder / "dockerd.log").open("wb") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    _outliving.append(child)
    return child


def _answers() -> bool:
    try:
        # docker-py leaves a socket open that it could not connect; this is asked until the engine is up.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(root() / "docker.sock"))
        with contextlib.closing(docker.DockerClient(base_url=url(), timeout=5)) as client:
            return bool(client.ping())
    except (DockerException, OSError):
        return False


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Two commands that start at once start one engine."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

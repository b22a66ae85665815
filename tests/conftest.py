"""What all tests share: a guard around unit tests, the engine of integration tests, a small project."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from buildspec.engine import find_engine
from tests.sample import write_project

if TYPE_CHECKING:
    from collections.abc import Callable

    from buildspec.engine import Engine
    from buildspec.project import Project

ROOT = Path(__file__).resolve().parent.parent
RULE = "a test without the marker `integration` may not"


def pytest_configure() -> None:
    """Take Ctrl-C back: a shell that runs us in the background has it ignored, by all that we start, too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def guard(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit test that starts a process or talks to another host fails, whatever catches exceptions there."""
    if request.node.get_closest_marker("integration"):
        return
    monkeypatch.setattr(subprocess, "Popen", _NoPopen)
    for name in ("system", "posix_spawn", "posix_spawnp", "fork", "forkpty"):
        monkeypatch.setattr(os, name, _refuse(f"start a process (os.{name})"))
    # execv and execve are what all the others of their family call.
    for name in ("execv", "execve", "execl", "execle", "execlp", "execlpe", "execvp", "execvpe"):
        monkeypatch.setattr(os, name, _refuse(f"become another program (os.{name})"))
    monkeypatch.setattr(socket, "socket", _LocalSocket)
    monkeypatch.setattr(socket, "getaddrinfo", _local_only(socket.getaddrinfo))


def _refuse(what: str) -> Callable[..., Any]:
    def refused(*arguments: object, **_: object) -> Any:
        pytest.fail(f"{RULE} {what}: {' '.join(map(repr, arguments))}", pytrace=True)

    return refused


class _NoPopen(subprocess.Popen[Any]):
    """Stays a class, since code names it in annotations and asks isinstance."""

    def __init__(self, arguments: object, *_: object, **__: object) -> None:
        # Popen's destructor reads these, also of an object that was never made.
        self.returncode = 0
        self._child_created = False
        pytest.fail(f"{RULE} start a process: {arguments!r}", pytrace=True)


def _loopback(host: object) -> bool:
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


class _LocalSocket(socket.socket):
    """A socket that reaches this machine's own loopback, where tests have their servers, and nothing else."""

    def connect(self, address: Any) -> None:
        _check(address)
        super().connect(address)

    def connect_ex(self, address: Any) -> int:
        _check(address)
        return super().connect_ex(address)


def _check(address: Any) -> None:
    # The name of a Unix socket is text; behind it is an engine, or another service of this machine.
    if not isinstance(address, tuple) or not _loopback(address[0]):
        pytest.fail(f"{RULE} open a connection: {address!r}", pytrace=True)


def _local_only(resolve: Callable[..., Any]) -> Callable[..., Any]:
    def resolved(host: object, *arguments: Any, **named: Any) -> Any:
        if not _loopback(host):
            pytest.fail(f"{RULE} look up a host: {host!r}", pytrace=True)
        return resolve(host, *arguments, **named)

    return resolved


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the machine that would change what unit tests see."""
    for name in ("SOURCE_DATE_EPOCH", "DRYDOCK_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture
def small(tmp_path: Path) -> Project:
    """A project of its own: two stacks on a bootstrapped base, a third on an image; no lock yet."""
    return write_project(tmp_path / "small")


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine that a user of this machine would get: found, or a private one started."""
    return find_engine()

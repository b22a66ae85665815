"""The guard around unit tests holds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable

import pytest

RULE = "a test without the marker `integration` may not"


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run(["true"], check=False),
        lambda: subprocess.Popen(["true"]),
        lambda: subprocess.check_output("true", shell=True),
        lambda: os.system("true"),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: os.spawnv(os.P_WAIT, "/bin/true", ["true"]),
        lambda: os.popen("true"),
        lambda: asyncio.run(asyncio.create_subprocess_exec("true")),
    ],
    ids=["run", "Popen", "shell", "system", "posix_spawn", "spawnv", "popen", "asyncio"],
)
def test_unit_tests_start_no_process(start: Callable[[], object]) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"^{RULE} start a process"):
        start()


def test_unit_tests_do_not_become_another_program() -> None:
    with pytest.raises(pytest.fail.Exception, match=f"^{RULE} become another program"):
        os.execvp("true", ["true"])


def test_no_handler_swallows_the_guard() -> None:
    with pytest.raises(pytest.fail.Exception), contextlib.suppress(Exception):
        subprocess.run(["true"], check=False)


@pytest.mark.parametrize("address", [("192.0.2.1", 443), ("2001:db8::1", 443), "/run/docker.sock"])
def test_unit_tests_open_no_connection_to_another_host(address: object) -> None:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as open_socket, pytest.raises(pytest.fail.Exception, match=f"^{RULE} open"):
        open_socket.connect(address)  # type: ignore[arg-type]


def test_unit_tests_look_up_no_host() -> None:
    with pytest.raises(pytest.fail.Exception, match=f"^{RULE} look up a host: 'www.example.org'"):
        socket.create_connection(("www.example.org", 443), timeout=1)


def test_loopback_stays_open() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=5) as client,
        server.accept()[0] as accepted,
    ):
        client.sendall(b"ahoy")
        assert accepted.recv(4) == b"ahoy"


@pytest.mark.integration
def test_integration_tests_may_start_a_process() -> None:
    assert subprocess.run(["true"], check=False).returncode == 0

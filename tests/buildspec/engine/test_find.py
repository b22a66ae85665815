"""Which engine is used, and what is told when there is none."""

from __future__ import annotations

import gc
import http.server
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from buildspec.engine import find, find_engine, private
from buildspec.errors import EnvironmentLacksError

WHY = "DOCKER_HOST or the docker context names an engine that is stopped, or that this user may not use"
DO = "start it, correct the name, or unset DOCKER_HOST to let Drydock find or start an engine"


@pytest.fixture(autouse=True)
def nothing_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable, no context, no engine on this machine."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DRYDOCK_ENGINE_ROOT", str(tmp_path / "engine"))
    monkeypatch.setattr(find, "DEFAULT_SOCKET", tmp_path / "docker.sock")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("tcp://127.0.0.1:1", "Connection refused"),
        ("tcp://", "Invalid bind address format: tcp://"),
        ("engine", "Invalid bind address format: port is required: engine"),
        ("npipe:////./pipe/docker", "The npipe:// protocol is only supported on Windows"),
    ],
)
def test_an_engine_that_is_named_and_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, url: str, reason: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", url)
    with pytest.raises(EnvironmentLacksError) as caught:
        find_engine()
    assert str(caught.value) == f"the Docker Engine at {url} does not answer: {reason}\n  why: {WHY}\n  do:  {DO}"
    assert caught.value.code == 3


# docker-py leaves a Unix socket open that it could not connect.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.integration
def test_a_socket_that_is_named_and_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"unix://{tmp_path}/gone.sock"
    monkeypatch.setenv("DOCKER_HOST", url)
    with pytest.raises(EnvironmentLacksError) as caught:
        find_engine()
    assert caught.value.what == f"the Docker Engine at {url} does not answer: No such file or directory"
    del caught
    gc.collect()


@pytest.mark.parametrize("url", ["tcp://[::1", "tcp://127.0.0.1:port"])
def test_what_is_no_address(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", url)
    with pytest.raises(
        EnvironmentLacksError, match=r"^DOCKER_HOST is 'tcp://.*', which is not an engine's address"
    ):
        find_engine()


def test_a_context_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "gone")
    with pytest.raises(EnvironmentLacksError) as caught:
        find_engine()
    assert str(caught.value) == "there is no docker context 'gone'\n  do:  `docker context ls` lists the contexts"


def test_a_current_context_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"currentContext": "gone"}')
    with pytest.raises(EnvironmentLacksError, match=r"^there is no docker context 'gone'\n"):
        find_engine()


def test_none_and_none_wanted() -> None:
    with pytest.raises(EnvironmentLacksError) as caught:
        find_engine(start=False)
    assert str(caught.value) == (
        "no Docker Engine answers\n  do:  install Docker Engine with its buildx plugin (on Debian 13 and Ubuntu "
        "24.04: `apt-get install docker.io docker-buildx`), start it, and run this again"
    )


def test_none_and_none_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentLacksError) as caught:
        find_engine()
    assert str(caught.value) == (
        "no Docker Engine answers, and none can be started here\n"
        "  why: dockerd is not installed, and this is not Debian or Ubuntu with root rights\n"
        "  do:  install Docker Engine with its buildx plugin (on Debian 13 and Ubuntu "
        "24.04: `apt-get install docker.io docker-buildx`), start it, and run this again"
    )


def test_a_socket_of_another_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker.sock").write_text("")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(EnvironmentLacksError) as caught:
        find_engine()
    assert str(caught.value) == (
        f"{tmp_path}/docker.sock may not be used by this user\n"
        "  why: the engine's socket belongs to root and the group docker\n"
        "  do:  join the group (`sudo usermod -aG docker $USER`, then log in again), or set DOCKER_HOST"
    )


def test_the_folder_of_a_private_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert private.root() == tmp_path / "engine"
    assert private.url() == f"unix://{tmp_path}/engine/docker.sock"
    monkeypatch.chdir(tmp_path)
    # dockerd itself runs in /.
    monkeypatch.setenv("DRYDOCK_ENGINE_ROOT", "engine")
    assert private.url() == f"unix://{tmp_path}/engine/docker.sock"
    monkeypatch.setenv("DRYDOCK_ENGINE_ROOT", "~/engine")
    assert private.root() == tmp_path / "engine"
    monkeypatch.setenv("DRYDOCK_ENGINE_ROOT", "")
    assert private.root() == Path("/var/lib/drydock/engine")
    monkeypatch.delenv("DRYDOCK_ENGINE_ROOT")
    assert private.root() == Path("/var/lib/drydock/engine")


def test_a_folder_with_too_long_a_name_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("x" * 60)
    monkeypatch.setenv("DRYDOCK_ENGINE_ROOT", str(folder))
    with pytest.raises(EnvironmentLacksError) as caught:
        private.start()
    assert str(caught.value) == (
        f"the engine's folder {folder} has too long a name for a socket\n  do:  set DRYDOCK_ENGINE_ROOT"
    )


@pytest.mark.parametrize("content", ["", "x", "999999999", "-1", "1"])
def test_a_stale_pid_is_no_engine(tmp_path: Path, content: str) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "dockerd.pid").write_text(content)
    assert private.pid() is None
    assert private.stop() is False


@pytest.mark.integration
def test_the_pid_of_another_engine_is_not_ours(tmp_path: Path) -> None:
    """After a restart of the machine a stale number may be that of the machine's own engine."""
    (tmp_path / "engine").mkdir()
    command = ["-c", "exec -a dockerd sleep 60"]
    with subprocess.Popen(["bash", *command]) as other:
        try:
            (tmp_path / "engine" / "dockerd.pid").write_text(str(other.pid))
            deadline = time.monotonic() + 20
            while not Path(f"/proc/{other.pid}/cmdline").read_bytes().startswith(b"dockerd\0"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert private.pid() is None
            assert private.stop() is False
            assert other.poll() is None
        finally:
            other.kill()


Serve = Callable[[str], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A stand-in for an engine of any version: old ones can't be had in Debian any more.

    It answers /_ping and /version as the engine's public API describes them.
    """
    servers: list[http.server.HTTPServer] = []

    def start(version: str) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = b"OK"
                if self.path.endswith("/version"):
                    body = json.dumps({"Version": version, "ApiVersion": "1.41"}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return f"tcp://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("version", ["20.10.24+dfsg1", "24.0.7-0ubuntu4", "9.10"])
def test_an_engine_that_is_too_old(monkeypatch: pytest.MonkeyPatch, serve: Serve, version: str) -> None:
    url = serve(version)
    monkeypatch.setenv("DOCKER_HOST", url)
    with pytest.raises(EnvironmentLacksError) as caught:
        find_engine()
    assert str(caught.value) == (
        f"the Docker Engine at {url} is {version}; 25.0 or newer is needed\n"
        "  why: older engines lack named build contexts or reproducible times\n"
        "  do:  install Docker Engine with its buildx plugin (on Debian 13 and Ubuntu "
        "24.04: `apt-get install docker.io docker-buildx`), start it, and run this again"
    )


@pytest.mark.integration
@pytest.mark.parametrize("version", ["25.0.0", "25.0.3-ce", "26.1.5+dfsg1", "28.2.2", "100.1", "master"])
def test_an_engine_that_is_new_enough(monkeypatch: pytest.MonkeyPatch, serve: Serve, version: str) -> None:
    url = serve(version)
    monkeypatch.setenv("DOCKER_HOST", url)
    engine = find_engine()
    assert (engine.url, engine.version, engine.private) == (url, version, False)
    assert engine.environment == {"DOCKER_HOST": url, "DOCKER_CONTEXT": ""}
    engine.client.close()


def executable(folder: Path, text: str) -> None:
    """A stand-in for the docker command of a distribution that packages another buildx."""
    folder.mkdir()
    (folder / "docker").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "docker").chmod(0o755)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo github.com/docker/buildx 0.10.4 c513d34; exit 0",
            (
                "docker buildx is 0.10.4; 0.12 or newer is needed\n"
                "  do:  upgrade it (on Debian 13 and Ubuntu 24.04: `apt-get install docker-buildx`)"
            ),
        ),
        (
            "echo \"docker: 'buildx' is not a docker command.\"; exit 1",
            (
                "the docker command has no buildx plugin; 0.12 or newer is needed\n"
                "  why: distributions package it apart from the engine\n"
                "  do:  install it (on Debian 13 and Ubuntu 24.04: `apt-get install docker-buildx`)"
            ),
        ),
    ],
    ids=["old", "missing"],
)
def test_buildx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve, script: str, message: str) -> None:
    executable(tmp_path / "bin", script)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
    monkeypatch.setenv("DOCKER_HOST", serve("26.1.5"))
    with pytest.raises(EnvironmentLacksError) as caught:
        find_engine()
    assert str(caught.value) == message


def test_no_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", serve("26.1.5"))
    with pytest.raises(
        EnvironmentLacksError, match=r"^'docker' is not installed or not on PATH\n  do:  install Docker"
    ):
        find_engine()

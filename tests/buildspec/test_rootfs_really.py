"""What images/rootfs does in containers: the entrypoint, any user id, SSH between two of them."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.models.containers import Container
from docker.models.networks import Network

from tests.buildspec.conftest import TEST, Harbour, Launch

pytestmark = pytest.mark.integration


def finished(container: Container) -> tuple[int, str]:
    """Exit code and output of a container that ends by itself."""
    code = int(container.wait(timeout=60)["StatusCode"])
    return code, container.logs().decode()


def wait_for(container: Container, text: str) -> None:
    deadline = time.monotonic() + 30
    while text not in container.logs().decode():
        assert time.monotonic() < deadline, container.logs().decode()
        time.sleep(0.1)


def run(container: Container, *command: str, **options: Any) -> tuple[int, str]:
    code, output = container.exec_run(list(command), **options)
    assert isinstance(output, bytes)
    return int(code or 0), output.decode()


def test_arguments_pass_through_untouched(harbour: Harbour, launch: Launch) -> None:
    words = ["a b", "$HOME", "", "*", "--help", "ü", "it's"]
    container = launch(harbour.built.image, ["python", "-c", "import sys; print(sys.argv[1:])", *words])
    assert finished(container) == (0, f"{words}\n")


def test_the_exit_code_is_the_commands(harbour: Harbour, launch: Launch) -> None:
    assert finished(launch(harbour.built.image, ["sh", "-c", "exit 37"]))[0] == 37


def test_a_command_that_is_not_there(harbour: Harbour, launch: Launch) -> None:
    code, output = finished(launch(harbour.built.image, ["no-such-command"]))
    assert code == 127
    assert "no-such-command" in output


def test_stop_reaches_the_command(harbour: Harbour, launch: Launch) -> None:
    script = "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.1; done"
    container = launch(harbour.built.image, ["sh", "-c", script])
    wait_for(container, "ready")
    container.stop(timeout=60)
    assert finished(container) == (5, "ready\ntold\n")


def test_stop_ends_a_command_that_handles_no_signal(harbour: Harbour, launch: Launch) -> None:
    container = launch(harbour.built.image, ["sleep", "1000"])
    # Before tini is up, the kernel keeps signals from a container's first process.
    deadline = time.monotonic() + 30
    while "sleep" not in run(container, "sh", "-c", "cat /proc/[0-9]*/comm")[1].split():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    container.stop(timeout=60)
    # 128 + SIGTERM: it was not killed at the end of the minute.
    assert finished(container)[0] == 143


def test_the_command_takes_the_entrypoints_place(harbour: Harbour, launch: Launch) -> None:
    """tini is the first process, the command its child: no shell in between."""
    container = launch(harbour.built.image, ["sleep", "1000"])
    _, output = run(container, "sh", "-c", "cat /proc/1/comm; cat /proc/[0-9]*/comm")
    assert output.splitlines()[0] == "tini"
    assert output.splitlines().count("sleep") == 1
    assert "drydock-entrypoi" not in output


def test_orphans_are_reaped(harbour: Harbour, launch: Launch) -> None:
    container = launch(harbour.built.image, ["sleep", "1000"])
    run(container, "sh", "-c", "(sleep 0.2 &) ; exit 0")
    deadline = time.monotonic() + 20
    while "State:\tZ" in (states := run(container, "sh", "-c", "cat /proc/[0-9]*/status")[1]) or "0.2" in states:
        assert time.monotonic() < deadline, states
        time.sleep(0.1)


@pytest.mark.parametrize("user", ["0", "12345", "12345:0", "1000:0"])
@pytest.mark.parametrize("entrypoint", [None, "bash"])
def test_any_user_id_works_with_and_without_the_entrypoint(
    harbour: Harbour, launch: Launch, user: str, entrypoint: str | None
) -> None:
    code = "import dinghy, os, pathlib; p = pathlib.Path.home() / 'x'; p.write_text('y'); print(os.getuid(), p)"
    command = ["-lc", f'python -c "{code}"'] if entrypoint else ["python", "-c", code]
    container = launch(harbour.built.image, command, user=user, entrypoint=entrypoint)
    assert finished(container) == (0, f"{user.split(':', maxsplit=1)[0]} /home/ray/x\n")


def test_a_login_shell_finds_the_environment(harbour: Harbour, launch: Launch) -> None:
    container = launch(harbour.built.image, ["bash", "-lc", "command -v python; echo $VIRTUAL_ENV"])
    assert finished(container) == (0, "/opt/venv/bin/python\n/opt/venv\n")


# SSH for MPI.


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key pair made for this run, as a user would mount it: Kubernetes gives secrets the mode 0644."""
    folder = tmp_path_factory.mktemp("keys")
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id_ed25519")]
    subprocess.run(command, check=True)
    (folder / "authorized_keys").write_text((folder / "id_ed25519.pub").read_text())
    (folder / "id_ed25519").chmod(0o644)
    return folder


@pytest.fixture
def network(harbour: Harbour) -> Iterator[Network]:
    one = harbour.engine.client.networks.create(f"drydock-test-{uuid.uuid4().hex[:8]}", labels=TEST)
    yield one
    one.remove()


Pair = tuple[Container, Container]


@pytest.fixture
def pair(harbour: Harbour, keys: Path, network: Network, launch: Launch) -> Iterator[Pair]:
    """Two containers with sshd, as two nodes of an MPI job."""
    options: dict[str, Any] = {
        "environment": {"DRYDOCK_SSHD": "2222"},
        "volumes": {str(keys): {"bind": "/run/secrets/ssh", "mode": "ro"}},
        "network": network.name,
    }
    one, two = (
        launch(harbour.built.image, ["sleep", "1000"], hostname=name, name=f"{network.name}-{name}", **options)
        for name in ("one", "two")
    )
    yield one, two
    # The network can be removed when nobody is in it any more.
    for container in (one, two):
        container.remove(force=True, v=True)


def ssh(here: Container, there: Container, *command: str) -> tuple[int, str]:
    """As mpirun does it: no port and no key is named."""
    return run(here, "ssh", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", str(there.name), *command)


def listening(container: Container, other: Container) -> str:
    """The host key that a container shows to another one."""
    scan = ["ssh-keyscan", "-p", "2222", "-t", "ed25519", str(container.name)]
    deadline = time.monotonic() + 30
    while not (found := run(other, *scan)[1].split("ssh-")[1:]):
        assert time.monotonic() < deadline, container.logs().decode()
        time.sleep(0.2)
    return found[0]


def test_nodes_log_in_to_each_other_by_key(pair: Pair) -> None:
    one, two = pair
    listening(one, two)
    listening(two, one)
    assert ssh(one, two, "hostname") == (0, "two\n")
    assert ssh(two, one, "hostname") == (0, "one\n")


def test_a_command_over_ssh_finds_the_environment(pair: Pair) -> None:
    one, two = pair
    listening(two, one)
    assert ssh(one, two, "python -c 'import dinghy; print(dinghy.version)'") == (0, "2.60.0\n")


def test_every_container_has_a_host_key_of_its_own(pair: Pair) -> None:
    one, two = pair
    first, second = listening(one, two), listening(two, one)
    assert first != second
    assert first == listening(one, two)


def test_nobody_logs_in_without_the_key(pair: Pair) -> None:
    one, two = pair
    listening(two, one)
    run(one, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/tmp/other")
    code, output = run(
        one, "ssh", "-F", "none", "-p", "2222", "-i", "/tmp/other", "-o", "BatchMode=yes",
        "-o", "StrictHostKeyChecking=no", f"root@{two.name}", "hostname",
    )  # fmt: skip
    assert code == 255
    assert "Permission denied (publickey)" in output


def test_the_mounted_key_stays_what_it_was(pair: Pair, keys: Path) -> None:
    assert sorted(file.name for file in keys.iterdir()) == ["authorized_keys", "id_ed25519", "id_ed25519.pub"]
    assert (keys / "id_ed25519").stat().st_mode & 0o777 == 0o644
    assert run(pair[0], "find", "/etc/ssh", "-name", "*_key*") == (0, "")


def test_sshd_without_keys_says_what_to_mount(harbour: Harbour, launch: Launch) -> None:
    container = launch(harbour.built.image, ["sleep", "1000"], environment={"DRYDOCK_SSHD": "2222"})
    assert finished(container) == (
        2,
        "drydock-sshd: no /run/secrets/ssh/authorized_keys: mount a key pair made for this run there\n",
    )


def test_sshd_of_a_user_id_without_a_name_says_so(harbour: Harbour, launch: Launch, keys: Path) -> None:
    container = launch(
        harbour.built.image,
        ["sleep", "1000"],
        environment={"DRYDOCK_SSHD": "2222"},
        volumes={str(keys): {"bind": "/run/secrets/ssh", "mode": "ro"}},
        user="12345",
    )
    assert finished(container) == (
        2,
        "drydock-sshd: user id 12345 has no name in /etc/passwd, and SSH does not work without: run as root\n",
    )


def test_no_sshd_unless_asked_for(harbour: Harbour, launch: Launch) -> None:
    container = launch(harbour.built.image, ["sleep", "1000"])
    assert "sshd" not in run(container, "sh", "-c", "cat /proc/[0-9]*/comm")[1]


def test_scripts_may_be_run_by_everybody(root: Path) -> None:
    folder = root / "images" / "rootfs" / "usr" / "local" / "bin"
    scripts = sorted(folder.iterdir())
    assert [file.name for file in scripts] == ["drydock-entrypoint", "drydock-sshd"]
    assert all(file.stat().st_mode & 0o555 == 0o555 for file in scripts)

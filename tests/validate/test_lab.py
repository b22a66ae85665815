"""The lab leaves nothing behind, and takes nothing from others."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import pytest

from tests.validate.mutants.harness import labelled
from validate import lab

if TYPE_CHECKING:
    from buildspec.engine import Engine

HERE = socket.gethostname()
COMMAND = "import sys; from buildspec.cli import main; sys.exit(main())"


def test_owner_is_this_process_and_lives() -> None:
    assert lab.owner().startswith(f"{HERE}/{os.getpid()}/")
    assert not lab.owner_is_dead(lab.owner())


@pytest.mark.parametrize(
    ("owner", "dead"),
    [
        (f"{HERE}/999999999/1", True),
        (f"{HERE}/{os.getpid()}/1", True),  # the process id was given to another since
        ("another-machine/999999999/1", False),
        ("", False),
        ("nonsense", False),
    ],
    # the process id is another in each worker, and a test has one name
    ids=["no such process", "another process since", "another machine", "empty", "nonsense"],
)
def test_only_a_dead_process_of_this_machine_is_dead(owner: str, dead: bool) -> None:
    assert lab.owner_is_dead(owner) is dead


def test_a_command_says_how_it_ended() -> None:
    assert lab.Ran("x", 127, "", "", 1.0).ending == "was not found (exit code 127)"
    assert lab.Ran("x", 137, "", "", 1.0, out_of_memory=True).ending == "was killed for memory"
    assert lab.Ran("x", 137, "", "", 60.0, timed_out=True).ending == "did not end within 60 s"
    assert lab.Ran("x", 1, "a\n\nb", "c", 1.0).said == "a\nb\nc"


def _leave(client: docker.DockerClient, image: str, owner: str) -> str:
    labels = {lab.LABEL: lab.KIND, lab.OWNER_LABEL: owner, lab.RUN_LABEL: "left"}
    return str(client.containers.create(image, ["sleep", "60"], labels=labels).id)


@pytest.mark.integration
def test_sweep_takes_what_the_dead_left_and_nothing_else(engine: Engine, minimal: str) -> None:
    dead = _leave(engine.client, minimal, f"{HERE}/999999999/1")
    living = _leave(engine.client, minimal, lab.owner())
    try:
        assert lab.sweep(engine.client) >= 1
        left = {row["Id"] for row in engine.client.api.containers(all=True)}
        assert living in left
        assert dead not in left
    finally:
        engine.client.api.remove_container(living, force=True)


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_nothing(
    engine: Engine, bases: dict[str, str], tmp_path: Path, number: int
) -> None:
    before = {row["Id"] for row in labelled(engine)}
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "validate", "--image", bases["plain"], "--report", str(tmp_path)],
        env={**os.environ, "DOCKER_HOST": engine.url},
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not {row["Id"] for row in labelled(engine)} - before and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    mine = {
        row["Id"] for row in labelled(engine) if row["Labels"].get(lab.OWNER_LABEL, "").split("/")[1:2]
    } - before
    assert not mine

"""The command line: exit codes, texts, help."""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import docker.errors
import pytest

from buildspec import cli
from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError, NotProvenError
from buildspec.project import Project
from tests.sample import BODY, write_lock

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def drydock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process; returns exit code, standard output and standard error."""
    # The handler of the real program must not stay in the test's process.
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["drydock", *arguments])
        try:
            code = cli.main()
        except SystemExit as error:
            code = int(error.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make the command `engine` raise."""

    def prepare(error: BaseException) -> None:
        def run(_: object) -> int:
            raise error

        module = SimpleNamespace(__doc__="x", add_arguments=lambda _: None, run=run)
        monkeypatch.setattr(importlib, "import_module", lambda _: module)

    return prepare


def test_every_command_has_help_with_an_example(drydock: Run) -> None:
    for name in cli.COMMANDS:
        code, out, err = drydock(name, "--help")
        assert (code, err) == (0, ""), name
        assert out.startswith(f"usage: drydock {name}"), name
        assert re.search(rf"^  drydock {name}\b", out, re.MULTILINE), f"{name} --help has no example"
        assert "exit codes: 0 done and good" in out


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_the_overview_names_every_command(drydock: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = drydock(*arguments)
    assert (code, err) == (0, "")
    for name, (_, text) in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", out, re.MULTILINE)


def test_help_needs_no_checkout(drydock: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert drydock("build", "--help")[0] == 0


def test_an_unknown_command(drydock: Run) -> None:
    code, out, err = drydock("biuld")
    assert (code, out) == (2, "")
    assert err.startswith("usage: drydock [-h] COMMAND ...\ndrydock: ")
    assert "'biuld'" in err
    assert "build" in err


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_an_unknown_option(drydock: Run, name: str) -> None:
    code, out, err = drydock(name, "--no-such-option")
    assert (code, out) == (2, "")
    assert err.startswith(f"usage: drydock {name} ")
    assert "Traceback" not in err


def test_an_option_without_its_value(drydock: Run) -> None:
    code, _, err = drydock("build", "--push")
    assert code == 2
    assert err.endswith("drydock build: argument --push: expected one argument\n")


@pytest.mark.parametrize("action", ["", "restart"])
def test_an_action_that_is_none(drydock: Run, action: str) -> None:
    code, _, err = drydock("engine", *filter(None, [action]))
    assert code == 2
    assert err.startswith("usage: drydock engine ")


@pytest.mark.parametrize(
    ("kind", "code"), [(NotProvenError, 1), (BadInputError, 2), (EnvironmentLacksError, 3), (DrydockError, 1)]
)
def test_a_failure_is_a_text_and_a_code(
    drydock: Run, raising: Callable[[BaseException], None], kind: type[DrydockError], code: int
) -> None:
    raising(kind("it broke", why="of age", remedy="mend it"))
    assert drydock("engine") == (code, "", "drydock: it broke\n  why: of age\n  do:  mend it\n")


def test_a_traceback_only_when_asked_for(
    drydock: Run, raising: Callable[[BaseException], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYDOCK_TRACEBACK", "1")
    raising(BadInputError("it broke"))
    code, _, err = drydock("engine")
    assert code == 2
    assert err.startswith("drydock: it broke\nTraceback (most recent call last):\n")


def test_an_interrupt(drydock: Run, raising: Callable[[BaseException], None]) -> None:
    raising(KeyboardInterrupt())
    assert drydock("engine") == (130, "", "drydock: interrupted\n")


def test_an_engine_that_went_away(drydock: Run, raising: Callable[[BaseException], None]) -> None:
    raising(docker.errors.APIError("gone"))
    code, out, err = drydock("engine")
    assert (code, out) == (3, "")
    assert err.startswith("drydock: the Docker Engine went away, or refused what it was asked: ")


@pytest.mark.parametrize(
    ("number", "starts"),
    [
        (errno.ENOSPC, "drydock: the disk is full: /x/y\n"),
        (errno.EACCES, "drydock: /x/y: Permission denied\n"),
        (errno.EROFS, "drydock: /x/y: Read-only file system\n"),
    ],
)
def test_a_file_system_that_refuses(
    drydock: Run, raising: Callable[[BaseException], None], number: int, starts: str
) -> None:
    raising(OSError(number, os.strerror(number), "/x/y"))
    code, out, err = drydock("engine")
    assert (code, out) == (3, "")
    assert err.startswith(starts)


def test_a_mistake_of_ours_is_not_hidden(drydock: Run, raising: Callable[[BaseException], None]) -> None:
    raising(AssertionError("ours"))
    with pytest.raises(AssertionError, match="ours"):
        drydock("engine")


# Broken input, from the command line down. No engine is needed for any of it.


@pytest.fixture
def inside(small: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(small.root)
    return small


def test_build_outside_a_checkout(drydock: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = drydock("build")
    assert (code, out) == (2, "")
    assert err.startswith(f"drydock: there is no versions.yaml in {tmp_path} or above it\n")


@pytest.mark.parametrize("command", ["build", "lock"])
def test_an_unknown_stack(drydock: Run, inside: Project, command: str) -> None:
    assert drydock(command, "tugg") == (
        2,
        "",
        "drydock: no stack is named 'tugg' (did you mean 'tug'?)\n  do:  name one of tug, barge, raft\n",
    )


@pytest.mark.parametrize("command", [["build"], ["build", "--plan"], ["lock"], ["lock", "os"]])
def test_a_broken_matrix(drydock: Run, inside: Project, command: list[str]) -> None:
    (inside.root / "versions.yaml").write_text("schema: 1\nschema: 2\n")
    code, out, err = drydock(*command)
    assert (code, out) == (2, "")
    assert err == (
        f"drydock: {inside.root}/versions.yaml has 1 mistake:\n"
        f"  {inside.root}/versions.yaml:2: schema: stands twice; the first is on line 1\n"
    )


def test_all_locks_are_reported_at_once(drydock: Run, inside: Project) -> None:
    file = write_lock(inside, "barge", BODY)
    file.write_text(file.read_text().replace("a" * 64, "b" * 64))
    code, out, err = drydock("build")
    assert (code, out) == (2, "")
    assert f"stack tug has no lock ({inside.root}/images/locks/tug.txt)" in err
    assert f"{file} was changed after it was made" in err


def test_no_stack_is_current(drydock: Run, inside: Project) -> None:
    file = inside.root / "versions.yaml"
    file.write_text(file.read_text().replace("status: current", "status: maintenance"))
    assert drydock("build") == (
        2,
        "",
        "drydock: no stack is current\n  do:  name the stacks to build, or correct versions.yaml\n",
    )


def test_a_destination_is_checked_before_the_first_step(drydock: Run, inside: Project) -> None:
    code, _, err = drydock("build", "--push", "https://registry.example.com/team")
    assert code == 2
    assert err.startswith("drydock: 'https://registry.example.com/team' is not REGISTRY/NAMESPACE\n")


def test_a_misspelt_placeholder(drydock: Run, inside: Project) -> None:
    write_lock(inside, "tug", BODY)
    (inside.images / "train" / "requirements.in").write_text("ray=={rya}\n")
    code, _, err = drydock("build", "tug")
    assert code == 2
    where = f"{inside.images}/train/requirements.in:1"
    assert err == f"drydock: {where}: {{rya}} is not a pin of a train stack (did you mean 'ray'?)\n"


# The real program, as a shell starts it.

DRYDOCK = [sys.executable, "-c", "import sys; from buildspec.cli import main; sys.exit(main())"]


def program(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(
        [*DRYDOCK, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.integration
def test_a_locale_of_ascii(small: Project) -> None:
    file = small.root / "versions.yaml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("Small Train", "Kleiner Zug · größer"), encoding="utf-8"
    )
    done = program("build", "büro", cwd=small.root, **ASCII)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for name in cli.COMMANDS:
        done = program(name, "--help", cwd=small.root, **ASCII)
        assert (done.returncode, done.stderr) == (0, ""), name


@pytest.mark.integration
def test_a_narrow_terminal(small: Project) -> None:
    for name in cli.COMMANDS:
        done = program(name, "--help", cwd=small.root, COLUMNS="20")
        assert (done.returncode, done.stderr) == (0, ""), name


@pytest.mark.integration
def test_output_into_a_pipe_that_closes(small: Project) -> None:
    for name in ("tug", "barge"):
        write_lock(small, name, BODY)
    command = [*DRYDOCK, "build", "--help"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            command, cwd=small.root, stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.integration
def test_a_plan_needs_no_engine(small: Project, tmp_path: Path) -> None:
    write_lock(small, "tug", BODY)
    (small.locks / "tiny.json").write_text(
        json.dumps(
            {"packages": [{"name": "libc6", "version": "2.41-12", "architecture": "amd64", "sha256": "ab"}]}
        )
    )
    environment = {
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
        "HTTPS_PROXY": "http://ann:hush@proxy.example:3128",
        "SOURCE_DATE_EPOCH": "1796000000",
        "GIT_CEILING_DIRECTORIES": str(tmp_path),
    }
    done = program("build", "tug", "--plan", "--push", "r.example/team", cwd=small.images, **environment)
    assert done.returncode == 0, done.stderr
    lines = [re.sub(r" +", " ", line.strip()) for line in done.stdout.splitlines()]
    assert lines[0].startswith(
        f"engine not usable: the Docker Engine at unix://{tmp_path}/none.sock does not answer"
    )
    assert "HTTPS_PROXY, https_proxy" in lines[1]
    assert "hush" not in done.stdout + done.stderr
    assert "state to be built" in lines
    assert "base tiny: to be made, 1 Debian packages" in lines
    assert "argument CUDA_VERSION=13.2" in lines
    assert "label io.drydock.pin.torch=2.15.0" in lines
    assert "label org.opencontainers.image.created=2026-11-30T00:53:20Z" in lines
    assert lines[-1] == "then push what passed every check to r.example/team"
    assert not small.out.exists()

    done = program("build", "tug", "--plan", "--json", cwd=small.root, **environment)
    [row] = json.loads(done.stdout)
    assert row["stack"] == "tug"
    assert row["arguments"]["PYTHON_VERSION"] == "3.13.5"
    assert row["labels"]["io.drydock.pin.nccl"] == "2.30.7"

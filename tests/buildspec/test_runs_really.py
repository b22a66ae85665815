"""`drydock build` as a process, and the engine under it: interrupted, twice at once, gone, too small."""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from buildspec import build as builds
from buildspec import disk, lock, plan
from buildspec.base import cached
from buildspec.engine import Engine, find_engine, private
from buildspec.errors import EnvironmentLacksError
from buildspec.project import Project
from tests.buildspec.conftest import REVISION, Harbour

# docker-py leaves sockets open of engines that went away; a private engine outlives the process that starts it.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("behind_proxy"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

DRYDOCK = [sys.executable, "-c", "import sys; from buildspec.cli import main; sys.exit(main())"]


def sleeping(harbour: Harbour, folder: Path) -> tuple[Project, str]:
    """A copy of the project whose build sleeps for ever, and the number by which its process is known."""
    project = harbour.copy(folder)
    number = str(100000 + secrets.randbelow(10**9))
    dockerfile = project.images / "Dockerfile"
    dockerfile.write_text(f"FROM os\nRUN echo started-$((1 + 1)) && sleep {number}\n")
    shutil.copy2(lock.path(harbour.project, harbour.stack), lock.path(project, harbour.stack))
    baselock = project.locks / f"{harbour.os.name}.json"
    baselock.write_text('{"packages": []}')
    return project, number


@contextlib.contextmanager
def start(project: Project, stack: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run `drydock build`; a test that fails leaves no run behind."""
    with subprocess.Popen(
        [*DRYDOCK, "build", stack],
        cwd=project.root,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_until_it_sleeps(process: subprocess.Popen[str], project: Project, stack: str) -> None:
    log = project.out / stack / "build.log"
    deadline = time.monotonic() + 120
    while not (log.exists() and "started-2" in log.read_text()):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def processes(word: str) -> list[int]:
    """Ids of this machine's processes, those of containers among them, with this word on their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if word.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return found


def wait_until_gone(word: str) -> None:
    deadline = time.monotonic() + 30
    while left := processes(word):
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.1)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_nothing_and_the_next_run_is_fine(
    harbour: Harbour, tmp_path: Path, how: signal.Signals
) -> None:
    project, number = sleeping(harbour, tmp_path / "copy")
    before = {container.id for container in harbour.engine.client.containers.list(all=True)}
    with start(project, harbour.stack, DOCKER_HOST=harbour.engine.url) as process:
        wait_until_it_sleeps(process, project, harbour.stack)
        assert processes(number)

        # Meanwhile: two builds at once.
        second = subprocess.run(
            [*DRYDOCK, "build", harbour.stack],
            cwd=project.root,
            env={**os.environ, "DOCKER_HOST": harbour.engine.url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 3
        assert second.stdout == ""
        first, why, remedy = second.stderr.splitlines()
        assert first in [
            f"drydock: another run is at work on {name} (process {process.pid})"
            for name in (harbour.stack, harbour.os.name)
        ]
        assert why == "  why: two builds of one stack would overwrite each other's results"
        assert remedy == "  do:  wait for it, or end it"
        assert process.poll() is None

        process.send_signal(how)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output.endswith("drydock: interrupted\n")
    assert "Traceback" not in output
    wait_until_gone(number)
    after = {
        container.id
        for container in harbour.engine.client.containers.list(all=True)
        if container.labels.get("io.drydock") == "base"  # the others are of tests that run beside this one
    }
    assert after <= before
    assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob(f"drydock-build-*/{harbour.stack}"))
    assert not (project.out / harbour.stack / "build.json").exists()

    shutil.copy2(harbour.project.images / "Dockerfile", project.images)
    target = plan.target(project, harbour.stack, harbour.os, REVISION)
    with project.exclusively([harbour.stack, harbour.os.name]):
        assert builds.build(project, [target], harbour.engine)[harbour.stack].image == harbour.built.image


# A private engine: its own folder, its own process, stopped and removed at the end.


def end(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.fixture
def private_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for a private engine. Its name is short, as sockets want it, hence not below tmp_path."""
    folder = Path(f"/tmp/dk{secrets.token_hex(3)}")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    monkeypatch.setenv("DRYDOCK_ENGINE_ROOT", str(folder))
    # The machine's own engine would be found first.
    monkeypatch.setattr("buildspec.engine.find.DEFAULT_SOCKET", folder / "none.sock")
    folder.mkdir()
    yield folder
    private.stop()
    gc.collect()
    # What a killed engine leaves: its containerd, and what that watches over. All have the folder's name.
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in processes(str(folder)):
            if pid != os.getpid():
                end(pid, number)
        time.sleep(0.5)
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(str(folder))), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=True)
    shutil.rmtree(folder)


def test_a_private_engine_is_started_reused_and_stopped(
    private_root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EnvironmentLacksError, match=r"^no Docker Engine answers"):
        find_engine(start=False)

    first = find_engine()
    assert first.private
    assert first.url == f"unix://{private_root}/docker.sock"
    assert first.data_root == private_root / "data"
    assert "io.drydock.engine=private" in first.client.info()["Labels"]
    assert f"starting a private Docker Engine in {private_root}" in capfd.readouterr().err
    number = private.pid()
    assert number is not None

    again = find_engine(start=False)
    assert (again.url, again.version, private.pid()) == (first.url, first.version, number)
    assert private.start() == first.url
    assert private.pid() == number
    assert "docker0" not in Path(private_root / "dockerd.log").read_text() or first.client.ping()

    first.client.close()
    again.client.close()
    assert private.stop() is True
    assert private.pid() is None
    assert not processes(str(private_root / "docker.sock"))
    assert private.stop() is False
    assert (private_root / "data").is_dir()


def test_the_command_line_shows_starts_and_stops_it(private_root: Path) -> None:
    # The default socket is another engine's on a developer's machine, hence the name.
    environment = {**os.environ, "DOCKER_HOST": f"unix://{private_root}/docker.sock"}

    def engine(action: str) -> subprocess.CompletedProcess[str]:
        command = [*DRYDOCK, "engine", action]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert engine("status").returncode == 3
    assert engine("stop").stderr == "  no private engine is running\n"
    private.start()
    status = engine("status")
    assert status.returncode == 0
    assert status.stdout.splitlines()[0] == f"engine   unix://{private_root}/docker.sock (private)"
    assert status.stdout.splitlines()[2] == f"data     {private_root}/data"
    assert engine("stop").returncode == 0
    assert engine("status").returncode == 3


def environment(engine: Engine) -> dict[str, str]:
    return {**os.environ, **engine.environment}


def copy_base(harbour: Harbour, engine: Engine) -> None:
    """Take the base to another engine, where it keeps its id."""
    save = ["docker", "save", harbour.os.reference]
    with subprocess.Popen(save, stdout=subprocess.PIPE, env=environment(harbour.engine)) as saving:
        load = ["docker", "load", "--quiet"]
        subprocess.run(load, stdin=saving.stdout, env=environment(engine), check=True, capture_output=True)


def test_an_engine_gone_in_mid_build(harbour: Harbour, private_root: Path, tmp_path: Path) -> None:
    engine = find_engine()
    copy_base(harbour, engine)
    project, _ = sleeping(harbour, tmp_path / "copy")
    assert cached(project, harbour.os.name, engine) == harbour.os
    with start(project, harbour.stack, DOCKER_HOST=engine.url) as process:
        wait_until_it_sleeps(process, project, harbour.stack)
        number = private.pid()
        assert number is not None
        os.kill(number, signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
    engine.client.close()
    assert process.returncode == 3, output
    assert "Traceback" not in output
    assert "drydock: the Docker Engine went away in mid-build\n" in output
    assert "  do:  start it and run this again: what was built is kept in its cache\n" in output

    # What the killed engine left (pid, socket, a containerd) does not keep the next one from starting.
    assert private.pid() is None
    again = find_engine()
    assert cached(project, harbour.os.name, again) == harbour.os
    again.client.close()


def test_a_disk_that_is_too_small(harbour: Harbour, private_root: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", str(private_root)], check=True)
    engine = find_engine()
    copy_base(harbour, engine)
    project, _ = sleeping(harbour, tmp_path / "copy")
    with pytest.raises(
        EnvironmentLacksError, match=rf"^the engine's disk \({private_root}/data\) has \d+ MB free"
    ):
        disk.check(project, [harbour.stack], engine)
    command = [*DRYDOCK, "build", harbour.stack]
    done = subprocess.run(
        command, cwd=project.root, env=environment(engine), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert f"drydock: the engine's disk ({private_root}/data) has " in done.stderr
    assert f"free; building {harbour.stack} needs " in done.stderr
    assert "`drydock clean` would free" in done.stderr

    # And one that becomes full while the image is made.
    (project.images / "Dockerfile").write_text("FROM os\nRUN dd if=/dev/zero of=/full bs=1M count=2000\n")
    target = plan.target(project, harbour.stack, harbour.os, REVISION)
    with pytest.raises(EnvironmentLacksError) as caught:
        builds.build(project, [target], engine)
    assert caught.value.what == "the disk became full in mid-build; what was built is kept in the engine's cache"
    engine.client.close()


def test_clean_shows_and_frees_what_drydock_left(harbour: Harbour, private_root: Path, tmp_path: Path) -> None:
    engine = find_engine()
    copy_base(harbour, engine)
    project, _ = sleeping(harbour, tmp_path / "copy")
    for line in ("RUN head -c 30000000 /dev/urandom > /one", "RUN head -c 20000000 /dev/urandom > /two"):
        (project.images / "Dockerfile").write_text(f"FROM os\n{line}\n")
        target = plan.target(project, harbour.stack, harbour.os, REVISION)
        builds.build(project, [target], engine)
    target = plan.target(project, harbour.stack, harbour.os, REVISION)
    built = builds.existing(project, target, engine)
    assert built is not None
    # The first image lost its name to the second.
    found = disk.freeable(engine)
    assert len(found.images) == 1
    assert built.image not in found.images
    assert found.image_bytes >= 30_000_000
    everything = disk.freeable(engine, everything=True)
    assert built.image in everything.images
    assert disk.free(engine, found) >= 30_000_000
    assert builds.existing(project, target, engine) is not None
    assert disk.freeable(engine).total == 0
    disk.free(engine, disk.freeable(engine, everything=True))
    assert builds.existing(project, target, engine) is None
    assert builds.recorded(project, harbour.stack) == built
    engine.client.close()

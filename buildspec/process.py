"""Commands run by Drydock: found first, logged quoted, stopped in steps, their output shown when they fail."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import signal
import subprocess
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from buildspec.errors import DrydockError, EnvironmentLacksError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

log = logging.getLogger(__name__)

# A child gets the first signal at once, the next ones after these many seconds.
_STEPS = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
_KEPT_LINES = 40


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended: its exit code and standard output (text)."""

    code: int
    output: str


class CommandFailedError(DrydockError):
    """A command that Drydock needed ended with an error; `output` holds its last lines."""

    def __init__(self, command: Sequence[str], code: int, output: str) -> None:
        self.returncode = code
        self.output = output
        tail = "\n".join(f"    {line}" for line in output.splitlines()[-_KEPT_LINES:])
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        super().__init__(f"`{shlex.join(command)}` {how}; its last lines:\n{tail}")


def find(executable: str, *, remedy: str = "") -> str:
    """Path of an executable. Raises EnvironmentLacksError when it is not installed."""
    path = shutil.which(executable)
    if path is None:
        raise EnvironmentLacksError(f"'{executable}' is not installed or not on PATH", remedy=remedy)
    return path


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    ok: Sequence[int] = (0,),
) -> Finished:
    """Run a short command silently. Raises CommandFailedError unless its exit code is in `ok`."""
    find(command[0])
    log.info("+ %s", shlex.join(command))
    with _child(command, env=env, stderr=subprocess.STDOUT, pipe_in=stdin is not None) as child:
        output, _ = child.communicate(stdin)
    if child.returncode not in ok:
        raise CommandFailedError(command, child.returncode, output)
    return Finished(child.returncode, output)


def stream(
    command: Sequence[str],
    *,
    on_line: Callable[[str], None],
    env: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> None:
    """Run a long command and hand over its output line by line; all of it goes to `log_file`.

    Raises CommandFailedError with the last lines. On Ctrl-C the command and its children are stopped in steps.
    """
    find(command[0])
    log.info("+ %s", shlex.join(command))
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    with contextlib.ExitStack() as stack:
        copy = stack.enter_context(_log(log_file)) if log_file else None
        child = stack.enter_context(_child(command, env=env, stderr=subprocess.STDOUT, pipe_in=False))
        assert child.stdout is not None  # noqa: S101 - it was asked for
        for line in child.stdout:
            last.append(line.rstrip("\n"))
            if copy:
                copy.write(line)
            on_line(line.rstrip("\n"))
        child.wait()
    if child.returncode != 0:
        raise CommandFailedError(command, child.returncode, "\n".join(last))


@contextlib.contextmanager
def _log(file: Path) -> Iterator[TextIO]:
    try:
        with file.open("w", buffering=1, encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise EnvironmentLacksError(
            f"{file} can't be written: {error.strerror}", remedy="free the disk, or correct the permissions"
        ) from error


@contextlib.contextmanager
def _child(
    command: Sequence[str], *, env: Mapping[str, str] | None, stderr: int, pipe_in: bool
) -> Iterator[subprocess.Popen[str]]:
    # Its own process group: a terminal's Ctrl-C reaches us alone, and we stop the whole group in order.
    child = subprocess.Popen(
        command,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE if pipe_in else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        encoding="utf-8",
        errors="replace",
        process_group=0,
    )
    with child:
        try:
            yield child
        finally:
            _stop(child)


def _stop(child: subprocess.Popen[str]) -> None:
    try:
        for step, seconds in _STEPS:
            if child.poll() is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, step)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(seconds)
    except KeyboardInterrupt:
        # Who presses Ctrl-C again does not want to wait.
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait(_STEPS[-1][1])
        raise

"""Commands that Drydock runs."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from buildspec import process
from buildspec.errors import EnvironmentLacksError
from buildspec.process import CommandFailedError, Finished


def test_a_command_that_is_not_installed() -> None:
    with pytest.raises(EnvironmentLacksError) as caught:
        process.find("no-such-command", remedy="install it")
    assert str(caught.value) == "'no-such-command' is not installed or not on PATH\n  do:  install it"
    with pytest.raises(EnvironmentLacksError):
        process.run(["no-such-command", "x"])
    with pytest.raises(EnvironmentLacksError):
        process.stream(["no-such-command", "x"], on_line=print)


def test_a_failure_shows_the_quoted_command_and_its_last_lines() -> None:
    output = "\n".join(f"line {number}" for number in range(100))
    text = str(CommandFailedError(["a command", "--flag=x y", "$HOME"], 3, output))
    first, *rest = text.splitlines()
    assert first == "`'a command' '--flag=x y' '$HOME'` ended with exit code 3; its last lines:"
    assert rest == [f"    line {number}" for number in range(60, 100)]


def test_a_failure_by_signal() -> None:
    assert "`x` was ended by signal 9; its last lines:" in str(CommandFailedError(["x"], -9, ""))


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.integration
def test_run_returns_both_outputs() -> None:
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    assert process.run(python(code)) == Finished(0, "out\nerr\n")


@pytest.mark.integration
def test_run_passes_input_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "1")
    code = "import os, sys; print(sys.stdin.read(), os.environ['OUTER'], os.environ['INNER'])"
    assert process.run(python(code), stdin="in", env={"INNER": "2"}).output == "in 1 2\n"


@pytest.mark.integration
def test_without_input_standard_input_is_empty() -> None:
    assert process.run(python("import sys; print(len(sys.stdin.read()))")).output == "0\n"


@pytest.mark.integration
def test_codes_that_are_expected() -> None:
    assert process.run(python("raise SystemExit(3)"), ok=(0, 3)).code == 3
    with pytest.raises(CommandFailedError) as caught:
        process.run(python("print('so'); raise SystemExit(3)"))
    assert caught.value.returncode == 3
    assert caught.value.output == "so\n"


@pytest.mark.integration
def test_bytes_that_are_no_text() -> None:
    code = "import sys; sys.stdout.buffer.write(b'caf\\xe9\\n')"
    assert process.run(python(code)).output == "caf�\n"


@pytest.mark.integration
def test_stream_hands_over_lines_as_they_come_and_keeps_a_log(tmp_path: Path) -> None:
    lines: list[str] = []
    code = "import sys\nfor i in range(3): print(i, '✓')\nsys.stderr.write('end without newline')"
    process.stream(python(code), on_line=lines.append, log_file=tmp_path / "log")
    assert lines == ["0 ✓", "1 ✓", "2 ✓", "end without newline"]
    assert (tmp_path / "log").read_text(encoding="utf-8") == "0 ✓\n1 ✓\n2 ✓\nend without newline"


@pytest.mark.integration
def test_a_log_can_be_followed(tmp_path: Path) -> None:
    seen: list[str] = []
    code = "for i in range(3): print(i, flush=True)"
    process.stream(
        python(code), on_line=lambda _: seen.append((tmp_path / "log").read_text()), log_file=tmp_path / "log"
    )
    assert seen == ["0\n", "0\n1\n", "0\n1\n2\n"]


@pytest.mark.integration
def test_a_failed_stream_has_its_last_lines(tmp_path: Path) -> None:
    code = "for i in range(100): print('line', i)\nraise SystemExit(4)"
    with pytest.raises(CommandFailedError) as caught:
        process.stream(python(code), on_line=lambda _: None, log_file=tmp_path / "log")
    assert caught.value.returncode == 4
    assert caught.value.output.splitlines() == [f"line {number}" for number in range(60, 100)]
    assert len((tmp_path / "log").read_text().splitlines()) == 100


@pytest.mark.integration
def test_a_log_that_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacksError, match="can't be written"):
        process.stream(python("print(1)"), on_line=lambda _: None, log_file=tmp_path / "gone" / "log")
    with pytest.raises(EnvironmentLacksError, match="/dev/full can't be written: No space left on device"):
        process.stream(python("print('x' * 100000)"), on_line=lambda _: None, log_file=Path("/dev/full"))


def gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


# Prints its own id and its child's, then sleeps; told what to do with the two polite signals.
FAMILY = """
import os, signal, subprocess, sys, time
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("ignored", "ended_by"),
    [([], signal.SIGINT), (["SIGINT"], signal.SIGTERM), (["SIGINT", "SIGTERM"], signal.SIGKILL)],
    ids=["interrupt", "terminate", "kill"],
)
def test_an_interrupt_stops_the_whole_group_in_steps(
    monkeypatch: pytest.MonkeyPatch, ignored: list[str], ended_by: signal.Signals
) -> None:
    monkeypatch.setattr(process, "_STEPS", ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.5), (signal.SIGKILL, 5.0)))
    sent: list[int] = []
    killpg = os.killpg

    def counted(group: int, number: int) -> None:
        sent.append(number)
        killpg(group, number)

    monkeypatch.setattr(os, "killpg", counted)
    family: list[int] = []

    def interrupt(line: str) -> None:
        family.extend(map(int, line.split()))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.stream([sys.executable, "-c", FAMILY, *ignored], on_line=interrupt)
    assert len(family) == 2
    assert sent[-1] == ended_by
    deadline = time.monotonic() + 10
    while not all(map(gone, family)):
        assert time.monotonic() < deadline, "a process of the group is still there"
        time.sleep(0.05)


@pytest.mark.integration
def test_a_second_interrupt_kills_the_group_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    family: list[int] = []

    def interrupt(line: str) -> None:
        family.extend(map(int, line.split()))
        # The terminal's second Ctrl-C comes while the group is given time to end.
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            process.stream([sys.executable, "-c", FAMILY, "SIGINT", "SIGTERM"], on_line=interrupt)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    deadline = time.monotonic() + 10
    while not all(map(gone, family)):
        assert time.monotonic() < deadline, "a process of the group is still there"
        time.sleep(0.05)

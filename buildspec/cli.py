"""The `drydock` command: finds the asked-for command, runs it, turns failures into text and exit code."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import signal
import sys
import traceback
from typing import NoReturn

from buildspec.errors import DrydockError, EnvironmentLacksError, ExitCode

# name -> (module, one line of help). Modules are imported only when their command runs.
COMMANDS: dict[str, tuple[str, str]] = {
    "build": ("buildspec.commands.build", "build the stacks of the matrix and check them"),
    "validate": ("buildspec.commands.validate", "run the checks on any image"),
    "nccl": ("validate.nccl.command", "tell from a log which network NCCL used, and why"),
    "lock": ("buildspec.commands.lock", "resolve and hash-lock what goes into the images"),
    "matrix": ("buildspec.commands.matrix", "show and check the version matrix"),
    "bump": ("buildspec.commands.bump", "move pins to the newest versions that fit together"),
    "engine": ("buildspec.commands.engine", "show, start or stop the container engine that Drydock uses"),
    "clean": ("buildspec.commands.clean", "free what earlier builds left on the engine and the disk"),
}

EXIT_CODES = (
    "exit codes: 0 done and good; 1 a check or gate failed; 2 wrong use or bad input;\n"
    "3 the environment lacks something (engine, disk, network, credentials); 130 interrupted"
)


class _Parser(argparse.ArgumentParser):
    """Argument errors are bad input: one short text, exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(int(ExitCode.BAD_INPUT))


def _overview() -> _Parser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items())
    parser = _Parser(
        prog="drydock",
        description="Builds, proves and releases container images for Ray training and LLM serving.",
        epilog=f"commands:\n{listing}\n\n`drydock COMMAND --help` explains one.\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="drydock [-h] COMMAND ...",
        add_help=True,
    )
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=argparse.SUPPRESS)
    return parser


def dispatch(argv: list[str]) -> int:
    """Run one command line; returns its exit code. Raises DrydockError and KeyboardInterrupt."""
    name = _overview().parse_args(argv[:1] or ["--help"]).command
    module = importlib.import_module(COMMANDS[name][0])
    parser = _Parser(
        prog=f"drydock {name}",
        description=module.__doc__,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(argv[1:])))


def main() -> int:
    """Entry point of the console script."""
    # A terminal that closes and a service that stops end us as Ctrl-C does: in order. nohup stays in force.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) == signal.SIG_DFL:
            signal.signal(ending, signal.default_int_handler)
    try:
        try:
            return dispatch(sys.argv[1:])
        finally:
            # Here and not at Python's exit, where a pipe that closed could only be complained about.
            sys.stdout.flush()
    except DrydockError as error:
        return _report(error)
    except KeyboardInterrupt:
        print("drydock: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has enough (`drydock matrix | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.DONE)
    except Exception as error:
        explained = _of_environment(error)
        if explained is None:
            raise
        return _report(explained)


def _report(error: DrydockError) -> int:
    print(f"drydock: {error}", file=sys.stderr)
    if os.environ.get("DRYDOCK_TRACEBACK"):
        traceback.print_exception(error)
    return int(error.code)


def _of_environment(error: Exception) -> DrydockError | None:
    """Tell what an exception means that can come from any call: the engine went away, the disk is full."""
    if type(error).__module__.split(".")[0] in ("docker", "requests", "urllib3"):
        return EnvironmentLacksError(
            f"the Docker Engine went away, or refused what it was asked: {error}",
            why="it was stopped, restarted, killed for memory, or its disk is full",
            remedy="look at its log, start it, and run this again",
        )
    if isinstance(error, ModuleNotFoundError):
        return EnvironmentLacksError(
            f"the Python package '{error.name}' is not installed",
            why="building and checking images needs more than reading a matrix or a log",
            remedy="install the extras: pip install 'drydock-images[build,logs]'",
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return EnvironmentLacksError(
            f"the disk is full: {error.filename or error}",
            remedy="free some; `drydock clean` may",
        )
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return EnvironmentLacksError(
            f"{error.filename or 'a file'}: {error.strerror}",
            why="the file or its folder belongs to another user, or the disk is mounted read-only",
            remedy="correct its owner or mode, or work in a checkout of your own",
        )
    return None

"""Show, start or stop the container engine that Drydock uses.

examples:
  drydock engine status     which engine would be used, and its versions
  drydock engine start      find one; start or install a private one when none answers
  drydock engine stop       stop the private engine; its images and cache stay for the next start
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildspec.console import note
from buildspec.engine import find_engine, private
from buildspec.errors import ExitCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("status", "start", "stop"))


def run(arguments: Namespace) -> int:
    """Do what was asked for. `status` exits 3 when no engine answers."""
    if arguments.action == "stop":
        if not private.stop():
            note("no private engine is running")
        return ExitCode.DONE
    engine = find_engine(start=arguments.action == "start")
    print(f"engine   {engine.url}{' (private)' if engine.private else ''}")
    print(f"version  {engine.version}, buildx {engine.buildx}")
    print(f"data     {engine.data_root or 'on another machine'}")
    return ExitCode.DONE

"""Free what earlier builds left on the engine.

  drydock clean --plan      show what would be removed
  drydock clean             remove unnamed images of Drydock, and the build cache
  drydock clean --all       remove all images of Drydock as well

The build cache belongs to the whole engine: on a shared engine it holds others' layers, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildspec import disk
from buildspec.console import size
from buildspec.engine import find_engine
from buildspec.errors import ExitCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--plan", action="store_true", help="show what would be removed, remove nothing")
    parser.add_argument("--all", action="store_true", help="also remove the images that have a name")


def run(arguments: Namespace) -> int:
    """Show or remove. Nothing outside the engine is touched."""
    engine = find_engine(start=False)
    found = disk.freeable(engine, everything=arguments.all)
    print(f"images       {len(found.images)}, {size(found.image_bytes)}")
    print(f"build cache  {size(found.cache_bytes)}")
    if not arguments.plan:
        print(f"freed        {size(disk.free(engine, found))}")
    return ExitCode.DONE

"""What a person sees on standard error: steps with their seconds, notes, and a spinner on a terminal."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Results go to standard output; everything about the work itself goes here.
console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def note(text: str) -> None:
    """One line that a person should read."""
    console.print(f"  {text}")


class _Detail(ProgressColumn):
    """What a step is at, cut to the width of the terminal."""

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["detail"]), style="dim", no_wrap=True, overflow="ellipsis")


@contextlib.contextmanager
def step(title: str) -> Iterator[Callable[[str], None]]:
    """Show a step while it runs, and one line with its seconds when it ends.

    Yields a function that shows a detail beside the spinner; it shows nothing when this is no terminal.
    """
    began = time.monotonic()

    def seconds() -> str:
        return f"{time.monotonic() - began:.1f} s"

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), _Detail())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(title, total=None, detail="")
        try:
            yield lambda text: shown.update(task, detail=text)
        except BaseException as error:
            word = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            console.print(f"✗ {title} ({word} after {seconds()})", style="red")
            raise
    console.print(f"✓ {title} ({seconds()})")


def size(count: float) -> str:
    """Bytes in the unit people read (decimal, as registries count): 6.6 GB, 312 MB, 4 kB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            number = count / factor
            return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"
    return f"{count:.0f} B"

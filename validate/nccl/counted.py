"""Channel lines that are only counted: per wording and owner, with the first line of each."""

from __future__ import annotations

import re
from typing import Final

from validate.nccl.line import decode
from validate.nccl.wording import Kind

__all__ = ["CHANNEL_HEAD", "ENDS", "TAIL", "TEXT", "WITH_TEXT", "Wording", "owner_of", "process_of"]

# So much of a line is kept as evidence, and for so many owners of one wording.
TEXT: Final = 320
WITH_TEXT: Final = 64
# So many last bytes of a line tell which wording it is.
TAIL: Final = 24
CHANNEL_HEAD: Final = b"] NCCL INFO Channel"
ENDS: Final = re.compile(rb"(\d{1,9})(?:\[\w+\])? -> (\d{1,9})(?:\[\w+\])? (\[r)?")
_OWNER = re.compile(rb"([^\s:|()\[\]{}<>\"'`/,;=]{1,255}:\d+:\d+ \[-?\d+\] NCCL INFO )")
_CHANNEL: Final = b"Channel"


class Wording(dict[bytes, int]):
    """A wording of channel lines: how many lines each owner has since its last communicator line.

    Owners are keyed by how their lines begin, up to `NCCL INFO Channel`; `clean` tells whether lines begin with
    that, so that no search is needed. `first` has number, rank and text of each owner's first line; `added_up`
    counts lines whose owner was not asked for.
    """

    __slots__ = ("added_up", "clean", "code", "first", "kind", "says")

    def __init__(self, kind: Kind, says: tuple[str, ...], *, clean: bool, code: int) -> None:
        self.kind, self.says, self.clean, self.code = kind, says, clean, code
        self.added_up = 0
        self.first: dict[bytes, tuple[int, str, str]] = {}

    def begin(self, number: int, line: bytes, owner: bytes, *, asks_rank: bool) -> None:
        """Remember an owner's first line."""
        ends = ENDS.search(line) if asks_rank else None
        rank = (ends[2] if ends[3] else ends[1]).decode() if ends else ""
        text = decode(line)[:TEXT] if len(self.first) < WITH_TEXT else ""
        self[owner] = 1
        self.first[owner] = (number, rank, text)


def owner_of(line: bytes) -> bytes:
    """Give the key of a channel line's owner; empty where the line has none."""
    match = _OWNER.search(line)
    return match[1] + _CHANNEL if match else b""


def process_of(name: str) -> str:
    """Name the process and device of an owner: its name without the thread."""
    left, _, device = name.rpartition(" [")
    return f"{left.rpartition(':')[0]} [{device}"

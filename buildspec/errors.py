"""Failure classes of Drydock, each with its exit code and a text for people."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status says."""

    DONE = 0
    NOT_PROVEN = 1
    BAD_INPUT = 2
    ENVIRONMENT = 3
    INTERRUPTED = 130


class DrydockError(Exception):
    """A failure that a person can act on.

    `what` says what happened, `why` why that usually happens, `remedy` what to do about it.
    """

    code: ExitCode = ExitCode.NOT_PROVEN

    def __init__(self, what: str, *, why: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.remedy:
            lines.append(f"  do:  {self.remedy}")
        return "\n".join(lines)


class NotProvenError(DrydockError):
    """A check or a gate failed: the thing was looked at and is not good."""

    code = ExitCode.NOT_PROVEN


class BadInputError(DrydockError):
    """Wrong use or bad input: a file, an argument or a name that the user can correct."""

    code = ExitCode.BAD_INPUT


class EnvironmentLacksError(DrydockError):
    """The environment lacks something: engine, disk, network, credentials."""

    code = ExitCode.ENVIRONMENT

"""The words of a verdict: levels, outcomes, and how a check says that it failed or could not run."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Level(StrEnum):
    """What it takes to answer a check."""

    STATIC = "static"
    CONTAINER = "container"
    CLUSTER = "cluster"
    GPU = "gpu"
    EFA = "efa"


class Outcome(StrEnum):
    """What became of a check."""

    PASS = "pass"  # noqa: S105 - a word, not a secret
    FAIL = "fail"
    NOT_APPLICABLE = "not-applicable"
    BLOCKED = "blocked"
    ERROR = "error"


class CheckFailedError(AssertionError):
    """The image is not good: what was declared, what was observed, and where."""

    def __init__(self, reason: str, evidence: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.evidence = tuple(evidence)


class BlockedError(Exception):
    """The check could not look: `missing` says what it would have needed."""

    def __init__(self, missing: str) -> None:
        super().__init__(missing)
        self.missing = missing

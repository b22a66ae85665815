"""The test logs and their right answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict, cast

import yaml

FOLDER = Path(__file__).parent


class Case(TypedDict):
    """One log with its right answer."""

    log: str
    verdict: str
    cause: str
    multi_node: bool | None
    evidence: list[str]


def cases() -> list[Case]:
    """All cases of cases.yaml."""
    data: Any = yaml.safe_load((FOLDER / "cases.yaml").read_text("utf-8"))
    return cast("list[Case]", data)


def path(name: str) -> Path:
    """Where a log lies."""
    return FOLDER / "logs" / f"{name}.log"

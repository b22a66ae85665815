"""Variables that an image must not set, and the places where it can set them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

FILE = Path(__file__).parent / "data" / "variables.yaml"
ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*$")


@dataclass(frozen=True, slots=True)
class Family:
    """Variables that are harmful for one reason."""

    names: re.Pattern[str]
    says: str
    why: str
    source: str
    allowed: re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable that is set: where, to what."""

    place: str
    name: str
    value: str


@cache
def families() -> tuple[Family, ...]:
    """Rows of data/variables.yaml."""
    return tuple(
        Family(
            re.compile(row["names"]),
            row["says"],
            row["why"],
            row["source"],
            re.compile(row["allowed"]) if "allowed" in row else None,
        )
        for row in yaml.safe_load(FILE.read_text(encoding="utf-8"))
    )


def settings(environment: Mapping[str, str], configuration: Mapping[str, str]) -> Iterator[Setting]:
    """Every assignment in ENV, in profile files and in nccl.conf."""
    for name, value in environment.items():
        yield Setting("ENV of the image", name, value)
    for file, text in configuration.items():
        if file.startswith(("/etc/ld.so.conf", "/etc/ssh/", "/etc/libibverbs.d/")) or file == "/etc/passwd":
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for part in re.split(r";\s*", line):
                match = ASSIGNMENT.match(part)
                if match and not line.lstrip().startswith("#"):
                    yield Setting(f"{file}:{number}", match["name"], match["value"].strip("\"'"))


def harmful(settings_: Iterator[Setting], family: Family) -> list[Setting]:
    """Those settings of the family that are not harmless."""
    return [
        row
        for row in settings_
        if family.names.fullmatch(row.name)
        and row.value
        and not (family.allowed and family.allowed.fullmatch(row.value))
    ]

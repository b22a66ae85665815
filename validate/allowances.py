"""Declared allowances: what looks broken and is not, each narrow and with its reason (data/allowances.yaml)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "data" / "allowances.yaml"


@dataclass(frozen=True, slots=True)
class FileAllowance:
    """Files that may be as they are. An empty `library` or `distribution` means that none is asked for."""

    file: re.Pattern[str]
    reason: str
    library: re.Pattern[str] | None = None
    distribution: str | None = None

    def covers(self, file: str, *, library: str = "", distribution: str = "") -> bool:
        """Tell whether this row speaks of that file, library and distribution."""
        if self.library is not None and not self.library.fullmatch(library):
            return False
        if self.distribution is not None and self.distribution != distribution:
            return False
        return self.file.fullmatch(file) is not None


@dataclass(frozen=True, slots=True)
class LoadsFirst:
    """A distribution that loads another one before its own libraries."""

    distribution: str
    loads: str
    reason: str


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A private key that everybody has, by the hash of its file."""

    sha256: str
    reason: str


@dataclass(frozen=True, slots=True)
class Allowances:
    """All rows of the file, by what they allow."""

    unresolved: tuple[FileAllowance, ...]
    loads_first: tuple[LoadsFirst, ...]
    other_machine: tuple[FileAllowance, ...]
    record: tuple[FileAllowance, ...]
    overlap: tuple[FileAllowance, ...]
    public_keys: tuple[PublicKey, ...]


@cache
def allowances() -> Allowances:
    """Read the file, once."""
    data: dict[str, list[dict[str, Any]]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))

    def files(key: str) -> tuple[FileAllowance, ...]:
        return tuple(
            FileAllowance(
                file=re.compile(row["file"]),
                reason=row["reason"],
                library=re.compile(row["library"]) if "library" in row else None,
                distribution=row.get("distribution"),
            )
            for row in data[key]
        )

    return Allowances(
        unresolved=files("unresolved"),
        loads_first=tuple(LoadsFirst(**row) for row in data["loads_first"]),
        other_machine=files("other_machine"),
        record=files("record"),
        overlap=files("overlap"),
        public_keys=tuple(PublicKey(**row) for row in data["public_keys"]),
    )

"""report.html: one self-contained page that tells a person what is wrong, why, and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from validate.bench import ImageConfig
from validate.catalogue import Check
from validate.claims import Claims
from validate.evidence import CheckResult, Evidence
from validate.outcome import Level, Outcome
from validate.pins import Observation

# What a reader needs first.
ORDER = (Outcome.FAIL, Outcome.ERROR, Outcome.BLOCKED, Outcome.PASS, Outcome.NOT_APPLICABLE)
LARGEST = 14
HEAD_OF_COMMAND = 110


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a picture: its name, its bytes, its share of the longest."""

    name: str
    size: int
    share: float

    @property
    def label(self) -> str:
        """The size for people."""
        return human(self.size)


@dataclass(frozen=True, slots=True)
class PinRow:
    """One pin: the stack's version, the label's, and every observation."""

    name: str
    declared: str
    built: str
    observed: tuple[Observation, ...]

    @property
    def agrees(self) -> bool:
        """Tell whether all three are there and the same."""
        return self.declared == self.built and bool(self.observed) and all(o.agrees for o in self.observed)


def human(size: float) -> str:
    """Bytes in the unit that people would use."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def render(
    evidence: Evidence,
    config: ImageConfig,
    claims: Claims,
    facts: Mapping[str, Any] | None,
    catalogue: Mapping[str, Check],
) -> str:
    """The page. `facts` is the probe's document, or None when it could not be had."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    rows = sorted(
        evidence.checks, key=lambda row: (ORDER.index(row.outcome), list(Level).index(row.level), row.id)
    )
    return environment.get_template("report.html.j2").render(
        evidence=evidence,
        config=config,
        claims=claims,
        catalogue=catalogue,
        attention=[row for row in rows if row.outcome in ORDER[:3]],
        groups=_groups(evidence.checks),
        order=[outcome.value for outcome in ORDER],
        pins=_pins(evidence, claims),
        layers=_bars(_layers(config)),
        packages=_bars(_packages(facts)),
        human=human,
        facts=facts,
    )


def read_facts(file: Path) -> Mapping[str, Any] | None:
    """The probe's document, if it was written."""
    try:
        found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _groups(rows: Iterable[CheckResult]) -> list[tuple[str, list[CheckResult]]]:
    groups: dict[str, list[CheckResult]] = {}
    for row in sorted(rows, key=lambda row: row.id):
        groups.setdefault(row.id.partition(".")[0], []).append(row)
    return sorted(groups.items())


def _pins(evidence: Evidence, claims: Claims) -> list[PinRow]:
    seen: dict[str, list[Observation]] = {}
    for row in evidence.checks:
        for line in row.evidence:
            if found := Observation.parse(line):
                seen.setdefault(found.name, []).append(found)
    return [
        PinRow(name, claims.pins.get(name, ""), claims.labelled.get(name, ""), tuple(seen.get(name, ())))
        for name in {**claims.pins, **claims.labelled}
    ]


def _layers(config: ImageConfig) -> list[tuple[str, int]]:
    named = [(_command(text), size) for text, size in config.history if size]
    return named or [("whole image", config.size)]


def _command(text: str) -> str:
    """The part of a history line that a person wrote."""
    for shell in (" /bin/bash -euo pipefail -c ", "/bin/sh -c "):
        text = text.partition(shell)[2] or text
    text = " ".join(text.removeprefix("#(nop) ").removesuffix("# buildkit").split())
    return text if len(text) <= HEAD_OF_COMMAND else text[: HEAD_OF_COMMAND - 1] + "…"


def _packages(facts: Mapping[str, Any] | None) -> list[tuple[str, int]]:
    if facts is None:
        return []
    rows = [
        (f"{row['name']} {row['version']}", row["size"])
        for environment in facts["environments"]
        for row in environment["distributions"]
        if row["size"]
    ]
    rows.sort(key=lambda row: -row[1])
    rest = sum(size for _, size in rows[LARGEST:])
    return rows[:LARGEST] + ([(f"{len(rows) - LARGEST} more", rest)] if rest else [])


def _bars(rows: list[tuple[str, int]]) -> list[Bar]:
    longest = max((size for _, size in rows), default=0) or 1
    return [Bar(name, size, round(100 * size / longest, 2)) for name, size in rows]

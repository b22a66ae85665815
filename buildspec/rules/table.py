"""The matrix as a table: stacks by pins, with what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from buildspec.matrix import EfaFabric
from buildspec.rules import facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from buildspec.matrix import Matrix

BEGIN = "<!-- matrix: made by `nox -s matrix -- --markdown`, checked by `nox -s matrix -- --check` -->"
END = "<!-- /matrix -->"
_NONE = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """A stack in the table: `driver` is the oldest NVIDIA driver, `audited` the last digest in the ledger."""

    stack: str
    status: str
    pins: Mapping[str, str]
    base: str
    driver: str | None
    instances: tuple[str, ...]
    efa: str | None
    support_end: str
    audited: str | None

    def cells(self, pins: Sequence[str]) -> list[str]:
        """What stands in the columns."""
        return [
            self.stack,
            self.status,
            *(self.pins.get(pin, _NONE) for pin in pins),
            self.base,
            f">= {self.driver}" if self.driver else "unknown",
            ", ".join(self.instances) or _NONE,
            f"yes ({self.efa})" if self.efa else "no",
            self.support_end,
            self.audited or "none",
        ]

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "stack": self.stack,
            "status": self.status,
            "pins": dict(self.pins),
            "base": self.base,
            "driver_floor": self.driver,
            "instances": list(self.instances),
            "efa": self.efa is not None,
            "efa_installer": self.efa,
            "support_end": self.support_end,
            "audited_digest": self.audited,
        }


def rows(matrix: Matrix, audited: Mapping[str, str]) -> list[Row]:
    """One row per stack, in the order of the file; `audited` maps stacks to the last audited digest."""
    known = facts.load()
    found = []
    for name, stack in matrix.stacks.items():
        fabric = matrix.fabrics[stack.fabric]
        base = matrix.bases[stack.base]
        suite = known.systems.suites.get(base.suite)
        floor = known.cuda.majors.get(stack.cuda_major)
        found.append(
            Row(
                name,
                stack.status,
                stack.pins,
                suite.title if suite else base.suite,
                floor.driver if floor else None,
                stack.instances,
                fabric.installer if isinstance(fabric, EfaFabric) else None,
                stack.support_end.isoformat(),
                audited.get(name),
            )
        )
    return found


def header(pins: Sequence[str]) -> list[str]:
    """Titles of the columns."""
    return ["Stack", "Status", *pins, "Base", "Driver", "Instances", "EFA", "Support end", "Audited digest"]


def pin_columns(table: Sequence[Row]) -> list[str]:
    """Pins that any stack has, in their order."""
    return list(dict.fromkeys(pin for row in table for pin in row.pins))


def markdown(table: Sequence[Row]) -> str:
    """The table for a README, between the marks by which it is found again."""
    pins = pin_columns(table)
    titles = header(pins)
    lines = [BEGIN, _line(titles), _line(["---"] * len(titles))]
    lines += [_line(row.cells(pins)) for row in table]
    return "\n".join([*lines, END])


def plain(table: Sequence[Row]) -> str:
    """The table for a terminal."""
    pins = pin_columns(table)
    cells = [header(pins), *(row.cells(pins) for row in table)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def embedded(text: str) -> str | None:
    """The table in a document, marks included; None when it has none."""
    start, end = text.find(BEGIN), text.find(END)
    return text[start : end + len(END)] if 0 <= start < end else None

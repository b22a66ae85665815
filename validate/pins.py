"""One observation of a pin, as a line of evidence that can be read back for the table of pins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

LINE = re.compile(r"(?P<name>[\w-]+): declared (?P<declared>\S+), observed (?P<observed>\S+) \((?P<where>.+)\)")
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Observation:
    """A pin, what was declared and what was observed, and by which evidence."""

    name: str
    declared: str
    observed: str | None
    where: str

    @property
    def agrees(self) -> bool:
        """Tell whether both are the same version; the local part (+cu132) names the build, not the version."""
        return self.observed is not None and _public(self.observed) == _public(self.declared)

    def __str__(self) -> str:
        return f"{self.name}: declared {self.declared}, observed {self.observed or NOTHING} ({self.where})"

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """Read what `str` wrote; None for any other line."""
        match = LINE.fullmatch(line)
        if not match:
            return None
        observed = None if match["observed"] == NOTHING else match["observed"]
        return cls(match["name"], match["declared"], observed, match["where"])


def _public(version: str) -> str:
    return version.partition("+")[0]

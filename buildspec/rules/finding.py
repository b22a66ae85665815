"""What a rule says about a matrix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "unknown"]
ORDER: tuple[Severity, ...] = ("error", "warning", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A violated rule, or (severity `unknown`) one that could not be decided.

    `path` is the place in versions.yaml. `pinned` is what stands there, `needed` what would have to, `says`
    who says so (a package with its version, or a source's address), `nearest` the closest versions that
    satisfy the rule, up and down, `remedy` what to do. `essential` marks an undecided rule without which
    nothing is proven: the environment lacks what decides it.
    """

    rule: str
    severity: Severity
    path: tuple[str, ...]
    pinned: str
    needed: str
    reason: str
    says: tuple[str, ...]
    nearest: tuple[str, ...] = ()
    remedy: str = ""
    confidence: str = "high"
    essential: bool = field(default=False)

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "path": ".".join(self.path),
            "pinned": self.pinned,
            "needed": self.needed,
            "reason": self.reason,
            "says": list(self.says),
            "nearest": list(self.nearest),
            "remedy": self.remedy,
            "confidence": self.confidence,
            "essential": self.essential,
        }


def ordered(findings: list[Finding]) -> list[Finding]:
    """Errors first, then warnings, then what is unknown; in each the order in which they were found."""
    return sorted(findings, key=lambda finding: ORDER.index(finding.severity))


def unknown(
    rule: str, path: tuple[str, ...], pinned: str, reason: str, how: str, *, essential: bool = False
) -> Finding:
    """A rule that can't be decided: why, and `how` it could be."""
    return Finding(
        rule=rule,
        severity="unknown",
        path=path,
        pinned=pinned,
        needed="",
        reason=reason,
        says=(),
        remedy=how,
        essential=essential,
    )

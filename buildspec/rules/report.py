"""Findings as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildspec.rules.finding import ORDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buildspec.located import Document
    from buildspec.rules.finding import Finding

_PLURAL = {"error": "errors", "warning": "warnings", "unknown": "unknown"}


def text(findings: Sequence[Finding], document: Document) -> str:
    """All findings, each with its line in versions.yaml."""
    return "\n\n".join(_one(finding, document) for finding in findings)


def summary(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning, 3 unknown`; `nothing found` when there is none."""
    counts = [(sum(f.severity == severity for f in findings), severity) for severity in ORDER]
    parts = [f"{count} {_PLURAL[severity] if count != 1 else severity}" for count, severity in counts if count]
    return ", ".join(parts) or "nothing found"


def _one(finding: Finding, document: Document) -> str:
    doubt = "" if finding.confidence == "high" else f" (confidence: {finding.confidence})"
    rows = [
        ("pinned", (finding.pinned,)),
        ("needed", (finding.needed,)),
        ("because", (finding.reason,)),
        ("says", finding.says),
        ("nearest", finding.nearest),
        ("do", (finding.remedy,)),
    ]
    lines = [f"{finding.severity}: {'.'.join(finding.path)} [{finding.rule}]{doubt}"]
    lines[0] = f"{document.file.name}:{document.line(finding.path)}: {lines[0]}"
    for title, values in rows:
        for number, value in enumerate(filter(None, values)):
            # What tools print has several lines.
            indented = value.replace("\n", "\n" + " " * 11)
            lines.append(f"  {title if number == 0 else '':<8} {indented}")
    return "\n".join(lines)

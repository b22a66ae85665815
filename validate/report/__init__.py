"""Reports of one run: report.json for programs, junit.xml for CI, report.html for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from validate.bench import ImageConfig
from validate.catalogue import Check
from validate.claims import Claims
from validate.evidence import Evidence
from validate.report import html, junit

__all__ = ["write"]


def write(
    evidence: Evidence,
    config: ImageConfig,
    claims: Claims,
    catalogue: Mapping[str, Check],
    facts_file: Path,
    folder: Path,
) -> None:
    """Write all three into the folder."""
    evidence.write(folder / "report.json")
    (folder / "junit.xml").write_text(junit.render(evidence), encoding="utf-8")
    page = html.render(evidence, config, claims, html.read_facts(facts_file), catalogue)
    (folder / "report.html").write_text(page, encoding="utf-8")

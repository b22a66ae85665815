"""docs/validate.md tells of every check, in the catalogue's own words, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

from validate.suite import catalogue


def test_table_of_checks(root: Path) -> None:
    rows = {f"| `{entry.id}` | {entry.level} | {entry.proves} |" for entry in catalogue().values()}
    text = (root / "docs/validate.md").read_text(encoding="utf-8")
    written = set(re.findall(r"^\| `\w+\.\w+` \|.*$", text, re.MULTILINE))
    assert written == rows

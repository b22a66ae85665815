"""JUnit's XML, as CI systems read it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from validate.evidence import CheckResult, Evidence
from validate.outcome import Outcome

# XML 1.0 has no place for other control characters, not even escaped.
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(evidence: Evidence) -> str:
    """The report as XML text. Blocked and error are errors, so that no CI takes them for a pass."""
    summary = evidence.summary
    suite = ET.Element(
        "testsuite",
        name=f"drydock validate {evidence.image.ref}",
        tests=str(len(evidence.checks)),
        failures=str(summary["fail"]),
        errors=str(summary["error"] + summary["blocked"]),
        skipped=str(summary["not-applicable"]),
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("image.id", evidence.image.id),
        ("image.digest", evidence.image.digest or ""),
        ("stack", evidence.stack or ""),
        ("suite", evidence.suite),
    ):
        ET.SubElement(properties, "property", name=name, value=_clean(value))
    for row in evidence.checks:
        _case(suite, row)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, row: CheckResult) -> None:
    case = ET.SubElement(suite, "testcase", classname=row.level.value, name=row.id)
    element = {
        Outcome.FAIL: "failure",
        Outcome.ERROR: "error",
        Outcome.BLOCKED: "error",
        Outcome.NOT_APPLICABLE: "skipped",
    }.get(row.outcome)
    lines = [row.reason, *row.evidence]
    if element is None:
        ET.SubElement(case, "system-out").text = _clean("\n".join(lines))
    else:
        child = ET.SubElement(case, element, type=row.outcome.value, message=_clean(row.reason))
        child.text = _clean("\n".join(lines))


def _clean(text: str) -> str:
    return FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)

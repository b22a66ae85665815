"""The documentation names what there is."""

from __future__ import annotations

from pathlib import Path

from validate.nccl.cause import known
from validate.nccl.result import VERDICTS

DOC = Path(__file__).parents[2] / "docs" / "nccl.md"


def test_every_cause_and_verdict_is_documented() -> None:
    text = DOC.read_text("utf-8")
    for cause in known().values():
        if cause.effect != "harmless":
            assert f"| `{cause.id}` |" in text, cause.id
    for verdict in VERDICTS:
        assert f"`{verdict}`" in text


def test_every_cause_says_what_to_do_and_where_that_is_known_from() -> None:
    for cause in known().values():
        assert cause.says.endswith((".", "?")), cause.id
        assert cause.remedy.endswith("."), cause.id
        assert cause.source.startswith("https://"), cause.id

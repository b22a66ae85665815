"""The page stands alone and shows every rank."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.nccl.logs import Case, cases, path
from validate.nccl import judge, judge_text
from validate.nccl.page import page
from validate.nccl.picture import COLOURS
from validate.nccl.result import VERDICTS

_VOID = {"meta", "rect", "i"}


class _Balance(HTMLParser):
    """Fails on elements that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.mark.parametrize("case", cases()[::5], ids=lambda case: str(case["log"]))
def test_page_is_well_formed_and_loads_nothing(case: Case) -> None:
    made = page(judge([path(case["log"])]))
    balance = _Balance()
    balance.feed(made)
    assert balance.stack == []
    assert not re.search(r"<(?:script|link|img|iframe)\b|url\(|@import", made)
    assert "prefers-color-scheme: dark" in made
    assert 'name="viewport"' in made


def test_picture_has_a_square_per_rank_in_its_colour() -> None:
    made = page(judge([path("mixed_three_nodes_one_tcp")]))
    assert made.count("<title>a1, GPU 0, rank 0: efa-gdr</title>") == 1
    assert made.count(f'fill="{COLOURS["socket"]}"') == 1
    assert "3 ranks on 3 hosts" in made


def test_many_hosts_are_packed() -> None:
    log = "".join(f"n{number}:1:2 [0] NCCL INFO Using network IB\n" for number in range(300))
    made = page(judge_text(log))
    assert made.count("<rect ") == 300
    assert "300 ranks on 300 hosts" in made


def test_text_from_the_log_is_escaped() -> None:
    made = page(
        judge_text(
            b"<b>:1:2 [0] NCCL INFO Using network <script>alert(1)</script>\n<b>:1:2 [0] NCCL INFO Using network"
            b" Socket\n"
        )
    )
    assert "<script>" not in made
    assert "&lt;b&gt;" in made


def test_every_verdict_has_a_colour() -> None:
    assert set(COLOURS) == set(VERDICTS)

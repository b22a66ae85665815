"""What a person sees on standard error."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildspec.console import note, size, step


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (4_400, "4.4 kB"),
        (312_400_000, "312 MB"),
        (999_000_000, "999 MB"),
        (6_600_000_000, "6.6 GB"),
        (9_970_000_000, "10 GB"),
        (252_000_000_000, "252 GB"),
        (4_000_000_000_000, "4000 GB"),
    ],
)
def test_bytes_in_units_that_people_read(count: int, text: str) -> None:
    assert size(count) == text


@given(st.integers(0, 10**15))
def test_bytes_are_told_to_within_five_percent_or_a_byte(count: int) -> None:
    number, unit = size(count).split()
    told = float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
    assert abs(told - count) <= max(0.051 * count, 1)


def test_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    note("[bold]mind[/bold] {this} :warning: 3 of 4")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "  [bold]mind[/bold] {this} :warning: 3 of 4\n")


def test_a_step_that_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    with step("mending") as detail:
        detail("half done [red]")
    assert re.fullmatch(r"✓ mending \(\d+\.\d s\)\n", capsys.readouterr().err)


@pytest.mark.parametrize(("error", "word"), [(ValueError, "failed"), (KeyboardInterrupt, "interrupted")])
def test_a_step_that_does_not(capsys: pytest.CaptureFixture[str], error: type[BaseException], word: str) -> None:
    with pytest.raises(error), step("mending"):
        raise error
    assert re.fullmatch(rf"✗ mending \({word} after \d+\.\d s\)\n", capsys.readouterr().err)

"""Reports: what a person and a CI system are told."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET

from tests.validate.sample import config, distribution, document, evidence, result
from validate.catalogue import Check
from validate.claims import Claims
from validate.outcome import Level, Outcome
from validate.pins import Observation
from validate.report import html, junit
from validate.suite import catalogue

BAD = dataclasses.replace(
    result("native.resolved", Outcome.FAIL),
    reason="/x/<_C>.so needs libgone.so.1",
    evidence=("a & b", "\x00\x1b[1m"),
)
PINS = result(
    "pins.ray", Outcome.PASS, Level.STATIC, "ray: declared 2.60.0, observed 2.60.0 (ray-2.60.0.dist-info)"
)
ROWS = (
    PINS,
    BAD,
    result("gpu.torch", Outcome.BLOCKED, Level.GPU),
    result("pins.vllm", Outcome.NOT_APPLICABLE),
    result("pins.nccl", Outcome.ERROR),
)
CLAIMS = Claims(
    "train-2.60", "train", "distro", {"ray": "2.60.0", "nccl": "2.30.7"}, {"ray": "2.60.0"}, frozenset()
)


def page() -> str:
    facts = document(distributions=[distribution(f"d{n}", size=n << 20) for n in range(1, 30)])
    return html.render(evidence(*ROWS, stack="train-2.60"), config(), CLAIMS, facts, catalogue())


def test_page_says_first_what_is_wrong_and_what_to_do() -> None:
    text = page()
    assert "Not proven" in text
    assert text.index("/x/&lt;_C&gt;.so needs libgone.so.1") < text.index("<h2>Pins</h2>")
    assert catalogue()["native.resolved"].remedy in text
    assert "a &amp; b" in text


def test_page_needs_nothing_from_elsewhere() -> None:
    text = page()
    assert "<script" not in text
    assert "src=" not in text
    assert "@import" not in text
    assert "<link" not in text


def test_pins_table_shows_what_was_not_looked_at() -> None:
    text = page()
    assert "not looked at in this run" in text
    assert "ray-2.60.0.dist-info" in text


def test_page_of_an_image_that_could_not_be_probed() -> None:
    bare = Claims(None, None, None, {}, {}, frozenset())
    text = html.render(evidence(PINS), config(history=()), bare, None, catalogue())
    assert "<h2>Pins</h2>" not in text
    assert "whole image" in text


def test_sizes_for_people() -> None:
    assert [html.human(size) for size in (0, 1023, 1024, 5 << 20, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "5 MiB",
        "3.00 GiB",
    ]


def test_junit_counts_and_survives_control_characters() -> None:
    root = ET.fromstring(junit.render(evidence(*ROWS)))
    suite = root.find("testsuite")
    assert suite is not None
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "2",
        "skipped": "1",
    }
    failure = suite.find("testcase[@name='native.resolved']/failure")
    assert failure is not None
    assert failure.get("message") == "/x/<_C>.so needs libgone.so.1"
    assert failure.text is not None
    assert "\N{REPLACEMENT CHARACTER}[1m" in failure.text


def test_observation_reads_back() -> None:
    for seen in (
        Observation("torch", "2.15.0", "2.15.0+cu132", "torch.__version__"),
        Observation("ray", "2.60.0", None, "no distribution ray (in the environment)"),
    ):
        assert Observation.parse(str(seen)) == seen
    assert Observation.parse("something: else") is None
    assert Observation("torch", "2.15.0", "2.15.0+cu132", "").agrees
    assert not Observation("torch", "2.15.0", None, "").agrees


def test_every_check_tells_what_it_proves_and_what_to_do() -> None:
    for entry in catalogue().values():
        assert isinstance(entry, Check)
        assert entry.proves
        assert entry.remedy
        assert entry.source
        assert entry.id.count(".") == 1

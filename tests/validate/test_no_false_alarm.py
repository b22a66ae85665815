"""Images that are not Drydock's, and are not broken: nothing may fail on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.validate.mutants.harness import build, distribution, failures, judge, remove
from validate.evidence import Evidence
from validate.outcome import Level, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildspec.engine import Engine

pytestmark = pytest.mark.integration
LEVELS = [Level.STATIC, Level.CONTAINER]

# What the official python images set, a key's fingerprint among it.
PYTHON_LINES = r"""
ENV LANG=C.UTF-8 GPG_KEY=7169605F62C751356D054A26A821E680E5FA6305 PYTHON_VERSION=3.13.5
ENV PYTHON_SHA256=93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640
RUN ln -s /usr/bin/python3 /usr/local/bin/python3 && ln -s python3 /usr/local/bin/python
CMD ["python3"]
"""


def outcomes(evidence: Evidence) -> dict[str, Outcome]:
    return {row.id: row.outcome for row in evidence.checks}


def test_debian_without_python(engine: Engine, minimal: str, folder: Path) -> None:
    evidence = judge(engine, minimal, LEVELS, folder)
    assert failures(evidence) == {}
    assert evidence.passed
    seen = outcomes(evidence)
    assert seen["native.resolved"] is Outcome.PASS
    assert seen["pins.ray"] is Outcome.NOT_APPLICABLE
    assert seen["kuberay.tools"] is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("lines", "files"),
    [
        ("", {}),
        (PYTHON_LINES, distribution("requests", "2.0", {"requests/__init__.py": b""})),
        ("RUN useradd -m app\nUSER app", {"home/app/.profile": b"export EDITOR=vi\n"}),
    ],
    ids=["system", "like-python-slim", "with-a-user"],
)
def test_debian_with_python(
    engine: Engine, system: str, folder: Path, lines: str, files: Mapping[str, bytes]
) -> None:
    image = build(engine, system, lines, files) if lines else system
    try:
        evidence = judge(engine, image, LEVELS, folder)
        assert failures(evidence) == {}
        assert evidence.passed
    finally:
        if lines:
            remove(engine, image)


def test_derived_from_a_good_one(engine: Engine, bases: dict[str, str], folder: Path) -> None:
    files = {
        **distribution("harmless", "1.0", {"harmless/__init__.py": b"", "harmless/data.json": b"{}"}),
        "opt/app/main.py": b"print('hello')\n",
    }
    image = build(engine, bases["plain"], "ENV APP_MODE=batch\nWORKDIR /opt/app", files)
    try:
        evidence = judge(engine, image, LEVELS, folder)
        assert failures(evidence) == {}
        assert evidence.passed
    finally:
        remove(engine, image)


def test_image_without_shell(engine: Engine, folder: Path) -> None:
    image = build(engine, "scratch", 'CMD ["/app"]', {"app": b"\x7fELF", "etc/passwd": b"root:x:0:0::/:/app\n"})
    try:
        evidence = judge(engine, image, LEVELS, folder)
    finally:
        remove(engine, image)
    # The only thing wrong with it is that its program is no program.
    assert set(failures(evidence)) == {"native.well_formed"}

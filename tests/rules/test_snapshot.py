"""Recording releases from an index."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from buildspec.errors import EnvironmentLacksError
from buildspec.index import Cache, Index
from buildspec.rules import snapshot
from buildspec.rules.catalog import Snapshot
from tests.local_index import Wheel, serving

LINUX = "cp313-cp313-manylinux_2_28"


def test_what_is_recorded_can_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "RECORDED", {"torch": "2.13", "ray": "2.0"})
    wheels = [
        Wheel("torch", "2.12.0", (), f"{LINUX}_x86_64"),
        Wheel(
            "torch", "2.13.0", ("nvidia-nccl-cu13==2.29.7", "numpy"), f"{LINUX}_x86_64", requires_python=">=3.10"
        ),
        Wheel(
            "torch", "2.13.0", ("nvidia-nccl-cu13==2.29.7", "numpy"), f"{LINUX}_aarch64", requires_python=">=3.10"
        ),
        Wheel("torch", "2.13.0", (), "cp313-cp313-win_amd64"),
        Wheel("torch", "2.14.0", (), "cp313-cp313-macosx_11_0_arm64"),
        Wheel("ray", "2.60.0", ('vllm==0.29.0 ; extra == "llm"',), yanked="loses tasks"),
    ]
    with serving(wheels) as served:
        text = snapshot.take(Index([served.url], Cache(tmp_path)), date(2026, 11, 30))

    row = json.loads(text)
    assert row["taken"] == "2026-11-30"
    assert row["distributions"] == {
        "torch": {
            "2.13.0": {
                "wheels": [f"{LINUX}_aarch64", f"{LINUX}_x86_64"],
                "requires_python": ">=3.10",
                "requires": ["nvidia-nccl-cu13==2.29.7"],
            }
        },
        "ray": {
            "2.60.0": {
                "wheels": ["py3-none-any"],
                "yanked": "loses tasks",
                "requires": ['vllm==0.29.0; extra == "llm"'],
            }
        },
    }
    page = Snapshot(row["taken"], row["distributions"]).page("ray")
    assert page is not None
    assert [file.yanked for file in page.files] == ["loses tasks"]


def test_nothing_is_recorded_when_the_index_lacks_something(tmp_path: Path) -> None:
    with serving([Wheel("torch", "2.13.0")]) as served, pytest.raises(EnvironmentLacksError):
        snapshot.take(Index([served.url], Cache(tmp_path)), date(2026, 11, 30))

"""Free disk for builds."""

# ruff: noqa: E501 - what programs print, and tables, have long lines

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from buildspec import disk
from buildspec.engine import Engine
from buildspec.errors import EnvironmentLacksError
from buildspec.project import Project

GB = 1_000_000_000

CACHE = [
    {"ID": "a", "Size": 300_000_000, "InUse": False},
    {"ID": "b", "Size": 900_000_000, "InUse": True},
    {"ID": "c", "Size": 100_000_000},
]
IMAGES = [
    {"Id": "named", "RepoTags": ["drydock/tug:local"], "Labels": {"io.drydock": "image"}, "Size": 5 * GB, "SharedSize": GB, "Containers": 0},
    {"Id": "old", "RepoTags": [], "Labels": {"io.drydock": "image"}, "Size": 3 * GB, "SharedSize": GB, "Containers": 0},
    {"Id": "older", "RepoTags": ["<none>:<none>"], "Labels": {"io.drydock": "image"}, "Size": GB, "SharedSize": -1, "Containers": -1},
    {"Id": "used", "RepoTags": None, "Labels": {"io.drydock": "image"}, "Size": 9 * GB, "SharedSize": 0, "Containers": 1},
    {"Id": "foreign", "RepoTags": [], "Labels": None, "Size": 9 * GB, "SharedSize": 0, "Containers": 0},
]  # fmt: skip


def an_engine(root: str, **usage: Any) -> Engine:
    """An engine that answers with a fixed account of its disk, as the real one's /system/df does."""
    client: Any = SimpleNamespace(info=lambda: {"DockerRootDir": root}, df=lambda: usage)
    return Engine(url="unix:///none", client=client, version="26.1.5", buildx="0.13.1", private=False)


def free(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, count))


def test_what_builds_need_grows_with_the_budgets(small: Project) -> None:
    train, llm = disk.needed(small, ["tug"]), disk.needed(small, ["barge"])
    # Budgets are 0.5 and 0.75 GB; an image takes its size and that of the wheels once more, bases 2 GB.
    assert 0.5 * GB < train - 2 * GB <= 2 * 0.5 * GB
    assert (llm - 2 * GB) == pytest.approx(1.5 * (train - 2 * GB))
    assert disk.needed(small, ["tug", "barge"]) == pytest.approx(train + llm - 2 * GB)


def test_enough_room(small: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, disk.needed(small, ["tug"]))
    disk.check(small, ["tug"], an_engine(str(tmp_path)))


def test_too_little_room(small: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 1_234_000_000)
    with pytest.raises(EnvironmentLacksError) as caught:
        disk.check(small, ["tug"], an_engine(str(tmp_path), BuildCache=[], Images=IMAGES))
    need = f"{disk.needed(small, ['tug']) / 1e9:.1f} GB"
    assert str(caught.value) == (
        f"the engine's disk ({tmp_path}) has 1.2 GB free; building tug needs {need}\n"
        "  why: an image takes its own size and once more for the unpacked wheels it is installed from\n"
        "  do:  `drydock clean` would free 3.0 GB; or build one stack at a time"
    )
    assert caught.value.code == 3


def test_what_the_cache_holds_need_not_be_written_again(
    small: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need = disk.needed(small, ["tug"])
    free(monkeypatch, need - 400_000_000)
    disk.check(small, ["tug"], an_engine(str(tmp_path), BuildCache=CACHE))
    free(monkeypatch, need - 400_000_001)
    with pytest.raises(EnvironmentLacksError):
        disk.check(small, ["tug"], an_engine(str(tmp_path), BuildCache=CACHE))


def test_a_large_cache_never_stands_for_the_image_itself(
    small: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 1_000_000_000)
    huge = [{"Size": 500 * GB, "InUse": False}]
    with pytest.raises(EnvironmentLacksError):
        disk.check(small, ["tug"], an_engine(str(tmp_path), BuildCache=huge))


def test_an_engine_elsewhere_is_not_asked(small: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 0)
    disk.check(small, ["tug"], an_engine("/no/such/folder"))


def test_nothing_to_build_needs_no_room(small: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 0)
    disk.check(small, [], an_engine(str(tmp_path)))


def test_clean_takes_unnamed_images_of_drydock_and_the_cache() -> None:
    found = disk.freeable(an_engine("/", Images=IMAGES, BuildCache=CACHE))
    assert found.images == ("old", "older")
    assert found.image_bytes == 2 * GB + GB
    assert found.cache_bytes == 400_000_000
    assert found.total == 3_400_000_000


def test_clean_all_takes_named_images_too_but_none_in_use_and_none_of_others() -> None:
    found = disk.freeable(an_engine("/", Images=IMAGES, BuildCache=CACHE), everything=True)
    assert found.images == ("named", "old", "older")
    assert found.image_bytes == 4 * GB + 2 * GB + GB


def test_an_engine_with_nothing() -> None:
    assert disk.freeable(an_engine("/", Images=None, BuildCache=None)).total == 0

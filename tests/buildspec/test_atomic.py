"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from buildspec import atomic
from buildspec.errors import EnvironmentLacksError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_in_a_new_folder(tmp_path: Path) -> None:
    atomic.write(tmp_path / "a" / "b" / "file", "text é\n")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"text \xc3\xa9\n"
    assert names(tmp_path / "a" / "b") == ["file"]


def test_everybody_may_read_it(tmp_path: Path) -> None:
    atomic.write(tmp_path / "file", "x")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    before = file.stat().st_ino
    atomic.write(file, "new")
    assert file.read_text() == "new"
    assert file.stat().st_ino != before
    assert names(tmp_path) == ["file"]


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with file.open() as reader:
        atomic.write(file, "new and longer")
        assert reader.read() == "old"


def test_several_files_all_written(tmp_path: Path) -> None:
    atomic.write_all({tmp_path / "a": "1", tmp_path / "b": "2"})
    assert (tmp_path / "a").read_text() == "1"
    assert (tmp_path / "b").read_text() == "2"


def test_none_is_written_when_one_has_no_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EnvironmentLacksError) as caught:
        atomic.write_all({tmp_path / "a": "new", tmp_path / "n": "new", tmp_path / "file" / "b": "new"})
    assert str(caught.value).splitlines()[0] == f"{tmp_path / 'file'} can't be written: File exists"
    assert caught.value.remedy == "free the disk, or correct the permissions; nothing was changed"
    assert names(tmp_path) == ["a", "file"]
    assert (tmp_path / "a").read_text() == "old"


def test_none_is_written_when_one_name_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(EnvironmentLacksError, match="folder can't be written: Is a directory"):
        atomic.write_all({tmp_path / "a": "new", tmp_path / "folder": "new"})
    assert names(tmp_path) == ["folder"]


def test_a_failure_between_two_renames_puts_the_old_files_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("old a")
    (tmp_path / "c").write_text("old c")
    replace = Path.replace

    def fails_at_the_third(self: Path, target: Path) -> Path:
        if target.name == "c":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fails_at_the_third)
    with pytest.raises(EnvironmentLacksError, match="can't be written: No space left on device"):
        atomic.write_all({tmp_path / "a": "new a", tmp_path / "b": "new b", tmp_path / "c": "new c"})
    assert names(tmp_path) == ["a", "c"]
    assert (tmp_path / "a").read_text() == "old a"
    assert (tmp_path / "c").read_text() == "old c"


def test_an_interrupt_between_two_renames_puts_the_old_files_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("old a")
    replace = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        if target.name == "b":
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        atomic.write_all({tmp_path / "a": "new a", tmp_path / "b": "new b"})
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old a"


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path) -> None:
    full = Path("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        full.write_text("x")
    (tmp_path / "a").write_text("old")

    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(EnvironmentLacksError, match="a file can't be written: No space left on device"):
            atomic.write_all({tmp_path / "a": "new", tmp_path / "b": "new"})
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"

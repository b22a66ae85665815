"""Logs come from files, folders, globs, archives and standard input."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest
import zstandard

from buildspec.errors import BadInputError, EnvironmentLacksError
from tests.nccl.logs import path
from validate.nccl import judge
from validate.nccl import source as sources
from validate.nccl.source import find


def test_archives_give_the_same(tmp_path: Path) -> None:
    data = path("201").read_bytes()
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b.log.zst").write_bytes(zstandard.ZstdCompressor().compress(data))
    plain = judge([path("201")])
    for name in ("a.log.gz", "b.log.zst"):
        packed = judge([tmp_path / name])
        assert (packed.verdict, packed.cause, packed.lines) == (plain.verdict, plain.cause, plain.lines)


def test_several_zst_frames_are_one_log(tmp_path: Path) -> None:
    data = path("201").read_bytes()
    half = len(data) // 2
    pack = zstandard.ZstdCompressor().compress
    (tmp_path / "x").write_bytes(pack(data[:half]) + pack(data[half:]))
    assert judge([tmp_path / "x"]).lines == data.count(b"\n")


def test_folder_of_one_file_per_rank(tmp_path: Path) -> None:
    lines = path("201").read_bytes().splitlines(keepends=True)
    (tmp_path / "nccl.node-a.10").write_bytes(b"".join(line for line in lines if line.startswith(b"node-a")))
    (tmp_path / "nccl.node-b.11").write_bytes(b"".join(line for line in lines if line.startswith(b"node-b")))
    (tmp_path / "model.bin").write_bytes(b"\x00" * 100)
    judgement = judge([tmp_path])
    assert judgement.verdict == "mixed"
    assert len(judgement.files) == 2
    assert judge([f"{tmp_path}/nccl.*"]).verdict == "mixed"


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    assert find([path("201"), path("201"), str(path("201"))]) == [str(path("201"))]


@pytest.mark.parametrize("name", ["nothing", "no*thing", "nowhere/"])
def test_missing_logs_are_bad_input(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match="no such file"):
        find([tmp_path / name])


def test_empty_folder_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no files"):
        find([tmp_path])


def test_nothing_given_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="no log given"):
        find([])


def test_cut_archives_are_bad_input(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(path("201").read_bytes())[:-20])
    (tmp_path / "b.gz").write_bytes(b"\x1f\x8b\x08 this is no gzip")
    for name in ("a.gz", "b.gz"):
        with pytest.raises(BadInputError, match="broken gzip"):
            judge([tmp_path / name])
    (tmp_path / "c.zst").write_bytes(b"\x28\xb5\x2f\xfd this is no zstd")
    with pytest.raises(BadInputError, match="broken zstd"):
        judge([tmp_path / "c.zst"])


def test_zst_without_the_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.zst").write_bytes(zstandard.ZstdCompressor().compress(b"x\n"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(EnvironmentLacksError, match="cannot unpack zstd") as error:
        judge([tmp_path / "c.zst"])
    assert "logs" in error.value.remedy


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path("201").read_bytes())))
    judgement = judge(["-"])
    assert (judgement.verdict, judgement.files) == ("mixed", ("<stdin>",))


def test_packed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BufferedReader(io.BytesIO(gzip.compress(path("201").read_bytes())))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(packed))
    assert judge(["-"]).verdict == "mixed"


def test_closed_standard_input_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadInputError, match="standard input is closed"):
        judge(["-"])


def test_stretches_without_other_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = path("201").read_bytes()
    (tmp_path / "x.log").write_bytes(data)
    monkeypatch.setattr(sources, "_STRETCH", 300)
    monkeypatch.setattr(sources, "_cores", lambda: 1)
    cut = judge([tmp_path / "x.log"])
    whole = judge([path("201")])
    assert (cut.verdict, cut.cause, cut.lines, cut.communicators) == (
        whole.verdict,
        whole.cause,
        whole.lines,
        whole.communicators,
    )
    assert [line.line for line in cut.evidence] == [line.line for line in whole.evidence]


@pytest.mark.integration
def test_many_processes_give_the_same_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.log").write_bytes(path("201").read_bytes() * 20)
    monkeypatch.setattr(sources, "_STRETCH", 3000)
    many = judge([tmp_path / "x.log"])
    monkeypatch.setattr(sources, "_cores", lambda: 1)
    assert judge([tmp_path / "x.log"]) == many

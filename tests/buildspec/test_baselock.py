"""Base locks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildspec import baselock
from buildspec.base import Os, Package
from buildspec.errors import BadInputError
from buildspec.project import Project

LIBC = Package("libc6", "2.41-12", "amd64", "a" * 64)
TINI = Package("tini", "0.19.0-3", "amd64", "b" * 64)
BASH = Package("bash", "5.2.37-2", "amd64", None)


def made(*packages: Package) -> Os:
    return Os("tiny", "sha256:1", "drydock/base-tiny:1", packages)


def test_what_is_written_is_read_back(small: Project) -> None:
    text = baselock.text(made(BASH, LIBC, TINI))
    baselock.path(small, "tiny").write_text(text)
    assert baselock.path(small, "tiny") == small.root / "images" / "locks" / "tiny.json"
    assert baselock.read(small, "tiny") == (BASH, LIBC, TINI)


def test_one_package_a_line(small: Project) -> None:
    lines = baselock.text(made(BASH, LIBC)).splitlines()
    assert lines[0] == '{"schema": 1, "base": "tiny", "packages": ['
    assert json.loads(lines[1].rstrip(",")) == {
        "name": "bash",
        "version": "5.2.37-2",
        "architecture": "amd64",
        "sha256": None,
    }
    assert len(lines) == 4


def test_no_lock(small: Project) -> None:
    with pytest.raises(BadInputError) as caught:
        baselock.read(small, "tiny")
    assert str(caught.value) == (
        f"base tiny has no lock ({small.root}/images/locks/tiny.json)\n  do:  record it anew: `nox -s lock -- os`"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b'{"packages": 3}',
        b'{"packages": [3]}',
        b'{"packages": [{}]}',
        b'{"packages": [{"name": "a", "version": "1", "architecture": "all", "sha256": null, "more": 1}]}',
        b'{"packages": [{"name": ["a"], "version": "1", "architecture": "all", "sha256": null}]}',
        b'{"packages": [{"name": "a", "version": 1, "architecture": "all", "sha256": null}]}',
        b"\xff\xfe",
        b"<<<<<<< ours\n",
        b"[" * 100_000,
    ],
)
def test_what_is_no_lock(small: Project, content: bytes) -> None:
    file = baselock.path(small, "tiny")
    file.write_bytes(content)
    with pytest.raises(BadInputError) as caught:
        baselock.read(small, "tiny")
    assert str(caught.value).startswith(f"{file} is no lock of a base: ")
    assert str(caught.value).endswith("  do:  record it anew: `nox -s lock -- os`")


def test_a_lock_that_is_a_folder(small: Project) -> None:
    baselock.path(small, "tiny").mkdir()
    with pytest.raises(BadInputError, match=r"is no lock of a base: .*Is a directory"):
        baselock.read(small, "tiny")


def test_nothing_moved() -> None:
    assert baselock.moved((LIBC, TINI), made(TINI, LIBC)) == []


def test_every_kind_of_move() -> None:
    newer = Package("libc6", "2.41-13", "amd64", "c" * 64)
    rebuilt = Package("tini", "0.19.0-3", "amd64", "d" * 64)
    foreign = Package("libc6", "2.41-12", "i386", "e" * 64)
    added = Package("zlib1g", "1.3", "amd64", None)
    assert baselock.moved((LIBC, TINI, BASH), made(newer, rebuilt, foreign, added)) == [
        "bash 5.2.37-2 removed",
        "libc6 2.41-12 -> 2.41-13",
        "libc6 2.41-12 added",
        "tini 0.19.0-3: same version, other content",
        "zlib1g 1.3 added",
    ]


def test_the_real_lock_names_what_is_installed(root: Path) -> None:
    project = Project.find(root)
    for name in project.matrix.bases:
        locked = baselock.read(project, name)
        assert {package.name for package in locked} >= {"bash", "libc6", "python3", "tini", "openssh-server"}
        assert all(package.sha256 and len(package.sha256) == 64 for package in locked)


word = st.text(st.sampled_from("ab1"), min_size=1, max_size=2)
packages = st.lists(st.builds(Package, word, word, word, word), unique_by=lambda row: (row.name, row.architecture))


@given(packages, packages)
def test_moved_is_empty_only_when_nothing_moved(before: list[Package], now: list[Package]) -> None:
    changes = baselock.moved(tuple(before), made(*now))
    assert (changes == []) == (set(before) == set(now))
    assert len(changes) == len({(row.name, row.architecture) for row in set(before) ^ set(now)})

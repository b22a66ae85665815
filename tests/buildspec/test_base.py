"""Bases: their packages, where they come from, what makes them."""

# ruff: noqa: E501 - what programs print, and tables, have long lines

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildspec import base
from buildspec.base import Package, parse_packages
from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError, NotProvenError
from buildspec.matrix import Base
from buildspec.process import CommandFailedError
from buildspec.project import Project


def test_names_of_packages(small: Project) -> None:
    assert base.package_names(small.images) == [
        "bash",
        "ca-certificates",
        "grep",
        "openssh-client",
        "openssh-server",
        "python3",
        "python3-venv",
        "tini",
    ]


def test_what_the_issue_wants_is_in_every_image(root: Path) -> None:
    between_nodes = {"openmpi-bin", "openssh-client", "openssh-server", "libfabric1", "rdma-core", "tini"}
    tools = {"bash", "wget", "curl", "grep", "openssl", "procps", "iproute2"}
    assert between_nodes | tools <= set(base.package_names(root / "images"))


@pytest.mark.parametrize(
    "line", ["Bash", "bash=5.2", "bash curl", "-bash", "x", "$(reboot)", "bash;reboot", "bäsh"]
)
def test_what_is_no_package_has_its_line(small: Project, line: str) -> None:
    file = small.images / "packages.txt"
    file.write_text(f"# first\nbash\n{line}\n")
    with pytest.raises(BadInputError) as caught:
        base.package_names(small.images)
    assert str(caught.value) == f"{file}:3: '{line}' is not the name of a Debian package"


def test_no_list_of_packages(small: Project) -> None:
    (small.images / "packages.txt").unlink()
    with pytest.raises(BadInputError, match=r"packages\.txt can't be read: \[Errno 2\]"):
        base.package_names(small.images)


def a_base(**fields: str) -> Base:
    return Base.model_validate({"suite": "trixie", "bootstrap": "mmdebstrap", **fields})


def test_the_default_archive_is_mmdebstraps_own() -> None:
    assert base.sources(a_base()) == []


@pytest.mark.parametrize("mirror", ["http://mirror.example", "http://mirror.example/"])
def test_a_mirror(mirror: str) -> None:
    assert base.sources(a_base(mirror=mirror)) == [
        "deb http://mirror.example/debian trixie main",
        "deb http://mirror.example/debian trixie-updates main",
        "deb http://mirror.example/debian-security trixie-security main",
    ]


def test_a_snapshot_may_be_past_its_date() -> None:
    found = base.sources(a_base(mirror="http://history.example/archive", snapshot="20261130T000000Z"))
    assert found == [
        "deb [check-valid-until=no] http://history.example/archive/debian/20261130T000000Z trixie main",
        "deb [check-valid-until=no] http://history.example/archive/debian/20261130T000000Z trixie-updates main",
        (
            "deb [check-valid-until=no] http://history.example/archive/debian-security/20261130T000000Z"
            " trixie-security main"
        ),
    ]


PARAGRAPHS = """\
Package: zlib1g
Version: 1:1.3.dfsg+really1.3.1-1+b1
Architecture: amd64
SHA256: 015be740d6236ad114582dea500c1d907f29e16d6db00566ca32fb68d71ac90d

Package: adduser
Architecture: all
Version: 3.152
SHA256: e50984d2e1ef6300e3fd51303839842189a077b10cb5cadff1923df10c61c493


Package: local
Version: 1
Architecture: amd64
"""


def test_packages_as_apt_shows_them() -> None:
    assert parse_packages(PARAGRAPHS) == (
        Package("adduser", "3.152", "all", "e50984d2e1ef6300e3fd51303839842189a077b10cb5cadff1923df10c61c493"),
        Package("local", "1", "amd64", None),
        Package(
            "zlib1g",
            "1:1.3.dfsg+really1.3.1-1+b1",
            "amd64",
            "015be740d6236ad114582dea500c1d907f29e16d6db00566ca32fb68d71ac90d",
        ),
    )


def test_a_package_that_is_listed_twice_counts_once() -> None:
    assert len(parse_packages(PARAGRAPHS + "\n" + PARAGRAPHS)) == 3


@pytest.mark.parametrize("text", ["", "\n\n", "Version: 1\n", "N: Unable to locate package x\n"])
def test_no_package(text: str) -> None:
    assert parse_packages(text) == ()


word = st.text(st.sampled_from("abc019+.-:~"), min_size=1, max_size=6)
packages = st.builds(Package, word, word, word, st.one_of(st.none(), word))


@given(st.lists(packages, max_size=6), st.randoms(use_true_random=False))
def test_what_was_written_is_read_back_sorted(rows: list[Package], random: object) -> None:
    paragraphs = [
        "".join(
            f"{key}: {value}\n"
            for key, value in (
                ("Package", row.name),
                ("Version", row.version),
                ("Architecture", row.architecture),
                ("SHA256", row.sha256),
            )
            if value is not None
        )
        for row in rows
    ]
    found = parse_packages("\n".join(paragraphs))
    assert set(found) == set(rows)
    assert [(row.name, row.architecture, row.version) for row in found] == sorted(
        (row.name, row.architecture, row.version) for row in set(rows)
    )


@given(st.text())
def test_any_text_gives_packages(text: str) -> None:
    for row in parse_packages(text):
        assert row.name


def test_inputs_change_with_row_and_packages(small: Project) -> None:
    found = {base.inputs(small, "tiny"), base.inputs(small, "given")}
    (small.images / "packages.txt").write_text("bash\n")
    found.add(base.inputs(small, "tiny"))
    file = small.root / "versions.yaml"
    file.write_text(
        file.read_text().replace("bootstrap: mmdebstrap", "bootstrap: mmdebstrap\n    mirror: http://a.example")
    )
    found.add(base.inputs(Project.find(small.root), "tiny"))
    assert len(found) == 4


@pytest.mark.parametrize(("name", "dockerfile"), [("tiny", "bootstrap.Dockerfile"), ("given", "os.Dockerfile")])
def test_inputs_change_with_the_dockerfile_that_makes_the_base(small: Project, name: str, dockerfile: str) -> None:
    before = {name: base.inputs(small, name) for name in ("tiny", "given")}
    file = small.images / dockerfile
    file.write_text(file.read_text() + "ENV A=b\n")
    changed = {other for other in before if base.inputs(small, other) != before[other]}
    assert changed == {name}


def test_inputs_stay_when_a_comment_changes(small: Project) -> None:
    before = base.inputs(small, "tiny")
    file = small.images / "packages.txt"
    file.write_text("# why\n" + file.read_text())
    assert base.inputs(small, "tiny") == before


@pytest.mark.parametrize(
    ("output", "kind", "text"),
    [
        (
            "\n".join(f"E: Unable to locate package {name}" for name in ("pyhton3", "tinny", "tinny")),
            BadInputError,
            (
                "the archive of tiny has no package pyhton3, tinny\n"
                "  do:  correct images/packages.txt, or the suite in versions.yaml"
            ),
        ),
        (
            "tar: write error: No space left on device",
            EnvironmentLacksError,
            "the disk is full while making tiny\n  do:  free some; `drydock clean` shows what it would free",
        ),
        (
            "E: The repository 'http://a.example/debian nosuch Release' does not have a Release file.",
            BadInputError,
            (
                "there is no suite for tiny at 'http://a.example/debian nosuch'\n"
                "  do:  correct suite, mirror or snapshot of this base in versions.yaml"
            ),
        ),
        (
            "ERROR: failed to build: failed to solve: failed to resolve source metadata for r.example/a@sha256:12: not found",
            EnvironmentLacksError,
            (
                "the image r.example/a@sha256:12 of base tiny can't be pulled: not found\n"
                "  why: its registry is out of reach, wants a login, or no longer has it\n"
                "  do:  check the reference in versions.yaml, the network, and `docker login`"
            ),
        ),
    ],
)
def test_what_a_failed_bootstrap_tells(output: str, kind: type[DrydockError], text: str) -> None:
    error = base._explained("tiny", CommandFailedError(["mmdebstrap"], 25, output))
    assert type(error) is kind
    assert str(error) == text


@pytest.mark.parametrize(
    ("output", "kind", "first"),
    [
        (
            "E: Failed to fetch http://a.example/dists/trixie/InRelease  Temporary failure resolving 'a.example'",
            EnvironmentLacksError,
            "Debian's archive is out of reach:",
        ),
        (
            "W: GPG error: http://a.example trixie InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 6ED0E7B82643E131\nE: The repository is not signed.",
            NotProvenError,
            "the archive of tiny is not signed by a key that this machine trusts:",
        ),
    ],
)
def test_what_a_failed_archive_tells(output: str, kind: type[DrydockError], first: str) -> None:
    error = base._explained("tiny", CommandFailedError(["mmdebstrap"], 25, output))
    assert type(error) is kind
    assert str(error).splitlines()[0] == first
    assert output.splitlines()[-1] in str(error)


def test_what_is_not_understood_is_shown_whole() -> None:
    failed = CommandFailedError(["mmdebstrap", "a b"], 1, "E: something else")
    assert base._explained("tiny", failed) is failed
    assert str(failed) == "`mmdebstrap 'a b'` ended with exit code 1; its last lines:\n    E: something else"

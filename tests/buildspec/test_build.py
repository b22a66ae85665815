"""What the output of a failed build tells, and what earlier builds recorded."""

# ruff: noqa: E501 - what programs print, and tables, have long lines

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from buildspec import build as builds
from buildspec.build import Built
from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError, NotProvenError
from buildspec.process import CommandFailedError
from buildspec.project import Project

BUILT = Built("tug", "sha256:" + "a" * 64, "drydock/tug:local", "key", 1000, 7, 1.5)

# As BuildKit's plain progress prints them, each line behind a step's number and its seconds.
HASH_MISMATCH = """\
#12 1.802 error: Failed to fetch `iniconfig==2.1.0`
#12 1.802   Caused by: Hash mismatch for `iniconfig==2.1.0`
#12 1.802
#12 1.802 Expected:
#12 1.802   sha256:aaaa
#12 1.802
#12 1.802 Computed:
#12 1.802   sha256:bbbb
#12 ERROR: process "/bin/bash" did not complete successfully: exit code: 1
"""
PYTHON = """\
#8 [tug image 2/6] RUN test "$(python3 -c 'import platform')" = "$PYTHON_VERSION" || { echo "pinned Python $PYTHON_VERSION, but the base has $(python3 --version)" >&2; exit 1; }
#8 0.213 pinned Python 3.13.4, but the base has Python 3.13.5
#8 ERROR: process "/bin/sh -c test" did not complete successfully: exit code: 1
"""


def explained(output: str, folder: Path) -> DrydockError:
    log = folder / "build.log"
    log.write_text(output)
    return builds.explain(CommandFailedError(["docker", "buildx", "bake"], 1, output), log)


@pytest.mark.parametrize(
    ("output", "kind", "what"),
    [
        (
            "ERROR: failed to solve: write /data/x: no space left on device",
            EnvironmentLacksError,
            "the disk became full in mid-build; what was built is kept in the engine's cache",
        ),
        (
            HASH_MISMATCH,
            NotProvenError,
            "the index served another file for iniconfig==2.1.0 than the lock names (it has sha256:bbbb)",
        ),
        (
            "#9 1.1 error: In `--require-hashes` mode, all requirements must have a hash, but none were provided",
            BadInputError,
            "the lock has a requirement without a hash",
        ),
        (PYTHON, NotProvenError, "the stack pins Python 3.13.4, but its base has 3.13.5"),
        (
            "ERROR: Cannot connect to the Docker daemon at unix:///x/docker.sock. Is the docker daemon running?",
            EnvironmentLacksError,
            "the Docker Engine went away in mid-build",
        ),
        (
            "ERROR: failed to receive status: rpc error: code = Unavailable desc = error reading from server: EOF",
            EnvironmentLacksError,
            "the Docker Engine went away in mid-build",
        ),
        (
            "#9 3.2   Caused by: error sending request for url (https://index.example/simple/a/)\n#9 ERROR: it failed",
            EnvironmentLacksError,
            (
                "the package index is out of reach from the build:\n"
                "    #9 3.2   Caused by: error sending request for url (https://index.example/simple/a/)\n"
                "    #9 ERROR: it failed"
            ),
        ),
        ("#3 ERROR: something odd", NotProvenError, "the build failed:\n    #3 ERROR: something odd"),
        ("one\ntwo", NotProvenError, "the build failed:\n    one\n    two"),
    ],
)
def test_each_class_of_failure(tmp_path: Path, output: str, kind: type[DrydockError], what: str) -> None:
    error = explained(output, tmp_path)
    assert type(error) is kind
    assert error.what == what
    assert error.remedy


def test_a_wrong_python_names_the_right_one(tmp_path: Path) -> None:
    assert explained(PYTHON, tmp_path).remedy == 'write python: "3.13.5" in versions.yaml, then `nox -s lock`'


def test_the_log_is_read_before_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text(HASH_MISMATCH + "#13 more\n" * 100)
    error = builds.explain(CommandFailedError(["docker"], 1, "#13 more"), log)
    assert "the index served another file" in error.what
    assert str(log) in error.remedy


def test_without_a_log_the_last_lines_are_read(tmp_path: Path) -> None:
    error = builds.explain(CommandFailedError(["docker"], 1, HASH_MISMATCH), tmp_path / "gone.log")
    assert "the index served another file" in error.what


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("#12 1.802 Downloading torch (900.0MiB)", "Downloading torch (900.0MiB)"),
        ("#8 [image 2/6] RUN test a = b", "[image 2/6]"),
        ("#8 DONE 0.2s", "DONE 0.2s"),
        ("", ""),
    ],
)
def test_progress_for_people(line: str, shown: str) -> None:
    assert builds._readable(line) == shown


def test_what_a_build_recorded_is_read_back(small: Project) -> None:
    assert builds.recorded(small, "tug") is None
    (small.results("tug") / "build.json").write_text(json.dumps(dataclasses.asdict(BUILT)))
    assert builds.recorded(small, "tug") == BUILT


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "null", '{"stack": 1}', '{"more": 1}', "\udcff", "[" * 100_000]
)
def test_a_broken_record_is_none(small: Project, content: str) -> None:
    (small.results("tug") / "build.json").write_text(content, errors="surrogateescape")
    assert builds.recorded(small, "tug") is None

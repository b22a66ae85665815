"""Python locks."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from buildspec import lock, process
from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError, ExitCode
from buildspec.process import CommandFailedError
from buildspec.project import Project
from tests.sample import BODY, INPUTS, write_lock


def refused(project: Project, name: str) -> str:
    with pytest.raises(BadInputError) as caught:
        lock.read(project, name)
    assert caught.value.code == ExitCode.BAD_INPUT
    return str(caught.value)


def test_a_lock_that_fits(small: Project) -> None:
    file = write_lock(small, "tug", BODY)
    found = lock.read(small, "tug")
    assert found.path == file
    assert found.text == file.read_text()
    assert found.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert found.versions == {"ray": "2.60.0", "nvidia-nccl-cu13": "2.30.7", "torch": "2.15.0+cu132"}


def test_exclusions_are_inputs(small: Project) -> None:
    write_lock(small, "barge", BODY)
    assert lock.read(small, "barge").versions["ray"] == "2.60.0"


def test_the_real_locks_fit_their_inputs(root: Path) -> None:
    project = Project.find(root)
    names = [name for name, stack in project.matrix.stacks.items() if stack.status != "retired"]
    assert len(names) >= 4
    for name in names:
        stack = project.matrix.stack(name)
        found = lock.read(project, name)
        assert found.versions["torch"].split("+")[0] == stack.torch
        assert found.versions["ray"] == stack.ray
        assert found.versions[f"nvidia-nccl-cu{stack.cuda_major}"] == stack.nccl
        hashes = found.text.count("--hash=sha256:")
        assert hashes >= len(found.versions)


def test_a_lock_for_every_stack_and_none_else(root: Path) -> None:
    project = Project.find(root)
    found = {file.stem for file in project.locks.glob("*.txt")}
    assert found == {name for name, stack in project.matrix.stacks.items() if stack.status != "retired"}
    assert {file.stem for file in project.locks.glob("*.json")} == set(project.matrix.bases)


def test_no_lock(small: Project) -> None:
    assert refused(small, "tug") == (
        f"stack tug has no lock ({small.root}/images/locks/tug.txt)\n"
        "  why: the stack is new, or its lock was not committed\n"
        "  do:  make it anew: `nox -s lock -- tug`"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a" * 64, "f" * 64),
        ("Ray==2.60.0", "Ray==2.60.1"),
        ("# via -r -", "# via me"),
        ("body sha256:", "body sha256:0"),
    ],
)
def test_a_lock_that_was_edited(small: Project, old: str, new: str) -> None:
    file = write_lock(small, "tug", BODY)
    file.write_text(file.read_text().replace(old, new))
    assert refused(small, "tug") == (
        f"{file} was changed after it was made: its content does not have the checksum in its header\n"
        "  why: a lock was edited by hand, merged badly, or tampered with\n"
        "  do:  restore it from version control, or make it anew: `nox -s lock -- tug`"
    )


@pytest.mark.parametrize("content", ["", "\n", "ray==2.60.0\n", "# body sha256:", "<<<<<<< HEAD\n", "\0"])
def test_what_is_no_lock(small: Project, content: str) -> None:
    (small.locks / "tug.txt").write_text(content)
    assert "was changed after it was made" in refused(small, "tug")


def test_a_merge_conflict(small: Project) -> None:
    file = write_lock(small, "tug", BODY)
    file.write_text(file.read_text().replace("torch[opt]", "<<<<<<< ours\ntorch[opt]"))
    assert "merged badly" in refused(small, "tug")


def test_a_lock_in_another_encoding(small: Project) -> None:
    file = small.locks / "tug.txt"
    file.write_bytes("caf\xe9".encode("latin-1"))
    text = refused(small, "tug")
    assert text.startswith(f"{file} can't be read: 'utf-8' codec can't decode byte 0xe9")
    assert text.endswith("  do:  make it anew: `nox -s lock -- tug`")


def test_a_lock_that_is_a_folder(small: Project) -> None:
    (small.locks / "tug.txt").mkdir()
    assert "tug.txt can't be read: [Errno 21] Is a directory" in refused(small, "tug")


def test_a_checkout_with_crlf_line_ends_has_the_same_lock(small: Project) -> None:
    file = write_lock(small, "tug", BODY)
    before = lock.read(small, "tug")
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert lock.read(small, "tug") == before


@pytest.mark.parametrize(
    ("recorded", "changes"),
    [
        (["python 3.13.4", *INPUTS["tug"][1:]], ["- python 3.13.4", "+ python 3.13.5"]),
        (
            [*INPUTS["tug"][:2], "ray==2.59.0", *INPUTS["tug"][3:]],
            ["- ray==2.59.0", "+ ray==2.60.0"],
        ),
        ([*INPUTS["tug"], "numpy"], ["- numpy"]),
        (INPUTS["tug"][:-1], ["+ nvidia-nccl-cu13==2.30.7"]),
        ([*INPUTS["tug"], "without nixl-cu12"], ["- without nixl-cu12"]),
        (
            [INPUTS["tug"][0], "platform linux", *INPUTS["tug"][2:]],
            ["- platform linux", "+ platform x86_64-manylinux_2_40"],
        ),
        ([*INPUTS["tug"][:2], *reversed(INPUTS["tug"][2:])], ["(their order)"]),
    ],
    ids=["python", "pin", "removed", "added", "exclusion", "platform", "order"],
)  # fmt: skip
def test_a_stale_lock_names_what_changed(small: Project, recorded: list[str], changes: list[str]) -> None:
    write_lock(small, "tug", BODY, inputs=recorded)
    assert refused(small, "tug").splitlines() == [
        "the lock of tug is stale; its inputs changed since it was made:",
        *(f"    {change}" for change in changes),
        "  do:  make it anew: `nox -s lock -- tug`",
    ]


def test_a_pin_changed_in_the_matrix_makes_the_lock_stale(small: Project) -> None:
    write_lock(small, "tug", BODY)
    file = small.root / "versions.yaml"
    file.write_text(file.read_text().replace('torch: "2.15.0"', 'torch: "2.15.1"'))
    text = refused(Project.find(small.root), "tug")
    assert "    - torch==2.15.0\n    + torch==2.15.1\n" in text


def test_an_unknown_stack(small: Project) -> None:
    (small.locks / "tgu.txt").write_text("")
    assert refused(small, "tgu").startswith("no stack is named 'tgu' (did you mean 'tug'?)\n")


NO_SOLUTION = """\
  × No solution found when resolving dependencies:
  ╰─▶ Because torch==2.15.0 depends on nvidia-nccl-cu13==2.30.6 and you require nvidia-nccl-cu13==2.30.7,
      we can conclude that your requirements are unsatisfiable.
"""  # noqa: RUF001 - as uv prints it


@pytest.mark.parametrize(
    ("output", "kind", "first"),
    [
        (NO_SOLUTION, BadInputError, "no set of versions satisfies stack tug:"),
        (
            "error: Failed to fetch: `https://index.example/simple/torch/`\n  cause: dns error",
            EnvironmentLacksError,
            "the package index is out of reach while resolving tug:",
        ),
        (
            "error: Failed to initialize cache at `/x/uv`\n  cause: Permission denied (os error 13)",
            EnvironmentLacksError,
            "uv could not write while resolving tug: Permission denied",
        ),
    ],
    ids=["conflict", "network", "cache"],
)
def test_what_a_failed_resolution_tells(
    small: Project, monkeypatch: pytest.MonkeyPatch, output: str, kind: type[DrydockError], first: str
) -> None:
    def fails(command: list[str], **_: object) -> None:
        # What uv is asked for: hashes for this Python and platform, and no interpreter from elsewhere.
        assert {"--generate-hashes", "--no-python-downloads", "3.13.5", lock.PLATFORM} <= set(command)
        raise CommandFailedError(command, 2, output)

    monkeypatch.setattr(process, "run", fails)
    with pytest.raises(kind) as caught:
        lock.resolve(small, "tug")
    assert str(caught.value).splitlines()[0] == first
    assert output.strip() in str(caught.value)


def test_what_is_written_is_read_back(small: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(command: list[str], *, stdin: str) -> None:
        assert stdin == "ray==2.60.0\ntorch==2.15.0\nnvidia-nccl-cu13==2.30.7\n"
        Path(command[command.index("--output-file") + 1]).write_text(BODY)

    monkeypatch.setattr(process, "run", resolved)
    text = lock.resolve(small, "tug")
    assert text == write_lock(small, "tug", BODY).read_text()
    assert lock.read(small, "tug").text == text

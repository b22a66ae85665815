"""A checkout: found, its revision, one run at a time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from buildspec.errors import BadInputError, EnvironmentLacksError
from buildspec.located import MistakesError
from buildspec.project import CONSTANT_TIME, Project, Revision


def test_it_is_found_from_any_folder_in_it(small: Project) -> None:
    assert Project.find(small.images / "train").root == small.root
    assert Project.find(small.root).root == small.root


def test_it_is_found_from_the_working_directory(small: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.images / "rootfs")
    assert Project.find().root == small.root


def test_it_is_found_through_a_link(small: Project, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(small.images)
    assert Project.find(tmp_path / "link").root == small.root


def test_outside_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as caught:
        Project.find(tmp_path)
    assert str(caught.value) == (
        f"there is no versions.yaml in {tmp_path} or above it\n"
        "  why: this command works on a Drydock checkout\n"
        "  do:  go into the checkout and run it there"
    )


def test_the_nearest_matrix_counts(small: Project) -> None:
    inner = small.root / "inner"
    inner.mkdir()
    (inner / "versions.yaml").write_text("")
    with pytest.raises(MistakesError, match=r"inner/versions\.yaml has 1 mistake"):
        Project.find(inner)


def test_its_folders(small: Project) -> None:
    assert small.images == small.root / "images"
    assert small.locks == small.root / "images" / "locks"
    assert small.out == small.root / "out"
    assert not small.out.exists()
    assert small.results("tug") == small.root / "out" / "tug"
    assert (small.root / "out" / "tug").is_dir()


def test_results_that_can_not_be_made(small: Project) -> None:
    small.out.write_text("a file")
    with pytest.raises(EnvironmentLacksError) as caught:
        small.results("tug")
    assert str(caught.value) == (
        f"{small.root}/out/tug can't be made: Not a directory\n  do:  free the disk, or correct the permissions"
    )


def test_one_run_at_a_time(small: Project) -> None:
    with small.exclusively(["tug", "tiny"]):
        with pytest.raises(EnvironmentLacksError) as caught, small.exclusively(["barge", "tug"]):
            pytest.fail("two runs at once")
        assert str(caught.value) == (
            f"another run is at work on tug (process {os.getpid()})\n"
            "  why: two builds of one stack would overwrite each other's results\n"
            "  do:  wait for it, or end it"
        )
        with small.exclusively(["barge"]):
            pass
    with small.exclusively(["tug"]):
        pass


def test_a_name_given_twice_does_not_lock_itself_out(small: Project) -> None:
    with small.exclusively(["tug", "tug"]):
        pass


def test_what_failed_does_not_hold_on(small: Project) -> None:
    with pytest.raises(ZeroDivisionError), small.exclusively(["tug"]):
        _ = 1 / 0
    with small.exclusively(["tug"]):
        pass


def test_a_refused_run_holds_nothing(small: Project) -> None:
    with small.exclusively(["tug"]):
        with pytest.raises(EnvironmentLacksError), small.exclusively(["barge", "tug"]):
            pytest.fail("two runs at once")
        with small.exclusively(["barge"]):
            pass


def test_a_lock_that_can_not_be_made(small: Project) -> None:
    (small.results("tug") / ".lock").mkdir()
    with pytest.raises(EnvironmentLacksError) as caught, small.exclusively(["tug"]):
        pytest.fail("there is no lock")
    assert str(caught.value).splitlines()[0] == f"{small.root}/out/tug/.lock can't be opened: Is a directory"


# Git is a process: what follows is integration, though it needs no engine.


def git(folder: Path, *arguments: str, time: int = 1700000000) -> str:
    environment = {
        **os.environ,
        **{
            f"GIT_{who}_{what}": "ann@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        },
        "GIT_AUTHOR_DATE": f"{time} +0200",
        "GIT_COMMITTER_DATE": f"{time} +0200",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def committed(small: Project) -> Project:
    git(small.root, "init", "-q")
    git(small.root, "add", "-A")
    git(small.root, "commit", "-qm", "first")
    return small


@pytest.mark.integration
def test_the_revision_is_the_commit_that_touched_the_inputs(committed: Project) -> None:
    first = git(committed.root, "rev-parse", "HEAD")
    assert committed.revision() == Revision(first, 1700000000)
    (committed.root / "README").write_text("for people")
    git(committed.root, "add", "README")
    git(committed.root, "commit", "-qm", "docs", time=1700000100)
    assert git(committed.root, "rev-parse", "HEAD") != first
    assert committed.revision() == Revision(first, 1700000000)
    (committed.images / "packages.txt").write_text("bash\n")
    git(committed.root, "commit", "-qam", "packages", time=1700000200)
    assert committed.revision() == Revision(git(committed.root, "rev-parse", "HEAD"), 1700000200)


@pytest.mark.integration
def test_a_changed_input_makes_it_dirty_and_another_file_does_not(committed: Project) -> None:
    commit = git(committed.root, "rev-parse", "HEAD")
    (committed.root / "notes").write_text("")
    committed.results("tug")
    assert committed.revision().commit == commit
    (committed.images / "new").write_text("")
    assert committed.revision() == Revision(f"{commit}-dirty", 1700000000)
    (committed.images / "new").unlink()
    (committed.root / "versions.yaml").write_text("")
    assert committed.revision().commit == f"{commit}-dirty"


@pytest.mark.integration
def test_a_checkout_inside_another_repository(small: Project) -> None:
    above = small.root.parent
    git(above, "init", "-q")
    git(above, "add", "-A")
    git(above, "commit", "-qm", "all")
    assert small.revision() == Revision(git(above, "rev-parse", "HEAD"), 1700000000)


@pytest.mark.integration
def test_without_git_the_commit_is_unknown(small: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(small.root.parent))
    assert small.revision() == Revision("unknown", CONSTANT_TIME)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert small.revision() == Revision("unknown", CONSTANT_TIME)


@pytest.mark.integration
def test_without_a_commit_it_is_unknown(small: Project) -> None:
    git(small.root, "init", "-q")
    assert small.revision() == Revision("unknown", CONSTANT_TIME)


@pytest.mark.integration
def test_a_git_hook_asks_its_own_repository(committed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = git(committed.root, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", "/nonexistent/.git")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent/index")
    assert committed.revision() == Revision(commit, 1700000000)


@pytest.mark.integration
def test_a_checkout_of_another_user_is_not_silently_unknown(
    committed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # git's own switch for its test suite.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(EnvironmentLacksError) as caught:
        committed.revision()
    assert str(caught.value) == (
        f"git does not trust {committed.root}, so that the images' revision and time can't be told\n"
        "  why: the checkout belongs to another user than the one who builds\n"
        f"  do:  `git config --global --add safe.directory {committed.root}`, or change its owner"
    )


@pytest.mark.integration
def test_source_date_epoch_overrides_the_time(committed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1600000000")
    assert committed.revision() == Revision(git(committed.root, "rev-parse", "HEAD"), 1600000000)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert committed.revision().time == 0


@pytest.mark.integration
@pytest.mark.parametrize("given", ["now", "-1", "1.5", "²", "٣", "1" * 30, "0x10", " 1"])
def test_a_source_date_epoch_that_is_none(committed: Project, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
    with pytest.raises(BadInputError) as caught:
        committed.revision()
    assert str(caught.value) == f"SOURCE_DATE_EPOCH is '{given}', not a number of seconds since 1970"

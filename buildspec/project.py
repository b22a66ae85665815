"""A Drydock checkout: where its matrix, its image sources and its results lie, and which commit made them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from buildspec import matrix
from buildspec.errors import BadInputError, EnvironmentLacksError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Times inside an image when no commit tells one: 2020-01-01, after the epoch of every archive format.
CONSTANT_TIME = 1577836800
# What an image is made from; a commit that touches nothing of it leaves the images alone.
INPUTS = (matrix.FILE_NAME, "images")


@dataclass(frozen=True, slots=True)
class Revision:
    """The commit that last touched the images' inputs, and its time in seconds since the epoch."""

    commit: str
    time: int


@dataclass(frozen=True, slots=True)
class Project:
    """A checkout with its matrix read."""

    root: Path
    matrix: matrix.Matrix

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """Find the checkout that holds `start` (the working directory) and read its matrix.

        Raises BadInputError when there is none, MistakesError when its matrix is wrong.
        """
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if (folder / matrix.FILE_NAME).is_file():
                return cls(folder, matrix.load(folder / matrix.FILE_NAME))
        raise BadInputError(
            f"there is no {matrix.FILE_NAME} in {here} or above it",
            why="this command works on a Drydock checkout",
            remedy="go into the checkout and run it there",
        )

    @property
    def images(self) -> Path:
        """What goes into images: Dockerfiles, files copied in, requirements, locks."""
        return self.root / "images"

    @property
    def locks(self) -> Path:
        """Folder of the locks, one file per stack and per base."""
        return self.images / "locks"

    @property
    def out(self) -> Path:
        """Folder of results; not under version control."""
        return self.root / "out"

    def results(self, stack: str) -> Path:
        """Folder of one stack's results; made when it is missing."""
        return _folder(self.out / stack)

    def revision(self) -> Revision:
        """Commit of the images' inputs; `-dirty` behind it when they were changed since.

        SOURCE_DATE_EPOCH overrides the time. Outside git the commit is `unknown`.
        Raises EnvironmentLacksError when git refuses a checkout that belongs to somebody else.
        """
        commit, time = "unknown", CONSTANT_TIME
        if logged := self._git("log", "-1", "--no-show-signature", "--format=%H %ct", "--", *INPUTS):
            commit, seconds = logged.split()
            time = int(seconds)
            if self._git("status", "--porcelain", "--", *INPUTS):
                commit += "-dirty"
        if given := os.environ.get("SOURCE_DATE_EPOCH"):
            # Eleven digits end in the year 5138; dates behind 9999 can't be written.
            if not re.fullmatch(r"[0-9]{1,11}", given):
                raise BadInputError(f"SOURCE_DATE_EPOCH is '{given}', not a number of seconds since 1970")
            time = int(given)
        return Revision(commit, time)

    def _git(self, *arguments: str) -> str:
        # A git hook has these set, to a repository that need not be this one.
        hook = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
        env = {name: value for name, value in os.environ.items() if name not in hook}
        try:
            done = subprocess.run(
                ["git", "-C", str(self.root), *arguments], capture_output=True, text=True, check=True, env=env
            )
        except OSError:
            return ""
        except subprocess.CalledProcessError as error:
            if "dubious ownership" in error.stderr:
                raise EnvironmentLacksError(
                    f"git does not trust {self.root}, so that the images' revision and time can't be told",
                    why="the checkout belongs to another user than the one who builds",
                    remedy=f"`git config --global --add safe.directory {self.root}`, or change its owner",
                ) from error
            return ""
        return done.stdout.strip()

    @contextlib.contextmanager
    def exclusively(self, names: list[str]) -> Iterator[None]:
        """Hold the results of these stacks or bases. Raises EnvironmentLacksError when another run has them."""
        with contextlib.ExitStack() as held:
            for name in sorted(set(names)):
                file = held.enter_context(_opened(self.results(name) / ".lock"))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    file.seek(0)
                    raise EnvironmentLacksError(
                        f"another run is at work on {name} (process {file.read().strip() or 'unknown'})",
                        why="two builds of one stack would overwrite each other's results",
                        remedy="wait for it, or end it",
                    ) from None
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
            yield


def _opened(path: Path) -> TextIO:
    try:
        return path.open("a+")
    except OSError as error:
        raise EnvironmentLacksError(
            f"{path} can't be opened: {error.strerror}", remedy="correct its permissions, or remove it"
        ) from error


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentLacksError(
            f"{path} can't be made: {error.strerror}", remedy="free the disk, or correct the permissions"
        ) from error
    return path

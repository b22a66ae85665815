"""The dynamic loader's search, on facts: which file satisfies a NEEDED name.

Follows ld.so(8): a name with a slash is a path; otherwise DT_RPATH of the object and of those that loaded
it (unless the object has DT_RUNPATH), LD_LIBRARY_PATH, DT_RUNPATH, the loader cache, the default folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from validate.facts import Elf, Facts

# glibc's built-in folders on Debian and on Red Hat, and musl's.
DEFAULT_FOLDERS = (
    "/lib/{triplet}",
    "/usr/lib/{triplet}",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
)
TRIPLETS = {62: "x86_64-linux-gnu", 183: "aarch64-linux-gnu", 3: "i386-linux-gnu"}
PLATFORMS = {62: "x86_64", 183: "aarch64", 3: "i686"}


@dataclass(frozen=True, slots=True)
class Resolved:
    """The file that satisfies a name, and the rule of the loader by which it was found."""

    path: str
    rule: str


class Loader:
    """Resolves names as the loader of one image does under one LD_LIBRARY_PATH."""

    def __init__(self, facts: Facts, library_path: Sequence[str] = ()) -> None:
        self._facts = facts
        self._library_path = [folder for folder in library_path if folder]
        self._cache: dict[str, list[str]] = {}
        for name, path in facts.loader_cache:
            self._cache.setdefault(name, []).append(path)

    def real(self, path: str) -> str:
        """Follow links, of folders and of libraries, to the real path."""
        links: tuple[Mapping[str, str], ...] = (self._facts.directory_links, self._facts.library_links)
        todo, done = [part for part in path.split("/") if part], ""
        for _ in range(256):
            if not todo:
                return done
            part = todo.pop(0)
            if part == ".":
                continue
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{done}/{part}"
            target = next((table[here] for table in links if here in table), None)
            if target is None:
                done = here
                continue
            if target.startswith("/"):
                done = ""
            todo[:0] = [piece for piece in target.split("/") if piece]
        return path

    def _fits(self, path: str, user: Elf) -> str | None:
        real = self.real(path)
        found = self._facts.elf_by_path.get(real)
        # The loader passes over libraries for another machine and goes on searching.
        return real if found and (found.bits, found.machine) == (user.bits, user.machine) else None

    def _expand(self, folder: str, origin: Elf) -> str:
        triplet = "lib64" if origin.bits == 64 else "lib"
        for token, value in (
            ("ORIGIN", origin.folder),
            ("LIB", triplet),
            ("PLATFORM", PLATFORMS.get(origin.machine, "")),
        ):
            folder = folder.replace(f"${{{token}}}", value).replace(f"${token}", value)
        return folder

    def _folders(self, user: Elf, chain: Sequence[Elf]) -> Iterator[tuple[str, str]]:
        if user.runpath is None:
            for origin in (user, *chain):
                if origin.runpath is None:
                    for folder in origin.rpath or ():
                        yield self._expand(folder, origin), f"RPATH of {origin.path}"
        for folder in self._library_path:
            yield folder, "LD_LIBRARY_PATH"
        for folder in user.runpath or ():
            yield self._expand(folder, user), f"RUNPATH of {user.path}"

    def resolve(self, name: str, user: Elf, chain: Sequence[Elf] = ()) -> Resolved | None:
        """The file that `user` gets for `name`; `chain` are those that loaded it, nearest first."""
        if "/" in name:
            found = self._fits(self._expand(name, user), user)
            return Resolved(found, "its path") if found else None
        for folder, rule in self._folders(user, chain):
            if folder and (found := self._fits(f"{folder}/{name}", user)):
                return Resolved(found, rule)
        for path in self._cache.get(name, ()):
            if found := self._fits(path, user):
                return Resolved(found, "the loader cache")
        triplet = TRIPLETS.get(user.machine, "")
        for pattern in DEFAULT_FOLDERS:
            if found := self._fits(f"{pattern.format(triplet=triplet)}/{name}", user):
                return Resolved(found, "the default folders")
        return None

    def dlopen(self, name: str) -> Resolved | None:
        """The file that `dlopen(name)` gets in a program that has loaded nothing of that name yet."""
        program = next((row for row in self._facts.elf if row.interpreter), None)
        if program is None:
            return None
        return self.resolve(name, replace(program, rpath=None, runpath=None))

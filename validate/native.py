"""Judgements about native libraries that need only facts: unresolved names, versions, copies, CUDA majors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from validate.allowances import allowances
from validate.facts import Elf, Facts
from validate.loader import Loader

ET_EXEC, ET_DYN = 2, 3
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
CUDA_LIBRARY = re.compile(r"lib(cudart|cublas|cublasLt|nvrtc|cupti|nvJitLink|cusolver|npp\w+)\.so\.(\d+)")
# Sonames of the same CUDA release do not all carry its major: cuFFT 12 belongs to CUDA 13. These do.
CUDA_MAJOR_LIBRARIES = frozenset({"cudart", "cublas", "cublasLt", "nvrtc", "nvJitLink"})


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A NEEDED name that nothing in the image satisfies."""

    user: Elf
    name: str


@dataclass(frozen=True, slots=True)
class MissingVersion:
    """A symbol version that the library found does not have."""

    user: Elf
    library: str
    version: str


class Preloaded:
    """Which libraries are in the process before a file is loaded, so that its NEEDED names are satisfied.

    The loader takes a library that is loaded already by its soname, whatever the folders say. A Python
    extension comes after the libraries of its own distribution and of those that this one requires (torch's,
    for one); a library in a program's private folder comes after its neighbours.
    """

    def __init__(self, facts: Facts) -> None:
        self._by_owner: dict[str, set[str]] = {}
        self._by_folder: dict[str, set[str]] = {}
        self._requires: dict[str, set[str]] = {}
        for elf in facts.elf:
            names = {name for name in (elf.soname, elf.name) if name}
            self._by_folder.setdefault(elf.folder, set()).update(names)
            for owner in elf.owners:
                self._by_owner.setdefault(canonicalize_name(owner), set()).update(names)
        for _, row in facts.distributions():
            wanted = {canonicalize_name(NAME.match(text)[0]) for text in row.requires}  # type: ignore[index]
            self._requires.setdefault(row.key, set()).update(wanted)
        for allowed in allowances().loads_first:
            self._requires.setdefault(allowed.distribution, set()).add(allowed.loads)
        self._closures: dict[str, set[str]] = {}

    def names(self, elf: Elf) -> set[str]:
        """Sonames and file names that may be loaded before `elf`."""
        found = set(self._by_folder.get(elf.folder, ()))
        for owner in elf.owners:
            found |= self._closure(canonicalize_name(owner))
        return found

    def _closure(self, owner: str) -> set[str]:
        if owner not in self._closures:
            todo, seen, names = [owner], {owner}, set[str]()
            while todo:
                one = todo.pop()
                names |= self._by_owner.get(one, set())
                more = self._requires.get(one, set()) - seen
                seen |= more
                todo += more
            self._closures[owner] = names
        return self._closures[owner]


def unresolved(facts: Facts, library_path: Sequence[str]) -> Iterator[Unresolved]:
    """Every NEEDED name that neither the loader nor what is loaded before satisfies."""
    loader, preloaded = Loader(facts, library_path), Preloaded(facts)
    for elf in facts.elf:
        if elf.kind not in (ET_EXEC, ET_DYN):
            continue
        for name in elf.needed:
            if loader.resolve(name, elf) is None and name not in preloaded.names(elf):
                yield Unresolved(elf, name)


def missing_versions(facts: Facts, library_path: Sequence[str]) -> Iterator[MissingVersion]:
    """Every symbol version that a file needs of a library, and that the library found does not give."""
    loader = Loader(facts, library_path)
    for elf in facts.elf:
        for name, versions in elf.versions_needed.items():
            found = loader.resolve(name, elf)
            if found is None:
                continue
            given = facts.elf_by_path[found.path].versions_given
            # A library without any versions is accepted by the loader with a warning at most.
            for version in versions:
                if given and version not in given:
                    yield MissingVersion(elf, found.path, version)


def cuda_majors(facts: Facts) -> dict[int, list[str]]:
    """CUDA major to the lines that show it: libraries that are there, and libraries that files need."""
    majors: dict[int, list[str]] = {}
    for elf in facts.elf:
        for name, verb in ((elf.soname or "", "is"), *((needed, "needs") for needed in elf.needed)):
            match = CUDA_LIBRARY.match(name)
            if match and match[1] in CUDA_MAJOR_LIBRARIES:
                majors.setdefault(int(match[2]), []).append(f"{elf.path} {verb} {name}")
    return majors


def by_soname(facts: Facts, names: Iterable[str]) -> dict[str, list[Elf]]:
    """Real files that carry each soname."""
    wanted = set(names)
    found: dict[str, list[Elf]] = {}
    for elf in facts.elf:
        if elf.soname in wanted and elf.soname is not None:
            found.setdefault(elf.soname, []).append(elf)
    return found

"""Facts: what the probe observed inside an image, read once from JSON into immutable values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from packaging.utils import canonicalize_name

from validate import probe
from validate.errors import ProbeError


@dataclass(frozen=True, slots=True)
class Elf:
    """What the loader needs to know of one ELF file; `owners` are the Python distributions that list it."""

    path: str
    owners: tuple[str, ...]
    size: int
    bits: int
    machine: int
    kind: int
    soname: str | None
    needed: tuple[str, ...]
    rpath: tuple[str, ...] | None
    runpath: tuple[str, ...] | None
    interpreter: str | None
    versions_needed: Mapping[str, tuple[str, ...]]
    versions_given: frozenset[str]
    symbols_defined: frozenset[str]
    symbols_undefined: frozenset[str]
    says_version: str | None

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Read one row of the probe's `elf` list."""
        return cls(
            path=row["path"],
            owners=tuple(row["owners"]),
            size=row["size"],
            bits=row["bits"],
            machine=row["machine"],
            kind=row["kind"],
            soname=row["soname"],
            needed=tuple(row["needed"]),
            rpath=None if row["rpath"] is None else tuple(row["rpath"]),
            runpath=None if row["runpath"] is None else tuple(row["runpath"]),
            interpreter=row["interpreter"],
            versions_needed={name: tuple(rows) for name, rows in row["versions_needed"].items()},
            versions_given=frozenset(row["versions_given"]),
            symbols_defined=frozenset(row["symbols_defined"]),
            symbols_undefined=frozenset(row["symbols_undefined"]),
            says_version=row["says_version"],
        )

    @property
    def name(self) -> str:
        """File name without its folder."""
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """Folder in which the file lies; what $ORIGIN stands for."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed Python distribution."""

    name: str
    version: str
    requires: tuple[str, ...]
    licence: str
    folder: str
    installer: str
    has_record: bool
    altered: tuple[str, ...]
    altered_count: int
    missing: tuple[str, ...]
    missing_count: int
    size: int
    files: int

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Read one row of the probe's `distributions` list."""
        return cls(
            name=row["name"],
            version=row["version"],
            requires=tuple(row["requires"]),
            licence=row["licence"],
            folder=row["folder"],
            installer=row["installer"],
            has_record=row["has_record"],
            altered=tuple(row["altered"]),
            altered_count=row["altered_count"],
            missing=tuple(row["missing"]),
            missing_count=row["missing_count"],
            size=row["size"],
            files=row["files"],
        )

    @property
    def key(self) -> str:
        """Name as indexes compare it: small letters, runs of -_. as one hyphen."""
        return canonicalize_name(self.name)


@dataclass(frozen=True, slots=True)
class Overlap:
    """One file that several distributions say is theirs, with different content."""

    path: str
    owners: tuple[str, ...]
    winner: str | None


@dataclass(frozen=True, slots=True)
class Site:
    """One folder of installed Python distributions."""

    site: str
    distributions: tuple[Distribution, ...]
    overlaps: tuple[Overlap, ...]

    def find(self, name: str) -> Distribution | None:
        """The distribution of that name, if it is there."""
        key = canonicalize_name(name)
        return next((row for row in self.distributions if row.key == key), None)


@dataclass(frozen=True, slots=True)
class Python:
    """The interpreter that the image's PATH gives."""

    executable: str
    version: str
    prefix: str
    path: tuple[str, ...]
    markers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Package:
    """One package of the operating system."""

    name: str
    version: str
    architecture: str
    depends: str
    provides: str


@dataclass(frozen=True, slots=True)
class OsFile:
    """A file of a package that is not as the package brought it."""

    path: str
    package: str
    what: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A credential: its kind and place. Its value is nowhere."""

    kind: str
    path: str
    line: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Privileged:
    """A program with the setuid or setgid bit."""

    path: str
    mode: int
    uid: int
    gid: int
    owned: bool


@dataclass(frozen=True, slots=True)
class Clutter:
    """Things of one kind that a build left behind."""

    kind: str
    count: int
    size: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Copies:
    """Files of the same content."""

    size: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bytecode:
    """How many compiled Python files match their sources."""

    valid: int
    stale: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Everything the probe saw in one image."""

    python: Python | None
    os_release: Mapping[str, str]
    package_manager: str | None
    packages: tuple[Package, ...]
    altered_os_files: tuple[OsFile, ...]
    sites: tuple[Site, ...]
    bytecode: Bytecode
    elf: tuple[Elf, ...]
    broken_elf: Mapping[str, str]
    library_links: Mapping[str, str]
    directory_links: Mapping[str, str]
    loader_cache: tuple[tuple[str, str], ...]
    configuration: Mapping[str, str]
    privileged: tuple[Privileged, ...]
    world_writable: tuple[str, ...]
    findings: tuple[Finding, ...]
    clutter: tuple[Clutter, ...]
    copies: tuple[Copies, ...]
    known_files: Mapping[str, int]
    passwords: tuple[str, ...]
    half_installed: tuple[str, ...]
    executables: frozenset[str]
    sizes: Mapping[str, int]
    file_count: int
    seconds: float

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the probe's document. Raises ProbeError when it is of another version."""
        if data.get("schema") != probe.SCHEMA:
            raise ProbeError(f"the probe answered in schema {data.get('schema')}, expected {probe.SCHEMA}")
        python = data["python"]
        return cls(
            python=None if python is None else Python(**{**python, "path": tuple(python["path"])}),
            os_release=data["os_release"],
            package_manager=data["package_manager"],
            packages=tuple(Package(**row) for row in data["packages"]),
            altered_os_files=tuple(OsFile(**row) for row in data["altered_os_files"]),
            sites=tuple(
                Site(
                    row["site"],
                    tuple(Distribution.from_json(item) for item in row["distributions"]),
                    tuple(
                        Overlap(item["path"], tuple(item["owners"]), item["winner"]) for item in row["overlaps"]
                    ),
                )
                for row in data["environments"]
            ),
            bytecode=Bytecode(
                data["bytecode"]["valid"], data["bytecode"]["stale"], tuple(data["bytecode"]["examples"])
            ),
            elf=tuple(Elf.from_json(row) for row in data["elf"]),
            broken_elf={row["path"]: row["reason"] for row in data["broken_elf"]},
            library_links=data["library_links"],
            directory_links=data["directory_links"],
            loader_cache=tuple((name, path) for name, path in data["loader_cache"]),
            configuration=data["configuration"],
            privileged=tuple(Privileged(**row) for row in data["privileged"]),
            world_writable=tuple(data["world_writable"]),
            findings=tuple(Finding(**row) for row in data["findings"]),
            clutter=tuple(Clutter(**{**row, "examples": tuple(row["examples"])}) for row in data["clutter"]),
            copies=tuple(Copies(row["size"], tuple(row["paths"])) for row in data["copies"]),
            known_files=data["known_files"],
            passwords=tuple(data["passwords"]),
            half_installed=tuple(data["half_installed"]),
            executables=frozenset(data["executables"]),
            sizes=data["sizes"],
            file_count=data["file_count"],
            seconds=data["seconds"],
        )

    @cached_property
    def elf_by_path(self) -> Mapping[str, Elf]:
        """ELF files by their real path."""
        return {row.path: row for row in self.elf}

    @property
    def main_sites(self) -> tuple[Site, ...]:
        """The folders that the image's own Python imports from; without one, all that there are."""
        if self.python is None:
            return self.sites
        return tuple(site for site in self.sites if site.site in self.python.path)

    def distribution(self, name: str) -> Distribution | None:
        """The distribution that the image's own Python would import, if it is installed."""
        return next((found for site in self.main_sites if (found := site.find(name))), None)

    def distributions(self) -> Iterator[tuple[Site, Distribution]]:
        """All distributions of all sites."""
        for site in self.sites:
            for row in site.distributions:
                yield site, row

    def package(self, name: str) -> Package | None:
        """The operating system's package of that name, if it is installed."""
        return next((row for row in self.packages if row.name == name), None)

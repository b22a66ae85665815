"""What is inside an image, as one JSON document; runs in the image itself.

This file is sent into the image and run by whatever Python (3.8 or newer) is there, so it is one file and
uses the standard library only. For an image without Python the same functions run outside, on the
exported filesystem. It observes and never judges: what is right or wrong is for the checks to say.

Input: `collect(config)` with `root`, `patterns` (see data/credentials.yaml), `skip` (paths that the engine
mounts) and, for an exported filesystem, `metadata` (path to mode, user, group as in the archive).
Output: the document that `validate.facts.Facts.from_json` reads.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import mmap
import os
import platform
import re
import stat
import struct
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.parser import HeaderParser
from typing import Any, BinaryIO, NamedTuple

SCHEMA = 1
# Files up to this size are read whole and searched for credentials; larger ones are only hashed.
SCAN_BYTES = 4 << 20
DUPLICATE_BYTES = 1 << 20
# Lists of examples (altered files, clutter) stop here: a person acts on the first ones.
EXAMPLES = 40


# --- ELF --------------------------------------------------------------------------------------------


class ElfError(ValueError):
    """Not an ELF file that a loader would take; the text says where it stops making sense."""


DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 5, 10, 14, 15, 29
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
SHT_DYNSYM = 11
# A dynamic section, a version table or a string table beyond these is garbage, not a library.
MAX_ENTRIES = 1 << 16
MAX_STRINGS = 1 << 28


class _Elf:
    """Reads parts of one ELF file; every read is checked against the file's size."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.size = size
        ident = self.read(0, 16)
        if ident[:4] != b"\x7fELF":
            raise ElfError("no ELF magic")
        if ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise ElfError("unknown ELF class or byte order")
        self.bits = 64 if ident[4] == 2 else 32
        self.order = "<" if ident[5] == 1 else ">"
        form = "HHIQQQIHHHHHH" if self.bits == 64 else "HHIIIIIHHHHHH"
        header = self.unpack(form, 16)
        self.kind, self.machine = header[0], header[1]
        self.program_at, self.section_at = header[4], header[5]
        self.program_size, self.program_count = header[8], header[9]
        self.section_size, self.section_count = header[10], header[11]
        self.segments = list(self._segments())

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ElfError(f"truncated: needs byte {offset + length}, the file ends at {self.size}")
        self.file.seek(offset)
        data = self.file.read(length)
        if len(data) != length:
            raise ElfError(f"truncated: needs byte {offset + length}")
        return data

    def unpack(self, form: str, offset: int) -> tuple[int, ...]:
        form = self.order + form
        return struct.unpack(form, self.read(offset, struct.calcsize(form)))

    def _segments(self) -> Iterator[tuple[int, int, int, int]]:
        form = "IIQQQQQQ" if self.bits == 64 else "IIIIIIII"
        for index in range(self.program_count):
            row = self.unpack(form, self.program_at + index * self.program_size)
            if self.bits == 64:
                kind, offset, address, length = row[0], row[2], row[3], row[5]
            else:
                kind, offset, address, length = row[0], row[1], row[2], row[4]
            if kind == PT_LOAD and offset + length > self.size:
                raise ElfError(f"truncated: needs byte {offset + length}, the file ends at {self.size}")
            yield kind, offset, address, length

    def offset(self, address: int) -> int:
        for kind, offset, start, length in self.segments:
            if kind == PT_LOAD and start <= address < start + length:
                return offset + address - start
        raise ElfError(f"address {address:#x} lies in no segment")

    def dynamic(self) -> list[tuple[int, int]]:
        rows: list[tuple[int, int]] = []
        form = "QQ" if self.bits == 64 else "II"
        step = 16 if self.bits == 64 else 8
        for kind, offset, _, length in self.segments:
            if kind != PT_DYNAMIC:
                continue
            for index in range(min(length // step, MAX_ENTRIES)):
                tag, value = self.unpack(form, offset + index * step)
                if tag == 0:
                    break
                rows.append((tag, value))
        return rows

    def sections(self) -> Iterator[tuple[int, int, int, int]]:
        """Type, offset, size and link of each section."""
        form = "IIQQQQIIQQ" if self.bits == 64 else "IIIIIIIIII"
        for index in range(self.section_count):
            row = self.unpack(form, self.section_at + index * self.section_size)
            yield row[1], row[4], row[5], row[6]


def read_elf(file: BinaryIO, size: int) -> dict[str, Any]:
    """Headers of one ELF file: what the loader needs to know. Raises ElfError."""
    try:
        return _elf_facts(_Elf(file, size))
    except (struct.error, OverflowError) as error:
        raise ElfError(f"malformed: {error}") from None


def _elf_facts(elf: _Elf) -> dict[str, Any]:
    dynamic = elf.dynamic()
    single = dict(reversed(dynamic))
    strings = b""
    if DT_STRTAB in single:
        length = single.get(DT_STRSZ, 0)
        if length > MAX_STRINGS:
            raise ElfError("malformed: string table too large")
        strings = elf.read(elf.offset(single[DT_STRTAB]), length)

    def text(position: int) -> str:
        end = strings.find(b"\0", position)
        if position >= len(strings) or end < 0:
            raise ElfError("malformed: a name lies outside the string table")
        return strings[position:end].decode("utf-8", "replace")

    def paths(tag: int) -> list[str] | None:
        return text(single[tag]).split(":") if tag in single else None

    interpreter = None
    for kind, offset, _, length in elf.segments:
        if kind == PT_INTERP:
            interpreter = elf.read(offset, min(length, 4096)).rstrip(b"\0").decode("utf-8", "replace")
    return {
        "bits": elf.bits,
        "machine": elf.machine,
        "kind": elf.kind,
        "soname": text(single[DT_SONAME]) if DT_SONAME in single else None,
        "needed": [text(value) for tag, value in dynamic if tag == DT_NEEDED],
        "rpath": paths(DT_RPATH),
        "runpath": paths(DT_RUNPATH),
        "interpreter": interpreter,
        "versions_needed": _versions_needed(elf, single, text),
        "versions_given": _versions_given(elf, single, text),
    }


def _versions_needed(elf: _Elf, single: dict[int, int], text: Any) -> dict[str, list[str]]:
    """Library name to the symbol versions that must be there; weak references may be missing."""
    found: dict[str, list[str]] = {}
    if DT_VERNEED not in single:
        return found
    at = elf.offset(single[DT_VERNEED])
    for _ in range(min(single.get(DT_VERNEEDNUM, 0), MAX_ENTRIES)):
        _, count, library, aux, following = elf.unpack("HHIII", at)
        entry = at + aux
        for _ in range(count):
            _, flags, _, name, step = elf.unpack("IHHII", entry)
            if not flags & 2:
                found.setdefault(text(library), []).append(text(name))
            if step == 0:
                break
            entry += step
        if following == 0:
            break
        at += following
    return found


def _versions_given(elf: _Elf, single: dict[int, int], text: Any) -> list[str]:
    found: list[str] = []
    if DT_VERDEF not in single:
        return found
    at = elf.offset(single[DT_VERDEF])
    for _ in range(min(single.get(DT_VERDEFNUM, 0), MAX_ENTRIES)):
        _, _, _, _, _, aux, following = elf.unpack("HHHHIII", at)
        name, _ = elf.unpack("II", at + aux)
        found.append(text(name))
        if following == 0:
            break
        at += following
    return found


def dynamic_symbols(file: BinaryIO, size: int, wanted: re.Pattern[bytes]) -> tuple[list[str], list[str]]:
    """Names in the dynamic symbol table that match `wanted`: (defined, undefined). Raises ElfError."""
    elf = _Elf(file, size)
    sections = list(elf.sections())
    defined: set[str] = set()
    undefined: set[str] = set()
    for kind, offset, length, link in sections:
        if kind != SHT_DYNSYM or link >= len(sections):
            continue
        strings = elf.read(sections[link][1], min(sections[link][2], MAX_STRINGS))
        table = elf.read(offset, length)
        form = struct.Struct(elf.order + ("IBBHQQ" if elf.bits == 64 else "IIIBBH"))
        for row in form.iter_unpack(table[: len(table) // form.size * form.size]):
            name = strings[row[0] : strings.find(b"\0", row[0])]
            if wanted.match(name):
                index = row[3] if elf.bits == 64 else row[5]
                (undefined if index == 0 else defined).add(name.decode("ascii", "replace"))
    return sorted(defined), sorted(undefined)


def read_loader_cache(data: bytes) -> list[list[str]]:
    """Name and path of each entry in /etc/ld.so.cache (glibc's format), in the loader's order."""
    start = data.find(b"glibc-ld.so.cache1.1")
    if start < 0 or len(data) < start + 48:
        return []
    order = ">" if data[start + 28] & 3 == 3 else "<"
    (count,) = struct.unpack_from(order + "I", data, start + 20)
    entries: list[list[str]] = []
    for index in range(count):
        at = start + 48 + index * 24
        if at + 24 > len(data):
            break
        _, key, value = struct.unpack_from(order + "iII", data, at)
        row = []
        for position in (start + key, start + value):
            end = data.find(b"\0", position)
            row.append(data[position:end].decode("utf-8", "replace"))
        entries.append(row)
    return entries


# --- credentials ------------------------------------------------------------------------------------


class Pattern(NamedTuple):
    """One kind of credential: needles that are cheap to look for, and the expression that decides."""

    kind: str
    needles: list[bytes]
    expression: re.Pattern[bytes]
    unless: re.Pattern[bytes] | None
    path: re.Pattern[str] | None


def compile_patterns(rows: list[dict[str, Any]]) -> list[Pattern]:
    """Make patterns of the rows of data/credentials.yaml."""
    return [
        Pattern(
            row["kind"],
            [needle.encode() for needle in row["needles"]],
            re.compile(row["expression"].encode()),
            re.compile(row["unless"].encode()) if row.get("unless") else None,
            re.compile(row["path"]) if row.get("path") else None,
        )
        for row in rows
    ]


def find_credentials(data: bytes, patterns: list[Pattern], path: str = "") -> Iterator[tuple[str, int]]:
    """Kind and line (1-based) of each credential; the value itself never leaves this function."""
    for pattern in patterns:
        if pattern.path is not None and not pattern.path.search(path):
            continue
        if not any(needle in data for needle in pattern.needles):
            continue
        for match in pattern.expression.finditer(data):
            if pattern.unless and pattern.unless.search(match.group()):
                continue
            yield pattern.kind, data.count(b"\n", 0, match.start()) + 1
            break


# --- files ------------------------------------------------------------------------------------------


class File(NamedTuple):
    """One regular file of the image."""

    path: str
    size: int
    mode: int
    uid: int
    gid: int
    inode: tuple[int, int]
    mtime: int


class Tree:
    """Everything below the root, walked once."""

    def __init__(self, root: str, skip: list[str], metadata: dict[str, list[int]] | None) -> None:
        self.root = root.rstrip("/")
        self.skip = set(skip)
        self.metadata = metadata
        self.files: list[File] = []
        self.links: dict[str, str] = {}
        self.directories: list[tuple[str, int, int, int]] = []
        self._walk()
        self.by_path = {file.path: file for file in self.files}
        self.folders = {path for path, _, _, _ in self.directories}

    def real(self, path: str) -> str:
        """Where a path of the image lies for this process."""
        return self.root + path

    def open(self, path: str) -> BinaryIO:
        """Open a file of the image."""
        return open(self.real(path), "rb", buffering=0)  # noqa: PTH123 - 100,000 files: no pathlib

    def read(self, path: str) -> bytes:
        """Content of a small file, links followed inside the root; empty when it can't be read."""
        try:
            with self.open(self.resolve(path)) as file:
                return file.read()
        except OSError:
            return b""

    def text(self, path: str) -> str:
        """Text of a small file, whatever its encoding."""
        return self.read(path).decode("utf-8", "replace")

    def resolve(self, path: str) -> str:
        """Follow the links of every component, as seen from inside the image."""
        todo = [part for part in path.split("/") if part]
        done = ""
        for _ in range(256):
            if not todo:
                return done or "/"
            part = todo.pop(0)
            if part == ".":
                continue
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            target = self.links.get(f"{done}/{part}")
            if target is None:
                done = f"{done}/{part}"
                continue
            if target.startswith("/"):
                done = ""
            todo[:0] = [piece for piece in target.split("/") if piece]
        return path

    def _walk(self) -> None:
        queue = [""]
        while queue:
            folder = queue.pop()
            try:
                entries = list(os.scandir(self.root + folder + "/"))
            except OSError:
                continue
            for entry in entries:
                path = f"{folder}/{entry.name}"
                if path in self.skip:
                    continue
                try:
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISLNK(info.st_mode):
                        self.links[path] = os.readlink(self.root + path)  # noqa: PTH115 - no pathlib: 100,000 files
                        continue
                except OSError:
                    continue
                mode, uid, gid = info.st_mode, info.st_uid, info.st_gid
                if self.metadata is not None and path in self.metadata:
                    mode, uid, gid = self.metadata[path]
                    mode |= stat.S_IFMT(info.st_mode)
                if stat.S_ISDIR(info.st_mode):
                    self.directories.append((path, mode, uid, gid))
                    queue.append(path)
                elif stat.S_ISREG(info.st_mode):
                    inode = (info.st_dev, info.st_ino)
                    self.files.append(File(path, info.st_size, mode, uid, gid, inode, int(info.st_mtime)))
        self.files.sort()


class Content(NamedTuple):
    """What reading one file once tells."""

    sha256: str
    md5: str
    head: bytes
    findings: list[tuple[str, int]]


def _md5() -> Any:
    """Hasher for the checksums of dpkg, which are MD5 and prove no more than that a file is unaltered."""
    try:
        return hashlib.new("md5", usedforsecurity=False)
    except TypeError:  # Python 3.8 has no such argument
        return hashlib.new("md5")  # noqa: S324 - as the docstring says


def read_content(tree: Tree, file: File, patterns: list[Pattern], sha256: bool, md5: bool) -> Content | None:
    """Read one file once, for all who want its hash or its text. None when it can't be read."""
    try:
        with tree.open(file.path) as stream:
            if file.size > SCAN_BYTES:
                return _read_large(stream, sha256, md5)
            data = stream.read()
    except OSError:
        return None
    findings = [] if data[:4] == b"\x7fELF" else list(find_credentials(data, patterns, file.path))
    digest = ""
    # The hash of a file with a credential names it in declared allowances.
    if sha256 or findings:
        digest = hashlib.sha256(data).hexdigest()
    checksum = ""
    if md5:
        hasher = _md5()
        hasher.update(data)
        checksum = hasher.hexdigest()
    return Content(digest, checksum, data[:20], findings)


def _read_large(stream: BinaryIO, sha256: bool, md5: bool) -> Content:
    hashers = [hashlib.sha256() if sha256 else None, _md5() if md5 else None]
    buffer = memoryview(bytearray(1 << 20))
    head = b""
    while True:
        count = stream.readinto(buffer)  # type: ignore[attr-defined]
        if not count:
            break
        head = head or bytes(buffer[:20])
        if not (sha256 or md5):
            break
        for hasher in hashers:
            if hasher is not None:
                hasher.update(buffer[:count])
    digests = [hasher.hexdigest() if hasher is not None else "" for hasher in hashers]
    return Content(digests[0], digests[1], head, [])


# --- Python distributions ---------------------------------------------------------------------------


class Row(NamedTuple):
    """One line of a RECORD: the file's path in the image and the hash that it must have (hex), or ''."""

    path: str
    sha256: str


def read_record(text: str, site: str) -> list[Row]:
    """Lines of a RECORD file, with paths made absolute."""
    rows = []
    try:
        for line in csv.reader(io.StringIO(text)):
            if not line:
                continue
            path = os.path.normpath(line[0] if line[0].startswith("/") else f"{site}/{line[0]}")
            digest = ""
            if len(line) > 1 and line[1].startswith("sha256="):
                raw = line[1][len("sha256=") :]
                digest = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).hex()
            rows.append(Row(path, digest))
    except (csv.Error, ValueError):
        return []
    return rows


def read_metadata(text: str) -> dict[str, Any]:
    """Name, version, requirements and licence from a METADATA or PKG-INFO file."""
    message = HeaderParser().parsestr(text.split("\n\n", 1)[0] + "\n\n")
    licence = message.get("License-Expression") or ""
    if not licence:
        classified = [
            c.split("::")[-1].strip() for c in message.get_all("Classifier", []) if c.startswith("License")
        ]
        plain = message.get("License") or ""
        licence = ", ".join(classified) or (plain if len(plain) < 100 and "\n" not in plain else "")
    return {
        "name": str(message.get("Name") or ""),
        "version": str(message.get("Version") or ""),
        "requires": [str(value) for value in message.get_all("Requires-Dist", [])],
        "provides_extra": [str(value) for value in message.get_all("Provides-Extra", [])],
        "licence": str(licence),
    }


class Distribution:
    """One installed Python distribution, before and after its files were read."""

    def __init__(self, tree: Tree, folder: str) -> None:
        self.folder = folder
        self.site = folder.rpartition("/")[0]
        source = "/METADATA" if folder.endswith(".dist-info") else "/PKG-INFO"
        self.metadata = read_metadata(tree.text(folder + source))
        self.installer = tree.text(folder + "/INSTALLER").strip()
        self.has_record = folder + "/RECORD" in tree.by_path
        self.rows = read_record(tree.text(folder + "/RECORD"), self.site) if self.has_record else []


def source_of(path: str) -> str | None:
    """The source that a file in __pycache__ was compiled from."""
    folder, _, name = path.rpartition("/")
    if not name.endswith(".pyc") or not folder.endswith("/__pycache__"):
        return None
    return f"{folder[: -len('/__pycache__')]}/{name.split('.')[0]}.py"


def is_compiled_copy(tree: Tree, path: str) -> bool:
    """Tell whether a file only repeats a source beside it; what is to be found is found in the source."""
    source = source_of(path)
    return source is not None and source in tree.by_path


def bytecode_facts(tree: Tree) -> dict[str, Any]:
    """How many compiled files match the source beside them, by the rule that the import system uses."""
    counts = {"valid": 0, "stale": 0, "orphan": 0}
    stale: list[str] = []
    for file in tree.files:
        origin = source_of(file.path)
        if origin is None:
            continue
        source = tree.by_path.get(origin)
        if source is None:
            counts["orphan"] += 1
            continue
        try:
            with tree.open(file.path) as stream:
                header = stream.read(16)
        except OSError:
            continue
        if len(header) < 16:
            valid = False
        else:
            flags, mtime, size = struct.unpack("<III", header[4:16])
            # Hash-based bytecode is either unchecked, or checked by content: both are valid as they stand.
            valid = bool(flags & 1) or (mtime == source.mtime & 0xFFFFFFFF and size == source.size & 0xFFFFFFFF)
        counts["valid" if valid else "stale"] += 1
        if not valid and len(stale) < EXAMPLES:
            stale.append(file.path)
    return {**counts, "examples": stale}


# --- operating system packages ----------------------------------------------------------------------


def read_dpkg_status(text: str, states: tuple[str, ...] = ("installed",)) -> list[dict[str, str]]:
    """Packages in these states from dpkg's status file: name, version, architecture, depends, provides."""
    packages = []
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in block.splitlines():
            if line[:1] not in (" ", "\t"):
                key, _, value = line.partition(": ")
                fields[key] = value
        if fields.get("Status", "").rpartition(" ")[2] in states:
            packages.append(
                {
                    "name": fields.get("Package", ""),
                    "version": fields.get("Version", ""),
                    "architecture": fields.get("Architecture", ""),
                    "depends": ", ".join(filter(None, [fields.get("Pre-Depends"), fields.get("Depends")])),
                    "provides": fields.get("Provides", ""),
                }
            )
    return packages


def read_apk_installed(text: str) -> list[dict[str, str]]:
    """Installed packages from Alpine's database."""
    packages = []
    for block in text.split("\n\n"):
        fields = dict(line.split(":", 1) for line in block.splitlines() if line[1:2] == ":")
        if "P" in fields:
            packages.append(
                {
                    "name": fields["P"],
                    "version": fields.get("V", ""),
                    "architecture": fields.get("A", ""),
                    "depends": "",
                    "provides": "",
                }
            )
    return packages


def dpkg_status_text(tree: Tree) -> str:
    """The status file, or the fragments that distroless images have in its place."""
    blocks = [tree.text("/var/lib/dpkg/status")]
    blocks += [
        tree.text(file.path).rstrip() + "\nStatus: install ok installed\n"
        for file in tree.files
        if file.path.startswith("/var/lib/dpkg/status.d/") and not file.path.endswith(".md5sums")
    ]
    return "\n\n".join(filter(None, blocks))


def dpkg_files(tree: Tree) -> tuple[dict[str, tuple[str, str]], set[str]]:
    """Real path to (package, md5) for each file with a checksum; and every path that a package owns."""
    sums: dict[str, tuple[str, str]] = {}
    owned: set[str] = set()
    diverted = set(tree.text("/var/lib/dpkg/diversions").splitlines())
    for file in tree.files:
        folder, _, name = file.path.rpartition("/")
        if folder != "/var/lib/dpkg/info":
            continue
        package, _, kind = name.rpartition(".")
        package = package.split(":")[0]
        if kind == "list":
            owned.update(tree.resolve(path) for path in tree.text(file.path).splitlines())
        elif kind == "md5sums":
            for line in tree.text(file.path).splitlines():
                digest, _, path = line.partition("  ")
                if f"/{path}" not in diverted:
                    sums[tree.resolve(f"/{path}")] = (package, digest)
    return sums, owned


# --- the whole --------------------------------------------------------------------------------------

HALF_INSTALLED = ("half-installed", "half-configured", "unpacked")
# Files that programs take for granted; packages make them when they are configured.
KNOWN = ("/etc/ssl/certs/ca-certificates.crt", "/etc/passwd", "/etc/group", "/usr/bin/env")
PLUGIN_SYMBOL = re.compile(rb"nccl")
NCCL_VERSION = re.compile(rb"NCCL version (\d+\.\d+\.\d+)")
DISTRIBUTION_FOLDER = re.compile(r"/(?:site|dist)-packages/[^/]+\.(?:dist|egg)-info$")
LIBRARY_NAME = re.compile(r"\.so(\.|$)")
# Where dpkg's checksums are compared: what a program runs or loads. Documentation is often left out on purpose.
CHECKED_PREFIXES = ("/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/libexec/", "/bin/", "/sbin/", "/lib")
# Examples of what packages leave behind; the checks say which matter.
CLUTTER = [
    ("package lists of apt", re.compile(r"/var/lib/apt/lists/[^/]+_(Packages|Sources|InRelease|Release)[^/]*$")),
    ("packages downloaded by apt", re.compile(r"/var/cache/apt/archives/[^/]+\.deb$")),
    ("cache of apt", re.compile(r"/var/cache/apt/[^/]+\.bin$")),
    ("cache of pip", re.compile(r"/\.cache/pip/")),
    ("cache of uv", re.compile(r"/\.cache/uv/")),
    ("cache of conda", re.compile(r"/(mini|ana)?conda[^/]*/pkgs/[^/]+\.(conda|tar\.bz2)$")),
    ("cache of yum or dnf", re.compile(r"/var/cache/(dnf|yum)/.+\.(rpm|solv|xml\.gz)$")),
    ("version control data", re.compile(r"/\.git/(HEAD|config|index)$")),
    ("shell history", re.compile(r"/\.(bash|zsh|ash|python|sqlite|psql|mysql)_history$|/\.histfile$")),
    ("host key of the SSH server", re.compile(r"^/etc/ssh/ssh_host_[^/]*_key$")),
    ("left-over of a build", re.compile(r"^/(tmp|var/tmp)/.")),
]
CONFIGURATION = re.compile(
    r"^/etc/(profile|environment|bash\.bashrc|nccl\.conf|ld\.so\.preload|zsh/zshenv|security/pam_env\.conf)$"
    r"|^/etc/profile\.d/|^/etc/ld\.so\.conf(\.d/.+)?$"
    r"|^(/root|/home/[^/]+)/\.(bashrc|profile|bash_profile|nccl\.conf)$|^/etc/libibverbs\.d/"
    r"|^/etc/ssh/sshd?_config(\.d/.+)?$|^/etc/passwd$|^/etc/sudoers(\.d/.+)?$"
)


class Reading:
    """What reading every file of the tree once showed."""

    def __init__(self, tree: Tree, patterns: list[Pattern], distributions: list[Distribution]) -> None:
        self.tree = tree
        self.patterns = patterns
        self.sums, self.owned = dpkg_files(tree)
        self.distributions = distributions
        # Real path to (number of the distribution, hash in its RECORD).
        self.owners: dict[str, list[tuple[int, str]]] = {}
        for number, distribution in enumerate(distributions):
            for row in distribution.rows:
                self.owners.setdefault(tree.resolve(row.path), []).append((number, row.sha256))
        self.same_size: dict[int, int] = {}
        for file in tree.files:
            if file.size >= DUPLICATE_BYTES:
                self.same_size[file.size] = self.same_size.get(file.size, 0) + 1
        self.elf: list[dict[str, Any]] = []
        self.broken_elf: list[dict[str, str]] = []
        self.findings: list[dict[str, Any]] = []
        self.hashes: dict[str, str] = {}
        self.altered_os: list[dict[str, str]] = []
        self.copies: dict[tuple[int, str], list[str]] = {}
        self._read_all()

    def _read_all(self) -> None:
        # Hashing a large file leaves the interpreter to others; for small ones a thread costs more than it gains.
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as pool:
            large = [(f, pool.submit(self._read, f)) for f in self.tree.files if f.size > SCAN_BYTES]
            for file in self.tree.files:
                if file.size <= SCAN_BYTES:
                    self._take(file, self._read(file))
            for file, content in large:
                self._take(file, content.result())
        self._missing_os_files()
        self.elf.sort(key=lambda row: str(row["path"]))

    def _read(self, file: File) -> Content | None:
        if is_compiled_copy(self.tree, file.path):
            return None
        recorded = any(digest for _, digest in self.owners.get(file.path, ()))
        twin = self.same_size.get(file.size, 0) > 1
        packaged = file.path in self.sums and file.path.startswith(CHECKED_PREFIXES)
        return read_content(self.tree, file, self.patterns, recorded or twin, packaged)

    def _take(self, file: File, content: Content | None) -> None:
        if content is None:
            return
        if content.head[:4] == b"\x7fELF":
            self._take_elf(file)
        self.findings += [
            {"kind": kind, "path": file.path, "line": line, "sha256": content.sha256}
            for kind, line in content.findings
        ]
        if content.sha256:
            self.hashes[file.path] = content.sha256
            if self.same_size.get(file.size, 0) > 1:
                self.copies.setdefault((file.size, content.sha256), []).append(file.path)
        if content.md5 and content.md5 != self.sums[file.path][1]:
            self.altered_os.append({"path": file.path, "package": self.sums[file.path][0], "what": "altered"})

    def _take_elf(self, file: File) -> None:
        owners = [self.distributions[number].metadata["name"] for number, _ in self.owners.get(file.path, ())]
        try:
            self.elf.append({**_one_elf(self.tree, file), "owners": owners})
        except ElfError as error:
            self.broken_elf.append({"path": file.path, "reason": str(error)})
        except OSError as error:
            self.broken_elf.append({"path": file.path, "reason": f"unreadable: {error.strerror}"})

    def _missing_os_files(self) -> None:
        for path, (package, _) in self.sums.items():
            if path in self.tree.by_path or path in self.tree.links or not path.startswith(CHECKED_PREFIXES):
                continue
            if LIBRARY_NAME.search(path) or "bin/" in path:
                self.altered_os.append({"path": path, "package": package, "what": "missing"})


def collect(config: dict[str, Any]) -> dict[str, Any]:
    """Observe the image below `config["root"]`. Never raises for what is wrong in the image."""
    started = time.time()
    tree = Tree(config.get("root", "/"), config.get("skip", []), config.get("metadata"))
    # Only what an interpreter imports from: what a package vendors below itself is that package's own.
    folders = [path for path, _, _, _ in tree.directories if DISTRIBUTION_FOLDER.search(path)]
    distributions = [Distribution(tree, folder) for folder in sorted(folders)]
    reading = Reading(tree, compile_patterns(config["patterns"]), distributions)
    names = [path.rpartition("/") for path in [*tree.by_path, *tree.links]]
    return {
        "schema": SCHEMA,
        "python": _python() if config.get("live") else None,
        "os_release": _os_release(tree),
        "packages": read_dpkg_status(dpkg_status_text(tree))
        or read_apk_installed(tree.text("/lib/apk/db/installed")),
        "package_manager": _package_manager(tree),
        "altered_os_files": sorted(reading.altered_os, key=lambda row: row["path"])[:EXAMPLES],
        "environments": _environments(tree, distributions, reading.owners, reading.hashes),
        "bytecode": bytecode_facts(tree),
        "elf": reading.elf,
        "broken_elf": reading.broken_elf,
        "library_links": {path: target for path, target in tree.links.items() if LIBRARY_NAME.search(path)},
        "directory_links": {
            path: target for path, target in tree.links.items() if tree.resolve(path) in tree.folders
        },
        "loader_cache": read_loader_cache(tree.read("/etc/ld.so.cache")),
        "configuration": {
            file.path: tree.text(file.path)[:20000] for file in tree.files if CONFIGURATION.search(file.path)
        },
        "privileged": [
            {
                "path": file.path,
                "mode": stat.S_IMODE(file.mode),
                "uid": file.uid,
                "gid": file.gid,
                "owned": file.path in reading.owned,
            }
            for file in tree.files
            if file.mode & (stat.S_ISUID | stat.S_ISGID) and file.mode & 0o111
        ],
        "world_writable": _world_writable(tree),
        "findings": reading.findings,
        "clutter": _clutter(tree),
        "copies": _copies(tree, reading.copies),
        "known_files": {
            path: tree.by_path[real].size for path in KNOWN if (real := tree.resolve(path)) in tree.by_path
        },
        "passwords": _passwords(tree.text("/etc/shadow")),
        "half_installed": [
            row["name"] for row in read_dpkg_status(tree.text("/var/lib/dpkg/status"), HALF_INSTALLED)
        ],
        "executables": sorted({name for folder, _, name in names if folder.endswith(("/bin", "/sbin"))}),
        "sizes": _sizes(tree),
        "file_count": len(tree.files),
        "seconds": round(time.time() - started, 2),
    }


def _passwords(shadow: str) -> list[str]:
    """Names of users who can log in with a password; the hashes stay where they are."""
    rows = (line.split(":") for line in shadow.splitlines())
    return [row[0] for row in rows if len(row) > 1 and (not row[1] or row[1].startswith("$"))]


def _copies(tree: Tree, copies: dict[tuple[int, str], list[str]]) -> list[dict[str, Any]]:
    """Files of the same content that take their room more than once."""
    return [
        {"size": size, "paths": paths}
        for (size, _), paths in sorted(copies.items(), reverse=True)
        if len({tree.by_path[path].inode for path in paths}) > 1
    ]


def _one_elf(tree: Tree, file: File) -> dict[str, Any]:
    with tree.open(file.path) as stream:
        facts = read_elf(stream, file.size)
        name = file.path.rpartition("/")[2]
        facts["symbols_defined"], facts["symbols_undefined"] = [], []
        if name.startswith("libnccl") or "libnccl.so.2" in facts["needed"]:
            defined, undefined = dynamic_symbols(stream, file.size, PLUGIN_SYMBOL)
            facts["symbols_undefined"] = undefined
            # Everything that torch exports around NCCL is of no interest; what libraries of NCCL export is.
            facts["symbols_defined"] = defined if name.startswith("libnccl") else []
        facts["says_version"] = _nccl_version(stream) if facts["soname"] == "libnccl.so.2" else None
    return {"path": file.path, "size": file.size, **facts}


def _nccl_version(stream: BinaryIO) -> str | None:
    """The version that an NCCL library prints when it starts, as it stands in its text."""
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        match = NCCL_VERSION.search(content)
        return match[1].decode() if match else None


def _environments(
    tree: Tree,
    distributions: list[Distribution],
    owners: dict[str, list[tuple[int, str]]],
    hashes: dict[str, str],
) -> list[dict[str, Any]]:
    sites: dict[str, dict[str, Any]] = {}
    for distribution in distributions:
        site = sites.setdefault(
            distribution.site, {"site": distribution.site, "distributions": [], "overlaps": []}
        )
        altered, missing, size = [], [], 0
        for row in distribution.rows:
            path = tree.resolve(row.path)
            file = tree.by_path.get(path)
            if file is None:
                if path not in tree.links and not path.endswith(".pyc") and row.sha256:
                    missing.append(path)
                continue
            size += file.size
            if row.sha256 and len(owners[path]) == 1 and hashes.get(path) not in (None, row.sha256):
                altered.append(path)
        site["distributions"].append(
            {
                **distribution.metadata,
                "folder": distribution.folder,
                "installer": distribution.installer,
                "has_record": distribution.has_record,
                "altered": altered[:EXAMPLES],
                "altered_count": len(altered),
                "missing": missing[:EXAMPLES],
                "missing_count": len(missing),
                "size": size,
                "files": len(distribution.rows),
            }
        )
    for path, claims in sorted(owners.items()):
        if len({number for number, _ in claims}) < 2:
            continue
        names = [distributions[number].metadata["name"] for number, _ in claims]
        digests = [digest for _, digest in claims]
        if len(set(digests)) < 2:
            continue
        actual = hashes.get(path, "")
        winner = next((names[at] for at, digest in enumerate(digests) if digest == actual), None)
        sites[distributions[claims[0][0]].site]["overlaps"].append(
            {"path": path, "owners": names, "winner": winner}
        )
    return list(sites.values())


def _python() -> dict[str, Any]:
    return {
        "executable": sys.executable,
        "version": platform.python_version(),
        "prefix": sys.prefix,
        "path": [path for path in sys.path if path],
        "markers": {
            "implementation_name": sys.implementation.name,
            "implementation_version": platform.python_version(),
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_release": platform.release(),
            "platform_system": platform.system(),
            "platform_version": platform.version(),
            "python_full_version": platform.python_version(),
            "python_version": ".".join(platform.python_version_tuple()[:2]),
            "sys_platform": sys.platform,
        },
    }


def _os_release(tree: Tree) -> dict[str, str]:
    found = {}
    for line in (tree.text("/etc/os-release") or tree.text("/usr/lib/os-release")).splitlines():
        key, equals, value = line.partition("=")
        if equals:
            found[key.strip()] = value.strip().strip("\"'")
    return found


def _package_manager(tree: Tree) -> str | None:
    if "/var/lib/dpkg/status" in tree.by_path or "/var/lib/dpkg/status.d" in tree.folders:
        return "dpkg"
    if "/lib/apk/db/installed" in tree.by_path:
        return "apk"
    return "rpm" if {"/var/lib/rpm", "/usr/lib/sysimage/rpm"} & tree.folders else None


def _world_writable(tree: Tree) -> list[str]:
    """Files that any user may change, and folders in which any user may replace another's files."""
    found = [file.path for file in tree.files if file.mode & 0o002]
    found += [path for path, mode, _, _ in tree.directories if mode & 0o002 and not mode & stat.S_ISVTX]
    return sorted(found)[:EXAMPLES]


def _clutter(tree: Tree) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for file in tree.files:
        for kind, expression in CLUTTER:
            if expression.search(file.path):
                row = rows.setdefault(kind, {"kind": kind, "count": 0, "size": 0, "examples": []})
                row["count"] += 1
                row["size"] += file.size
                if len(row["examples"]) < 5:
                    row["examples"].append(file.path)
                break
    return list(rows.values())


def _sizes(tree: Tree) -> dict[str, int]:
    """Bytes below each folder of the second level; a file with several names counts once."""
    sizes: dict[str, int] = {}
    seen = set()
    for file in tree.files:
        if file.inode in seen:
            continue
        seen.add(file.inode)
        parts = file.path.split("/")
        key = "/".join(parts[:3]) if len(parts) > 3 else "/".join(parts[:2])
        sizes[key] = sizes.get(key, 0) + file.size
    return sizes

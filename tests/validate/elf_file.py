"""Writes small ELF files, so that tests can have a library of any shape without a compiler."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

HEADER, PROGRAM, SECTION = 64, 56, 64
DT_NEEDED, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 5, 6, 10, 11, 14, 15, 29
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF


class _Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def elf(
    *,
    soname: str | None = None,
    needed: Sequence[str] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    machine: int = 62,
    versions_needed: Mapping[str, Sequence[str]] | None = None,
    versions_given: Sequence[str] = (),
    defined: Sequence[str] = (),
    undefined: Sequence[str] = (),
) -> bytes:
    """A 64-bit little-endian shared library with these headers and no code."""
    strings = _Strings()
    dynamic: list[tuple[int, int]] = [(DT_NEEDED, strings.add(name)) for name in needed]
    for tag, value in ((DT_SONAME, soname), (DT_RPATH, rpath), (DT_RUNPATH, runpath)):
        if value is not None:
            dynamic.append((tag, strings.add(value)))
    need = _verneed(versions_needed or {}, strings)
    give = _verdef(versions_given, strings)
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for name in undefined:
        symbols += struct.pack("<IBBHQQ", strings.add(name), 0x12, 0, 0, 0, 0)
    for name in defined:
        symbols += struct.pack("<IBBHQQ", strings.add(name), 0x12, 0, 1, 0x1000, 8)

    at = HEADER + 2 * PROGRAM
    places: dict[str, int] = {}
    body = b""
    for key, data in (("strings", strings.data), ("symbols", symbols), ("need", need), ("give", give)):
        body += b"\0" * (-(at + len(body)) % 8)
        places[key] = at + len(body)
        body += data
    body += b"\0" * (-(at + len(body)) % 8)
    dynamic += [(DT_STRTAB, places["strings"]), (DT_STRSZ, len(strings.data))]
    dynamic += [(DT_SYMTAB, places["symbols"]), (DT_SYMENT, 24)]
    if versions_needed:
        dynamic += [(DT_VERNEED, places["need"]), (DT_VERNEEDNUM, len(versions_needed))]
    if versions_given:
        dynamic += [(DT_VERDEF, places["give"]), (DT_VERDEFNUM, len(versions_given))]
    table = b"".join(struct.pack("<QQ", *row) for row in [*dynamic, (0, 0)])
    dynamic_at = at + len(body)
    body += table
    sections_at = at + len(body)
    sections = b"\0" * SECTION
    # .dynsym points to .dynstr, which is section 2.
    sections += struct.pack(
        "<IIQQQQIIQQ", 0, 11, 2, places["symbols"], places["symbols"], len(symbols), 2, 1, 8, 24
    )
    sections += struct.pack(
        "<IIQQQQIIQQ", 0, 3, 2, places["strings"], places["strings"], len(strings.data), 0, 0, 1, 0
    )
    size = sections_at + len(sections)
    header = b"\x7fELF" + bytes([2, 1, 1, 0]) + b"\0" * 8
    header += struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, HEADER, sections_at, 0, HEADER, PROGRAM, 2, SECTION, 3, 0
    )
    programs = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 0x1000)
    programs += struct.pack("<IIQQQQQQ", 2, 6, dynamic_at, dynamic_at, dynamic_at, len(table), len(table), 8)
    return header + programs + body + sections


def _verneed(versions: Mapping[str, Sequence[str]], strings: _Strings) -> bytes:
    data = b""
    for number, (library, names) in enumerate(versions.items(), 1):
        size = 16 + 16 * len(names)
        following = size if number < len(versions) else 0
        data += struct.pack("<HHIII", 1, len(names), strings.add(library), 16, following)
        for at, name in enumerate(names, 1):
            step = 16 if at < len(names) else 0
            data += struct.pack("<IHHII", 0, 0, 2, strings.add(name), step)
    return data


def _verdef(versions: Sequence[str], strings: _Strings) -> bytes:
    data = b""
    for number, name in enumerate(versions, 1):
        following = 28 if number < len(versions) else 0
        data += struct.pack("<HHHHIII", 1, 0, number, 1, 0, 20, following)
        data += struct.pack("<II", strings.add(name), 0)
    return data

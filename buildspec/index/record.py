"""The RECORD of a wheel: where an installer puts its files, and their checksums."""

from __future__ import annotations

import csv
import io
import posixpath
from dataclasses import dataclass

# Folders of `<name>-<version>.data`, as they lie in a virtual environment; names beginning with '/' here are
# relative to the environment and not to site-packages.
_SCHEMES = {"purelib": "", "platlib": "", "scripts": "/bin", "data": "/", "headers": "/include"}


@dataclass(frozen=True, slots=True)
class Installed:
    """A file that a wheel brings: its path (below site-packages, or from '/' below the environment), its hash."""

    path: str
    hash: str


def parse(text: str) -> tuple[Installed, ...]:
    """Read a RECORD. The dist-info folder is left out: its name holds name and version of its owner."""
    rows = []
    for row in csv.reader(io.StringIO(text)):
        if not row or not row[0]:
            continue
        path = posixpath.normpath(row[0])
        top, _, rest = path.partition("/")
        if top.endswith(".dist-info"):
            continue
        if top.endswith(".data"):
            scheme, _, rest = rest.partition("/")
            path = posixpath.join(_SCHEMES.get(scheme, f"/{scheme}"), rest)
            # The data scheme can hold site-packages themselves.
            head, mark, tail = path.partition("/site-packages/")
            path = tail if mark and head.startswith("/lib/python") else path
        rows.append(Installed(path, row[1] if len(row) > 1 else ""))
    return tuple(rows)

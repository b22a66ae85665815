"""Base locks: the exact Debian packages that a base was proven with, and what has moved since."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from buildspec.base import Os, Package
from buildspec.errors import BadInputError

if TYPE_CHECKING:
    from pathlib import Path

    from buildspec.project import Project


def path(project: Project, base: str) -> Path:
    """Where the lock of a base lies."""
    return project.locks / f"{base}.json"


def text(made: Os) -> str:
    """Content of the lock that records this base."""
    rows = ",\n".join("  " + json.dumps(asdict(package)) for package in made.packages)
    return f'{{"schema": 1, "base": "{made.name}", "packages": [\n{rows}\n]}}\n'


def read(project: Project, base: str) -> tuple[Package, ...]:
    """Packages of a base's lock. Raises BadInputError when it is missing or not such a file."""
    file = path(project, base)
    remedy = "record it anew: `nox -s lock -- os`"
    try:
        return tuple(_package(row) for row in json.loads(file.read_text(encoding="utf-8"))["packages"])
    except FileNotFoundError:
        raise BadInputError(f"base {base} has no lock ({file})", remedy=remedy) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInputError(f"{file} is no lock of a base: {error}", remedy=remedy) from error


def _package(row: dict[str, Any]) -> Package:
    package = Package(**row)
    texts = (package.name, package.version, package.architecture, package.sha256 or "")
    if not all(isinstance(value, str) for value in texts):
        raise TypeError(f"{json.dumps(row)} is no package")
    return package


def moved(locked: tuple[Package, ...], made: Os) -> list[str]:
    """Name what differs between the lock and a base: `libc6 2.41-12 -> 2.41-13`, `tini added`."""
    before = {(package.name, package.architecture): package for package in locked}
    now = {(package.name, package.architecture): package for package in made.packages}
    changes = [f"{name} {before[name, arch].version} removed" for name, arch in before if (name, arch) not in now]
    for key, package in now.items():
        old = before.get(key)
        if old is None:
            changes.append(f"{package.name} {package.version} added")
        elif old.version != package.version:
            changes.append(f"{package.name} {old.version} -> {package.version}")
        elif old.sha256 != package.sha256:
            changes.append(f"{package.name} {package.version}: same version, other content")
    return sorted(changes)

"""The rule that no two distributions of a lock write the same file, from the RECORDs of their wheels."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from packaging.version import Version

from buildspec.rules.finding import Finding, unknown

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from buildspec.index import File, Index
    from buildspec.rules.locked import Locked
    from buildspec.rules.target import Target

_SHOWN = 3


def check(
    path: tuple[str, ...], locked: Locked, index: Index, target: Target, allowed: Container[str] = ()
) -> Iterator[Finding]:
    """Compare the files of all distributions of a lock; `allowed` ones may have several owners.

    Raises what the index raises.
    """
    index.side_by_side(lambda name: index.release(name, Version(locked.versions[name])), locked.versions)
    wheels: dict[str, File] = {}
    sources: list[str] = []
    for name, version in locked.versions.items():
        chosen = _installed(locked, index, target, name, version)
        if chosen is None:
            sources.append(f"{name} {version}")
        else:
            wheels[name] = chosen
    index.side_by_side(index.record, wheels.values())
    owners: dict[str, dict[str, str]] = defaultdict(dict)
    for name, file in wheels.items():
        for installed in index.record(file):
            if installed.path not in allowed:
                owners[installed.path][name] = installed.hash
    yield from _shared(path, locked, owners)
    if sources:
        yield unknown(
            "files.one_owner",
            path,
            ", ".join(sources),
            "these have no wheel and are built from source; which files they bring shows only then",
            "the checks of the built image compare its RECORDs",
        )


def _installed(locked: Locked, index: Index, target: Target, name: str, version: str) -> File | None:
    """The wheel that an installer takes: of those whose hash is locked, the one that fits best."""
    files = [
        file
        for file in index.release(name, Version(version))
        if file.is_wheel and (not file.sha256 or file.sha256 in locked.hashes[name])
    ]
    ranked = [
        (rank, number, file) for number, file in enumerate(files) if (rank := target.rank(file.tags)) is not None
    ]
    return min(ranked, key=lambda row: (row[0], -row[1]))[2] if ranked else None


def _shared(path: tuple[str, ...], locked: Locked, owners: dict[str, dict[str, str]]) -> Iterator[Finding]:
    together: dict[tuple[str, ...], list[tuple[str, bool]]] = defaultdict(list)
    for file, by in owners.items():
        if len(by) > 1:
            hashes = set(by.values())
            together[tuple(sorted(by))].append((file, len(hashes) == 1 and "" not in hashes))
    for names, files in together.items():
        different = [file for file, same in files if not same]
        shown = different or [file for file, _ in files]
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        yield Finding(
            rule="files.one_owner",
            severity="error" if different else "warning",
            path=path,
            pinned=" and ".join(f"{name} {locked.versions[name]}" for name in names),
            needed="one owner for each file",
            reason=f"both write {', '.join(shown[:_SHOWN])}{more}"
            + (
                ": the one that is installed last wins"
                if different
                else ", with the same content: removing one breaks the other"
            ),
            says=tuple(locked.shown_path(name) for name in names),
            remedy="exclude one of them (images/<image>/exclude.txt); or allow it, with the reason, under "
            "shared_files in versions.yaml",
        )

"""What is known of distributions: from the index or its cache, else from the snapshot that comes with Drydock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.version import Version

from buildspec.index import File, IndexUnreachableError, Metadata, Page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from buildspec.index import Index
    from buildspec.rules.target import Target

SNAPSHOT = "releases.json"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Releases as they were on a day: wheels, yanks, and the requirements that matter to the rules."""

    taken: str
    distributions: dict[str, dict[str, Any]]

    @classmethod
    def shipped(cls) -> Snapshot:
        """The one that comes with Drydock."""
        text = resources.files("buildspec").joinpath("facts", SNAPSHOT).read_text(encoding="utf-8")
        row = json.loads(text)
        return cls(row["taken"], row["distributions"])

    def page(self, name: str) -> Page | None:
        """Files of a distribution; None when it was not recorded."""
        rows = self.distributions.get(name)
        if rows is None:
            return None
        files = [
            File(
                f"{name.replace('-', '_')}-{version}-{tags}.whl",
                "",
                requires_python=row.get("requires_python", ""),
                yanked=row.get("yanked"),
            )
            for version, row in rows.items()
            for tags in row["wheels"]
        ]
        return Page(name, tuple(files))

    def metadata(self, name: str, version: str) -> Metadata | None:
        """Requirements of a release; None when it was not recorded."""
        row = self.distributions.get(name, {}).get(version)
        if row is None:
            return None
        return Metadata(
            name, version, row.get("requires_python", ""), tuple(map(Requirement, row.get("requires", ())))
        )


# Knows nothing: for questions to which only the index may answer.
EMPTY = Snapshot("", {})


class Catalog:
    """Answers about distributions. `index` None asks nobody."""

    def __init__(self, index: Index | None, snapshot: Snapshot | None = None) -> None:
        self.index = index
        self._given = snapshot
        self._pages: dict[str, Page] = {}
        self._metadata: dict[tuple[str, Version, Target], Metadata | None] = {}
        self.from_snapshot: set[str] = set()

    @cached_property
    def snapshot(self) -> Snapshot:
        """The snapshot, read when the index did not answer."""
        return self._given or Snapshot.shipped()

    def _asked(self, *, listed: bool = True) -> Index:
        if self.index is None or not listed:
            raise IndexUnreachableError("no package index was asked")
        return self.index

    def page(self, name: str) -> Page:
        """Files of a distribution. Raises as Index.page does, unless the snapshot knows more."""
        if name not in self._pages:
            try:
                self._pages[name] = self._asked().page(name)
            except IndexUnreachableError:
                recorded = self.snapshot.page(name)
                if recorded is None:
                    raise
                self.from_snapshot.add(name)
                self._pages[name] = recorded
        return self._pages[name]

    def wheel(self, name: str, version: Version, target: Target) -> File | None:
        """The wheel of a release that fits a target best; None when none does. Raises as `page`."""
        files = [file for file in self.page(name).releases.get(version, ()) if file.is_wheel]
        ranked = [
            (rank, -position, file)
            for position, file in enumerate(files)
            if (rank := target.rank(file.tags)) is not None
        ]
        return min(ranked, key=lambda row: row[:2])[2] if ranked else None

    def metadata(self, name: str, version: Version, target: Target) -> Metadata | None:
        """METADATA of the wheel that a target would install; None when there is no such wheel.

        Raises as Index.metadata; IndexUnreachableError only when the snapshot is silent.
        """
        key = (name, version, target)
        if key not in self._metadata:
            self._metadata[key] = self._read_metadata(name, version, target)
        return self._metadata[key]

    def _read_metadata(self, name: str, version: Version, target: Target) -> Metadata | None:
        file = self.wheel(name, version, target)
        if file is None:
            return None
        try:
            # What the snapshot lists has no address.
            return self._asked(listed=name not in self.from_snapshot).metadata(file)
        except IndexUnreachableError:
            recorded = self.snapshot.metadata(name, str(version))
            if recorded is None:
                raise
            self.from_snapshot.add(name)
            return recorded

    def warm(self, wanted: Iterable[tuple[str, Version, Target]]) -> None:
        """Fetch pages, then metadata, side by side."""
        wanted = list(wanted)
        if self.index is None or self.index.offline:
            return
        index = self.index
        names = {name for name, _, _ in wanted}
        index.side_by_side(index.page, names)

        def fetch(item: tuple[str, Version, Target]) -> None:
            if file := self.wheel(*item):
                index.metadata(file)

        index.side_by_side(fetch, wanted)

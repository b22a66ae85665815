"""A distribution's page on an index (PEP 503 in HTML, PEP 691 in JSON): its files."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from packaging.tags import parse_tag
from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from buildspec.index.errors import NotReadableError

if TYPE_CHECKING:
    from packaging.tags import Tag

ACCEPTED = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True)
class File:
    """A file of a distribution.

    `sha256` is empty when the index gives none; `yanked` is the reason, an empty text when it was yanked
    without one, None when it was not; `metadata` tells that the index serves the wheel's METADATA beside
    it, with `metadata_sha256` when it says so.
    """

    name: str
    url: str
    sha256: str = ""
    requires_python: str = ""
    yanked: str | None = None
    size: int | None = None
    metadata: bool = False
    metadata_sha256: str = ""

    @property
    def is_wheel(self) -> bool:
        """Whether this is a wheel; everything else is source."""
        return self.name.endswith(".whl")

    @cached_property
    def version(self) -> Version | None:
        """Version in the file's name; None when the name follows no rule."""
        if self.is_wheel:
            # name-version(-build)-python-abi-platform; reading the tags of all files would take the most time.
            parts = self.name.removesuffix(".whl").split("-")
            return _version(parts[1]) if len(parts) in (5, 6) else None
        try:
            return parse_sdist_filename(self.name)[1]
        except InvalidSdistFilename:
            # Eggs, installers and names from before the rules.
            return None

    @cached_property
    def tags(self) -> frozenset[Tag]:
        """Python, ABI and platform of a wheel."""
        if not self.is_wheel:
            return frozenset()
        return parse_tag("-".join(self.name.removesuffix(".whl").split("-")[-3:]))


@lru_cache(maxsize=4096)
def _version(text: str) -> Version | None:
    try:
        return Version(text.replace("_", "-"))
    except InvalidVersion:
        return None


@dataclass(frozen=True)
class Page:
    """All files of a distribution; `age` in seconds since the index was asked."""

    name: str
    files: tuple[File, ...]
    age: float = field(default=0.0, compare=False)

    @cached_property
    def releases(self) -> dict[Version, tuple[File, ...]]:
        """Files by version, oldest first."""
        found: dict[Version, list[File]] = {}
        for file in self.files:
            if file.version is not None:
                found.setdefault(file.version, []).append(file)
        return {version: tuple(found[version]) for version in sorted(found)}


def parse(name: str, url: str, kind: str, body: bytes, age: float = 0.0) -> Page:
    """Read a page from its content type and body. Raises NotReadableError when it is none."""
    try:
        files = _json_files(url, body) if "json" in kind else _html_files(url, body.decode())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotReadableError(
            f"{url} is no page of a package index ({type(error).__name__}: {error})",
            why="UV_DEFAULT_INDEX names another kind of site, or a proxy answers in its place",
        ) from error
    return Page(name, tuple(files), age)


def _json_files(url: str, body: bytes) -> list[File]:
    files = []
    for row in json.loads(body)["files"]:
        offered: Any = row.get("core-metadata", row.get("dist-info-metadata", False))
        yanked: Any = row.get("yanked", False)
        files.append(
            File(
                row["filename"],
                # Joining what is whole already takes most of the time that a page takes.
                row["url"] if "://" in row["url"] else urllib.parse.urljoin(url, row["url"]),
                row.get("hashes", {}).get("sha256", ""),
                row.get("requires-python") or "",
                None if yanked is False else ("" if yanked is True else str(yanked)),
                row.get("size"),
                bool(offered),
                offered.get("sha256", "") if isinstance(offered, dict) else "",
            )
        )
    return files


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append({name: value or "" for name, value in attrs})


def _html_files(url: str, body: str) -> list[File]:
    parser = _Links()
    parser.feed(body)
    files = []
    for link in parser.links:
        address, _, fragment = urllib.parse.urljoin(url, link.get("href", "")).partition("#")
        name = urllib.parse.unquote(urllib.parse.urlsplit(address).path.rpartition("/")[2])
        if not name:
            continue
        offered = link.get("data-core-metadata", link.get("data-dist-info-metadata"))
        files.append(
            File(
                name,
                address,
                fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else "",
                link.get("data-requires-python", ""),
                link.get("data-yanked"),
                None,
                offered is not None,
                (offered or "").removeprefix("sha256=") if (offered or "").startswith("sha256=") else "",
            )
        )
    return files

"""Questions to the configured package indexes, answered from the cache where that is as good."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from packaging.utils import canonicalize_name

from buildspec import network, process
from buildspec.errors import DrydockError, EnvironmentLacksError
from buildspec.index import metadata as wheel_metadata
from buildspec.index import page as index_page
from buildspec.index import record as wheel_record
from buildspec.index.cache import Cache, Entry
from buildspec.index.errors import FileVanishedError, IndexUnreachableError, NotOnIndexError, NotReadableError
from buildspec.index.web import IMPATIENT, NOT_MODIFIED, PATIENT, Web, without_secrets
from buildspec.index.wheel import read_members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packaging.version import Version

    from buildspec.index.metadata import Metadata
    from buildspec.index.page import File, Page
    from buildspec.index.record import Installed

# Seconds for which a page is not asked for again; package indexes themselves allow 10 minutes.
FRESH = 600.0
# Requests at a time: each waits for the network, few compute.
_PARALLEL = 16
_METADATA, _RECORD = "METADATA", "RECORD"
_Item = TypeVar("_Item")


class Index:
    """One or more indexes in their order; a distribution comes from the first that has it, as with uv.

    `offline` asks nobody. `fall_back` answers from a cache of any age when the index is out of reach, and
    notes it; without it IndexUnreachableError is raised. `fresh` is for how many seconds a page is not asked
    for again.
    """

    def __init__(
        self,
        urls: Iterable[str],
        cache: Cache,
        *,
        offline: bool = False,
        fall_back: bool = True,
        fresh: float | None = None,
        web: Web | None = None,
    ) -> None:
        self.urls = tuple(url.rstrip("/") for url in urls)
        self.offline = offline
        self.fall_back = fall_back
        self.fresh = FRESH if fresh is None else fresh
        self.unreachable: IndexUnreachableError | None = None
        self._cache = cache
        self._web = web or Web()
        self._pages: dict[str, Page] = {}
        self._releases: dict[tuple[str, Version], tuple[File, ...]] = {}

    def page(self, name: str) -> Page:
        """A distribution's files. Raises NotOnIndexError, IndexUnreachableError, NotReadableError."""
        name = canonicalize_name(name)
        if name not in self._pages:
            self._pages[name] = self._page(name)
        return self._pages[name]

    def release(self, name: str, version: Version) -> tuple[File, ...]:
        """Files of one release, from a cached page of any age that has it: only yanks change afterwards.

        Empty when there is no such release. Raises as `page` does.
        """
        name = canonicalize_name(name)
        if (name, version) not in self._releases:
            self._releases[name, version] = self._kept(name, version) or self.page(name).releases.get(version, ())
        return self._releases[name, version]

    def _kept(self, name: str, version: Version) -> tuple[File, ...]:
        for base in self.urls:
            url = f"{base}/{name}/"
            if known := self._cache.get(url):
                files = index_page.parse(name, url, known.kind, known.body).files
                # Reading the versions of all its files is what makes a long page slow.
                found = tuple(file for file in files if str(version) in file.name and file.version == version)
                if found:
                    return found
        return ()

    def _page(self, name: str) -> Page:
        for base in self.urls:
            url = f"{base}/{name}/"
            try:
                entry = self._entry(url)
            except FileVanishedError:
                continue
            return index_page.parse(name, url, entry.kind, entry.body, max(time.time() - entry.time, 0.0))
        raise NotOnIndexError(
            f"{', '.join(map(without_secrets, self.urls))} has no distribution named '{name}'",
            why="it was removed, renamed, or never published there",
            remedy="correct the name, or set UV_DEFAULT_INDEX to the index that has it",
        )

    def _entry(self, url: str) -> Entry:
        known = self._cache.get(url)
        if known and (self.offline or time.time() - known.time < self.fresh):
            return known
        if self.offline:
            raise IndexUnreachableError(f"{without_secrets(url)} is not in the cache, and this run is offline")
        fields = {"Accept": index_page.ACCEPTED}
        if known:
            fields |= {
                key: value
                for key, value in (("If-None-Match", known.etag), ("If-Modified-Since", known.modified))
                if value
            }
        # A file index has one HTML page per folder.
        address = f"{url}index.html" if url.startswith("file:") else url
        try:
            answer = self._web.get(address, fields, wait=IMPATIENT if known and self.fall_back else PATIENT)
        except IndexUnreachableError as error:
            self.unreachable = error
            if known and self.fall_back:
                return known
            raise
        if answer.status == NOT_MODIFIED and known:
            kind, etag, modified, body = known.kind, known.etag, known.modified, known.body
        else:
            kind, body = answer.fields.get("content-type", ""), answer.body
            etag, modified = answer.fields.get("etag", ""), answer.fields.get("last-modified", "")
        self._cache.put(url, body, kind=kind, etag=etag, modified=modified)
        return Entry(kind, etag, modified, time.time(), body)

    def metadata(self, file: File) -> Metadata:
        """METADATA of a wheel: the index's own file (PEP 658), or out of the wheel by range requests.

        Raises FileVanishedError, IndexUnreachableError, NotReadableError.
        """
        return wheel_metadata.parse(self._member(file, _METADATA).decode(errors="replace"))

    def record(self, file: File) -> tuple[Installed, ...]:
        """Files that a wheel installs. Raises as `metadata` does."""
        return wheel_record.parse(self._member(file, _RECORD).decode(errors="replace"))

    def _member(self, file: File, member: str) -> bytes:
        # A wheel is known by its checksum, so what was read of it once holds forever.
        key = f"sha256:{file.sha256}/{member}" if file.sha256 else f"{file.url}/{member}"
        if known := self._cache.get(key):
            return known.body
        if self.offline:
            raise IndexUnreachableError(f"{file.name}: its {member} is not in the cache, and this run is offline")
        try:
            body = self._fetch_member(file, member)
        except IndexUnreachableError as error:
            self.unreachable = error
            raise
        self._cache.put(key, body)
        return body

    def _fetch_member(self, file: File, member: str) -> bytes:
        if member == _METADATA and file.metadata:
            body = self._web.get(f"{file.url}.metadata").body
            if file.metadata_sha256 and hashlib.sha256(body).hexdigest() != file.metadata_sha256:
                raise NotReadableError(
                    f"{file.name}.metadata does not have the checksum that the index says",
                    why="a proxy or mirror changed it, or serves another file",
                )
            return body
        found = read_members(self._web, file.url, (member,))
        if member not in found:
            raise NotReadableError(f"{without_secrets(file.url)} has no {member}")
        return found[member]

    def side_by_side(self, ask: Callable[[_Item], object], about: Iterable[_Item]) -> None:
        """Ask many questions at once, so that their answers are cached; failures are told when asked again."""

        def quietly(item: _Item) -> None:
            try:
                ask(item)
            except DrydockError:
                return

        items = list(about)
        if len(items) > 1 and not self.offline:
            with ThreadPoolExecutor(min(_PARALLEL, len(items))) as pool:
                list(pool.map(quietly, items))


def open_index(
    *, offline: bool = False, fall_back: bool = True, fresh: float | None = None, cache: Cache | None = None
) -> Index:
    """Open the index that uv would use, so that every command sees the same one.

    UV_INDEX and UV_EXTRA_INDEX_URL in front, then UV_DEFAULT_INDEX or UV_INDEX_URL, with logins from netrc, and
    pip's variables where uv's are not set (buildspec.network); else what uv itself has built in. Raises
    EnvironmentLacksError when nothing names one and uv is not installed, BadInputError for settings that can't
    be read.
    """
    found = network.read()
    settings = found.settings
    words = f"{settings.get('UV_INDEX', '')} {settings.get('UV_EXTRA_INDEX_URL', '')}".split()
    default = settings.get("UV_DEFAULT_INDEX") or settings.get("UV_INDEX_URL")
    kept = cache or Cache()
    urls = [_url(word, settings) for word in [*words, default or built_in(kept)]]
    return Index(urls, kept, offline=offline, fall_back=fall_back, fresh=fresh, web=Web(found.ca))


def lend_to_uv() -> None:
    """Set uv's variables where only pip's are set: uv does not read those, and must see the same index."""
    for name, value in network.read().settings.items():
        if name in ("UV_DEFAULT_INDEX", "UV_INDEX"):
            os.environ.setdefault(name, value)


def _url(text: str, settings: Mapping[str, str]) -> str:
    """The URL of an index as uv writes it: `name=url`, with the login of that name; or a folder."""
    named = re.match(r"([\w.-]+)=", text)
    if not named:
        return text if re.match(r"\w+://", text) else Path(text).expanduser().resolve().as_uri()
    url = text[named.end() :]
    variable = "UV_INDEX_" + re.sub(r"\W", "_", named[1]).upper()
    user, password = (settings.get(f"{variable}_{what}", "") for what in ("USERNAME", "PASSWORD"))
    parts = urlsplit(url)
    if (user or password) and not parts.username:
        login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}"))
    return url


def built_in(cache: Cache) -> str:
    """The index that uv uses when nothing names one: uv prints it above a resolution of nothing.

    Raises EnvironmentLacksError when uv is not installed, or does not say.
    """
    try:
        import uv  # noqa: PLC0415 - one may read a matrix without what building it needs
    except ImportError:
        raise EnvironmentLacksError(
            "no package index is known: UV_DEFAULT_INDEX is not set, and uv, which has one built in, is missing",
            remedy="set UV_DEFAULT_INDEX, or install Drydock with its `build` extra",
        ) from None
    key = f"uv {importlib.metadata.version('uv')}"
    if known := cache.get(key):
        return known.body.decode()
    asked = (uv.find_uv_bin(), "pip", "compile", "-", "--no-config", "--no-header", "--quiet", "--emit-index-url")
    output = process.run(asked, stdin="").output
    for line in output.splitlines():
        if line.startswith("--index-url "):
            cache.put(key, line.split()[1].encode())
            return line.split()[1]
    raise EnvironmentLacksError(
        f"uv does not say which index it uses; it printed:\n{output}", remedy="set UV_DEFAULT_INDEX"
    )

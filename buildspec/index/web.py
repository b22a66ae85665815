"""Requests to a package index with the standard library: proxies, credentials in the URL, ranges, retries."""

from __future__ import annotations

import base64
import http.client
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildspec.index.errors import FileVanishedError, IndexUnreachableError, NotReadableError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Seconds. A page that is in the cache anyway is not worth a long wait.
PATIENT, IMPATIENT = 20.0, 1.0
# Seconds before the second and the third attempt.
_PAUSES = (0.3, 1.0)
# A file that comes whole because its server knows no ranges; larger ones are refused.
MAX_WHOLE = 64 << 20
_NETWORK = (
    urllib.error.URLError,
    TimeoutError,
    ConnectionError,
    http.client.HTTPException,
    ssl.SSLError,
    OSError,
)
NOT_MODIFIED = 304
_GONE = (404, 410)
_AGAIN = (429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer: status, header fields in small letters, body."""

    status: int
    fields: Mapping[str, str]
    body: bytes


def without_secrets(url: str) -> str:
    """A URL as it may be shown: without user name and password."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class Web:
    """Asks servers; `ca` is a file with certificates to trust beside the system's.

    Once a server was out of reach it is not asked again: the next question would wait as long.
    """

    def __init__(self, ca: Path | None = None) -> None:
        self._ca = ca
        self._down: dict[str, IndexUnreachableError] = {}
        self._opener: urllib.request.OpenerDirector | None = None

    def get(self, url: str, fields: Mapping[str, str] | None = None, *, wait: float = PATIENT) -> Answer:
        """GET a URL; `wait` is the time limit of a single read in seconds.

        Raises FileVanishedError for 404 and 410, IndexUnreachableError for everything that another attempt
        may heal, NotReadableError for other refusals.
        """
        host = urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
        if host in self._down:
            raise self._down[host]
        pauses = _PAUSES if wait >= PATIENT else ()
        for pause in (*pauses, None):
            try:
                return self._once(url, fields or {}, wait)
            except IndexUnreachableError as error:
                if pause is None:
                    self._down[host] = error
                    raise
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _once(self, url: str, fields: Mapping[str, str], wait: float) -> Answer:
        shown = without_secrets(url)
        try:
            # Only what an index or its configuration names is opened, and only these schemes.
            if urllib.parse.urlsplit(url).scheme not in ("http", "https", "file"):
                raise NotReadableError(f"{shown} is no http, https or file address")
            with self._open(url, fields, wait) as response:
                length = response.headers.get("content-length")
                if response.status == 200 and length and int(length) > MAX_WHOLE:
                    raise NotReadableError(
                        f"{shown} has {length} bytes, and its server knows no range requests",
                        remedy="use an index whose files support ranges or that serves metadata files (PEP 658)",
                    )
                found = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status or 200, found, response.read())
        except urllib.error.HTTPError as error:
            # It is an open answer as well.
            error.close()
            if error.code == NOT_MODIFIED:
                return Answer(NOT_MODIFIED, {}, b"")
            if error.code in _GONE:
                raise FileVanishedError(
                    f"{shown} does not exist (HTTP {error.code})",
                    why="it was removed, or the mirror does not have it yet",
                    remedy="try another index, or again later",
                ) from None
            if error.code in _AGAIN:
                raise IndexUnreachableError(f"{shown} answers HTTP {error.code} {error.reason}") from None
            raise NotReadableError(
                f"{shown} refuses with HTTP {error.code} {error.reason}",
                remedy="check the credentials in UV_DEFAULT_INDEX" if error.code in (401, 403) else "",
            ) from None
        except _NETWORK as error:
            if isinstance(getattr(error, "reason", error), FileNotFoundError):
                raise FileVanishedError(f"{shown} does not exist") from None
            reason = getattr(error, "reason", None) or error
            raise IndexUnreachableError(
                f"{shown} is out of reach: {reason}",
                why="no network, a proxy that is not set, or a mirror that is down",
                remedy="check the network, the proxy and UV_DEFAULT_INDEX, then run it again",
            ) from error

    def _open(self, url: str, fields: Mapping[str, str], wait: float) -> http.client.HTTPResponse:
        if self._opener is None:
            # One context for all requests: reading the system's certificates takes longer than a request.
            context = ssl.create_default_context()
            if self._ca is not None:
                context.load_verify_locations(self._ca)
            self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
        parts = urllib.parse.urlsplit(url)
        login, _, host = parts.netloc.rpartition("@")
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            urllib.parse.urlunsplit(parts._replace(netloc=host)),
            headers={"User-Agent": "drydock", **fields},
        )
        if login:
            text = urllib.parse.unquote(login).encode()
            # Not sent on to where the index redirects.
            request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(text).decode()}")
        opened: http.client.HTTPResponse = self._opener.open(request, timeout=wait)
        return opened

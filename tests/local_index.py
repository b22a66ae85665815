"""A package index on the loopback interface: a real HTTP server with real wheels that are made on the spot."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PURE = "py3-none-any"


@dataclass
class Wheel:
    """A wheel to be made; `yanked` is the reason, `missing` leaves it on the page only."""

    name: str
    version: str
    requires: tuple[str, ...] = ()
    tags: str = PURE
    files: dict[str, str] = field(default_factory=dict)
    requires_python: str = ""
    yanked: str | None = None
    missing: bool = False
    padding: int = 0

    @property
    def filename(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}-{self.tags}.whl"

    def metadata(self) -> str:
        lines = ["Metadata-Version: 2.4", f"Name: {self.name}", f"Version: {self.version}"]
        lines += [f"Requires-Python: {self.requires_python}"] if self.requires_python else []
        lines += [f"Requires-Dist: {line}" for line in self.requires]
        extras = {line.partition("extra ==")[2].strip(" \"')") for line in self.requires if "extra ==" in line}
        return "\n".join([*lines, *(f"Provides-Extra: {extra}" for extra in sorted(extras)), "", "Body\n"])

    def content(self) -> bytes:
        stem = f"{self.name.replace('-', '_')}-{self.version}"
        info = f"{stem}.dist-info"
        members = {
            **(self.files or {f"{self.name.replace('-', '_')}.py": f"# {self.version}\n"}),
            f"{info}/METADATA": self.metadata(),
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {self.tags}\n",
        }
        record = "".join(f"{path},sha256={_hash(text)},{len(text)}\n" for path, text in members.items())
        members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            if self.padding:
                # Stored, and in front: the directory is then far from the beginning, as in large wheels.
                archive.writestr(zipfile.ZipInfo(f"{stem}.data/data/share/padding"), bytes(self.padding))
            for path, text in members.items():
                # A constant time, so that two builds are one file.
                archive.writestr(zipfile.ZipInfo(path), text)
        return buffer.getvalue()


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


class LocalIndex:
    """The server, its wheels, what it can (`html`, `ranges`, `metadata`) and what it was asked."""

    def __init__(
        self,
        wheels: list[Wheel],
        *,
        html: bool = False,
        ranges: bool = True,
        metadata: bool = True,
        login: str = "",
    ) -> None:
        self.html, self.ranges, self.metadata, self.login = html, ranges, metadata, login
        self.asked: list[str] = []
        self.status: dict[str, int] = {}
        self.wheels: list[Wheel] = []
        self.files: dict[str, bytes] = {}
        for wheel in wheels:
            self.add(wheel)
        index = self

        class Handler(_Handler):
            pass

        Handler.index = index
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        # Whoever asks may hang up: uv does when one answer decides.
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]

    def add(self, wheel: Wheel) -> None:
        self.wheels.append(wheel)
        self.files[wheel.filename] = wheel.content()

    def remove(self, name: str) -> None:
        self.wheels = [wheel for wheel in self.wheels if wheel.name != name]

    @property
    def url(self) -> str:
        return f"http://{f'{self.login}@' if self.login else ''}127.0.0.1:{self.server.server_port}/simple"

    def requests(self, part: str) -> int:
        return sum(part in path for path in self.asked)

    def page(self, name: str) -> tuple[str, bytes] | None:
        wheels = [wheel for wheel in self.wheels if wheel.name == name]
        if not wheels:
            return None
        if self.html:
            return "text/html; charset=utf-8", "\n".join(map(self._link, wheels)).encode()
        rows = {"meta": {"api-version": "1.1"}, "name": name, "files": [self._row(wheel) for wheel in wheels]}
        return "application/vnd.pypi.simple.v1+json", json.dumps(rows).encode()

    def _row(self, wheel: Wheel) -> dict[str, Any]:
        row: dict[str, Any] = {
            "filename": wheel.filename,
            "url": f"/files/{wheel.filename}",
            "hashes": {"sha256": hashlib.sha256(self.files[wheel.filename]).hexdigest()},
            "yanked": False if wheel.yanked is None else wheel.yanked or True,
            "size": len(self.files[wheel.filename]),
        }
        if wheel.requires_python:
            row["requires-python"] = wheel.requires_python
        if self.metadata:
            row["core-metadata"] = {"sha256": hashlib.sha256(wheel.metadata().encode()).hexdigest()}
        return row

    def _link(self, wheel: Wheel) -> str:
        digest = hashlib.sha256(self.files[wheel.filename]).hexdigest()
        more = f' data-yanked="{wheel.yanked}"' if wheel.yanked is not None else ""
        more += (
            f' data-requires-python="{wheel.requires_python.replace(">", "&gt;")}"'
            if wheel.requires_python
            else ""
        )
        more += ' data-core-metadata="true"' if self.metadata else ""
        return f'<a href="../../files/{wheel.filename}#sha256={digest}"{more}>{wheel.filename}</a>'

    def __enter__(self) -> Self:
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """From here on nobody answers."""
        with contextlib.suppress(OSError):
            self.server.shutdown()
            self.server.server_close()
        self.thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    index: LocalIndex
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.index.asked.append(self.path)
        if self.index.login:
            wanted = "Basic " + base64.b64encode(self.index.login.encode()).decode()
            if self.headers.get("authorization") != wanted:
                return self._send(401, "text/plain", b"who are you?")
        for part, status in self.index.status.items():
            if part in self.path:
                return self._send(status, "text/plain", b"no")
        if self.path.startswith("/simple/"):
            found = self.index.page(self.path.split("/")[2])
            if found is None:
                return self._send(404, "text/plain", b"not here")
            etag = f'"{hashlib.sha256(found[1]).hexdigest()[:16]}"'
            if self.headers.get("if-none-match") == etag:
                return self._send(304, found[0], b"")
            return self._send(200, found[0], found[1], ETag=etag)
        return self._file(self.path.rpartition("/")[2])

    def _file(self, name: str) -> None:
        wheel = next((w for w in self.index.wheels if name.removesuffix(".metadata") == w.filename), None)
        if wheel is None or wheel.missing:
            return self._send(404, "text/plain", b"not here")
        if name.endswith(".metadata"):
            if not self.index.metadata:
                return self._send(404, "text/plain", b"not here")
            return self._send(200, "text/plain", wheel.metadata().encode())
        body = self.index.files[name]
        asked = self.headers.get("range", "").removeprefix("bytes=")
        if not asked or not self.index.ranges:
            more = {"Accept-Ranges": "bytes"} if self.index.ranges else {}
            return self._send(200, "application/zip", body, **more)
        first, _, last = asked.partition("-")
        start, end = (
            (int(first), int(last or len(body) - 1)) if first else (max(len(body) - int(last), 0), len(body) - 1)
        )
        end = min(end, len(body) - 1)
        return self._send(
            206, "application/zip", body[start : end + 1], **{"Content-Range": f"bytes {start}-{end}/{len(body)}"}
        )

    def _send(self, status: int, kind: str, body: bytes, **fields: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Date", formatdate(usegmt=True))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


@contextlib.contextmanager
def serving(wheels: list[Wheel], **options: Any) -> Iterator[LocalIndex]:
    """Serve wheels while the block runs."""
    with LocalIndex(wheels, **options) as index:
        yield index

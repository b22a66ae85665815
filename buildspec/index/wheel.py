"""Members of a wheel that lies on a server, read with a few range requests."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from buildspec.index.errors import NotReadableError
from buildspec.index.web import without_secrets

if TYPE_CHECKING:
    from buildspec.index.web import Web

# The last bytes of a wheel: of all but the largest they hold the directory and the dist-info folder.
_TAIL = 64 << 10
_MAX_MEMBER = 64 << 20


class _Remote(io.RawIOBase):
    """A file on a server that fetches what is read, and at least _TAIL bytes each time."""

    def __init__(self, web: Web, url: str) -> None:
        self._web, self._url, self._at = web, url, 0
        self._pieces: dict[int, bytes] = {}
        answer = web.get(url, {"Range": f"bytes=-{_TAIL}"})
        total = answer.fields.get("content-range", "").rpartition("/")[2]
        # A server without ranges sends the whole file, status 200; so does one for a file shorter than the tail.
        self._size = int(total) if answer.status == 206 and total.isdigit() else len(answer.body)
        self._pieces[self._size - len(answer.body)] = answer.body

    def fetch(self, start: int, length: int) -> None:
        """Have these bytes at hand."""
        end = min(start + length, self._size)
        if start >= end or self._piece(start, end) is not None:
            return
        answer = self._web.get(self._url, {"Range": f"bytes={start}-{end - 1}"})
        if answer.status != 206 or len(answer.body) != end - start:
            raise NotReadableError(f"{without_secrets(self._url)}: asked for bytes {start}-{end - 1}, got others")
        self._pieces[start] = answer.body

    def _piece(self, start: int, end: int) -> bytes | None:
        for first, data in self._pieces.items():
            if first <= start and end <= first + len(data):
                return data[start - first : end - first]
        return None

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + {0: 0, 1: self._at, 2: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        if self._at >= end:
            return b""
        self.fetch(self._at, max(end - self._at, _TAIL) if self._piece(self._at, end) is None else end - self._at)
        data = self._piece(self._at, end) or b""
        self._at = end
        return data


def read_members(web: Web, url: str, names: tuple[str, ...]) -> dict[str, bytes]:
    """Members of the dist-info folder of a wheel, as `METADATA`, `RECORD`; what is not there is left out.

    Raises NotReadableError when the file is no wheel, and what Web.get raises.
    """
    remote = _Remote(web, url)
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(remote) as archive:
            for info in archive.infolist():
                folder, _, name = info.filename.rpartition("/")
                if name not in names or not folder.endswith(".dist-info") or "/" in folder:
                    continue
                if info.file_size > _MAX_MEMBER:
                    raise NotReadableError(f"{without_secrets(url)}: {info.filename} has {info.file_size} bytes")
                # The local header is as long as its directory entry says, give or take its own extra field.
                remote.fetch(info.header_offset, 30 + len(info.filename) + 1024 + info.compress_size)
                found[name] = archive.read(info)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise NotReadableError(f"{without_secrets(url)} is no wheel: {error}") from error
    return found

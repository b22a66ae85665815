"""What was fetched from an index, kept on disk by content: a damaged entry is as good as none."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = "DRYDOCK_CACHE"


@dataclass(frozen=True, slots=True)
class Entry:
    """An address' content: its type and validators as the server gave them, `time` in seconds since the epoch."""

    kind: str
    etag: str
    modified: str
    time: float
    body: bytes


class Cache:
    """Content by its SHA-256, and a small file per address that names the content. Writing never fails a run."""

    def __init__(self, folder: Path | None = None) -> None:
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        given = os.environ.get(FOLDER)
        self.folder = folder or (Path(given) if given else Path(home).expanduser() / "drydock") / "index"

    def get(self, address: str) -> Entry | None:
        """Content of an address, of whatever age; None when there is none or it is damaged."""
        try:
            row = json.loads(self._pointer(address).read_bytes())
            body = (self.folder / "content" / row["sha256"]).read_bytes()
            if row["address"] != address or hashlib.sha256(body).hexdigest() != row["sha256"]:
                return None
            return Entry(row["kind"], row["etag"], row["modified"], float(row["time"]), body)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, address: str, body: bytes, *, kind: str = "", etag: str = "", modified: str = "") -> None:
        """Keep the content of an address. A full or read-only disk costs speed only."""
        digest = hashlib.sha256(body).hexdigest()
        row = {
            "address": address,
            "sha256": digest,
            "kind": kind,
            "etag": etag,
            "modified": modified,
            "time": time.time(),
        }
        with contextlib.suppress(OSError):
            content = self.folder / "content" / digest
            if not content.exists() or content.stat().st_size != len(body):
                _write(content, body)
            _write(self._pointer(address), json.dumps(row).encode())

    def _pointer(self, address: str) -> Path:
        return self.folder / "address" / f"{hashlib.sha256(address.encode()).hexdigest()}.json"


def _write(file: Path, body: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".new.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(body)
        Path(name).replace(file)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise

"""Gets the facts of an image: by the probe inside it, or, without Python there, on its exported files."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, cast

import yaml
from docker.errors import APIError
from docker.models.containers import Container

from validate import probe
from validate.bench import Bench
from validate.errors import ProbeError
from validate.facts import Facts
from validate.lab import IDLE, Lab

DATA = Path(__file__).parent.parent / "data"
# What the engine lays over an image when it runs it.
MOUNTED = ["/proc", "/sys", "/dev", "/.dockerenv", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"]
# Tried in this order: what the image's PATH gives, then where environments and systems keep theirs.
INTERPRETERS = (
    "python3",
    "python",
    "/opt/venv/bin/python3",
    "/usr/local/bin/python3",
    "/usr/bin/python3",
    "/opt/conda/bin/python3",
    "/home/ray/anaconda3/bin/python3",
)
FIND_INTERPRETER = (
    "for p in " + " ".join(INTERPRETERS) + "; do "
    'p=$(command -v "$p") && "$p" -B -c "import sys; sys.exit(sys.version_info < (3, 8))" 2>/dev/null '
    '&& echo "$p" && exit 0; done; exit 1'
)


@cache
def credential_patterns() -> list[dict[str, Any]]:
    """Rows of data/credentials.yaml, as the probe takes them."""
    rows: list[dict[str, Any]] = yaml.safe_load((DATA / "credentials.yaml").read_text(encoding="utf-8"))
    return [
        {key: row[key] for key in ("kind", "needles", "expression", "unless", "path") if key in row}
        for row in rows
    ]


def collect(lab: Lab) -> dict[str, Any]:
    """Run the probe on the lab's image, in a container in which nothing else runs. Raises ProbeError."""
    try:
        with lab.container(IDLE, user="0:0") as container:
            found = lab.sh(container, FIND_INTERPRETER)
            if found.code == 0:
                return _collect_inside(lab, container, found.out.strip())
    except APIError as error:
        # An image without a shell keeps no container.
        if error.status_code not in (400, 500):
            raise
    return _collect_exported(lab)


def _collect_inside(lab: Lab, container: Container, interpreter: str) -> dict[str, Any]:
    config = {"root": "/", "skip": MOUNTED, "patterns": credential_patterns(), "live": True}
    source = Path(probe.__file__).read_text(encoding="utf-8")
    # ensure_ascii: what the image calls its files may be no UTF-8 at all.
    source += f"\nimport json\njson.dump(collect(json.loads({json.dumps(json.dumps(config))})), sys.stdout)\n"
    done = subprocess.run(
        ["docker", "exec", "--interactive", str(container.id), interpreter, "-B", "-"],
        input=source.encode(),
        capture_output=True,
        check=False,
        env={**os.environ, "DOCKER_HOST": lab.docker_host},
    )
    if done.returncode != 0:
        raise ProbeError(
            f"the probe ended with {done.returncode} in the image, run by {interpreter}",
            why=done.stderr.decode("utf-8", "replace")[-2000:],
        )
    return _parse(done.stdout)


def facts(bench: Bench) -> Facts:
    """Experiment: everything the probe sees; the document itself goes to the report's folder."""
    document = collect(bench.lab)
    if bench.facts_file is not None:
        bench.facts_file.write_text(json.dumps(document), encoding="utf-8")
    return Facts.from_json(document)


def _parse(answer: bytes) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(answer))
    except ValueError as error:
        raise ProbeError(f"the probe's answer is no JSON: {answer[:200]!r}") from error


def _collect_exported(lab: Lab) -> dict[str, Any]:
    """Run the probe here, on the image's files as the engine exports them."""
    container = lab.create(["/bin/true"])
    with tempfile.TemporaryDirectory(prefix="drydock-") as folder:
        stream = _Stream(cast("Iterator[bytes]", container.export(chunk_size=1 << 20)))
        metadata = unpack(cast("IO[bytes]", stream), Path(folder))
        container.remove(force=True)
        config = {
            "root": folder,
            "skip": [*MOUNTED],
            "patterns": credential_patterns(),
            "live": False,
            "metadata": metadata,
        }
        return probe.collect(config)


def unpack(stream: IO[bytes], folder: Path) -> dict[str, list[int]]:
    """Unpack an exported filesystem; returns mode, user and group of each path, as the archive has them.

    Files are written with this user's rights and plain modes, so that no root is needed; nothing is ever
    written through a link, so that an archive can't reach outside the folder.
    """
    metadata: dict[str, list[int]] = {}
    links: set[str] = set()
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            parts = [part for part in member.name.split("/") if part not in ("", ".")]
            path = "/" + "/".join(parts)
            parents = {"/" + "/".join(parts[:depth]) for depth in range(1, len(parts))}
            if not parts or ".." in parts or parents & links:
                continue
            target = folder / path[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            metadata[path] = [member.mode, member.uid, member.gid]
            if member.isdir():
                target.mkdir(exist_ok=True)
            elif member.issym():
                links.add(path)
                target.symlink_to(member.linkname)
            elif member.islnk():
                source = folder / member.linkname.lstrip("./")
                if ".." not in member.linkname.split("/") and source.is_file() and not source.is_symlink():
                    target.hardlink_to(source)
            elif member.isfile() and (content := archive.extractfile(member)) is not None:
                with target.open("wb") as file:
                    while piece := content.read(1 << 20):
                        file.write(piece)
                os.utime(target, (member.mtime, member.mtime))
    return metadata


class _Stream(RawIOBase):
    """The engine's chunks as a file that can be read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            piece = next(self._chunks, b"")
            if not piece:
                break
            self._rest += piece
        data, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return data

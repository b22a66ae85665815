"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from buildspec.errors import EnvironmentLacksError

if TYPE_CHECKING:
    from collections.abc import Mapping


def write(file: Path, text: str) -> None:
    """Write one file: a reader sees the old content or the new, never a part."""
    write_all({file: text})


def write_all(texts: Mapping[Path, str]) -> None:
    """Write several files, all of them or none.

    Every text is on the disk before the first name changes; a failure or an interrupt puts the old files back.
    Raises EnvironmentLacksError when the disk is full or may not be written.
    """
    staged: dict[Path, Path] = {}
    before: dict[Path, bytes | None] = {}
    try:
        for file, text in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            before[file] = file.read_bytes() if file.exists() else None
            handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
            staged[file] = Path(name)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            # mkstemp makes files that only their owner reads; these are for everybody.
            staged[file].chmod(0o644)
        for file, temporary in staged.items():
            temporary.replace(file)
    except BaseException as error:
        for file, content in before.items():
            if content is not None and file.read_bytes() != content:
                file.write_bytes(content)
            elif content is None:
                file.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise EnvironmentLacksError(
            f"{error.filename or 'a file'} can't be written: {error.strerror}",
            remedy="free the disk, or correct the permissions; nothing was changed",
        ) from error
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)

"""A package index: which files it has, what their metadata say, which files they bring."""

from __future__ import annotations

from buildspec.index.cache import Cache
from buildspec.index.client import Index, lend_to_uv, open_index
from buildspec.index.errors import (
    FileVanishedError,
    IndexUnreachableError,
    NotOnIndexError,
    NotReadableError,
)
from buildspec.index.metadata import Metadata
from buildspec.index.page import File, Page

__all__ = [
    "Cache",
    "File",
    "FileVanishedError",
    "Index",
    "IndexUnreachableError",
    "Metadata",
    "NotOnIndexError",
    "NotReadableError",
    "Page",
    "lend_to_uv",
    "open_index",
]

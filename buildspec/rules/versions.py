"""Versions and ranges: packaging's, and what AWS writes in its own way; the nearest that satisfies something."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# 2.6.0amzn1.0, 60.amzn0: AWS' builds of upstream versions.
_AMAZON = re.compile(r"\.?amzn(?=\d)")
# 2.30.7-1, 1.9.1-aws: a packaging revision as in NCCL's tags, AWS' branch as in those of aws-ofi-nccl.
_REVISION = re.compile(r"-(?:\d+|aws)$")
_T = TypeVar("_T")


def parse(text: str) -> Version:
    """Read a version; AWS' builds order behind the upstream version, by their own numbers.

    Raises InvalidVersion.
    """
    return Version(_AMAZON.sub("+amzn.", _REVISION.sub("", text)))


def parse_or_none(text: str) -> Version | None:
    """Read a version; None when it is none."""
    try:
        return parse(text)
    except InvalidVersion:
        return None


def minor(version: Version) -> str:
    """Major and minor part, as CUDA and Python are named by: 13.2."""
    return f"{version.major}.{version.minor}"


@dataclass(frozen=True, slots=True)
class Nearest(Generic[_T]):
    """The closest candidates that satisfy something, one in each direction."""

    up: _T | None
    down: _T | None

    def texts(self, name: str) -> tuple[str, ...]:
        """For people: `nccl 2.30.7 (up)`."""
        pairs = ((self.up, "up"), (self.down, "down"))
        return tuple(f"{name} {value} ({way})" for value, way in pairs if value is not None)


def nearest(
    candidates: Iterable[Version], pinned: Version, fits: Callable[[Version], bool], *, tries: int | None = None
) -> Nearest[Version]:
    """Closest versions above and below `pinned` for which `fits`; prereleases only when `pinned` is one.

    `tries` limits how many are asked about in each direction, for questions that cost a request.
    """
    usable = sorted({v for v in candidates if pinned.is_prerelease or not v.is_prerelease})
    above = [version for version in usable if version > pinned][:tries]
    below = [version for version in reversed(usable) if version < pinned][:tries]
    return Nearest(next(filter(fits, above), None), next(filter(fits, below), None))

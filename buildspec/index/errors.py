"""What goes wrong with a package index. All of it is the environment's: exit code 3."""

from __future__ import annotations

from buildspec.errors import EnvironmentLacksError


class IndexUnreachableError(EnvironmentLacksError):
    """The index does not answer: no network, no name, refused, timed out, or a server's own failure."""


class NotOnIndexError(EnvironmentLacksError):
    """The index has no distribution of that name."""


class FileVanishedError(EnvironmentLacksError):
    """The index lists a file that it does not have."""


class NotReadableError(EnvironmentLacksError):
    """The index answered with something that is no page, no metadata or no wheel."""

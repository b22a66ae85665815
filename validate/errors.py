"""Failures of the suite itself, each with what to do."""

from __future__ import annotations

from buildspec.errors import BadInputError, EnvironmentLacksError, NotProvenError


class ImageMissingError(BadInputError):
    """The engine has no image of that name."""


class NoSuchLevelError(BadInputError):
    """A level that does not exist."""


class EngineGoneError(EnvironmentLacksError):
    """The engine does not answer, or stopped answering."""


class ProbeError(NotProvenError):
    """The probe could not be run, or its answer could not be read."""


class SuiteBrokenError(NotProvenError):
    """The suite ended without a verdict: nothing is proven."""

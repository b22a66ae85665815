"""Causes: what lines mean, why a network was or was not used, and what to do about it, from causes.yaml."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib import resources
from typing import Literal, TypeAlias

import yaml

__all__ = ["Effect", "KnownCause", "known", "sign"]

Effect: TypeAlias = Literal["fallback", "failure", "harmless", "outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCause:
    """One entry of causes.yaml; `pattern` is empty for outcomes, which no single line shows."""

    id: str
    effect: Effect
    rank: int
    pattern: str
    says: str
    remedy: str
    source: str
    recoverable: bool = False
    words: tuple[str, ...] = ()

    def sentence(self, values: dict[str, str]) -> str:
        """Fill the sentence with what the log's line named; what it did not name becomes a general word."""
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1]) or _GENERAL.get(match[1], "?"), self.says)


_GENERAL = {
    "symbol": "a symbol version",
    "lib": "a library",
    "file": "libnccl-net.so",
    "address": "its address",
    "network": "the named network",
    "provider": "tcp",
}


@functools.cache
def known() -> dict[str, KnownCause]:
    """All causes by id. Source: causes.yaml beside this module."""
    text = resources.files("validate.nccl").joinpath("causes.yaml").read_text("utf-8")
    data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both loaders are safe ones
    table = {}
    for entry in data["causes"]:
        entry["words"] = tuple(entry["words"])
        table[entry["id"]] = KnownCause(**entry)
    for entry in data["outcomes"]:
        table[entry["id"]] = KnownCause(effect="outcome", rank=0, pattern="", **entry)
    return table


@functools.cache
def _patterns() -> list[tuple[KnownCause, re.Pattern[str]]]:
    causes = sorted((cause for cause in known().values() if cause.pattern), key=lambda cause: -cause.rank)
    return [(cause, re.compile(cause.pattern, re.IGNORECASE)) for cause in causes]


@functools.lru_cache(maxsize=4096)
def sign(body: str, *, loud: bool = True) -> tuple[str, ...] | None:
    """Find the cause that a message shows: its id, then name=value for what the line names; None for no cause.

    `loud` tells that the message is a warning; only those can be harmless ones.
    """
    lower = body.lower()
    for cause, pattern in _patterns():
        if cause.words and not any(word in lower for word in cause.words):
            continue
        if cause.effect == "harmless" and not loud:
            continue
        match = pattern.search(body)
        if match:
            # Groups that differ only in a number at the end are one value found in different places.
            found = match.groupdict().items()
            return (cause.id, *(f"{key.rstrip('0123456789')}={value}" for key, value in found if value))
    return None

"""Where wheels are to be installed: interpreter, architecture and C library of a stack's images."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.requirements import Requirement

Arch = Literal["x86_64", "aarch64"]
# The oldest C library that manylinux knows per architecture, and the names from before manylinux_x_y.
_OLDEST = {"x86_64": 5, "aarch64": 17}
_ALIASES = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
_KERNEL = "6.1"
_EXTRA = re.compile(r'\bextra == "([^"]*)"')


@dataclass(frozen=True)
class Target:
    """CPython `python` (full version) on Linux with `glibc` (major.minor) on `arch`."""

    python: str
    arch: Arch
    glibc: str

    @cached_property
    def _ordered(self) -> tuple[Tag, ...]:
        version = Version(self.python)
        pair = (version.major, version.minor)
        abi = f"cp{version.major}{version.minor}"
        platforms = list(self._platforms())
        return (
            *cpython_tags(pair, abis=[abi], platforms=platforms),
            *compatible_tags(pair, interpreter=abi, platforms=platforms),
        )

    @cached_property
    def tags(self) -> frozenset[Tag]:
        """All tags of wheels that run here."""
        return frozenset(self._ordered)

    @cached_property
    def _rank(self) -> dict[Tag, int]:
        return {tag: rank for rank, tag in reversed(list(enumerate(self._ordered)))}

    def rank(self, tags: Iterable[Tag]) -> int | None:
        """How well a wheel of these tags fits, 0 best; None when it does not run here."""
        return min((self._rank[tag] for tag in tags if tag in self._rank), default=None)

    def _platforms(self) -> Iterable[str]:
        glibc = Version(self.glibc)
        for minor in range(glibc.minor, _OLDEST[self.arch] - 1, -1):
            yield f"manylinux_2_{minor}_{self.arch}"
            if minor in _ALIASES:
                yield f"{_ALIASES[minor]}_{self.arch}"
        yield f"linux_{self.arch}"

    @cached_property
    def _environment(self) -> dict[str, str]:
        version = Version(self.python)
        return {
            "implementation_name": "cpython",
            "implementation_version": self.python,
            "os_name": "posix",
            "platform_machine": self.arch,
            "platform_python_implementation": "CPython",
            "platform_release": _KERNEL,
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": self.python,
            "python_version": f"{version.major}.{version.minor}",
            "sys_platform": "linux",
        }

    def applies(self, requirement: Requirement, extras: Iterable[str] = ()) -> bool:
        """Whether a requirement holds here, for a distribution asked for with these extras."""
        if requirement.marker is None:
            return True
        wanted = {"", *extras}
        # ray has hundreds of requirements for extras: those for other ones need no evaluation.
        text = str(requirement.marker)
        named = _EXTRA.findall(text)
        if named and " or " not in text:
            wanted &= set(named)
        return any(requirement.marker.evaluate({**self._environment, "extra": extra}) for extra in wanted)

    def __str__(self) -> str:
        return (
            f"Python {Version(self.python).major}.{Version(self.python).minor} on {self.arch}, glibc {self.glibc}"
        )

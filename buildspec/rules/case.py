"""A stack as the rules see it: its pins with everything that decides about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from buildspec import requirements
from buildspec.errors import BadInputError
from buildspec.matrix import EfaFabric
from buildspec.rules.target import Arch, Target
from buildspec.rules.versions import parse_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from buildspec.matrix import Base, Matrix, Stack
    from buildspec.rules.catalog import Catalog
    from buildspec.rules.facts import Facts, Suite
    from buildspec.rules.locked import Locked

# pin -> distribution. Where two stand, the first is the one that is installed for its own sake.
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "ray": ("ray",),
    "vllm": ("vllm",),
    "torch": ("torch",),
    "nccl": ("nvidia-nccl-cu{major}",),
    "nixl": ("nixl-cu{major}", "nixl"),
    "cuda": ("cuda-toolkit",),
}
# Locks are made for this one: buildspec.lock.PLATFORM.
ARCH: Arch = "x86_64"
# Assumed of a suite that facts/systems.yaml does not know: what Debian 12 has.
_OLD_GLIBC = "2.36"


@dataclass(frozen=True)
class Asked:
    """A pinned distribution: its pin, the extras with which it is asked for, and the pinned version.

    `version` is None for CUDA, whose pin names a whole minor version.
    """

    pin: str
    name: str
    extras: frozenset[str]
    version: Version | None
    text: str


@dataclass(frozen=True)
class Case:
    """A stack with the matrix around it, the facts, the catalogue, its lock if that is fresh, and today's date."""

    matrix: Matrix
    name: str
    images: Path
    facts: Facts
    catalog: Catalog
    today: date
    locked: Locked | None = None
    arch: Arch = ARCH

    @property
    def stack(self) -> Stack:
        """The stack."""
        return self.matrix.stacks[self.name]

    @property
    def base(self) -> Base:
        """The base that the stack stands on."""
        return self.matrix.bases[self.stack.base]

    @property
    def efa(self) -> EfaFabric | None:
        """The stack's fabric when it comes from AWS' installer."""
        fabric = self.matrix.fabrics[self.stack.fabric]
        return fabric if isinstance(fabric, EfaFabric) else None

    @property
    def suite(self) -> Suite | None:
        """What is known of the base's operating system."""
        return self.facts.systems.suites.get(self.base.suite)

    def path(self, key: str) -> tuple[str, ...]:
        """Place of one of the stack's keys in versions.yaml."""
        return ("stacks", self.name, key)

    @cached_property
    def target(self) -> Target:
        """Where the stack's wheels go."""
        return Target(self.stack.python, self.arch, self.suite.glibc if self.suite else _OLD_GLIBC)

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """What the stack's image is asked to hold. Raises BadInputError for a line that is no requirement."""
        lines = requirements.read(self.images, self.stack).lines
        found = []
        for line in lines:
            try:
                found.append(Requirement(line))
            except InvalidRequirement as error:
                raise BadInputError(
                    f"images/{self.stack.image}/requirements.in: '{line}' is no requirement: {error}"
                ) from error
        return tuple(found)

    @cached_property
    def asked(self) -> dict[str, Asked]:
        """Pinned distributions by name."""
        extras: dict[str, frozenset[str]] = {
            canonicalize_name(r.name): frozenset(r.extras) for r in self.requirements
        }
        found: dict[str, Asked] = {}
        for pin, names in DISTRIBUTIONS.items():
            text = self.stack.pins.get(pin)
            if text is None:
                continue
            for template in names:
                name = template.format(major=self.stack.cuda_major)
                version = None if pin == "cuda" else Version(text)
                found[name] = Asked(pin, name, extras.get(name, frozenset()), version, text)
        return found

    @cached_property
    def versions(self) -> dict[str, Version | None]:
        """Everything that facts speak of, by the names that facts/known.yaml uses; None where unreadable."""
        found: dict[str, Version | None] = {pin: parse_or_none(text) for pin, text in self.stack.pins.items()}
        if self.efa:
            found |= {
                "installer": parse_or_none(self.efa.installer),
                "plugin": parse_or_none(self.efa.aws_ofi_nccl),
                "libfabric": parse_or_none(self.efa.libfabric),
                "rdma_core": parse_or_none(self.efa.rdma_core),
            }
        return found

    def place(self, key: str) -> tuple[str, ...]:
        """Place in versions.yaml of something in `versions`: a pin, or a part of the fabric."""
        names = {
            "installer": "installer",
            "plugin": "aws_ofi_nccl",
            "libfabric": "libfabric",
            "rdma_core": "rdma_core",
        }
        return ("fabrics", self.stack.fabric, names[key]) if key in names else self.path(key)

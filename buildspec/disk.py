"""Free disk for builds: how much there is, how much a build needs, and what `drydock clean` would free."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docker.errors import APIError

from buildspec.base import LABEL
from buildspec.console import size, step
from buildspec.errors import EnvironmentLacksError

if TYPE_CHECKING:
    from buildspec.engine import Engine
    from buildspec.project import Project

# An image, and the unpacked wheels in BuildKit's cache that it is installed from, without their bytecode.
_COPIES = 1.75
_BASE_BYTES = 2_000_000_000


def needed(project: Project, stacks: list[str]) -> int:
    """Bytes that building these stacks takes at most, from their images' size budgets."""
    budgets = (project.matrix.images[project.matrix.stack(name).image].size_budget_gb for name in stacks)
    return int(sum(budgets) * 1e9 * _COPIES) + _BASE_BYTES


def check(project: Project, stacks: list[str], engine: Engine) -> None:
    """Raise EnvironmentLacksError when the engine's disk has too little room for these stacks."""
    folder = engine.data_root
    if folder is None or not stacks:
        return  # an engine on another machine: its disk can't be seen from here
    free, need = shutil.disk_usage(folder).free, needed(project, stacks)
    # What an earlier build of the same wheels left in the cache need not be written again.
    need -= min(_cache_bytes(engine.client.df()), need // 2)
    if free < need:
        raise EnvironmentLacksError(
            f"the engine's disk ({folder}) has {size(free)} free; building {', '.join(stacks)} needs {size(need)}",
            why="an image takes its own size and once more for the unpacked wheels it is installed from",
            remedy=f"`drydock clean` would free {size(freeable(engine).total)}; or build one stack at a time",
        )


@dataclass(frozen=True, slots=True)
class Freeable:
    """What `drydock clean` removes: ids of images that no name holds, and bytes by kind."""

    images: tuple[str, ...]
    image_bytes: int
    cache_bytes: int

    @property
    def total(self) -> int:
        """All bytes; layers shared between images are counted once per image, so it is an upper bound."""
        return self.image_bytes + self.cache_bytes


def freeable(engine: Engine, *, everything: bool = False) -> Freeable:
    """Look up what can go: unnamed images of Drydock and the build cache; with `everything` all its images."""
    usage = engine.client.df()
    images = [
        row
        for row in usage.get("Images") or []
        if LABEL in (row.get("Labels") or {}) and not row.get("Containers", 0) > 0
        if everything or not [tag for tag in row.get("RepoTags") or [] if tag != "<none>:<none>"]
    ]
    unique = sum(max(row["Size"] - max(row.get("SharedSize", 0), 0), 0) for row in images)
    return Freeable(tuple(row["Id"] for row in images), unique, _cache_bytes(usage))


def free(engine: Engine, found: Freeable) -> int:
    """Remove what was found; returns the bytes that the engine says it freed from its cache, plus the images."""
    freed = 0
    with step(f"removing {len(found.images)} images and the build cache") as detail:
        for image in found.images:
            detail(image)
            try:
                engine.client.images.remove(image, force=True)
            except APIError as error:
                if error.status_code not in (404, 409):  # gone already, or a container uses it
                    raise
        freed = int(engine.client.api.prune_builds(all=True).get("SpaceReclaimed") or 0)
    return freed + found.image_bytes


def _cache_bytes(usage: dict[str, Any]) -> int:
    return sum(int(row.get("Size", 0)) for row in usage.get("BuildCache") or [] if not row.get("InUse"))

"""Known bugs of the very versions that a log shows, from known_issues.yaml."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from importlib import resources
from typing import Any

import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from validate.nccl.job import Job
from validate.nccl.process import Process
from validate.nccl.result import Issue

__all__ = ["of"]


@functools.cache
def _known() -> list[dict[str, Any]]:
    text = resources.files("validate.nccl").joinpath("known_issues.yaml").read_text("utf-8")
    return list(yaml.safe_load(text)["issues"])


def of(job: Job, processes: Iterable[Process]) -> tuple[Issue, ...]:
    """List the known issues that fit the versions and settings of a log."""
    seen = list(processes)
    versions = {
        "nccl": {*job.versions, *(process.version for process in seen)},
        "plugin": {process.plugin for process in seen},
        "libfabric": {process.libfabric for process in seen},
    }
    settings = {name for process in seen for name in process.settings}
    found = []
    for entry in _known():
        fits = all(
            any(_fits(version, entry[what]) for version in versions[what]) for what in versions if what in entry
        )
        if fits and ("settings" not in entry or settings.intersection(entry["settings"])):
            found.append(
                Issue(id=entry["id"], sentence=entry["says"], remedy=entry["remedy"], source=entry["source"])
            )
    return tuple(found)


def _fits(version: str, specifier: str) -> bool:
    """Compare the numbers that a version begins with; builds from git without one fit nothing, RCCL neither."""
    numbers = re.match(r"\d{1,6}(?:\.\d{1,6}){0,4}", version)
    return numbers is not None and SpecifierSet(specifier).contains(Version(numbers[0]), prereleases=True)

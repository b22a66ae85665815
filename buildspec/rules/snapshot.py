"""Making the snapshot of releases that comes with Drydock, so that a check without network knows something."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name
from packaging.version import Version

if TYPE_CHECKING:
    from datetime import date

    from buildspec.index import File, Index

# Distribution -> oldest release that is recorded: what images of the last two years could hold.
RECORDED = {
    "torch": "2.6",
    "ray": "2.44",
    "vllm": "0.8",
    "nvidia-nccl-cu12": "2.21",
    "nvidia-nccl-cu13": "2.27",
    "nixl": "0.4",
    "nixl-cu12": "0.4",
    "nixl-cu13": "0.4",
    "cuda-toolkit": "12.4",
}
# Requirements of these names are kept; the rules look at no others.
_KEPT = (
    "cuda-toolkit",
    "nixl",
    "nvidia-cuda-runtime",
    "nvidia-cudnn",
    "nvidia-nccl",
    "ray",
    "torch",
    "torchaudio",
    "torchvision",
    "triton",
    "vllm",
)
_ARCHES = ("any", "x86_64", "aarch64")


def take(index: Index, today: date) -> str:
    """Ask the index about all of them; returns the file's text. Raises what the index raises."""
    found: dict[str, dict[str, Any]] = {}
    index.side_by_side(index.page, RECORDED)
    for name, oldest in RECORDED.items():
        releases = {
            version: wheels
            for version, files in index.page(name).releases.items()
            if version >= Version(oldest) and (wheels := [file for file in files if _linux(file)])
        }
        index.side_by_side(index.metadata, [wheels[-1] for wheels in releases.values()])
        found[name] = {str(version): _row(index, wheels) for version, wheels in releases.items()}
    lines = ",\n".join(
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"    {json.dumps(version)}: {json.dumps(row)}" for version, row in rows.items())
        + "\n  }"
        for name, rows in found.items()
    )
    return f'{{"taken": "{today.isoformat()}", "distributions": {{\n{lines}\n}}}}\n'


def _linux(file: File) -> bool:
    return file.is_wheel and any(
        tag.platform == "any" or ("linux" in tag.platform and tag.platform.endswith(_ARCHES)) for tag in file.tags
    )


def _row(index: Index, wheels: list[File]) -> dict[str, Any]:
    # The tags behind name and version; a build tag, which stands between, is dropped.
    tags = {"-".join(file.name.removesuffix(".whl").split("-")[-3:]) for file in wheels}
    row: dict[str, Any] = {"wheels": sorted(tags)}
    if wheels[-1].requires_python:
        row["requires_python"] = wheels[-1].requires_python
    if all(file.yanked is not None for file in wheels):
        row["yanked"] = wheels[-1].yanked
    requires = index.metadata(wheels[-1]).requires
    kept = [str(r) for r in requires if canonicalize_name(r.name).startswith(_KEPT)]
    if kept:
        row["requires"] = kept
    return row

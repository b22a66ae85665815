"""The rule of one CUDA major version in a lock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from buildspec.rules.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from buildspec.rules.locked import Locked

# nvidia-nccl-cu12, nvidia-cutlass-dsl-libs-cu12, cupy-cuda13x, nvidia-dali-cuda120, jax-cuda12-plugin, mxnet-cu112
_SUFFIX = re.compile(r"(?:^|[-_])(?:cu|cuda)-?(\d{2})\d?x?(?=$|[-_])")
# torch 2.13.0+cu130, flash-attn 2.8.3+cu12torch2.8
_LOCAL = re.compile(r"^cu(\d{2})\d?(?!\d)")
# Without a number in their names these have CUDA's own version.
_VERSIONED = frozenset(
    {
        "cuda-bindings",
        "cuda-python",
        "cuda-toolkit",
        "nvidia-cuda-cccl",
        "nvidia-cuda-crt",
        "nvidia-cuda-cupti",
        "nvidia-cuda-nvcc",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-runtime",
        "nvidia-nvjitlink",
        "nvidia-nvtx",
        "nvidia-nvvm",
    }
)


def cuda_major(name: str, version: str) -> int | None:
    """CUDA major version that a distribution is of; None when it is of none, or does not say."""
    if found := _SUFFIX.search(name):
        return int(found[1])
    try:
        parsed = Version(version)
    except InvalidVersion:
        return None
    if parsed.local and (local := _LOCAL.match(parsed.local)):
        return int(local[1])
    # 0.x placeholders of NVIDIA's names are of no CUDA.
    return parsed.major if name in _VERSIONED and parsed.major >= 9 else None


def check(path: tuple[str, ...], wanted: int, locked: Locked, allowed: Mapping[str, str]) -> Iterator[Finding]:
    """Judge every distribution of a lock; `allowed` may be of another major, for the reason that it maps to."""
    for name, version in locked.versions.items():
        major = cuda_major(name, version)
        if major is None or major == wanted or name in allowed:
            continue
        twin = re.sub(rf"(cu|cuda){major}", rf"\g<1>{wanted}", name)
        both = twin != name and twin in locked.versions
        beside = f"; {twin} is there too, and often writes the same files" if both else ""
        yield Finding(
            rule="cuda.one_major",
            severity="error",
            path=path,
            pinned=f"{name} {version} (CUDA {major})",
            needed=f"CUDA {wanted} only",
            reason=f"two CUDA major versions in one environment{beside}",
            says=(locked.shown_path(name),),
            nearest=(twin,) if twin != name else (),
            remedy=f"exclude it (images/<image>/exclude.txt) when {twin} does its work; or allow it, with the "
            "reason, under other_cuda_majors in versions.yaml",
        )

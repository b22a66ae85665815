"""Matrices that work, or worked in their day: no rule may call an error on them.

Worked out from the METADATA of the wheels and from the release notes of the installers, as in test_wrong.py.
What a warning says of them is true and named here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from buildspec import rules
from buildspec.project import Project
from tests.rules.checkout import LLM, TODAY, TRAIN, Row, efa, judge, write

NOBLE: Row = {"base": "ubuntu24", "python": "3.12.3"}
BOOKWORM: Row = {"base": "debian12", "python": "3.11.2", "support_end": "2027-10-01"}
P5 = ["p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"]
LLM_258: Row = LLM | {"ray": "2.58.1", "vllm": "0.26.0", "torch": "2.11.0", "nccl": "2.28.9", "nixl": "1.3.1"}

# name -> stacks, what else is in the checkout, rules of the warnings that are due
CONSISTENT: dict[str, tuple[dict[str, Row], dict[str, Any], set[str]]] = {
    "train of November 2026": ({"train-2.60": TRAIN}, {}, set()),
    "llm of November 2026": ({"llm-2.60": LLM}, {}, set()),
    "the torch before, CUDA 13.0": (
        {"train-2.58": TRAIN | {"ray": "2.58.1", "torch": "2.13.0", "nccl": "2.29.7", "cuda": "13.0"}},
        {},
        set(),
    ),
    "torch 2.14.1 with what it pins": (
        {"train-2.60": TRAIN | {"torch": "2.14.1", "nccl": "2.30.7", "cuda": "13.0"}},
        {},
        set(),
    ),
    "EFA on Debian 13 for P5": (
        {"train-2.60": TRAIN | {"fabric": "efa", "instances": P5}},
        {"fabric": efa("1.50.0")},
        set(),
    ),
    "EFA for Blackwell": (
        {
            "train-2.60": TRAIN
            | {"fabric": "efa", "instances": ["p6-b200.48xlarge", "p6-b300.48xlarge", "g7e.48xlarge"]}
        },
        {"fabric": efa("1.50.0")},
        set(),
    ),
    # AWS' own ray-llm of 2026-08-28: Ray 2.58, vLLM 0.26, EFA 1.49.
    "serving on EFA 1.49": (
        {"llm-2.58": LLM_258 | NOBLE | {"fabric": "efa", "instances": ["p5.48xlarge"]}},
        {"fabric": efa("1.49.0")},
        {"plugin.small_receive_hang"},
    ),
    # AWS' own ray-train of July 2026: Ray 2.56, torch 2.13, EFA 1.47 with plugin 1.18.
    "training on EFA 1.47": (
        {
            "train-2.56": TRAIN
            | NOBLE
            | {
                "ray": "2.56.1",
                "torch": "2.13.0",
                "nccl": "2.29.7",
                "cuda": "13.0",
                "fabric": "efa",
                "instances": P5,
            }
        },
        {"fabric": efa("1.47.0")},
        {"plugin.tuner_crash", "plugin.broadcast_hang"},
    ),
    "CUDA 12.8 for older drivers and V100": (
        {
            "train-2.54": TRAIN
            | {
                "ray": "2.54.1",
                "torch": "2.10.0",
                "nccl": "2.27.5",
                "cuda": "12.8",
                "driver": "570.124.06",
                "instances": ["g5.48xlarge", "g4dn.12xlarge"],
            }
        },
        {},
        {"cuda.driver_branch"},
    ),
    "Debian 12 with EFA 1.49": (
        {
            "train-2.58": TRAIN
            | BOOKWORM
            | {"ray": "2.58.1", "torch": "2.13.0", "nccl": "2.29.7", "cuda": "13.0", "fabric": "efa"}
        },
        {"fabric": efa("1.49.0")},
        {"plugin.small_receive_hang"},
    ),
    "a branch of drivers instead of a version": (
        {"train-2.60": TRAIN | {"driver": "580"}},
        {},
        {"cuda.driver_minor"},
    ),
    "drivers of the toolkit's own branch": (
        {"train-2.60": TRAIN | {"driver": "620.10", "kuberay": "1.4.0"}},
        {},
        set(),
    ),
    "one Ray for head and workers": (
        {"train-2.60": TRAIN, "llm-2.60": LLM | {"head": "train-2.60"}},
        {},
        set(),
    ),
    "serving on P5 within one host": (
        {"llm-2.60": LLM | {"instances": ["p5.48xlarge"]}},
        {},
        {"instances.fabric"},
    ),
    "pins inside their ranges": (
        {"train-2.60": TRAIN | {"ranges": {"ray": "==2.60.*", "torch": ">=2.13", "python": "==3.13.5"}}},
        {},
        set(),
    ),
    "an image that wget is not in, for new KubeRay": (
        {"train-2.60": TRAIN | {"kuberay": "1.6.0"}},
        {"without_packages": ("wget",)},
        {"kuberay.tools"},
    ),
    "no wheel is missing for aarch64 either": ({"train-2.60": TRAIN}, {"arch": "aarch64"}, set()),
    "NVIDIA's image as a base, without EFA": (
        {"train-2.60": TRAIN | {"base": "nvidia", "python": "3.12.3"}},
        {},
        {"base.image"},
    ),
    "a retired stack is not judged": (
        {
            "train-2.60": TRAIN,
            "train-2.10": TRAIN | {"status": "retired", "support_end": "2025-01-01", "torch": "1.0"},
        },
        {},
        set(),
    ),
}


@pytest.mark.parametrize("name", CONSISTENT)
def test_no_error_is_found(name: str, tmp_path: Path) -> None:
    stacks, options, warnings = CONSISTENT[name]
    options = dict(options)
    arch = options.pop("arch", "x86_64")
    project = write(tmp_path / "checkout", stacks, **options)

    found = [finding for finding in judge(project, arch=arch) if finding.rule != "lock.fresh"]

    assert [f"{finding.rule}: {finding.pinned}" for finding in found if finding.severity == "error"] == []
    assert {finding.rule for finding in found if finding.severity == "warning"} == warnings
    # Nothing that is needed to judge them is missing from what is recorded.
    assert [finding.rule for finding in found if finding.essential] == []


def test_the_checkout_itself_is_consistent(root: Path) -> None:
    found = rules.of_project(Project.find(root), None, today=TODAY)

    assert [f"{finding.rule}: {finding.pinned}" for finding in found if finding.severity == "error"] == []

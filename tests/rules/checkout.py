"""Checkouts whose matrix is made up from a few words, with the real requirements of the images."""

from __future__ import annotations

import hashlib
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from buildspec import lock, rules
from buildspec.project import Project
from buildspec.rules import Catalog, Finding

IMAGES = Path(__file__).resolve().parent.parent.parent / "images"
TODAY = date(2026, 11, 30)

Row = dict[str, Any]

# Rows that fit together, worked out from the METADATA of the wheels (Requires-Dist), read on 2026-11-30.
TRAIN: Row = {
    "image": "train",
    "status": "current",
    "support_end": "2027-11-30",
    "base": "debian13",
    "fabric": "distro",
    "python": "3.13.5",
    "cuda": "13.2",
    "torch": "2.15.0",
    "nccl": "2.30.7",
    "ray": "2.60.0",
}
LLM: Row = TRAIN | {
    "image": "llm",
    "cuda": "13.0",
    "torch": "2.13.0",
    "nccl": "2.29.7",
    "vllm": "0.29.0",
    "nixl": "1.3.2",
}
# What AWS' release notes say of these installers.
EFA: dict[str, Row] = {
    "1.51.0": {"aws_ofi_nccl": "1.22.0", "libfabric": "2.7.0amzn2.0", "rdma_core": "65.0"},
    "1.50.0": {"aws_ofi_nccl": "1.21.1", "libfabric": "2.6.0amzn1.0", "rdma_core": "64.0"},
    "1.49.0": {"aws_ofi_nccl": "1.20.0", "libfabric": "2.4.0amzn5.0", "rdma_core": "63.0"},
    "1.48.0": {"aws_ofi_nccl": "1.19.0", "libfabric": "2.4.0amzn3.0", "rdma_core": "61.0"},
    "1.47.0": {"aws_ofi_nccl": "1.18.0", "libfabric": "2.4.0amzn1.0", "rdma_core": "61.0"},
    "1.46.0": {"aws_ofi_nccl": "1.17.2", "libfabric": "2.3.1amzn4.0", "rdma_core": "60.amzn0"},
    "1.45.1": {"aws_ofi_nccl": "1.17.2", "libfabric": "2.3.1amzn3.0", "rdma_core": "60.amzn0"},
    "1.44.0": {"aws_ofi_nccl": "1.17.1", "libfabric": "2.3.1amzn1.0", "rdma_core": "59.amzn0"},
    "1.43.2": {"aws_ofi_nccl": "1.16.3", "libfabric": "2.1.0amzn5.0", "rdma_core": "58.amzn0"},
    "1.43.0": {"aws_ofi_nccl": "1.16.1", "libfabric": "2.1.0amzn4.0", "rdma_core": "58.amzn0"},
}
SHA256 = {
    "1.50.0": "fa6dff8593d866866c13cb4640d9059835cd4efa427971f100ab40c97bef2841",
    "1.49.0": "cf2e9281a2328a243c76f911a490faed43ca0fecfe4733c25e34b2e92a32c309",
}
BASES: dict[str, Row] = {
    "debian13": {"suite": "trixie", "bootstrap": "mmdebstrap"},
    "debian12": {"suite": "bookworm", "bootstrap": "mmdebstrap"},
    "debian11": {"suite": "bullseye", "bootstrap": "mmdebstrap"},
    "ubuntu24": {"suite": "noble", "image": f"registry.example.org/ubuntu@sha256:{'1' * 64}"},
    "nvidia": {"suite": "noble", "image": f"nvcr.io/nvidia/cuda@sha256:{'3' * 64}"},
    "mirrored": {"suite": "noble", "image": f"127.0.0.1:5000/mirror/nvidia/cuda:13.0@sha256:{'3' * 64}"},
    "pytorch": {"suite": "noble", "image": f"nvcr.io/nvidia/pytorch:26.06-py3@sha256:{'4' * 64}"},
    "ray-ml": {"suite": "jammy", "image": f"rayproject/ray-ml@sha256:{'5' * 64}"},
    "ubuntu22": {"suite": "jammy", "image": f"registry.example.org/ubuntu@sha256:{'2' * 64}"},
}


def efa(installer: str, **other: str) -> Row:
    """An EFA fabric as its release notes describe it, with what is given in place of that."""
    parts = EFA.get(installer, EFA["1.50.0"])
    checksum = SHA256.get(installer, hashlib.sha256(installer.encode()).hexdigest())
    return {"kind": "efa", "installer": installer, "sha256": checksum, **parts, **other}


def write(
    folder: Path,
    stacks: dict[str, Row],
    *,
    fabric: Row | None = None,
    top: Row | None = None,
    train: str | None = None,
    without_packages: tuple[str, ...] = (),
) -> Project:
    """Write a checkout; `fabric` is there under the name `efa`."""
    images = folder / "images"
    for image in ("train", "llm"):
        shutil.copytree(IMAGES / image, images / image)
    if train is not None:
        (images / "train" / "requirements.in").write_text(train)
    lines = (IMAGES / "packages.txt").read_text().splitlines()
    (images / "packages.txt").write_text("\n".join(line for line in lines if line not in without_packages))
    (images / "locks").mkdir()
    data = {
        "schema": 1,
        "source": "https://git.example.org/harbour/ships",
        "licenses": "Apache-2.0",
        "images": {
            kind: {"title": kind, "description": kind, "size_budget_gb": 12.0} for kind in ("train", "llm")
        },
        "bases": BASES,
        "fabrics": {"distro": {"kind": "distro"}} | ({"efa": fabric} if fabric else {}),
        "stacks": stacks,
        **(top or {}),
    }
    (folder / "versions.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    return Project.find(folder)


def write_lock(project: Project, stack: str, body: str) -> str:
    """Give a stack a fresh lock with this body; returns its text."""
    head = [
        f"# Lock of stack {stack}",
        *(f"#: {line}" for line in lock._inputs(project, project.matrix.stack(stack))),
    ]
    text = "\n".join([*head, f"# body sha256:{hashlib.sha256(body.encode()).hexdigest()}", body])
    (project.locks / f"{stack}.txt").write_text(text)
    return text


def judge(project: Project, **options: Any) -> list[Finding]:
    """All findings without a package index: from the recorded releases."""
    return rules.of_project(project, options.pop("index", None), today=options.pop("today", TODAY), **options)


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity == "error"]


def cases(project: Project, catalog: Catalog | None = None) -> dict[str, rules.Case]:
    return {case.name: case for case in rules.cases(project, catalog or Catalog(None), today=TODAY)}

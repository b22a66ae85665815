"""A small project for tests: the real Dockerfiles and root file system, few packages, a matrix of its own."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from buildspec.project import Project

IMAGES = Path(__file__).resolve().parent.parent / "images"

VERSIONS = """\
schema: 1
source: https://git.example.org/harbour/ships
licenses: Apache-2.0

images:
  train:
    title: Small Train
    description: A small image for tests
    size_budget_gb: 0.5
  llm:
    title: Small LLM
    description: Another small image for tests
    size_budget_gb: 0.75

bases:
  tiny:
    suite: trixie
    bootstrap: mmdebstrap
  given:
    suite: trixie
    image: 127.0.0.1:5000/bases/tiny@sha256:1111111111111111111111111111111111111111111111111111111111111111

fabrics:
  distro:
    kind: distro

stacks:
  tug:
    image: train
    status: current
    support_end: 2027-11-30
    base: tiny
    fabric: distro
    python: &python "3.13.5"
    cuda: "13.2"
    torch: "2.15.0"
    nccl: "2.30.7"
    ray: &ray "2.60.0"

  barge:
    image: llm
    status: current
    support_end: 2027-11-30
    base: tiny
    fabric: distro
    python: *python
    cuda: "13.0"
    torch: "2.13.0"
    nccl: "2.29.7"
    ray: *ray
    vllm: "0.29.0"
    nixl: "1.3.2"

  raft:
    image: train
    status: maintenance
    support_end: 2027-05-31
    base: given
    fabric: distro
    python: *python
    cuda: "12.9"
    torch: "2.13.0"
    nccl: "2.29.7"
    ray: "2.58.1"
"""

# What the stacks' locks say that they were made from, worked out by hand.
INPUTS = {
    "tug": [
        "python 3.13.5",
        "platform x86_64-manylinux_2_40",
        "ray==2.60.0",
        "torch==2.15.0",
        "nvidia-nccl-cu13==2.30.7",
    ],
    "barge": [
        "python 3.13.5",
        "platform x86_64-manylinux_2_40",
        "ray[serve]==2.60.0",
        "vllm==0.29.0",
        "nixl-cu13==1.3.2",
        "torch==2.13.0",
        "nvidia-nccl-cu13==2.29.7",
        "without nixl-cu12",
    ],
    "raft": [
        "python 3.13.5",
        "platform x86_64-manylinux_2_40",
        "ray==2.58.1",
        "torch==2.13.0",
        "nvidia-nccl-cu12==2.29.7",
    ],
}
BODY = f"""\
Ray==2.60.0 \\
    --hash=sha256:{"a" * 64}
    # via -r -
nvidia-nccl-cu13==2.30.7 \\
    --hash=sha256:{"b" * 64} \\
    --hash=sha256:{"c" * 64}
torch[opt]==2.15.0+cu132 ; sys_platform == 'linux' \\
    --hash=sha256:{"d" * 64}
"""

PACKAGES = """\
# what the root file system's scripts call, and an interpreter
bash
ca-certificates
grep
openssh-client
openssh-server  # for MPI
python3
python3-venv
tini
"""

TRAIN = """\
# ray and torch have a receiver here; python, cuda and nccl become build arguments
ray=={ray}
torch=={torch}  # from the index
nvidia-nccl-cu{cuda_major}=={nccl}
"""

LLM = """\
ray[serve]=={ray}
vllm=={vllm}
nixl-cu{cuda_major}=={nixl}
torch=={torch}
nvidia-nccl-cu{cuda_major}=={nccl}
"""


def write_lock(project: Project, stack: str, body: str, *, inputs: list[str] | None = None) -> Path:
    """Write a lock as `drydock lock` would: its inputs, the checksum of its body, its body."""
    rows = INPUTS[stack] if inputs is None else inputs
    head = [
        f"# Lock of stack {stack}, made by `nox -s lock -- {stack}`. Its inputs:",
        *(f"#: {row}" for row in rows),
    ]
    file = project.root / "images" / "locks" / f"{stack}.txt"
    checksum = hashlib.sha256(body.encode()).hexdigest()
    file.write_text("\n".join([*head, f"# body sha256:{checksum}", body]), encoding="utf-8")
    return file


def write_project(
    folder: Path, *, versions: str = VERSIONS, train: str = TRAIN, llm: str = LLM, packages: str = PACKAGES
) -> Project:
    """Write a project into a new folder and read it."""
    images = folder / "images"
    for name in ("train", "llm", "locks"):
        (images / name).mkdir(parents=True)
    for file in [*IMAGES.glob("*Dockerfile"), IMAGES / "with-network"]:
        shutil.copy2(file, images)
    shutil.copytree(IMAGES / "rootfs", images / "rootfs")
    (images / "packages.txt").write_text(packages, encoding="utf-8")
    (images / "train" / "requirements.in").write_text(train, encoding="utf-8")
    (images / "llm" / "requirements.in").write_text(llm, encoding="utf-8")
    (images / "llm" / "exclude.txt").write_text("# both majors\nnixl-cu12\n", encoding="utf-8")
    (folder / "versions.yaml").write_text(versions, encoding="utf-8")
    return Project.find(folder)

"""Matrices that people really wrote or nearly wrote, each with the finding that it must get.

Every expectation was worked out by hand: from the METADATA of the wheels on the index (Requires-Dist, tags,
Requires-Python), from AWS' and NVIDIA's release notes, and from the issues that are named. `ray 2.55.1` and
`nixl 1.5.2` are history; most others are one slip away from a row that works.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.rules.checkout import LLM, SHA256, TRAIN, Row, efa, errors, judge, write, write_lock

FASTAPI = "fastapi==0.140.1\n    # via ray\nray==2.56.1\n"
MIXED = """\
nixl==1.3.2
    # via ray
nixl-cu12==1.3.2
    # via nixl
nixl-cu13==1.3.2
    # via
    #   nixl
    #   ray
ray==2.60.0
"""
CUPY = "cupy-cuda12x==13.6.0\n    # via optuna\noptuna==4.5.0\nray==2.60.0\n"
TWO_NCCL = (
    "nvidia-nccl-cu12==2.29.3\n    # via deepspeed\nnvidia-nccl-cu13==2.30.7\n    # via torch\ntorch==2.15.0\n"
)
LOCAL_BUILD = "flash-attn==2.8.3+cu12torch2.8\nray==2.60.0\ntorch==2.15.0+cu129\n"
P5 = {"instances": ["p5.48xlarge"]}


@dataclass(frozen=True)
class Wrong:
    """A wrong matrix, and the error that must be among its findings; texts are parts of the finding's."""

    name: str
    stacks: dict[str, Row]
    rule: str
    path: str
    pinned: str
    needed: str
    says: str
    nearest: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    lock: str = ""
    today: date = date(2026, 11, 30)


def one(**pins: Any) -> dict[str, Row]:
    return {"train-2.60": TRAIN | pins}


def serving(**pins: Any) -> dict[str, Row]:
    return {"llm-2.60": LLM | pins}


def with_efa(installer: str, *, stack: Row | None = None, **other: str) -> dict[str, Any]:
    return {"fabric": efa(installer, **other)}


WRONG = [
    # --- what versions.yaml says is not what the wheels bring
    Wrong(
        "nccl newer than torch pins",
        one(nccl="2.32.3"),
        "packages.requires",
        "stacks.train-2.60.nccl",
        "nvidia-nccl-cu13 2.32.3",
        "nvidia-nccl-cu13 ==2.30.7",
        "torch 2.15.0 (Requires-Dist: nvidia-nccl-cu13==2.30.7",
        ("nccl 2.30.7 (down)",),
    ),
    Wrong(
        "nccl of the torch before",
        one(nccl="2.29.7"),
        "packages.requires",
        "stacks.train-2.60.nccl",
        "nvidia-nccl-cu13 2.29.7",
        "==2.30.7",
        "torch 2.15.0",
        ("nccl 2.30.7 (up)", "torch 2.13.0 (down) with nccl 2.29.7"),
    ),
    Wrong(
        "vllm newer than ray[llm] pins",
        serving(vllm="0.33.0", torch="2.14.0"),
        "packages.requires",
        "stacks.llm-2.60.vllm",
        "vllm 0.33.0",
        "vllm ==0.29.0",
        'vllm[audio]==0.29.0; extra == "llm"',
        ("vllm 0.29.0 (down)",),
    ),
    Wrong(
        "torch newer than vllm pins",
        serving(torch="2.15.0", nccl="2.30.7", cuda="13.2"),
        "packages.requires",
        "stacks.llm-2.60.torch",
        "torch 2.15.0",
        "torch ==2.13.0",
        "vllm 0.29.0 (Requires-Dist: torch==2.13.0)",
        ("torch 2.13.0 (down)",),
    ),
    Wrong(
        "ray moved alone",
        {"llm-2.59": LLM | {"ray": "2.59.0"}},
        "packages.requires",
        "stacks.llm-2.59.vllm",
        "vllm 0.29.0",
        "vllm ==0.27.0",
        "ray 2.59.0",
        ("vllm 0.27.0 (down)", "ray 2.60.0 (up) with vllm 0.29.0"),
    ),
    Wrong(
        "nixl newer than ray[llm] pins",
        serving(nixl="1.5.1"),
        "packages.requires",
        "stacks.llm-2.60.nixl",
        "nixl-cu13 1.5.1",
        "nixl-cu13 ==1.3.2",
        "ray 2.60.0",
        ("nixl 1.3.2 (down)",),
    ),
    Wrong(
        "cuda of another torch",
        one(cuda="13.0"),
        "packages.requires",
        "stacks.train-2.60.cuda",
        "cuda-toolkit 13.0",
        "cuda-toolkit ==13.2.2",
        "torch 2.15.0",
        ("cuda 13.2 (up)",),
    ),
    Wrong(
        "the newest cuda for its own sake",
        one(cuda="13.5"),
        "packages.requires",
        "stacks.train-2.60.cuda",
        "cuda-toolkit 13.5",
        "cuda-toolkit ==13.2.2",
        "torch 2.15.0",
        ("cuda 13.2 (down)",),
    ),
    Wrong(
        "ray-llm 2.55.1-py312-cu130 (ray issue 63187): CUDA 12 wheels in a CUDA 13 image",
        {
            "llm-2.55": LLM
            | {"ray": "2.55.1", "vllm": "0.18.0", "torch": "2.10.0", "nccl": "2.28.9", "nixl": "1.0.0"}
        },
        "packages.cuda",
        "stacks.llm-2.55.cuda",
        "cuda 13.0",
        "cuda 12.8",
        "nvidia-cuda-runtime-cu12==12.8.90",
        ("cuda 12.8 (down)", "torch 2.11.0 (up) with cuda 13.0"),
    ),
    Wrong(
        "the other way round (ray issue 64484): cu130 torch in a cu128 image",
        one(cuda="12.8", torch="2.13.0", nccl="2.29.7"),
        "packages.nccl_twice",
        "stacks.train-2.60.nccl",
        "nvidia-nccl-cu12 2.29.7",
        "nvidia-nccl-cu13==2.29.7",
        "torch 2.13.0",
        ("torch 2.10.0 (down) with cuda 12.8",),
    ),
    # --- wheels for this Python, ABI, C library
    Wrong(
        "torch 2.15 has no cp310",
        one(base="ubuntu22", python="3.10.12"),
        "packages.wheel",
        "stacks.train-2.60.torch",
        "torch 2.15.0",
        "Python 3.10 on x86_64",
        "recorded",
        ("torch 2.14.1 (down)", "python 3.11 (up)"),
    ),
    Wrong(
        "vllm 0.20 needs glibc 2.35",
        {
            "llm-2.55": LLM
            | {
                "base": "debian11",
                "ray": "2.55.1",
                "vllm": "0.20.0",
                "torch": "2.11.0",
                "nccl": "2.28.9",
                "nixl": "1.0.0",
                "python": "3.11.2",
            }
        },
        "packages.wheel",
        "stacks.llm-2.55.vllm",
        "vllm 0.20.0",
        "glibc 2.31",
        "recorded",
        ("vllm 0.21.0 (up)",),
    ),
    Wrong(
        "torch 2.10 for aarch64 computes on CPUs",
        {"train-2.54": TRAIN | {"ray": "2.54.1", "torch": "2.10.0", "nccl": "2.27.5", "cuda": "12.8"}},
        "packages.cuda",
        "stacks.train-2.54.torch",
        "torch 2.10.0",
        "CUDA 12.8",
        "torch 2.10.0",
        options={"arch": "aarch64"},
    ),
    # --- the base's Python
    Wrong(
        "Python of another base",
        one(python="3.12.3"),
        "base.python",
        "stacks.train-2.60.python",
        "python 3.12.3",
        "python 3.13.5",
        "packages.debian.org",
        ("python 3.13.5 (up)", "Ubuntu 24.04, which has python 3.12.3"),
    ),
    Wrong(
        "a patch level that Debian does not have",
        one(python="3.13.12"),
        "base.python_patch",
        "stacks.train-2.60.python",
        "python 3.13.12",
        "python 3.13.5",
        "Debian",
        ("python 3.13.5 (down)",),
    ),
    # --- the EFA installer
    Wrong(
        "the plugin of another installer",
        one(fabric="efa"),
        "efa.carries",
        "fabrics.efa.aws_ofi_nccl",
        "aws-ofi-nccl 1.20.0",
        "aws-ofi-nccl 1.18.0",
        "efa-changelog",
        ("aws_ofi_nccl 1.18.0 (down)", "installer 1.49.0 (up) with aws_ofi_nccl 1.20.0"),
        options=with_efa("1.47.0", aws_ofi_nccl="1.20.0"),
    ),
    Wrong(
        "libfabric not moved with the installer",
        one(),
        "efa.carries",
        "fabrics.efa.libfabric",
        "libfabric 2.4.0amzn5.0",
        "libfabric 2.6.0amzn1.0",
        "efa-changelog",
        ("installer 1.49.0 (down) with libfabric 2.4.0amzn5.0",),
        options=with_efa("1.50.0", libfabric="2.4.0amzn5.0"),
    ),
    Wrong(
        "rdma-core that the notes do not mention",
        one(),
        "efa.carries",
        "fabrics.efa.rdma_core",
        "rdma-core 63.0",
        "rdma-core 61.0",
        "efa-changelog",
        ("installer 1.49.0 (up) with rdma_core 63.0",),
        options=with_efa("1.48.0", rdma_core="63.0"),
    ),
    Wrong(
        "an installer that was never released",
        one(),
        "efa.installer_exists",
        "fabrics.efa.installer",
        "EFA installer 1.45.2",
        "a release",
        "efa-changelog",
        ("installer 1.46.0 (up)", "installer 1.45.1 (down)"),
        options=with_efa("1.45.2"),
    ),
    Wrong(
        "an installer from before the plugin",
        one(),
        "efa.no_plugin",
        "fabrics.efa.installer",
        "EFA installer 1.37.0",
        "1.38.0 or later",
        "efa-changelog",
        ("installer 1.38.0 (up)",),
        options=with_efa("1.37.0", aws_ofi_nccl="1.13.2", libfabric="1.22.0amzn4.0", rdma_core="54.amzn0"),
    ),
    Wrong(
        "the checksum was not moved with the installer",
        one(),
        "efa.checksum",
        "fabrics.efa.sha256",
        "installer 1.50.0",
        "checksum",
        "efa-verify",
        options=with_efa("1.50.0", sha256=SHA256["1.49.0"]),
    ),
    Wrong(
        "Debian 13 with an installer from before it",
        one(fabric="efa", cuda="13.0", torch="2.13.0", nccl="2.29.7"),
        "efa.system",
        "fabrics.efa.installer",
        "EFA installer 1.45.1 on Debian 13",
        "from 1.46.0 on",
        "efa-changelog",
        ("installer 1.46.0 (up)",),
        options=with_efa("1.45.1"),
    ),
    Wrong(
        "Debian 12: libfabric, but no plugin package",
        one(fabric="efa", base="debian12", python="3.11.2"),
        "efa.system_plugin",
        "fabrics.efa.installer",
        "EFA installer 1.47.0 on Debian 12",
        "1.48.0 or later",
        "efa-changelog",
        ("installer 1.48.0 (up)",),
        options=with_efa("1.47.0"),
    ),
    Wrong(
        "Debian 11 was dropped",
        one(fabric="efa", base="debian11"),
        "efa.system",
        "fabrics.efa.installer",
        "EFA installer 1.51.0 on Debian 11",
        "before 1.51.0",
        "efa-changelog",
        ("installer 1.50.0 (down)",),
        options=with_efa("1.51.0"),
    ),
    Wrong(
        "a plugin's version that is none",
        one(),
        "efa.carries",
        "fabrics.efa.aws_ofi_nccl",
        "aws-ofi-nccl 1.21.x",
        "aws-ofi-nccl 1.21.1",
        "efa-changelog",
        ("aws_ofi_nccl 1.21.1",),
        options=with_efa("1.50.0", aws_ofi_nccl="1.21.x"),
    ),
    # --- bases
    Wrong(
        "NVIDIA's image as a base, and the installer takes it for NGC",
        one(fabric="efa", base="nvidia", python="3.12.3"),
        "efa.ngc",
        "bases.nvidia.image",
        "base nvcr.io/nvidia/cuda with EFA installer 1.50.0",
        "a base",
        "install_efa_amzn2023",
        ("installer 1.47.0 (down)",),
        options=with_efa("1.50.0"),
    ),
    Wrong(
        "the same from a mirror",
        one(fabric="efa", base="mirrored", python="3.12.3"),
        "efa.ngc",
        "bases.mirrored.image",
        "127.0.0.1:5000/mirror/nvidia/cuda:13.0 with",
        "a base",
        "install_efa_amzn2023",
        options=with_efa("1.48.0"),
    ),
    Wrong(
        "ray-ml as a base",
        one(base="ray-ml", python="3.10.12"),
        "base.image",
        "bases.ray-ml.image",
        "base rayproject/ray-ml",
        "nothing but the operating system",
        "issues/46378",
    ),
    Wrong(
        "NIXL built for the torch before (nixl issue 1798)",
        serving(nixl="1.3.0"),
        "nixl.torch_2_13",
        "stacks.llm-2.60.nixl",
        "nixl 1.3.0, torch 2.13.0",
        "nixl <1.3.1",
        "issues/1798",
        ("nixl 1.3.1 (up)",),
    ),
    # --- known to hang, crash, compute wrongly
    Wrong(
        "plugin 1.19.0 mixes up receives",
        one(fabric="efa"),
        "plugin.multi_receive",
        "fabrics.efa.aws_ofi_nccl",
        "plugin 1.19.0",
        "plugin <1.19.2,>=1.19.0",
        "aws-ofi-nccl/releases",
        ("plugin 1.19.2 (up)", "plugin 1.18.0 (down)"),
        options=with_efa("1.48.0"),
    ),
    Wrong(
        "NCCL 2.19 and an installer of 2023 (aws-ofi-nccl issue 584)",
        one(fabric="efa"),
        "nccl.memory_registration",
        "fabrics.efa.installer",
        "installer 1.28.0, nccl 2.30.7",
        "installer <1.29",
        "issues/584",
        ("installer 1.29.0 (up)",),
        options=with_efa("1.28.0"),
    ),
    Wrong(
        "a plugin built for CUDA 12 only",
        one(fabric="efa", base="ubuntu24", python="3.12.3"),
        "plugin.cuda13",
        "fabrics.efa.aws_ofi_nccl",
        "plugin 1.16.3",
        "plugin <1.17.1",
        "efa-changelog",
        ("plugin 1.17.1 (up)",),
        options=with_efa("1.43.2"),
    ),
    Wrong(
        "NCCL 2.28 and plugin 1.17.1",
        {
            "llm-2.58": LLM
            | {
                "fabric": "efa",
                "base": "ubuntu24",
                "python": "3.12.3",
                "ray": "2.58.1",
                "vllm": "0.26.0",
                "torch": "2.11.0",
                "nccl": "2.28.9",
                "nixl": "1.3.1",
            }
        },
        "nccl.init_failure_crash",
        "fabrics.efa.aws_ofi_nccl",
        "nccl 2.28.9, plugin 1.17.1",
        "plugin ==1.17.1",
        "efa-changelog",
        ("plugin 1.17.2 (up)", "plugin 1.16.3 (down)"),
        options=with_efa("1.44.0"),
    ),
    Wrong(
        "NCCL 2.29.2 hangs (pytorch pull 174338)",
        one(nccl="2.29.2"),
        "nccl.hang_2_29_2",
        "stacks.train-2.60.nccl",
        "nccl 2.29.2",
        "nccl ==2.29.2",
        "pull/174338",
        ("nccl 2.29.3 (up)", "nccl 2.28.9 (down)"),
    ),
    Wrong(
        "NCCL 2.28.7 hangs at scale",
        one(nccl="2.28.7"),
        "nccl.proxy_hang",
        "stacks.train-2.60.nccl",
        "nccl 2.28.7",
        "nccl",
        "NVIDIA/nccl",
        ("nccl 2.28.9 (up)", "nccl 2.27.7 (down)"),
    ),
    Wrong(
        "FastAPI's lock and an older Ray (ray issue 64939)",
        {"train-2.56": TRAIN | {"ray": "2.56.1"}},
        "ray.fastapi_lock",
        "stacks.train-2.56.ray",
        "ray 2.56.1, fastapi 0.140.1 (ray 2.56.1 → fastapi 0.140.1)",
        "fastapi >=0.139.2",
        "issues/64939",
        lock=FASTAPI,
    ),
    # --- hosts
    Wrong(
        "V100 and CUDA 13",
        one(instances=["p3dn.24xlarge"]),
        "instances.capability",
        "stacks.train-2.60.cuda",
        "cuda 13.2 on p3dn.24xlarge",
        "cuda >=9,<13",
        "nccl",
        ("cuda 12.9 (down)",),
    ),
    Wrong(
        "B300 and CUDA 12.8",
        {
            "train-2.54": TRAIN
            | {
                "ray": "2.54.1",
                "torch": "2.10.0",
                "nccl": "2.27.5",
                "cuda": "12.8",
                "fabric": "efa",
                "instances": ["p6-b300.48xlarge"],
            }
        },
        "instances.capability",
        "stacks.train-2.54.cuda",
        "cuda 12.8 on p6-b300.48xlarge",
        "cuda >=12.9",
        "nccl",
        ("cuda 12.9 (up)",),
        options=with_efa("1.50.0"),
    ),
    Wrong(
        "B300 and a plugin that does not know it",
        one(fabric="efa", instances=["p6-b300.48xlarge"]),
        "instances.plugin",
        "fabrics.efa.aws_ofi_nccl",
        "aws-ofi-nccl 1.17.2",
        ">=1.18.0",
        "efa.html",
        ("installer 1.47.0 (up)",),
        options=with_efa("1.46.0"),
    ),
    Wrong(
        "p5.4xlarge and plugin 1.16.1 (dstack issue 3069)",
        one(fabric="efa", base="ubuntu24", python="3.12.3", instances=["p5.4xlarge"]),
        "instances.plugin",
        "fabrics.efa.aws_ofi_nccl",
        "aws-ofi-nccl 1.16.1",
        ">=1.16.2",
        "efa.html",
        ("installer 1.43.1 (up)",),
        options=with_efa("1.43.0"),
    ),
    Wrong(
        "trains on p5 over TCP",
        one(**P5),
        "instances.fabric",
        "stacks.train-2.60.fabric",
        "fabric distro on p5.48xlarge",
        "an EFA fabric",
        "efa.html",
    ),
    Wrong(
        "an arm64 instance",
        one(fabric="efa", instances=["p6e-gb200.36xlarge"]),
        "instances.arch",
        "stacks.train-2.60.instances",
        "p6e-gb200.36xlarge (aarch64)",
        "x86_64",
        "efa.html",
        options=with_efa("1.50.0"),
    ),
    Wrong(
        "a mistyped instance",
        one(instances=["p5.48xlarg"]),
        "instances.exists",
        "stacks.train-2.60.instances",
        "p5.48xlarg",
        "a size of p5: 4xlarge, 48xlarge",
        "efa",
    ),
    Wrong(
        "Trainium",
        one(instances=["trn1.32xlarge"]),
        "instances.gpu",
        "stacks.train-2.60.instances",
        "trn1.32xlarge",
        "NVIDIA",
        "instancetypes",
    ),
    Wrong(
        "CUDA 13 on hosts with driver 570",
        one(driver="570.124.06"),
        "cuda.driver",
        "stacks.train-2.60.driver",
        "driver 570.124.06 with cuda 13.2",
        "driver >=580.65.06",
        "docs.nvidia.com",
        ("driver 580.65.6 (up)", "cuda 12.9 (down) with driver 570.124.06"),
    ),
    # --- clusters
    Wrong(
        "head and workers of different Python patch levels (ray issue 44063)",
        {"llm-2.60": LLM, "train-2.60": TRAIN | {"head": "llm-2.60", "python": "3.13.4"}},
        "clusters.same",
        "stacks.train-2.60.python",
        "python 3.13.4, its head llm-2.60 has 3.13.5",
        "python 3.13.5",
        "44063",
        ("python 3.13.5 (up)",),
    ),
    Wrong(
        "head and workers of different Ray (gpustack issue 2691)",
        {"llm-2.60": LLM, "train-2.59": TRAIN | {"head": "llm-2.60", "ray": "2.59.0"}},
        "clusters.same",
        "stacks.train-2.59.ray",
        "ray 2.59.0",
        "ray 2.60.0",
        "44063",
        ("ray 2.60.0 (up)",),
    ),
    Wrong(
        "no wget, and probes that call it (kuberay issue 2063)",
        one(kuberay="1.5.0"),
        "kuberay.tools",
        "stacks.train-2.60.kuberay",
        "an image without wget, kuberay 1.5.0",
        "wget in images/packages.txt",
        "issues/2063",
        ("kuberay 1.6.0 (up)",),
        options={"without_packages": ("wget",)},
    ),
    Wrong(
        "ray without its dashboard agent",
        one(),
        "kuberay.dashboard_agent",
        "stacks.train-2.60.ray",
        "ray[data,train] 2.60.0",
        "ray[default]",
        "kuberay",
        options={"train": "ray[train,data]=={ray}\ntorch=={torch}\nnvidia-nccl-cu{cuda_major}=={nccl}\n"},
    ),
    # --- names, time, ranges
    Wrong(
        "a name that promises another Ray",
        one(ray="2.58.1"),
        "stacks.name",
        "stacks.train-2.60.ray",
        "train-2.60: image train, ray 2.58.1",
        "ray 2.60.*",
        "versions.yaml",
    ),
    Wrong(
        "a stack past its support",
        one(),
        "support.ended",
        "stacks.train-2.60.support_end",
        "support end 2027-11-30",
        "retired",
        "versions.yaml",
        today=date(2027, 12, 1),
    ),
    Wrong(
        "a Python that nobody repairs",
        one(base="ubuntu22", python="3.10.12", torch="2.14.1"),
        "support.python",
        "stacks.train-2.60.python",
        "Python 3.10",
        "repaired",
        "devguide.python.org",
        ("python 3.12 (up)",),
    ),
    Wrong(
        "a pin outside its own range",
        one(ranges={"torch": ">=2.13,<2.15"}),
        "ranges.pin",
        "stacks.train-2.60.torch",
        "torch 2.15.0",
        "torch >=2.13,<2.15",
        "versions.yaml",
    ),
    # --- GIN
    Wrong(
        "GIN with the NCCL of torch 2.15",
        one(fabric="efa", features=["gin"]),
        "nccl.gin",
        "stacks.train-2.60.nccl",
        "nccl 2.30.7",
        "nccl >=2.31.2",
        "aws-ofi-nccl",
        ("nccl 2.31.2 (up)",),
        options=with_efa("1.50.0"),
    ),
    Wrong(
        "GIN without a plugin",
        one(features=["gin"]),
        "nccl.gin",
        "stacks.train-2.60.features",
        "gin with fabric distro",
        "aws-ofi-nccl 1.21.0",
        "aws-ofi-nccl",
    ),
    # --- locks
    Wrong(
        "nixl requires both of its variants",
        serving(),
        "cuda.one_major",
        "stacks.llm-2.60",
        "nixl-cu12 1.3.2 (CUDA 12)",
        "CUDA 13 only",
        "ray 2.60.0 → nixl 1.3.2 → nixl-cu12 1.3.2",
        ("nixl-cu13",),
        lock=MIXED,
    ),
    Wrong(
        "cupy-cuda12x in a CUDA 13 image (ray pull 62850)",
        one(),
        "cuda.one_major",
        "stacks.train-2.60",
        "cupy-cuda12x 13.6.0 (CUDA 12)",
        "CUDA 13 only",
        "optuna 4.5.0 → cupy-cuda12x 13.6.0",
        ("cupy-cuda13x",),
        lock=CUPY,
    ),
    Wrong(
        "two NCCLs (pytorch issue 186591)",
        one(),
        "cuda.one_major",
        "stacks.train-2.60",
        "nvidia-nccl-cu12 2.29.3 (CUDA 12)",
        "CUDA 13 only",
        "deepspeed → nvidia-nccl-cu12 2.29.3",
        ("nvidia-nccl-cu13",),
        lock=TWO_NCCL,
    ),
    Wrong(
        "a local build for another CUDA",
        one(),
        "cuda.one_major",
        "stacks.train-2.60",
        "torch 2.15.0+cu129 (CUDA 12)",
        "CUDA 13 only",
        "torch 2.15.0+cu129",
        lock=LOCAL_BUILD,
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_the_expected_error_is_among_the_findings(wrong: Wrong, tmp_path: Path) -> None:
    options = dict(wrong.options)
    arch = options.pop("arch", "x86_64")
    project = write(tmp_path / "checkout", wrong.stacks, **options)
    if wrong.lock:
        write_lock(project, next(iter(wrong.stacks)), wrong.lock)

    found = errors(judge(project, arch=arch, today=wrong.today))

    matching = [
        finding
        for finding in found
        if finding.rule == wrong.rule and ".".join(finding.path) == wrong.path and wrong.pinned in finding.pinned
    ]
    assert matching, [f"{finding.rule} {'.'.join(finding.path)}: {finding.pinned}" for finding in found]
    finding = matching[0]
    assert wrong.needed in finding.needed
    assert any(wrong.says in says for says in finding.says), finding.says
    assert set(wrong.nearest) <= set(finding.nearest), finding.nearest
    assert finding.reason
    assert finding.remedy


def test_there_are_enough_of_them() -> None:
    assert len(WRONG) >= 25
    assert len({wrong.name for wrong in WRONG}) == len(WRONG)


def test_all_violations_are_told_at_once(tmp_path: Path) -> None:
    """A stack moved to a new torch by hand, on a base and hosts that do not fit either."""
    stack = LLM | {"torch": "2.15.0", "python": "3.12.3", "driver": "570.26", "instances": ["p3.8xlarge"]}
    project = write(tmp_path / "checkout", {"llm-2.60": stack}, fabric=efa("1.50.0", rdma_core="63.0"))

    found = errors(judge(project))

    assert {(finding.rule, finding.path[-1]) for finding in found} == {
        ("packages.requires", "torch"),
        ("packages.requires", "cuda"),
        ("packages.requires", "nccl"),
        ("nixl.torch_2_14", "nixl"),
        ("base.python", "python"),
        ("cuda.driver", "driver"),
        ("instances.capability", "cuda"),
        ("efa.carries", "rdma_core"),
    }

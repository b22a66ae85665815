"""What programs and libraries in the image say of themselves when they run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from validate.bench import Bench
from validate.lab import Ran

# Prints one JSON object. NCCL is asked through the library that importing torch really mapped.
TORCH = """
import ctypes, json, resource, sys, time
begun = time.time()
import torch
mapped = sorted({line.split()[-1] for line in open('/proc/self/maps') if 'libnccl.so' in line})
said = {'torch': torch.__version__, 'cuda': torch.version.cuda, 'nccl': mapped, 'nccl_version': None}
said['torch_file'] = torch.__file__
if mapped:
    number = ctypes.c_int()
    ctypes.CDLL(mapped[0]).ncclGetVersion(ctypes.byref(number))
    n = number.value
    said['nccl_version'] = f'{n // 10000}.{n % 10000 // 100}.{n % 100}' if n >= 20900 else str(n)
said['python'] = sys.version.split()[0]
said['seconds'] = round(time.time() - begun, 1)
said['mebibytes'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps(said))
"""

# What each kind of image promises to be importable, without a GPU.
PROMISED: Mapping[str, tuple[str, ...]] = {
    "train": (
        "ray.train.torch", "ray.tune", "ray.data", "transformers", "datasets", "accelerate", "peft", "trl",
        "evaluate", "lightning", "torchvision", "torchmetrics", "deepspeed", "boto3", "s3fs",
    ),
    "llm": ("vllm", "ray.serve.llm", "nixl", "nixl._api", "boto3"),
}  # fmt: skip
IMPORTS = """
import importlib, json, sys, time, traceback
said = {}
for name in sys.argv[1:]:
    begun = time.time()
    try:
        module = importlib.import_module(name)
        problem, version = None, getattr(module, '__version__', None)
    except BaseException as error:
        version, problem = None, ''.join(traceback.format_exception_only(type(error), error)).strip()[-600:]
    seconds = round(time.time() - begun, 1)
    said[name] = {'problem': problem, 'version': version and str(version), 'seconds': seconds}
print('\\n' + json.dumps(said))
"""


@dataclass(frozen=True, slots=True)
class Torch:
    """What `import torch` showed; `problem` when it failed."""

    problem: str | None
    torch: str = ""
    cuda: str | None = None
    nccl: tuple[str, ...] = ()
    nccl_version: str | None = None
    python: str = ""
    seconds: float = 0.0
    mebibytes: int = 0


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one import."""

    problem: str | None
    seconds: float
    version: str | None = None


def _python(bench: Bench, program: str, *arguments: str, seconds: int = 120) -> Ran:
    command = shlex.join(["python", "-c", program, *arguments])
    return bench.lab.sh(bench.lab.main, command, seconds)


def _last_json(ran: Ran) -> dict[str, Any] | None:
    """The JSON object on the last line; libraries print what they like before it."""
    for line in reversed(ran.out.strip().splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def torch(bench: Bench) -> Torch:
    """Experiment: import torch, and ask it, and the NCCL that it mapped, for their versions."""
    ran = _python(bench, TORCH)
    said = _last_json(ran)
    if ran.code or said is None:
        return Torch(problem=f"`import torch` {ran.ending}: {ran.said}")
    return Torch(
        problem=None,
        torch=said["torch"],
        cuda=said["cuda"],
        nccl=tuple(said["nccl"]),
        nccl_version=said["nccl_version"],
        python=said["python"],
        seconds=said["seconds"],
        mebibytes=said["mebibytes"],
    )


def imports(bench: Bench) -> Mapping[str, Imported]:
    """Experiment: import what the kind of image promises, in one process, in this order."""
    names = PROMISED[bench.claims.image or ""]
    ran = _python(bench, IMPORTS, *names, seconds=240)
    said = _last_json(ran) or {}
    died = f"the process {ran.ending} before this import was done: {ran.said}"
    return {
        name: Imported(row["problem"], row["seconds"], row["version"])
        if (row := said.get(name))
        else Imported(died, 0.0)
        for name in names
    }


def fi_info_list(bench: Bench) -> Ran:
    """Experiment: the providers that libfabric was built with or finds, whether or not a device is there."""
    return bench.lab.sh(bench.lab.main, "fi_info -l")


def python_version(bench: Bench) -> Ran:
    """Experiment: `python --version`."""
    return bench.lab.sh(bench.lab.main, "python --version")

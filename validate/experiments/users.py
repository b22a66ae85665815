"""The image under other users and limits than root's: an arbitrary user id, a read-only root filesystem."""

from __future__ import annotations

import time
from dataclasses import dataclass

from validate.bench import Bench
from validate.experiments.ray_head import IMPATIENT
from validate.lab import Ran

# A user id that no image has, with group 0: what OpenShift gives a container.
ARBITRARY = "12345:0"
# Where libraries keep what they download or compile, if the variable is set.
CACHE_VARIABLES = (
    "HF_HOME", "HF_HUB_CACHE", "TRANSFORMERS_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TRITON_CACHE_DIR",
    "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "NUMBA_CACHE_DIR",
    "MPLCONFIGDIR", "FLASHINFER_WORKSPACE_BASE", "OUTLINES_CACHE_DIR", "TMPDIR",
)  # fmt: skip
# Writes below HOME, below ~/.cache and ~/.config, and below each cache folder that ENV names.
TRY_WRITING = r"""
try() { d=$1; while [ ! -e "$d" ] && [ "$d" != / ]; do d=$(dirname "$d"); done
  if [ -d "$d" ] && t=$(mktemp "$d/.drydock-XXXXXX" 2>/dev/null); then rm -f "$t"; echo "ok|$2|$1"
  else echo "no|$2|$1|$(ls -ld "$d" 2>&1)"; fi; }
try /tmp /tmp; try /dev/shm /dev/shm
try "${HOME:-/}" HOME; try "${HOME:-/}/.cache" "~/.cache"; try "${HOME:-/}/.config" "~/.config"
for v in VARIABLES; do eval "p=\${$v:-}"; [ -z "$p" ] || try "$p" "$v"; done
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that libraries write to: what names it, and how it looks where it can't be written."""

    name: str
    path: str
    writable: bool
    listing: str


def writable_places(bench: Bench) -> tuple[tuple[Place, ...], Ran]:
    """Experiment: which of HOME and the cache folders an arbitrary user id can write to."""
    program = TRY_WRITING.replace("VARIABLES", " ".join(CACHE_VARIABLES))
    ran = bench.lab.once(["/bin/sh", "-c", program], user=ARBITRARY, seconds=30)
    places = []
    for line in ran.out.splitlines():
        fields = line.split("|", 3)
        if len(fields) >= 3:
            places.append(Place(fields[1], fields[2], fields[0] == "ok", fields[3] if len(fields) > 3 else ""))
    return tuple(places), ran


IMPORT_AND_START = (
    "unset HOME; set -e; python -c 'import torch, ray' ; "
    "ray start --head --num-cpus=1 --include-dashboard=false --disable-usage-stats "
    "--object-store-memory=100000000; "
    "ray status; ray stop --force"
)


def arbitrary_user(bench: Bench) -> Ran:
    """Experiment: import and start Ray as an arbitrary user, root filesystem read-only, HOME unset."""
    ran = _arbitrary_user(bench)
    return _arbitrary_user(bench) if ran.code and IMPATIENT in ran.out + ran.err else ran


def _arbitrary_user(bench: Bench) -> Ran:
    return bench.lab.once(
        ["/bin/bash", "-c", "--", IMPORT_AND_START],
        user=ARBITRARY, read_only=True, tmpfs={"/tmp": "size=1g,mode=1777"},  # noqa: S108 - in the container
        cap_drop=["ALL"], security_opt=["no-new-privileges"], shm_size="1g", seconds=150,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """How the image's own entrypoint behaves: with a command, and when it is stopped."""

    with_command: Ran
    stopped_after: float
    stop_code: int


MARK = "drydock-saw-its-command"


def entrypoint(bench: Bench) -> Entry:
    """Experiment: the entrypoint runs its arguments, and hands a stop signal on."""
    lab = bench.lab
    with_command = lab.once_as_built(["/bin/sh", "-c", f"echo {MARK}; exit 7"], seconds=60)
    # The signal may come only once the command runs: before, even a good entrypoint has nobody to tell.
    program = f"trap 'exit 0' TERM; echo {MARK}; while :; do sleep 0.2; done"
    container = lab.create_as_built(["/bin/sh", "-c", program])
    container.start()
    deadline = time.monotonic() + 30
    while MARK.encode() not in container.logs() and time.monotonic() < deadline:
        time.sleep(0.1)
    begun = time.monotonic()
    container.stop(timeout=10)
    took = time.monotonic() - begun
    code = int(container.wait()["StatusCode"])
    container.remove(force=True)
    return Entry(with_command, took, code)


# wait-for-tls-ip-san of KubeRay runs `sh -c` with these, within 64 MiB.
TLS_TOOLS = (
    "set -e; cd /tmp; openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -days 1 "
    "-subj /CN=drydock -addext \"subjectAltName=IP:$(hostname -i | awk '{print $1}')\" 2>/dev/null; "
    "openssl x509 -in c.pem -noout -text | grep -A1 'Subject Alternative Name' | grep -q 'IP Address'; echo ready"
)


def tls_init_container(bench: Bench) -> Ran:
    """Experiment: the tools of KubeRay's TLS init container, within its memory."""
    return bench.lab.once(
        ["/bin/sh", "-c", TLS_TOOLS], mem_limit="64m", memswap_limit="64m", network=bench.lab.network, seconds=60
    )

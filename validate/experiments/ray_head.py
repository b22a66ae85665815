"""A Ray head started as KubeRay starts it, and everything that KubeRay then asks of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from validate.bench import Bench
from validate.experiments.jobs import Job, run_on
from validate.lab import Ran

MEMORY = 4 << 30
# ray-operator/controllers/ray/common/pod.go: the entrypoint is replaced by bash, the command is one string.
START = (
    "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; ray start --head --dashboard-host=0.0.0.0 "
    "--metrics-export-port=8080 --block --dashboard-agent-listen-port=52365 "
    f"--memory={MEMORY} --num-cpus=2"
)
# What KubeRay injects (KUBERAY contract); RAY_ADDRESS is 127.0.0.1:6379 on the head.
INJECTED = {
    "RAY_CLUSTER_NAME": "drydock",
    "RAY_CLUSTER_NAMESPACE": "default",
    "RAY_CLOUD_INSTANCE_ID": "drydock-head",
    "RAY_NODE_TYPE_NAME": "headgroup",
    "RAY_PORT": "6379",
    "RAY_ADDRESS": "127.0.0.1:6379",
    "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
    "KUBERAY_GEN_RAY_START_CMD": START,
}
# Asks by bash alone, so that a missing wget is found by its own check and not here.
HTTP_GET = (
    "for i in $(seq {tries}); do "
    'r=$( (exec 3<>/dev/tcp/127.0.0.1/{port} && printf "GET {path} HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n" >&3 '
    "&& cat <&3) 2>/dev/null); "
    'case "$r" in *" 200 "*) printf "%s" "$r" | tail -n {lines}; exit 0;; esac; sleep 0.5; done; '
    'printf "%s" "$r" | tail -n 5; exit 1'
)
OLD_PROBES = {
    "raylet": "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success",
    "gcs": "wget --tries 1 -T 2 -q -O- http://localhost:8265/api/gcs_healthz | grep success",
}


def http_get(port: int, path: str, *, tries: int = 1, lines: int = 5) -> str:
    """A bash program that asks once a half second until the answer is 200, and prints its last lines."""
    return HTTP_GET.format(port=port, path=path, tries=tries, lines=lines)


@dataclass(frozen=True, slots=True)
class Head:
    """What a head answered. `log` holds the last lines of its own output."""

    healthz: Ran
    status: Ran
    probes: Mapping[str, Ran]
    metrics: Ran
    init_container: Ran
    jobs: Mapping[str, Job]
    log: str


# Ray gives its own node 30 s, which no variable changes; on a machine with much else to do that is too little,
# and says nothing of the image.
IMPATIENT = "The current node timed out during startup"


def head(bench: Bench) -> Head:
    """Experiment: start a head with the entrypoint bypassed; ask it what KubeRay asks it."""
    seen = _head(bench)
    return _head(bench) if seen.healthz.code and IMPATIENT in seen.log else seen


def _head(bench: Bench) -> Head:
    lab = bench.lab
    options = {
        "environment": INJECTED,
        "mem_limit": MEMORY,
        "shm_size": "2g",
        "network": lab.network,
        "hostname": "drydock-head",
    }
    with lab.container(["/bin/bash", "-c", "--", START], **options) as container:

        def bash(command: str, seconds: int = 60) -> Ran:
            return lab.exec(container, ["/bin/bash", "-c", "--", command], seconds)

        healthz = bash(http_get(52365, "/api/healthz", tries=160), 120)
        if healthz.code:
            log = container.logs(tail=25).decode("utf-8", "replace")
            return Head(healthz, healthz, dict.fromkeys(OLD_PROBES, healthz), healthz, healthz, {}, log)
        container.reload()
        address = container.attrs["NetworkSettings"]["Networks"][lab.network]["IPAddress"]
        return Head(
            healthz=healthz,
            status=bash("ray status"),
            probes={name: bash(command) for name, command in OLD_PROBES.items()},
            metrics=bash(http_get(8080, "/metrics", tries=20, lines=100000)),
            # wait-gcs-ready: what KubeRay runs in every worker pod before the worker, with these limits.
            init_container=lab.once(
                ["/bin/bash", "-c", "--", f"ray health-check --address {address}:6379"],
                seconds=90, mem_limit="256m", memswap_limit="256m", nano_cpus=200_000_000, network=lab.network,
            ),
            jobs=run_on(bench.claims.image or "", bash),
            log="",
        )  # fmt: skip

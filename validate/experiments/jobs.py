"""Tiny real jobs: what Ray's libraries, vLLM's app builder and NIXL promise, kept on CPU in one container."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from validate.bench import Bench
from validate.lab import Ran

# Each job is a function of this program; it prints one JSON line for each, and goes on after one that failed.
PROGRAM = r"""
import json, sys, time, traceback

def data():
    import ray
    total = ray.data.range(1000).map_batches(lambda b: {"id": b["id"] * 2}).sum("id")
    assert total == 999000, total

def tune():
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler
    def trial(config):
        for step in range(3):
            tune.report({"loss": (config["x"] - 2) ** 2 + 1 / (step + 1)})
    space = {"x": tune.grid_search([0, 2])}
    config = tune.TuneConfig(metric="loss", mode="min", scheduler=ASHAScheduler(max_t=3, grace_period=1))
    best = tune.Tuner(tune.with_resources(trial, {"cpu": 0.5}), param_space=space, tune_config=config).fit()
    assert best.get_best_result().config["x"] == 2

def train():
    import torch
    from ray.train import ScalingConfig, report
    from ray.train.torch import TorchConfig, TorchTrainer
    def worker(config):
        import torch.distributed as dist
        value = torch.ones(1) * (dist.get_rank() + 1)
        dist.all_reduce(value)
        assert value.item() == 3.0, value
        report({"sum": value.item()})
    scaling = ScalingConfig(num_workers=2, use_gpu=False, resources_per_worker={"CPU": 0.5})
    TorchTrainer(worker, scaling_config=scaling, torch_config=TorchConfig(backend="gloo")).fit()

def serve():
    import urllib.request
    from ray import serve
    @serve.deployment(ray_actor_options={"num_cpus": 0.2})
    class Echo:
        def __call__(self, request):
            return request.query_params["say"]
    serve.run(Echo.bind())
    body = urllib.request.urlopen("http://127.0.0.1:8000/?say=drydock", timeout=30).read().decode()
    assert body == "drydock", body
    serve.shutdown()

def env_vars():
    import os, ray
    @ray.remote(num_cpus=0.1, runtime_env={"env_vars": {"DRYDOCK_SAYS": "yes"}})
    def look():
        return os.environ.get("DRYDOCK_SAYS")
    assert ray.get(look.remote()) == "yes"
    assert "DRYDOCK_SAYS" not in os.environ

for name in sys.argv[1:]:
    begun = time.time()
    try:
        globals()[name]()
        problem = None
    except BaseException as error:
        problem = "".join(traceback.format_exception_only(type(error), error)).strip()[-800:]
    print("DRYDOCK " + json.dumps([name, problem, round(time.time() - begun, 1)]), flush=True)
"""
MARK = "DRYDOCK "
BY_IMAGE: Mapping[str, tuple[str, ...]] = {
    "train": ("env_vars", "data", "tune", "train"),
    "llm": ("env_vars", "data", "serve"),
}


@dataclass(frozen=True, slots=True)
class Job:
    """What became of one job; `problem` is its last error line."""

    problem: str | None
    seconds: float


def run_on(kind: str, execute: Callable[[str, int], Ran]) -> Mapping[str, Job]:
    """Run the jobs of an image kind on a running head, by `execute(command, seconds)`."""
    names = BY_IMAGE.get(kind, ())
    ran = execute(shlex.join(["python", "-c", PROGRAM, *names]), 180)
    seen: dict[str, Job] = {}
    for line in ran.out.splitlines():
        if line.startswith(MARK):
            name, problem, seconds = json.loads(line.removeprefix(MARK))
            seen[name] = Job(problem, seconds)
    for name in names:
        seen.setdefault(name, Job(f"the process {ran.ending} before this job was done: {ran.said[-600:]}", 0.0))
    return seen


# NIXL 1.3.2 crashes (signal 11) when an agent is taken down on a host without a GPU, also in good images; what
# is asked here is that it starts, so the process ends without taking it down.
NIXL = """
import os
from nixl._api import nixl_agent, nixl_agent_config
agent = nixl_agent("drydock", nixl_agent_config(backends=["UCX"]))
print("PLUGINS " + " ".join(agent.get_plugin_list()), flush=True)
os._exit(0)
"""
APP = """
from ray.serve.llm import LLMConfig, build_openai_app
model = {"model_id": "tiny", "model_source": "/nowhere"}
app = build_openai_app({"llm_configs": [LLMConfig(model_loading_config=model)]})
print("BUILT " + type(app).__name__)
"""


def nixl_agent(bench: Bench) -> Ran:
    """Experiment: a NIXL agent with the UCX backend, without a GPU."""
    return bench.lab.sh(bench.lab.main, shlex.join(["python", "-c", NIXL]), 90)


def llm_app(bench: Bench) -> Ran:
    """Experiment: ray.serve.llm builds the application of one model from its configuration."""
    return bench.lab.sh(bench.lab.main, shlex.join(["python", "-c", APP]), 180)


AUTOSCALER = (
    "import ray.autoscaler._private.kuberay.run_autoscaler as a, resource; "
    "print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, a.__name__)"
)


def autoscaler(bench: Bench) -> Ran:
    """Experiment: KubeRay's autoscaler sidecar loads within its limits; what it then needs is a cluster."""
    return bench.lab.once(
        ["python", "-c", AUTOSCALER], seconds=90, mem_limit="512m", memswap_limit="512m", nano_cpus=500_000_000
    )


# State 0A is LISTEN; the address is hexadecimal. The loopback is nobody's way in.
LISTENERS = (
    "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | "
    'while read -r n local remote state rest; do [ "$state" = 0A ] && echo "$local"; done; true'
)


def listeners(bench: Bench) -> Ran:
    """Experiment: what listens in a container of the image's own entrypoint, a while after its start."""
    return bench.lab.once_as_built(["/bin/sh", "-c", f"sleep 2; {LISTENERS}"], seconds=60)

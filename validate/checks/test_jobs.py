"""Jobs: Ray's libraries, the LLM application builder and NIXL do tiny real work on CPU."""

from __future__ import annotations

from validate.bench import Bench
from validate.catalogue import CLAIMS_STACK, Rule, check, claims_image, claims_pin
from validate.experiments import jobs, ray_head
from validate.lab import Ran
from validate.outcome import BlockedError, CheckFailedError, Level
from validate.plugin import Said

RAY = claims_pin("ray")
RAY_DOCS = "Ray documentation; a library that imports may still fail at work"


def _job(bench: Bench, said: Said, name: str, what: str) -> None:
    seen = bench.seen(ray_head.head)
    if seen.healthz.code:
        raise BlockedError("a healthy head to run the job on is missing: see kuberay.head")
    job = seen.jobs[name]
    if job.problem:
        lines = job.problem.splitlines()
        raise CheckFailedError(f"{what} failed: {lines[-1]}", lines)
    said.because(f"{what}: done in {job.seconds} s")


@check(
    "jobs.env_vars",
    level=Level.CONTAINER,
    applies=RAY & Rule("run Ray jobs (train, llm)", lambda claims: claims.image in jobs.BY_IMAGE),
    needs=(ray_head.head,),
    proves="a task gets the env_vars of its runtime_env, and fractional CPUs schedule",
    remedy="install ray[default]: its agent makes runtime environments",
    source=RAY_DOCS,
)
def test_env_vars(bench: Bench, said: Said) -> None:
    _job(bench, said, "env_vars", "a task with env_vars on a tenth of a CPU")


@check(
    "jobs.data",
    level=Level.CONTAINER,
    applies=RAY & Rule("run Ray jobs (train, llm)", lambda claims: claims.image in jobs.BY_IMAGE),
    needs=(ray_head.head,),
    proves="Ray Data maps and sums a small dataset",
    remedy="install ray[data]; pyarrow and pandas must be of versions that it takes",
    source=RAY_DOCS,
)
def test_data(bench: Bench, said: Said) -> None:
    _job(bench, said, "data", "a map and a sum with Ray Data")


@check(
    "jobs.tune",
    level=Level.CONTAINER,
    applies=RAY & claims_image("train"),
    needs=(ray_head.head,),
    proves="Ray Tune finds the better of two trials, with ASHA",
    remedy="install ray[tune]",
    source=RAY_DOCS,
)
def test_tune(bench: Bench, said: Said) -> None:
    _job(bench, said, "tune", "two trials with Ray Tune and ASHA")


@check(
    "jobs.train",
    level=Level.CONTAINER,
    applies=RAY & claims_image("train"),
    needs=(ray_head.head,),
    proves="Ray Train runs an all-reduce over gloo on two workers",
    remedy="install ray[train]; look for a variable that names an interface or a backend",
    source=RAY_DOCS,
)
def test_train(bench: Bench, said: Said) -> None:
    _job(bench, said, "train", "an all-reduce of two workers with Ray Train")


@check(
    "jobs.serve",
    level=Level.CONTAINER,
    applies=RAY & claims_image("llm"),
    needs=(ray_head.head,),
    proves="Ray Serve deploys an application and answers over HTTP",
    remedy="install ray[serve]; fastapi and starlette must be of versions that it takes",
    source="aws/deep-learning-containers, ray_llm/pyproject.toml: a newer fastapi broke Serve's ingress",
)
def test_serve(bench: Bench, said: Said) -> None:
    _job(bench, said, "serve", "an HTTP request to a Ray Serve application")


def _said(ran: Ran, mark: str, what: str) -> str:
    line = next((line for line in ran.out.splitlines() if line.startswith(mark)), None)
    if ran.code or line is None:
        raise CheckFailedError(
            f"{what} {ran.ending}: {(ran.said.splitlines() or [''])[-1]}", ran.said.splitlines()
        )
    return line.removeprefix(mark).strip()


@check(
    "jobs.llm_app",
    level=Level.CONTAINER,
    applies=RAY & claims_image("llm"),
    needs=(jobs.llm_app,),
    proves="ray.serve.llm builds its application from a model's configuration",
    remedy="install the vllm that this ray[llm] pins",
    source="ray-project/ray#63187: `Neither vLLM nor SGLang is installed`",
)
def test_llm_app(bench: Bench, said: Said) -> None:
    ran = bench.seen(jobs.llm_app)
    said.because(f"{_said(ran, 'BUILT ', 'build_openai_app')} built in {ran.seconds:.0f} s")


@check(
    "jobs.nixl_agent",
    level=Level.CONTAINER,
    applies=claims_pin("nixl"),
    needs=(jobs.nixl_agent,),
    proves="a NIXL agent starts with the UCX backend and finds its plugins",
    remedy="reinstall the NIXL of the image's CUDA major alone",
    source="aws/deep-learning-containers: nixl-cu12 wrote over nixl-cu13",
)
def test_nixl_agent(bench: Bench, said: Said) -> None:
    plugins = _said(bench.seen(jobs.nixl_agent), "PLUGINS ", "a NIXL agent with UCX").split()
    for name in ("UCX", "LIBFABRIC"):
        if name not in plugins:
            raise CheckFailedError(f"NIXL finds no {name} plugin; it finds {', '.join(plugins)}")
    said.because(f"agent started with UCX; plugins: {', '.join(plugins)}")


@check(
    "kuberay.autoscaler",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(jobs.autoscaler,),
    proves="KubeRay's autoscaler sidecar loads within 512 MiB and 0.5 CPU",
    remedy="keep what the autoscaler imports small",
    source="kuberay, ray-operator/controllers/ray/common/pod.go: the sidecar's limits",
)
def test_autoscaler(bench: Bench, said: Said) -> None:
    ran = bench.seen(jobs.autoscaler)
    peak = _said(ran, "PEAK ", "the autoscaler within 512 MiB").split()[0]
    said.because(f"loaded with {peak} MiB")


@check(
    "security.no_listener",
    level=Level.CONTAINER,
    applies=CLAIMS_STACK & Rule("claim a kind", lambda claims: claims.image is not None),
    needs=(jobs.listeners,),
    proves="nothing listens in a container that was not told to",
    remedy="start servers, sshd too, only when a variable or a command asks for them",
    source="CIS Docker benchmark 5.6: no sshd in containers",
)
def test_no_listener(bench: Bench, said: Said) -> None:
    ran = bench.seen(jobs.listeners)
    if ran.code:
        raise CheckFailedError(f"the container that was to be looked at {ran.ending}", ran.said.splitlines())
    ports = sorted(
        {int(line.rpartition(":")[2], 16) for line in ran.out.split() if not line.startswith("0100007F")}
    )
    if ports:
        raise CheckFailedError(f"after its start the container listens on port {', '.join(map(str, ports))}")
    said.because("no port is open")

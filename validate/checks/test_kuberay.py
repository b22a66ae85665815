"""KubeRay: what the operator does with an image, done to it as the operator does it."""

from __future__ import annotations

from validate.bench import Bench
from validate.catalogue import check, claims_pin
from validate.claims import Claims
from validate.experiments import ray_head, shells, users
from validate.facts import Facts
from validate.lab import Ran
from validate.outcome import BlockedError, CheckFailedError, Level
from validate.pins import Observation
from validate.plugin import Said

RAY = claims_pin("ray")
# Program to what of KubeRay needs it.
TOOLS = {
    "bash": "every container is started by /bin/bash -c",
    "wget": "the probes of a RayService and of every cluster before Ray 2.53 run wget",
    "grep": "the probes pipe wget into grep",
    "openssl": "the TLS init container makes its certificate with openssl",
    "awk": "the TLS init container reads the address with awk",
    "hostname": "the TLS init container asks `hostname -i`",
}
POD = "kuberay, ray-operator/controllers/ray/common/pod.go"


@check(
    "kuberay.tools",
    level=Level.STATIC,
    applies=RAY,
    proves="the programs that the operator runs inside the image are there",
    remedy="install the missing package",
    source="ray-project/kuberay#2063; " + POD,
)
def test_tools(facts: Facts, said: Said) -> None:
    missing = [
        f"KubeRay needs {name}, which is not in the image: {why}"
        for name, why in TOOLS.items()
        if name not in facts.executables
    ]
    if missing:
        raise CheckFailedError(missing[0], missing)
    said.because(f"{', '.join(TOOLS)} are there")


def _works(ran: Ran, what: str, why: str) -> None:
    if ran.code:
        raise CheckFailedError(f"{what} {ran.ending}: {why}", ran.said.splitlines())


@check(
    "kuberay.ray_on_path",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(shells.ray_by_each_way,),
    proves="`ray` is found by exec and by `bash -c`, with the entrypoint bypassed",
    remedy="put the environment's bin folder on PATH by ENV, not by the entrypoint",
    source=POD,
)
def test_ray_on_path(bench: Bench, claims: Claims, said: Said) -> None:
    seen = bench.seen(shells.ray_by_each_way)
    for way in ("exec", "bash -c"):
        _works(seen[way], f"`ray --version` by {way}", "KubeRay starts Ray so, without the entrypoint")
        if claims.pins["ray"] not in seen[way].out:
            raise CheckFailedError(
                f"`ray --version` by {way}: declared {claims.pins['ray']}, observed {seen[way].out.strip()}"
            )
    observed = seen["exec"].out.strip().rpartition(" ")[2]
    said.line(str(Observation("ray", claims.pins["ray"], observed, "ray --version")))
    said.because(f"ray {observed} by exec and by bash -c")


@check(
    "kuberay.login_shell",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(shells.ray_by_each_way, shells.shells),
    proves="`bash -lc` finds the same `ray`",
    remedy="put PATH into a file in /etc/profile.d: Debian's /etc/profile resets it",
    source=POD + ": ENABLE_LOGIN_SHELL, and every older release",
)
def test_login_shell(bench: Bench, said: Said) -> None:
    ran = bench.seen(shells.ray_by_each_way)["bash -lc"]
    path = bench.seen(shells.shells).variables["bash -lc"].get("PATH", "")
    said.line(f"PATH in a login shell: {path}")
    _works(ran, "`bash -lc` does not find ray: `ray --version`", f"a login shell has PATH={path}")
    said.because(ran.out.strip())


@check(
    "shell.login_environment",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(shells.shells,),
    proves="a login shell keeps the variables of ENV",
    remedy="set them again in /etc/profile.d",
    source=POD,
)
def test_login_environment(bench: Bench, said: Said) -> None:
    seen = bench.seen(shells.shells)
    if "bash -lc" in seen.problems:
        raise CheckFailedError(seen.problems["bash -lc"])
    login = seen.variables["bash -lc"]
    lost = [
        f"{name} is {value!r} by ENV and {login.get(name)!r} in a login shell"
        for name, value in bench.config.environment.items()
        if name != "PATH" and login.get(name) != value
    ]
    folders = [
        f for f in bench.config.environment.get("PATH", "").split(":") if f not in login.get("PATH", "").split(":")
    ]
    lost += [f"{folder} is on PATH by ENV and not in a login shell" for folder in folders]
    if lost:
        raise CheckFailedError(lost[0], lost)
    said.because(f"{len(bench.config.environment)} variables are the same in a login shell")


@check(
    "kuberay.head",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(ray_head.head,),
    proves="a head started as KubeRay starts it is healthy on CPU: GET /api/healthz on 52365 answers",
    remedy="look at the head's log below; ray[default] brings the dashboard agent that answers",
    source=POD + "; the probe of Ray 2.53 and later",
)
def test_head(bench: Bench, said: Said) -> None:
    seen = bench.seen(ray_head.head)
    if seen.healthz.code:
        raise CheckFailedError(
            f"a Ray head is not healthy: GET /api/healthz on port 52365 gave no 200 "
            f"in {seen.healthz.seconds:.0f} s",
            [*seen.healthz.said.splitlines(), *seen.log.splitlines()],
        )
    said.because(
        f"healthy {seen.healthz.seconds:.0f} s after its start: {seen.healthz.out.strip().splitlines()[-1]}"
    )


def _head(bench: Bench) -> ray_head.Head:
    seen = bench.seen(ray_head.head)
    if seen.healthz.code:
        raise BlockedError("a healthy head to ask is missing: see kuberay.head")
    return seen


@check(
    "kuberay.status",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(ray_head.head,),
    proves="`ray status` answers on the head",
    remedy="look at its last lines",
    source="Ray documentation, ray status",
)
def test_status(bench: Bench, said: Said) -> None:
    ran = _head(bench).status
    _works(ran, "`ray status`", "the head does not answer its own client")
    said.because("ray status shows the head's resources")


@check(
    "kuberay.exec_probes",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(ray_head.head,),
    proves="the probes with wget and grep succeed on a healthy head",
    remedy="install wget and grep, and ray[default]",
    source="kuberay, utils/constant.go; RayService workers always have them",
)
def test_exec_probes(bench: Bench, said: Said) -> None:
    for name, ran in _head(bench).probes.items():
        _works(ran, f"KubeRay's {name} probe", f"it is `{ray_head.OLD_PROBES[name]}`")
        said.line(f"{name}: {ran.seconds:.1f} s")
    said.because("both probes say success")


@check(
    "kuberay.init_container",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(ray_head.head,),
    proves="`ray health-check` finds the head from another container, within 256 MiB and 0.2 CPU",
    remedy="keep what `ray` imports at start small: its command is run so before every worker",
    source=POD + ": wait-gcs-ready",
)
def test_init_container(bench: Bench, said: Said) -> None:
    ran = _head(bench).init_container
    _works(ran, "`ray health-check` within 256 MiB and 0.2 CPU", "the worker's init container would never end")
    said.because(f"it took {ran.seconds:.0f} s")


@check(
    "kuberay.metrics",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(ray_head.head,),
    proves="the metrics port 8080 answers in Prometheus' format",
    remedy="install ray[default]",
    source="Ray documentation, collecting metrics",
)
def test_metrics(bench: Bench, said: Said) -> None:
    ran = _head(bench).metrics
    _works(ran, "GET /metrics on port 8080", "Prometheus gets nothing")
    samples = [line for line in ran.out.splitlines() if line.startswith("ray_")]
    if not samples or "# TYPE ray_" not in ran.out:
        raise CheckFailedError("port 8080 answers, but with no `# TYPE ray_…` line", ran.out.splitlines()[:10])
    said.because(f"{len(samples)} samples named ray_*")


@check(
    "kuberay.tls_init_container",
    level=Level.CONTAINER,
    applies=RAY,
    needs=(users.tls_init_container,),
    proves="`sh -c` with openssl, awk, grep and `hostname -i` works within 64 MiB",
    remedy="install openssl, gawk or mawk, grep, hostname",
    source=POD + ": wait-for-tls-ip-san",
)
def test_tls_init_container(bench: Bench, said: Said) -> None:
    ran = bench.seen(users.tls_init_container)
    if ran.code or "ready" not in ran.out:
        raise CheckFailedError(
            f"the tools of KubeRay's TLS init container failed: it {ran.ending}", ran.said.splitlines()
        )
    said.because("a certificate with this pod's address was made and read")

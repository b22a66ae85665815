"""Levels that one container on this engine can't answer: they say what they would need."""

from __future__ import annotations

from validate.bench import Bench
from validate.catalogue import check
from validate.outcome import BlockedError, Level

SMOKE = "a cluster of containers: run `drydock smoke`, which starts one and brings its own evidence"


@check(
    "cluster.smoke",
    level=Level.CLUSTER,
    proves="a cluster of several nodes runs real jobs",
    remedy="run `drydock smoke --stack NAME`",
    source="design: levels",
)
def test_cluster() -> None:
    raise BlockedError(f"this needs {SMOKE}")


@check(
    "gpu.torch",
    level=Level.GPU,
    proves="torch computes on a GPU",
    remedy="run on a host with an NVIDIA GPU and its container toolkit",
    source="design: levels",
)
def test_gpu(bench: Bench) -> None:
    runtimes = ", ".join(bench.environment.runtimes)
    raise BlockedError(
        f"this needs an NVIDIA GPU that the engine can hand to a container; the engine has the runtimes {runtimes}"
    )


@check(
    "efa.fi_info",
    level=Level.EFA,
    proves="libfabric sees EFA devices",
    remedy="run on an instance with EFA",
    source="design: levels",
)
def test_efa() -> None:
    raise BlockedError(
        "this needs an instance with EFA devices (/dev/infiniband/uverbs*), handed to the container"
    )

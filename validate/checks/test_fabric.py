"""Fabric: libfabric with its efa provider, and nothing that forces or breaks the choice of a transport."""

from __future__ import annotations

from validate.bench import Bench
from validate.catalogue import Rule, check, claims_fabric
from validate.experiments import versions
from validate.facts import Facts
from validate.loader import Loader
from validate.outcome import CheckFailedError, Level
from validate.plugin import Said
from validate.variables import Setting, families, harmful, settings

CLAIMS_FABRIC = Rule("claim a fabric (io.drydock.fabric)", lambda claims: claims.fabric is not None)
HAS_LIBFABRIC = Rule(
    "hold libfabric.so.1", by_facts=lambda facts: any(e.soname == "libfabric.so.1" for e in facts.elf)
)


@check(
    "fabric.efa_provider",
    level=Level.CONTAINER,
    applies=CLAIMS_FABRIC,
    needs=(versions.fi_info_list,),
    proves="libfabric has the efa provider",
    remedy="install Debian's libfabric1 or the EFA installer's libfabric; remove the other build",
    source="aws/aws-ofi-nccl#803: no efa provider in the image, traffic goes over tcp",
)
def test_efa_provider(bench: Bench, said: Said) -> None:
    ran = bench.seen(versions.fi_info_list)
    if ran.code:
        raise CheckFailedError(f"`fi_info -l` {ran.ending}: {ran.said}", ran.said.splitlines())
    providers = [line.strip().rstrip(":") for line in ran.out.splitlines() if line.strip().endswith(":")]
    said.line(f"providers: {', '.join(providers)}")
    if "efa" not in providers:
        raise CheckFailedError(f"fi_info lists no efa provider; it lists {', '.join(providers) or 'none'}")
    said.because("fi_info lists the efa provider (a device is not needed for that)")


@check(
    "fabric.libfabric",
    level=Level.STATIC,
    applies=CLAIMS_FABRIC,
    proves="there is one libfabric, the loader finds it, and it is the one that the fabric means",
    remedy="keep one: Debian's for fabric distro, /opt/amazon/efa's for fabric efa",
    source="aws/aws-ofi-nccl#241: apt's libfabric shadows the EFA installer's",
)
def test_libfabric(bench: Bench, facts: Facts, said: Said) -> None:
    folders = bench.config.environment.get("LD_LIBRARY_PATH", "").split(":")
    found = Loader(facts, folders).dlopen("libfabric.so.1")
    if found is None:
        raise CheckFailedError("the loader finds no libfabric.so.1")
    said.line(f"libfabric.so.1 is {found.path}, found by {found.rule}")
    efa = bench.claims.fabric == "efa"
    if efa != found.path.startswith("/opt/amazon/efa/"):
        where = "/opt/amazon/efa" if efa else "the distribution's folders"
        raise CheckFailedError(
            f"fabric {bench.claims.fabric} is declared, but the loader takes libfabric from {found.path}, "
            f"not from {where}"
        )
    if not efa and not facts.package("libfabric1"):
        raise CheckFailedError(f"{found.path} belongs to no Debian package: libfabric1 is not installed")
    said.because(f"libfabric is {found.path}")


@check(
    "fabric.nccl_plugin",
    level=Level.STATIC,
    applies=claims_fabric("efa"),
    proves="NCCL finds aws-ofi-nccl by name, and the plugin speaks an API that this NCCL knows",
    remedy="put the plugin's folder into /etc/ld.so.conf.d and run ldconfig",
    source="NVIDIA-NeMo/RL#1973: plugin there, not on the loader's path: silently TCP",
)
def test_nccl_plugin(bench: Bench, facts: Facts, said: Said) -> None:
    folders = bench.config.environment.get("LD_LIBRARY_PATH", "").split(":")
    loader = Loader(facts, folders)
    found = loader.dlopen("libnccl-net.so") or loader.dlopen("libnccl-net-ofi.so")
    if found is None:
        there = [e.path for e in facts.elf if e.name.startswith("libnccl-net")]
        raise CheckFailedError(
            "NCCL searches libnccl-net.so, and the loader finds none"
            + (f"; {there[0]} is there, outside the loader's path" if there else ""),
            there,
        )
    exported = sorted(s for s in facts.elf_by_path[found.path].symbols_defined if s.startswith("ncclNetPlugin_v"))
    if not exported:
        raise CheckFailedError(f"{found.path} exports no ncclNetPlugin_v* symbol: it is no NCCL network plugin")
    said.because(f"{found.path} exports {', '.join(exported)}")


@check(
    "fabric.rdma_core",
    level=Level.STATIC,
    applies=HAS_LIBFABRIC,
    proves="libibverbs and its providers are of one rdma-core build",
    remedy="remove the bundled rdma-core (HPC-X, MOFED) or the distribution's, so that one is left",
    source="NVIDIA-NeMo/Megatron-Bridge#2824: IBVERBS_PRIVATE_34 not found",
)
def test_rdma_core(facts: Facts, said: Said) -> None:
    core = [e for e in facts.elf if e.soname == "libibverbs.so.1"]
    private = {v for e in core for v in e.versions_given if v.startswith("IBVERBS_PRIVATE_")}
    for elf in facts.elf:
        for version in elf.versions_needed.get("libibverbs.so.1", ()):
            if version.startswith("IBVERBS_PRIVATE_") and version not in private:
                raise CheckFailedError(
                    f"{elf.path} needs {version}; libibverbs here gives {', '.join(sorted(private)) or 'none'}"
                )
    if len(core) > 1:
        raise CheckFailedError(f"{len(core)} copies of libibverbs.so.1: {', '.join(e.path for e in core)}")
    said.because(
        f"libibverbs {core[0].path if core else 'is not there'}, private ABI {', '.join(sorted(private))}"
    )


def _forbid(bench: Bench, facts: Facts, said: Said, first_name: str) -> None:
    family = next(f for f in families() if first_name in f.names.pattern.split("|"))
    found: list[Setting] = harmful(settings(bench.config.environment, facts.configuration), family)
    lines = [f"{row.name}={row.value} in {row.place}" for row in found]
    if lines:
        raise CheckFailedError(f"{family.says}: {lines[0]}; {family.why}", lines)
    said.because("ENV, profile files and nccl.conf set none of these")


@check(
    "fabric.no_provider_forced",
    level=Level.STATIC,
    proves="no libfabric provider is forced",
    remedy="remove it; set it where the job is started, if at all",
    source="aws/deep-learning-containers#2675",
)
def test_no_provider_forced(bench: Bench, facts: Facts, said: Said) -> None:
    _forbid(bench, facts, said, "FI_PROVIDER")


@check(
    "fabric.no_interface_named",
    level=Level.STATIC,
    proves="no network interface is hard-coded (excluding some, as ^lo,docker, is fine)",
    remedy="remove it, or exclude interfaces: NCCL_SOCKET_IFNAME=^lo,docker",
    source="aws/deep-learning-containers#6469",
)
def test_no_interface_named(bench: Bench, facts: Facts, said: Said) -> None:
    _forbid(bench, facts, said, "NCCL_SOCKET_IFNAME")


@check(
    "fabric.no_nccl_forced",
    level=Level.STATIC,
    proves="none of NCCL's choices is forced",
    remedy="remove it; set it where the job is started, if at all",
    source="NVIDIA/nccl#959",
)
def test_no_nccl_forced(bench: Bench, facts: Facts, said: Said) -> None:
    _forbid(bench, facts, said, "NCCL_NET")


@check(
    "fabric.no_internals_set",
    level=Level.STATIC,
    proves="no internal variable of libfabric, rdma-core or aws-ofi-nccl is set",
    remedy="remove it: most of them have been obsolete for years",
    source="aws/deep-learning-containers#2675",
)
def test_no_internals_set(bench: Bench, facts: Facts, said: Said) -> None:
    _forbid(bench, facts, said, "FI_EFA_\\w+")


@check(
    "env.no_gpu_choice",
    level=Level.STATIC,
    proves="the image does not decide which GPUs are seen",
    remedy="remove it; the orchestrator sets it",
    source="CUDA programming guide, environment variables",
)
def test_no_gpu_choice(bench: Bench, facts: Facts, said: Said) -> None:
    _forbid(bench, facts, said, "CUDA_VISIBLE_DEVICES")


@check(
    "env.no_ray_address",
    level=Level.STATIC,
    proves="no address of a Ray cluster is in the image",
    remedy="remove it; KubeRay sets it in each pod",
    source="KubeRay, utils/constant.go",
)
def test_no_ray_address(bench: Bench, facts: Facts, said: Said) -> None:
    _forbid(bench, facts, said, "RAY_ADDRESS")


@check(
    "env.cuda_requirement",
    level=Level.STATIC,
    applies=Rule("pin cuda", lambda claims: "cuda" in claims.pins),
    proves="NVIDIA_REQUIRE_CUDA, if set, asks for no newer CUDA than the image's",
    remedy="unset NVIDIA_REQUIRE_CUDA in the last stage",
    source="nvidia-container-cli checks it before any entrypoint runs",
)
def test_cuda_requirement(bench: Bench, said: Said) -> None:
    required = bench.config.environment.get("NVIDIA_REQUIRE_CUDA", "")
    if required:
        raise CheckFailedError(
            f"ENV sets NVIDIA_REQUIRE_CUDA={required[:80]}: the container runtime refuses hosts by it before "
            "anything of the image, a compatibility library included, can run"
        )
    said.because("NVIDIA_REQUIRE_CUDA is not set")

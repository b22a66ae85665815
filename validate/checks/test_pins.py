"""Pins: declared, built and observed must be the same version, each by its own evidence."""

from __future__ import annotations

import re

from validate.bench import Bench
from validate.catalogue import Rule, check, claims_image, claims_pin
from validate.claims import Claims
from validate.experiments import versions
from validate.facts import Facts
from validate.outcome import CheckFailedError, Level
from validate.pins import Observation
from validate.plugin import Said

HAS_LABELS_AND_STACK = Rule(
    "have io.drydock.pin labels and are checked against a stack of the matrix",
    lambda claims: bool(claims.labelled) and bool(claims.pins),
)
REBUILD = "rebuild the image from its lock, or name the stack that it really is"
RULE = "rule 2: every pin is proven by the image's own evidence"


def _compare(name: str, declared: str, observed: str | None, where: str, said: Said) -> None:
    seen = Observation(name, declared, observed, where)
    said.line(str(seen))
    if observed is None:
        raise CheckFailedError(f"{name} {declared} is declared, and none is there ({where})")
    if not seen.agrees:
        raise CheckFailedError(str(seen))
    said.because(f"{name} {observed}, as declared ({where})")


def _installed(name: str, distribution: str, facts: Facts, claims: Claims, said: Said) -> None:
    found = facts.distribution(distribution)
    where = found.folder if found else f"no distribution {distribution} in the image's Python environment"
    _compare(name, claims.pins[name], found.version if found else None, where, said)


@check(
    "pins.labels",
    level=Level.STATIC,
    applies=HAS_LABELS_AND_STACK,
    proves="the image's pin labels are the stack's pins",
    remedy=REBUILD,
    source=RULE,
)
def test_labels(claims: Claims, said: Said) -> None:
    wrong = [
        f"{name}: stack says {claims.pins.get(name, 'nothing')}, label says {claims.labelled.get(name, 'nothing')}"
        for name in sorted({*claims.pins, *claims.labelled})
        if claims.pins.get(name) != claims.labelled.get(name)
    ]
    if wrong:
        raise CheckFailedError(f"labels and stack {claims.stack} differ in {len(wrong)} pins: {wrong[0]}", wrong)
    said.because(f"{len(claims.pins)} pins: labels and stack agree")


@check(
    "pins.python",
    level=Level.STATIC,
    applies=claims_pin("python"),
    proves="the interpreter on PATH has the pinned version, down to the patch level",
    remedy=REBUILD,
    source="Ray refuses nodes whose patch level differs: ray-project/ray#44063",
)
def test_python(facts: Facts, claims: Claims, said: Said) -> None:
    python = facts.python
    where = f"{python.executable}" if python else "no Python on PATH"
    _compare("python", claims.pins["python"], python.version if python else None, where, said)


@check(
    "pins.ray",
    level=Level.STATIC,
    applies=claims_pin("ray"),
    proves="the installed ray distribution has the pinned version",
    remedy=REBUILD,
    source="a later dependency may move Ray: marin-community/marin#2227",
)
def test_ray(facts: Facts, claims: Claims, said: Said) -> None:
    _installed("ray", "ray", facts, claims, said)


@check(
    "pins.torch",
    level=Level.STATIC,
    applies=claims_pin("torch"),
    proves="the installed torch distribution has the pinned version",
    remedy=REBUILD,
    source=RULE,
)
def test_torch(facts: Facts, claims: Claims, said: Said) -> None:
    _installed("torch", "torch", facts, claims, said)


@check(
    "pins.vllm",
    level=Level.STATIC,
    applies=claims_pin("vllm"),
    proves="the installed vllm distribution has the pinned version",
    remedy=REBUILD,
    source=RULE,
)
def test_vllm(facts: Facts, claims: Claims, said: Said) -> None:
    _installed("vllm", "vllm", facts, claims, said)


@check(
    "pins.nixl",
    level=Level.STATIC,
    applies=claims_pin("nixl"),
    proves="the installed NIXL for the image's CUDA major has the pinned version",
    remedy=REBUILD,
    source=RULE,
)
def test_nixl(facts: Facts, claims: Claims, said: Said) -> None:
    major = claims.pins.get("cuda", "").partition(".")[0]
    _installed("nixl", f"nixl-cu{major}" if major else "nixl", facts, claims, said)


@check(
    "pins.nccl",
    level=Level.STATIC,
    applies=claims_pin("nccl"),
    proves="exactly one NCCL distribution is installed, of the image's CUDA major and the pinned version",
    remedy="uninstall the other one, then reinstall the right one: both write nvidia/nccl/lib/libnccl.so.2",
    source="pytorch/pytorch#186591: two NCCL wheels, `undefined symbol: ncclCommResume`",
)
def test_nccl(facts: Facts, claims: Claims, said: Said) -> None:
    found = [row for site in facts.main_sites for row in site.distributions if row.key.startswith("nvidia-nccl")]
    for row in found:
        said.line(f"{row.name} {row.version} in {row.folder}")
    if len(found) > 1:
        names = " and ".join(f"{row.name} {row.version}" for row in found)
        overlap = next((o for s in facts.main_sites for o in s.overlaps if "libnccl" in o.path), None)
        winner = f"; on disk is the one of {overlap.winner or 'neither'}, which torch loads" if overlap else ""
        raise CheckFailedError(f"{names} are both installed and write the same files{winner}")
    one = found[0] if found else None
    _compare(
        "nccl",
        claims.pins["nccl"],
        one.version if one else None,
        one.folder if one else "no nvidia-nccl-* distribution",
        said,
    )


@check(
    "pins.excluded",
    level=Level.STATIC,
    applies=Rule("declare excluded distributions (io.drydock.excluded)", lambda claims: bool(claims.excluded)),
    proves="no distribution is installed whose absence is declared",
    remedy="uninstall it; reinstall what it overwrote",
    source="nixl requires nixl-cu12 and nixl-cu13, which write the same files",
)
def test_excluded(facts: Facts, claims: Claims, said: Said) -> None:
    present = [row for _, row in facts.distributions() if row.key in claims.excluded]
    if present:
        names = ", ".join(f"{row.name} {row.version}" for row in present)
        raise CheckFailedError(f"declared as absent, but installed: {names}", [row.folder for row in present])
    said.because(f"absent, as declared: {', '.join(sorted(claims.excluded))}")


@check(
    "pins.torch_runs",
    level=Level.CONTAINER,
    applies=claims_pin("torch"),
    needs=(versions.torch,),
    proves="torch imports without a GPU and says the pinned version of itself",
    remedy=REBUILD,
    source=RULE,
)
def test_torch_runs(bench: Bench, claims: Claims, said: Said) -> None:
    seen = _torch(bench)
    _compare("torch", claims.pins["torch"], seen.torch, "torch.__version__", said)
    said.line(f"import took {seen.seconds} s and {seen.mebibytes} MiB")


@check(
    "pins.cuda",
    level=Level.CONTAINER,
    applies=claims_pin("cuda") & claims_pin("torch"),
    needs=(versions.torch,),
    proves="torch was built for the pinned CUDA",
    remedy="install the torch build for this CUDA",
    source="ray-project/ray#64484: pip replaced the CUDA stack",
)
def test_cuda(bench: Bench, claims: Claims, said: Said) -> None:
    _compare("cuda", claims.pins["cuda"], _torch(bench).cuda, "torch.version.cuda", said)


@check(
    "pins.nccl_loaded",
    level=Level.CONTAINER,
    applies=claims_pin("nccl") & claims_pin("torch"),
    needs=(versions.torch,),
    proves="the one NCCL that torch really maps says the pinned version of itself",
    remedy="remove the other libnccl.so.2, or the LD_LIBRARY_PATH or LD_PRELOAD that brings it in",
    source="pytorch/pytorch#119072, rapidsai/cugraph#4465: another NCCL is found first",
)
def test_nccl_loaded(bench: Bench, claims: Claims, said: Said) -> None:
    seen = _torch(bench)
    if not seen.nccl:
        raise CheckFailedError("importing torch maps no libnccl: this torch has no NCCL, or loads it later")
    if len(seen.nccl) > 1:
        raise CheckFailedError(f"torch maps {len(seen.nccl)} copies of NCCL: {', '.join(seen.nccl)}", seen.nccl)
    _compare("nccl", claims.pins["nccl"], seen.nccl_version, f"ncclGetVersion of {seen.nccl[0]}", said)


def _torch(bench: Bench) -> versions.Torch:
    seen = bench.seen(versions.torch)
    if seen.problem:
        lines = seen.problem.splitlines()
        raise CheckFailedError(f"{lines[0].partition(': Traceback')[0]}: {lines[-1].strip()}", lines)
    return seen


@check(
    "pins.vllm_runs",
    level=Level.CONTAINER,
    applies=claims_pin("vllm") & claims_image("llm"),
    needs=(versions.imports,),
    proves="vllm imports without a GPU and says the pinned version of itself",
    remedy=REBUILD,
    source="ray-project/ray#63187: vLLM built for another CUDA, found only by users",
)
def test_vllm_runs(bench: Bench, claims: Claims, said: Said) -> None:
    seen = bench.seen(versions.imports)["vllm"]
    if seen.problem:
        raise CheckFailedError(f"import vllm: {seen.problem}")
    _compare("vllm", claims.pins["vllm"], seen.version, "vllm.__version__", said)


@check(
    "pins.python_runs",
    level=Level.CONTAINER,
    applies=claims_pin("python"),
    needs=(versions.python_version,),
    proves="`python` starts the pinned interpreter",
    remedy=REBUILD,
    source=RULE,
)
def test_python_runs(bench: Bench, claims: Claims, said: Said) -> None:
    ran = bench.seen(versions.python_version)
    match = re.search(r"Python (\S+)", ran.out + ran.err)
    _compare("python", claims.pins["python"], match[1] if match else None, "python --version", said)

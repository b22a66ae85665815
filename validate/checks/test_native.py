"""Native libraries: everything resolves, once, for one machine and one CUDA."""

from __future__ import annotations

import re

from validate import native
from validate.allowances import allowances
from validate.bench import Bench
from validate.catalogue import HAS_DPKG, Rule, check
from validate.facts import Facts
from validate.loader import Loader, Resolved
from validate.outcome import CheckFailedError, Level
from validate.plugin import Said

HAS_NCCL = Rule("hold libnccl.so.2", by_facts=lambda facts: any(e.soname == "libnccl.so.2" for e in facts.elf))
# Libraries that keep state for the whole process or speak a private ABI: two copies are two worlds.
ONCE = (
    "libnccl.so.2",
    "libfabric.so.1",
    "libibverbs.so.1",
    "libefa.so.1",
    "librdmacm.so.1",
    "libmlx5.so.1",
    "libmpi.so.40",
    "libcudart.so.12",
    "libcudart.so.13",
    "libtorch.so",
    "libtorch_cuda.so",
    "libpython3.13.so.1.0",
)
MACHINES = {"amd64": 62, "arm64": 183}


def library_path(bench: Bench) -> list[str]:
    """LD_LIBRARY_PATH of the image's ENV, as a list."""
    return [folder for folder in bench.config.environment.get("LD_LIBRARY_PATH", "").split(":") if folder]


@check(
    "native.resolved",
    level=Level.STATIC,
    proves="every library that a program or library needs is in the image and is found",
    remedy="install the package with that library, or remove the file that needs it",
    source="ray-project/ray#63187: `import vllm` fails on libcudart.so.12",
)
def test_resolved(bench: Bench, facts: Facts, said: Said) -> None:
    missing: dict[str, list[str]] = {}
    for row in native.unresolved(facts, library_path(bench)):
        allowed = next((a for a in allowances().unresolved if a.covers(row.user.path, library=row.name)), None)
        if allowed:
            said.line(f"allowed: {row.name} of {row.user.path}: {allowed.reason}")
        else:
            missing.setdefault(row.name, []).append(row.user.path)
    if missing:
        lines = [f"{user} needs {name}, which is nowhere" for name, users in missing.items() for user in users]
        raise CheckFailedError(f"{lines[0]}" + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""), lines)
    said.because(f"all NEEDED libraries of {len(facts.elf)} ELF files are found")


@check(
    "native.symbol_versions",
    level=Level.STATIC,
    proves="every symbol version that a file needs is given by the library that the loader finds for it",
    remedy="make the older library go: keep one copy, the one that its users were built against",
    source="NVIDIA-NeMo/Megatron-Bridge#2824: version IBVERBS_PRIVATE_34 not found",
)
def test_symbol_versions(bench: Bench, facts: Facts, said: Said) -> None:
    lines = [
        f"{row.user.path} needs version {row.version} of {row.library}, which does not have it"
        for row in native.missing_versions(facts, library_path(bench))
    ]
    if lines:
        raise CheckFailedError(lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""), lines)
    said.because("every symbol version needed is given")


@check(
    "native.single_cuda_major",
    level=Level.STATIC,
    proves="all CUDA libraries, and all that need them, are of one CUDA major",
    remedy="uninstall the distributions of the other major, then reinstall what they overwrote",
    source="vllm-project/vllm#52300; aws/deep-learning-containers: nixl-cu12 over nixl-cu13",
    applies=Rule("hold or need CUDA libraries", by_facts=lambda facts: bool(native.cuda_majors(facts))),
)
def test_single_cuda_major(bench: Bench, facts: Facts, said: Said) -> None:
    majors = native.cuda_majors(facts)
    suffixes: dict[str, list[str]] = {}
    for _, row in facts.distributions():
        match = re.search(r"-cu(?:da)?(1[1-9])(?:x)?$", row.key)
        if match:
            suffixes.setdefault(match[1], []).append(f"{row.name} {row.version}")
    declared = bench.claims.pins.get("cuda", "").partition(".")[0]
    wrong = {number: lines for number, lines in majors.items() if declared and str(number) != declared}
    if len(majors) > 1 or wrong:
        rows = sorted(majors.items(), key=lambda item: len(item[1]))
        told = "; ".join(f"CUDA {number}: {lines[0]}" for number, lines in rows)
        overwritten = [
            f"overwritten: {o.path} (of {' and '.join(o.owners)}; on disk: {o.winner or 'neither'})"
            for site in facts.sites for o in site.overlaps
        ]  # fmt: skip
        evidence = [line for _, lines in rows for line in lines[:10]]
        names = " and ".join(str(number) for number in sorted(majors))
        problem = (
            f"CUDA majors {names} are mixed"
            if len(majors) > 1
            else f"CUDA {declared} is declared, {names} observed"
        )
        more = f"; {len(overwritten)} files were overwritten, {overwritten[0][13:]}" if overwritten else ""
        raise CheckFailedError(f"{problem}: {told}{more}", [*overwritten[:10], *evidence])
    said.because(f"one CUDA major, {next(iter(majors))}, in {sum(map(len, majors.values()))} places")


@check(
    "native.cuda_names",
    level=Level.STATIC,
    proves="no Python distribution is made for another CUDA major than the image's",
    remedy="uninstall it, and install the variant for the image's CUDA",
    source="ray-project/ray#62850: cupy-cuda12x resolved into a CUDA 13 image",
    applies=Rule("pin cuda", lambda claims: "cuda" in claims.pins),
)
def test_cuda_names(bench: Bench, facts: Facts, said: Said) -> None:
    declared = bench.claims.pins["cuda"].partition(".")[0]
    wrong = []
    for _, row in facts.distributions():
        match = re.search(r"(?:^|-)cu(?:da)?-?(1[1-9])(?:\d|x)?$", row.key)
        if match and match[1] != declared:
            wrong.append(f"{row.name} {row.version} is for CUDA {match[1]} ({row.folder})")
    if wrong:
        raise CheckFailedError(f"CUDA {declared} is declared; {wrong[0]}", wrong)
    said.because(f"every distribution with a CUDA suffix is for CUDA {declared}")


@check(
    "native.copies",
    level=Level.STATIC,
    proves="libraries that must be loaded once per process exist once",
    remedy="remove the copy that its users were not built against",
    source="aws/aws-ofi-nccl#241, rapidsai/cugraph#4465: a second copy is found first",
)
def test_copies(facts: Facts, said: Said) -> None:
    real: dict[str, list[str]] = {}
    for soname, rows in native.by_soname(facts, ONCE).items():
        same = {path for copy in facts.copies for path in copy.paths[1:]}
        # A copy of the same content beside the first (libfoo.so, libfoo.so.1) is waste, not a second version.
        # A wheel's private copy under a mangled name (libcudart.faf08d9a.so.13) is reached by that wheel alone.
        paths = [
            e.path for e in rows
            if e.path not in same and not e.folder.endswith(".libs") and "/.nixl" not in e.path
        ]  # fmt: skip
        if len(paths) > 1:
            real[soname] = paths
    if real:
        soname, paths = next(iter(real.items()))
        winner = Loader(facts).dlopen(soname)
        first = f"; a program without a search path gets {winner.path}" if winner else ""
        lines = [f"{name}: {', '.join(paths)}" for name, paths in real.items()]
        raise CheckFailedError(f"{soname} exists {len(paths)} times: {', '.join(paths)}{first}", lines)
    said.because(f"none of {len(ONCE)} such libraries exists twice")


@check(
    "native.nccl_winner",
    level=Level.STATIC,
    applies=HAS_NCCL,
    proves="everything that needs NCCL finds the copy beside torch, with the image's own search path",
    remedy="remove the other libnccl.so.2, or the LD_LIBRARY_PATH that leads to it",
    source="pytorch/pytorch#119072: LD_LIBRARY_PATH beats the wheel's RUNPATH",
)
def test_nccl_winner(bench: Bench, facts: Facts, said: Said) -> None:
    loader = Loader(facts, library_path(bench))
    users = [e for e in facts.elf if "libnccl.so.2" in e.needed]
    found = {e.path: loader.resolve("libnccl.so.2", e) for e in users}
    wrong, libraries = [], set()
    for path, hit in found.items():
        if hit is None:
            continue
        libraries.add(hit.path)
        said.line(f"{path} gets {hit.path} by {hit.rule}")
        if "/nvidia/nccl/" not in hit.path and "/site-packages/" in path:
            wrong.append(f"{path} gets {_nccl(facts, hit)}, not the wheel's")
    wheel = any(e.soname == "libnccl.so.2" and "/nvidia/nccl/" in e.path for e in facts.elf)
    first = loader.dlopen("libnccl.so.2")
    if wheel and first and "/nvidia/nccl/" not in first.path:
        wrong.append(f"who asks for NCCL before torch is loaded gets {_nccl(facts, first)}, not the wheel's")
    if wrong or len(libraries) > 1:
        pin = bench.claims.pins.get("nccl")
        raise CheckFailedError(
            (wrong or [f"users of NCCL get different copies: {', '.join(sorted(libraries))}"])[0]
            + (f"; the pin says {pin}" if pin else ""),
            wrong,
        )
    said.because(f"{len(found)} users of NCCL get {next(iter(libraries), 'the copy loaded before them')}")


def _nccl(facts: Facts, found: Resolved) -> str:
    version = facts.elf_by_path[found.path].says_version or "of unknown version"
    return f"NCCL {version} from {found.path} by {found.rule}"


@check(
    "native.nccl_symbols",
    level=Level.STATIC,
    applies=HAS_NCCL,
    proves="the NCCL that is found has every function that its users call",
    remedy="install the NCCL version that torch was built against",
    source="pytorch/pytorch#186591: undefined symbol ncclCommResume",
)
def test_nccl_symbols(bench: Bench, facts: Facts, said: Said) -> None:
    loader = Loader(facts, library_path(bench))
    lines = []
    for user in facts.elf:
        if "libnccl.so.2" not in user.needed:
            continue
        hit = loader.resolve("libnccl.so.2", user)
        if hit is None:
            continue
        missing = sorted(
            name for name in user.symbols_undefined - facts.elf_by_path[hit.path].symbols_defined
            if re.fullmatch(r"p?nccl[A-Z]\w+", name)
        )  # fmt: skip
        if missing:
            lines.append(f"{user.path} calls {', '.join(missing[:5])}, which {hit.path} does not have")
    if lines:
        raise CheckFailedError(lines[0], lines)
    said.because("every NCCL function called is there")


@check(
    "native.machine",
    level=Level.STATIC,
    proves="every ELF file is for the image's machine",
    remedy="install the build for this machine",
    source="ray-project/ray#44253: exec format error on arm64",
)
def test_machine(bench: Bench, facts: Facts, said: Said) -> None:
    machine = MACHINES.get(bench.config.architecture)
    wrong = []
    for elf in facts.elf:
        if machine is None or elf.machine == machine or elf.kind not in (native.ET_EXEC, native.ET_DYN):
            continue
        # 32-bit x86 programs run on amd64; BPF objects and GPU code are no programs of this machine at all.
        if elf.machine in {3, 190, 224, 247}:
            continue
        allowed = next((a for a in allowances().other_machine if a.covers(elf.path)), None)
        if allowed:
            said.line(f"allowed: {elf.path}: {allowed.reason}")
        else:
            wrong.append(f"{elf.path} is for ELF machine {elf.machine}, the image for {bench.config.architecture}")
    if wrong:
        raise CheckFailedError(wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""), wrong)
    said.because(f"{len(facts.elf)} ELF files are for {bench.config.architecture}")


@check(
    "native.well_formed",
    level=Level.STATIC,
    proves="no ELF file is truncated or malformed",
    remedy="install the package again; look for a disk that was full during the build",
    source="ELF specification, chapter 5",
)
def test_well_formed(facts: Facts, said: Said) -> None:
    if facts.broken_elf:
        lines = [f"{path}: {reason}" for path, reason in facts.broken_elf.items()]
        raise CheckFailedError(f"damaged library {lines[0]}", lines)
    said.because(f"{len(facts.elf)} ELF files are whole")


@check(
    "native.os_files",
    level=Level.STATIC,
    applies=HAS_DPKG,
    proves="programs and libraries of Debian packages are as the packages brought them",
    remedy="reinstall the package (apt-get install --reinstall), and put own versions elsewhere",
    source="dpkg's md5sums; aws/aws-ofi-nccl#241: a library was replaced in place",
)
def test_os_files(facts: Facts, said: Said) -> None:
    if facts.altered_os_files:
        lines = [f"{row.path} of package {row.package} is {row.what}" for row in facts.altered_os_files]
        raise CheckFailedError(lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""), lines)
    said.because(f"files of {len(facts.packages)} packages are unaltered")


@check(
    "native.preload",
    level=Level.STATIC,
    proves="nothing is forced into every process by LD_PRELOAD or /etc/ld.so.preload",
    remedy="remove it; set it for the one program that needs it",
    source="NVIDIA/nccl#959: LD_PRELOAD of a plugin",
)
def test_preload(bench: Bench, facts: Facts, said: Said) -> None:
    forced = bench.config.environment.get("LD_PRELOAD", "")
    file = facts.configuration.get("/etc/ld.so.preload", "").strip()
    if forced:
        raise CheckFailedError(f"ENV sets LD_PRELOAD={forced}: it is loaded into every process of the image")
    if file:
        raise CheckFailedError(f"/etc/ld.so.preload names {file}: it is loaded into every process of the image")
    said.because("neither LD_PRELOAD nor /etc/ld.so.preload is set")


@check(
    "native.library_path",
    level=Level.STATIC,
    proves="no folder in LD_LIBRARY_PATH or in the loader's configuration hides another copy of a library",
    remedy="remove the folder from LD_LIBRARY_PATH, or the copy from the folder",
    source="pytorch/pytorch#119072: LD_LIBRARY_PATH wins over a wheel's RUNPATH",
)
def test_library_path(bench: Bench, facts: Facts, said: Said) -> None:
    folders = library_path(bench)
    with_path, without = Loader(facts, folders), Loader(facts)
    lines: list[str] = []
    for elf in facts.elf if folders else ():
        for name in elf.needed:
            new, old = with_path.resolve(name, elf), without.resolve(name, elf)
            if new and old and new.path != old.path and new.rule == "LD_LIBRARY_PATH":
                lines.append(
                    f"{elf.path} takes {name} from {new.path} because of LD_LIBRARY_PATH, else from {old.path}"
                )
    if lines:
        raise CheckFailedError(lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""), lines)
    said.because(f"LD_LIBRARY_PATH ({':'.join(folders) or 'not set'}) hides nothing")

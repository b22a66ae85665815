"""The operating system: packages are configured and complete, and the image tells what it is."""

from __future__ import annotations

import re

from validate.bench import Bench
from validate.catalogue import CLAIMS_STACK, HAS_DPKG, Rule, check
from validate.facts import Facts
from validate.loader import Loader
from validate.outcome import CheckFailedError, Level
from validate.plugin import Said

CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
# A bundle of fewer bytes than one certificate holds none.
SMALLEST_BUNDLE = 500
OCI = "org.opencontainers.image."
OCI_LABELS = ("title", "version", "revision", "created", "source", "licenses", "base.name", "base.digest")
DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")


@check(
    "os.configured",
    level=Level.STATIC,
    applies=HAS_DPKG,
    proves="every Debian package is installed to its end",
    remedy="run `dpkg --configure -a`; look why a package's script failed in the build",
    source="dpkg(1), package states",
)
def test_configured(facts: Facts, said: Said) -> None:
    if facts.half_installed:
        raise CheckFailedError(f"installed halfway: {', '.join(facts.half_installed)}", facts.half_installed)
    said.because(f"{len(facts.packages)} packages are configured")


@check(
    "os.dependencies",
    level=Level.STATIC,
    applies=HAS_DPKG & CLAIMS_STACK,
    proves="every Debian package that another one depends on is there",
    remedy="apt-get install --fix-broken; remove packages with apt-get, not with dpkg --force",
    source="Debian policy 7.2",
)
def test_dependencies(facts: Facts, said: Said) -> None:
    there = {row.name for row in facts.packages}
    for row in facts.packages:
        there |= {_name(part) for part in row.provides.split(",") if part.strip()}
    missing = [
        f"{row.name} depends on {group.strip()}, which is not installed"
        for row in facts.packages
        for group in row.depends.split(",")
        if group.strip() and not any(_name(part) in there for part in group.split("|"))
    ]
    if missing:
        raise CheckFailedError(missing[0] + (f" (and {len(missing) - 1} more)" if missing[1:] else ""), missing)
    said.because(f"dependencies of {len(facts.packages)} packages are there")


def _name(part: str) -> str:
    return re.split(r"[\s(:]", part.strip(), maxsplit=1)[0]


@check(
    "os.ca_certificates",
    level=Level.STATIC,
    applies=HAS_DPKG & CLAIMS_STACK,
    proves="there are CA certificates, so that HTTPS can be checked",
    remedy="install ca-certificates",
    source="every download of a model or a data set is HTTPS",
)
def test_ca_certificates(facts: Facts, said: Said) -> None:
    size = facts.known_files.get(CA_BUNDLE, 0)
    if size < SMALLEST_BUNDLE:
        raise CheckFailedError(f"{CA_BUNDLE} is {'empty' if CA_BUNDLE in facts.known_files else 'missing'}")
    said.because(f"{CA_BUNDLE} has {size // 1024} KiB")


@check(
    "labels.oci",
    level=Level.STATIC,
    applies=Rule("carry a lock (io.drydock.lock)", lambda claims: bool(claims.lock)),
    proves="the image tells title, version, revision, time, source, licence and base in OCI's labels",
    remedy="build it with `drydock build`, which sets them",
    source="OCI image specification, annotations",
)
def test_oci_labels(bench: Bench, said: Said) -> None:
    missing = [OCI + name for name in OCI_LABELS if not bench.config.labels.get(OCI + name)]
    if missing:
        raise CheckFailedError(f"labels are missing: {', '.join(missing)}", missing)
    said.because(", ".join(f"{name} {bench.config.labels[OCI + name][:40]}" for name in ("version", "revision")))


@check(
    "native.no_driver",
    level=Level.STATIC,
    proves="no library of the NVIDIA driver is in the image where the loader would take it",
    remedy="remove it (or the stubs folder from the loader's path): the container runtime mounts the host's",
    source="NVIDIA container toolkit; a stub libcuda.so.1 makes every CUDA call fail with error 34",
)
def test_no_driver(bench: Bench, facts: Facts, said: Said) -> None:
    folders = bench.config.environment.get("LD_LIBRARY_PATH", "").split(":")
    loader = Loader(facts, folders)
    for name in DRIVER:
        if found := loader.dlopen(name):
            raise CheckFailedError(
                f"{name} of the image is taken: {found.path}, by {found.rule}, before the host's"
            )
    said.because("libcuda and libnvidia-ml are left to the host")


@check(
    "env.driver_capabilities",
    level=Level.STATIC,
    applies=Rule("pin cuda", lambda claims: "cuda" in claims.pins),
    proves="NVIDIA_DRIVER_CAPABILITIES and NVIDIA_VISIBLE_DEVICES, if set, let CUDA work",
    remedy="set NVIDIA_DRIVER_CAPABILITIES=compute,utility or unset it; leave NVIDIA_VISIBLE_DEVICES=all",
    source="NVIDIA container toolkit, environment variables",
)
def test_driver_capabilities(bench: Bench, said: Said) -> None:
    given = bench.config.environment.get("NVIDIA_DRIVER_CAPABILITIES", "")
    if given and given != "all" and not {"compute", "utility"} <= set(given.split(",")):
        raise CheckFailedError(
            f"ENV sets NVIDIA_DRIVER_CAPABILITIES={given}: without compute and utility the runtime mounts "
            "no libcuda and no nvidia-smi"
        )
    devices = bench.config.environment.get("NVIDIA_VISIBLE_DEVICES", "all")
    if devices not in ("all", ""):
        raise CheckFailedError(f"ENV sets NVIDIA_VISIBLE_DEVICES={devices}: the image decides which GPUs are seen")
    said.because(f"capabilities {given or 'not set'}, devices {devices or 'not set'}")

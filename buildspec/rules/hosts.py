"""Rules about the hosts that a stack claims: drivers, and EC2 instance types with their GPUs and network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from buildspec.located import nearest as nearest_name
from buildspec.rules.facts import links
from buildspec.rules.finding import Finding, unknown
from buildspec.rules.versions import nearest, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from buildspec.rules.case import Case
    from buildspec.rules.facts import Family


def check(case: Case) -> Iterator[Finding]:
    """Judge what a stack claims of its hosts."""
    yield from _toolkit(case)
    for instance in case.stack.instances:
        yield from _instance(case, instance)


def driver_floor(case: Case) -> str | None:
    """Oldest driver that runs programs of the stack's CUDA major version; None when it is not recorded."""
    row = case.facts.cuda.majors.get(case.stack.cuda_major)
    return row.driver if row else None


def _toolkit(case: Case) -> Iterator[Finding]:
    cuda = case.facts.cuda
    floor = cuda.majors.get(case.stack.cuda_major)
    if floor is None:
        yield unknown(
            "cuda.driver",
            case.path("cuda"),
            f"cuda {case.stack.cuda}",
            f"the oldest driver for CUDA {case.stack.cuda_major} is not recorded",
            "read the CUDA release notes and add a row to buildspec/facts/cuda.yaml",
        )
        return
    if case.stack.driver is None:
        return
    driver = parse(case.stack.driver)
    # 580 names a branch: any driver of it, so its newest is no better than what the branch began with.
    floor_version = parse(floor.driver)
    below = driver < floor_version and not (len(driver.release) == 1 and driver.major == floor_version.major)
    drivers = [parse(row.driver) for row in cuda.toolkits.values()]
    if below:
        majors = [
            Version(name)
            for name, row in cuda.toolkits.items()
            if parse(cuda.majors[Version(name).major].driver) <= driver
        ]
        near = nearest(majors, Version(case.stack.cuda), lambda _: True)
        yield Finding(
            rule="cuda.driver",
            severity="error",
            path=case.path("driver"),
            pinned=f"driver {case.stack.driver} with cuda {case.stack.cuda}",
            needed=f"driver >={floor.driver}",
            reason=f"programs of CUDA {case.stack.cuda_major} run on drivers from {floor.driver} on "
            "(older ones need NVIDIA's forward compatibility package, which the images do not carry)",
            says=links(cuda.sources, floor),
            nearest=(
                *nearest(drivers, driver, lambda v: v >= floor_version).texts("driver"),
                *(f"{text} with driver {case.stack.driver}" for text in near.texts("cuda")),
            ),
            remedy="claim a newer driver, or pin an older CUDA",
            confidence=floor.confidence,
        )
    toolkit = cuda.toolkits.get(case.stack.cuda)
    if not below and toolkit and driver.major < parse(toolkit.driver).major:
        yield Finding(
            rule="cuda.driver_minor",
            severity="warning",
            path=case.path("driver"),
            pinned=f"driver {case.stack.driver} with cuda {case.stack.cuda}",
            needed=f"driver >={toolkit.driver}",
            reason=f"CUDA {case.stack.cuda} came with driver {toolkit.driver}; on older ones of its major version "
            "what is compiled at run time (PTX of Triton, FlashInfer, nvcc) can be refused",
            says=links(cuda.sources, toolkit),
            nearest=nearest(drivers, driver, lambda v: v >= parse(toolkit.driver)).texts("driver"),
            remedy="claim a newer driver, or pin an older CUDA",
            confidence=toolkit.confidence,
        )
    branch = cuda.branches.get(driver.major)
    if branch and branch.end < case.stack.support_end:
        yield Finding(
            rule="cuda.driver_branch",
            severity="warning",
            path=case.path("driver"),
            pinned=f"driver {case.stack.driver} until {case.stack.support_end}",
            needed="a driver branch that is repaired as long as the stack",
            reason=f"NVIDIA repairs branch {driver.major} until {branch.end:%Y-%m}",
            says=links(cuda.sources, branch),
            nearest=nearest(
                [
                    Version(str(number))
                    for number, row in cuda.branches.items()
                    if row.end >= case.stack.support_end
                ],
                Version(str(driver.major)),
                lambda _: True,
            ).texts("driver"),
            remedy="claim a branch with longer support, or end the stack's support earlier",
            confidence=branch.confidence,
        )


def _instance(case: Case, instance: str) -> Iterator[Finding]:
    name, _, size = instance.partition(".")
    families = case.facts.instances.families
    family = families.get(name)
    if family is None:
        yield _other_family(case, instance, name)
        return
    if size not in family.efa:
        hint = nearest_name(instance, [f"{name}.{known}" for known in family.efa])
        yield Finding(
            rule="instances.exists",
            severity="error",
            path=case.path("instances"),
            pinned=instance,
            needed=f"a size of {name}: {', '.join(family.efa)}",
            reason=f"EC2 has no {instance}{hint}",
            says=links(case.facts.instances.sources, family),
            remedy="correct the name",
            confidence="medium",
        )
        return
    yield from _gpu(case, instance, family)
    yield from _network(case, instance, size, family)


def _other_family(case: Case, instance: str, name: str) -> Finding:
    others = case.facts.instances.others
    if name in others.families:
        return Finding(
            rule="instances.gpu",
            severity="error",
            path=case.path("instances"),
            pinned=instance,
            needed="an instance type with NVIDIA GPUs",
            reason=f"{instance} has {others.families[name]} accelerators; the images compute with CUDA",
            says=links(case.facts.instances.sources, others),
            remedy="claim another instance type",
            confidence=others.confidence,
        )
    known = case.facts.instances.families
    hint = nearest_name(instance, [f"{family}.{size}" for family, row in known.items() for size in row.efa])
    return unknown(
        "instances.exists",
        case.path("instances"),
        instance,
        f"nothing is recorded about {name} instances{hint}",
        "correct the name, or add a row to buildspec/facts/instances.yaml",
    )


def _gpu(case: Case, instance: str, family: Family) -> Iterator[Finding]:
    sources = case.facts.instances.sources
    if family.arch != case.arch:
        yield Finding(
            rule="instances.arch",
            severity="error",
            path=case.path("instances"),
            pinned=f"{instance} ({family.arch})",
            needed=f"an instance type of {case.arch}",
            reason=f"the images are built for {case.arch}; {instance} has {family.arch} processors",
            says=links(sources, family),
            remedy="claim another instance type",
            confidence=family.confidence,
        )
    row = case.facts.cuda.capabilities.get(family.capability)
    if row is None:
        yield unknown(
            "instances.capability",
            case.path("cuda"),
            f"cuda {case.stack.cuda} on {instance}",
            f"which CUDA compiles for compute capability {family.capability} is not recorded",
            "add a row to buildspec/facts/cuda.yaml",
        )
    elif not SpecifierSet(row.cuda).contains(case.stack.cuda):
        known = [Version(name) for name in case.facts.cuda.toolkits]
        near = nearest(known, Version(case.stack.cuda), SpecifierSet(row.cuda).contains)
        yield Finding(
            rule="instances.capability",
            severity="error",
            path=case.path("cuda"),
            pinned=f"cuda {case.stack.cuda} on {instance}",
            needed=f"cuda {row.cuda}",
            reason=f"{instance} has {family.gpu} GPUs of compute capability {family.capability}, "
            f"for which CUDA {row.cuda} compiles",
            says=(*links(case.facts.cuda.sources, row), *links(sources, family)),
            nearest=near.texts("cuda"),
            remedy="pin another CUDA (with its torch), or do not claim this instance type",
            confidence=row.confidence,
        )


def _network(case: Case, instance: str, size: str, family: Family) -> Iterator[Finding]:
    sources = links(case.facts.instances.sources, family)
    fabric = case.efa
    if fabric is None:
        if family.rdma and family.efa[size] and size not in family.no_rdma:
            yield Finding(
                rule="instances.fabric",
                severity="error" if case.stack.image == "train" else "warning",
                path=case.path("fabric"),
                pinned=f"fabric {case.stack.fabric} on {instance}",
                needed="an EFA fabric",
                reason=f"the GPUs of {instance} reach each other over EFA; without aws-ofi-nccl NCCL uses TCP "
                "between hosts, many times slower",
                says=sources,
                remedy="take an EFA fabric, or do not claim this instance type",
                confidence=family.confidence,
            )
        return
    least = family.plugin_min.get(size)
    plugin = case.versions["plugin"]
    if least and plugin is not None and plugin < parse(least):
        rows = [r for r in case.facts.efa.installers if r.plugin != "none" and parse(r.plugin) >= parse(least)]
        near = nearest((parse(r.version) for r in rows), parse(fabric.installer), lambda _: True)
        yield Finding(
            rule="instances.plugin",
            severity="error",
            path=case.place("plugin"),
            pinned=f"aws-ofi-nccl {fabric.aws_ofi_nccl} on {instance}",
            needed=f"aws-ofi-nccl >={least}",
            reason=f"aws-ofi-nccl knows {instance} from {least} on",
            says=sources,
            nearest=near.texts("installer"),
            remedy="pin a later installer, or do not claim this instance type",
            confidence=family.confidence,
        )
    if not family.efa[size]:
        yield Finding(
            rule="instances.no_efa",
            severity="warning",
            path=case.path("instances"),
            pinned=f"{instance} with fabric {case.stack.fabric}",
            needed="an instance type with EFA",
            reason=f"{instance} has no EFA interface; the stack works there over TCP only",
            says=sources,
            nearest=tuple(f"{instance.partition('.')[0]}.{name}" for name, count in family.efa.items() if count)[
                :2
            ],
            remedy="claim a size with EFA, or accept TCP",
            confidence=family.confidence,
        )

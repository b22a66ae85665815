"""The project's own facts (buildspec/facts/*.yaml), validated when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, TypeVar

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from buildspec.rules.versions import parse

Confidence = Literal["high", "medium", "low"]


def _version(text: str) -> str:
    try:
        parse(text)
    except InvalidVersion as error:
        raise ValueError(str(error)) from None
    return text


def _range(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(str(error)) from None
    return text


VersionText = Annotated[str, AfterValidator(_version)]
RangeText = Annotated[str, AfterValidator(_range)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Row):
    """Where a fact was read."""

    what: str
    url: str


class _Fact(_Row):
    source: tuple[str, ...] = Field(min_length=1)
    confidence: Confidence


class Installer(_Fact):
    """An EFA installer and what its release notes say it carries; `assumed` fields they do not mention."""

    version: VersionText
    date: date
    plugin: VersionText | Literal["none"]
    libfabric: VersionText | None = None
    rdma_core: VersionText | None = None
    assumed: tuple[Literal["plugin", "libfabric", "rdma_core"], ...] = ()
    sha256: str | None = None
    sha256_source: tuple[str, ...] = ()


class Window(_Fact):
    """Installer versions for an operating system; `until` is the first that does not install there any more."""

    from_: VersionText | None = Field(default=None, alias="from")
    until: VersionText | None = None
    plugin: VersionText | Literal["none"]


class Efa(_Row):
    """facts/efa.yaml."""

    sources: dict[str, Source]
    installers: tuple[Installer, ...]
    systems: dict[str, Window]


class Apis(_Fact):
    """A release of NCCL or of aws-ofi-nccl with its plugin API versions; None where they were not established."""

    version: VersionText
    net: tuple[int, ...] | None = None
    tuner: tuple[int, ...] | None = None
    gin: tuple[int, ...] | None = None
    nccl_min: VersionText | None = None


class Releases(_Row):
    """facts/plugin.yaml and facts/nccl.yaml."""

    sources: dict[str, Source]
    releases: tuple[Apis, ...]


class Driver(_Fact):
    """A driver version."""

    driver: VersionText


class Branch(_Fact):
    """A driver branch and the first day of the month in which its support ends."""

    end: date


class Capability(_Fact):
    """CUDA versions that compile for a compute capability."""

    cuda: RangeText


class Cuda(_Row):
    """facts/cuda.yaml."""

    sources: dict[str, Source]
    toolkits: dict[str, Driver]
    majors: dict[int, Driver]
    branches: dict[int, Branch]
    capabilities: dict[str, Capability]


class Family(_Fact):
    """A family of EC2 instance types."""

    gpu: str
    capability: str
    arch: Literal["x86_64", "aarch64"]
    rdma: bool
    efa: dict[str, int]
    no_rdma: tuple[str, ...] = ()
    plugin_min: dict[str, VersionText] = {}


class Others(_Fact):
    """Families with accelerators that are not NVIDIA's, and what these are."""

    families: dict[str, str]


class Instances(_Row):
    """facts/instances.yaml."""

    sources: dict[str, Source]
    families: dict[str, Family]
    others: Others


class Suite(_Fact):
    """An operating system by its code name."""

    system: str
    title: str
    glibc: VersionText
    python: VersionText
    end: date


class PythonLine(_Fact):
    """A minor version of Python and the end of its security fixes."""

    end: date


class Trap(_Fact):
    """Images that are a trap as a base; `repository` and `registry` are regular expressions."""

    repository: str
    registry: str = ".*"
    severity: Literal["error", "warning"]
    ngc: bool = False
    reason: str


class Ngc(_Fact):
    """Installers that detect NVIDIA's images."""

    installer: RangeText


class Systems(_Row):
    """facts/systems.yaml."""

    sources: dict[str, Source]
    suites: dict[str, Suite]
    pythons: dict[str, PythonLine]
    images: tuple[Trap, ...]
    ngc: Ngc


class Probes(_Fact):
    """When KubeRay's probes are plain HTTP."""

    ray: RangeText
    kuberay: VersionText


class Tool(_Fact):
    """A command that KubeRay runs inside an image."""

    why: str
    always: bool


class Extra(_Fact):
    """An extra of ray."""

    name: str


class KubeRay(_Row):
    """facts/kuberay.yaml."""

    sources: dict[str, Source]
    http_probes: Probes
    tools: dict[str, Tool]
    extra: Extra


class Tag(_Fact):
    """What a tag may be."""

    pattern: str


class Layers(_Fact):
    """How many layers an image may have."""

    max: int


class Registry(_Fact):
    """A registry's limits; sizes in bytes of a compressed layer."""

    title: str
    host: str
    layer_bytes: int
    upload_minutes: int | None = None


class Registries(_Row):
    """facts/registries.yaml."""

    sources: dict[str, Source]
    tag: Tag
    layers: Layers
    registries: dict[str, Registry]


class When(_Row):
    """Conditions of a known problem: ranges of pins, of a fabric's parts, of what is installed; names."""

    python: RangeText | None = None
    cuda: RangeText | None = None
    torch: RangeText | None = None
    nccl: RangeText | None = None
    ray: RangeText | None = None
    vllm: RangeText | None = None
    nixl: RangeText | None = None
    installer: RangeText | None = None
    plugin: RangeText | None = None
    libfabric: RangeText | None = None
    rdma_core: RangeText | None = None
    image: str | None = None
    suite: str | None = None
    fabric: str | None = None
    installed: dict[str, RangeText] = {}

    def ranges(self) -> dict[str, SpecifierSet]:
        """Ranges by what they are of, without `installed`."""
        names = set(type(self).model_fields) - {"image", "suite", "fabric", "installed"}
        return {name: SpecifierSet(text) for name in sorted(names) if (text := getattr(self, name)) is not None}


class Known(_Fact):
    """A combination that is known to be broken."""

    id: str
    severity: Literal["error", "warning"]
    when: When
    change: str
    reason: str
    remedy: str


class KnownProblems(_Row):
    """facts/known.yaml."""

    sources: dict[str, Source]
    rules: tuple[Known, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """All of them."""

    efa: Efa
    plugin: Releases
    nccl: Releases
    cuda: Cuda
    instances: Instances
    systems: Systems
    kuberay: KubeRay
    registries: Registries
    known: KnownProblems


_Model = TypeVar("_Model", bound=BaseModel)
# The parser in C is ten times as fast; PyYAML may be installed without it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _read(name: str, model: type[_Model]) -> _Model:
    text = resources.files("buildspec").joinpath("facts", f"{name}.yaml").read_text(encoding="utf-8")
    return model.model_validate(yaml.load(text, Loader=_LOADER))  # noqa: S506 - a safe loader


@cache
def load() -> Facts:
    """Read the facts that come with Drydock."""
    return Facts(
        _read("efa", Efa),
        _read("plugin", Releases),
        _read("nccl", Releases),
        _read("cuda", Cuda),
        _read("instances", Instances),
        _read("systems", Systems),
        _read("kuberay", KubeRay),
        _read("registries", Registries),
        _read("known", KnownProblems),
    )


def links(sources: Mapping[str, Source], fact: _Fact | tuple[str, ...]) -> tuple[str, ...]:
    """Addresses of a fact's sources, with what they are."""
    names = fact if isinstance(fact, tuple) else fact.source
    return tuple(f"{sources[name].what}: {sources[name].url}" for name in names)

"""The version matrix: versions.yaml in, validated immutable stacks out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from buildspec.errors import BadInputError
from buildspec.located import Document, Mistake, MistakesError, dotted, nearest, read

FILE_NAME = "versions.yaml"

ImageKind = Literal["train", "llm"]
Status = Literal["current", "maintenance", "retired"]
Pin = Literal["python", "cuda", "torch", "nccl", "ray", "vllm", "nixl"]


def _quoted(value: Any) -> Any:
    """YAML reads 13.10 as the number 13.1: a version must be text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 - pydantic collects ValueError, not TypeError
            f'versions are written in quotes: "{value}" (without them YAML reads 13.10 as the number 13.1)'
        )
    return value


def _version(text: str) -> str:
    try:
        Version(text)
        # packaging takes space around a version and digits of any script; requirements and tags do not.
        valid = text.isascii() and text == text.strip()
    except InvalidVersion:
        valid = False
    if not valid:
        raise ValueError(f"{text!r} is not a version (expected digits and dots, as in 2.60.0)")
    return text


def _date(value: Any) -> Any:
    """Read a date; pydantic would take a number as seconds since 1970."""
    if not isinstance(value, str):
        raise ValueError(f"expected {_DATE}, found {_yaml_type(value)}")  # noqa: TRY004 - as in _quoted
    try:
        return datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise ValueError(f"'{value}' is not {_DATE}") from None


def _range(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f"'{text}' is not a range of versions (expected for example >=2.60,<2.61)") from None
    return text


def _pattern(regex: str, says: str) -> AfterValidator:
    compiled = re.compile(regex, re.ASCII)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"'{text}' is not {says}")
        return text

    return AfterValidator(check)


PackageVersion = Annotated[str, BeforeValidator(_quoted), AfterValidator(_version)]
VersionRange = Annotated[str, BeforeValidator(_quoted), AfterValidator(_range)]
CudaVersion = Annotated[
    str, BeforeValidator(_quoted), _pattern(r"\d+\.\d+", "a CUDA version of two parts, as in 13.2")
]
PythonVersion = Annotated[
    str,
    BeforeValidator(_quoted),
    _pattern(r"3\.\d+\.\d+", "a full Python version, as in 3.13.5 (Ray compares the patch level between nodes)"),
]
# AWS' own builds are not PEP 440: 2.6.0amzn1.0, 60.amzn0.
UpstreamVersion = Annotated[
    str, BeforeValidator(_quoted), _pattern(r"\d[\w.+~-]*", "a version that starts with a digit")
]
Sha256 = Annotated[str, _pattern(r"[0-9a-f]{64}", "a SHA-256 checksum of 64 hexadecimal digits")]
ImageByDigest = Annotated[
    str,
    _pattern(
        r"[a-z0-9][\w.:/-]*@sha256:[0-9a-f]{64}",
        "an image reference with a digest, as in registry/name@sha256:…",
    ),
]
_DATE = "a date, as in 2027-11-30"
# Names become folders, bake targets, repositories and container names.
_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]+(?:(?:\.|-+)[a-z0-9]+)*")
# `lock os` means the bases, and a bake file's group is called default.
_TAKEN = ("os", "default")


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Image(_Row):
    """A kind of image: title and description as the OCI labels carry them, and its largest allowed size.

    `size_budget_gb` counts uncompressed layers, in units of 10^9 bytes.
    """

    title: str
    description: str
    size_budget_gb: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Base(_Row):
    """Where an image's operating system comes from.

    Exactly one of `bootstrap` (a Debian suite, installed from the signed archive) and `image` (an image
    reference with its digest, of the same suite's family).
    """

    suite: Annotated[str, _pattern(r"[a-z][a-z0-9-]*", "the code name of a Debian suite, as in trixie")]
    bootstrap: Literal["mmdebstrap"] | None = None
    image: ImageByDigest | None = None
    mirror: Annotated[str, _pattern(r"(https?|file)://\S+", "an http(s) or file URL")] | None = None
    snapshot: (
        Annotated[
            str,
            BeforeValidator(_quoted),
            _pattern(r"\d{8}T\d{6}Z", "a snapshot time, as in 20261130T000000Z"),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.bootstrap is None) == (self.image is None):
            raise ValueError("give exactly one of bootstrap (mmdebstrap) and image (a reference with digest)")
        if self.snapshot is not None and self.mirror is None:
            raise ValueError("a snapshot time needs the mirror that keeps history")
        return self


class DistroFabric(_Row):
    """The distribution's own libfabric and rdma-core; no aws-ofi-nccl."""

    kind: Literal["distro"]


class EfaFabric(_Row):
    """AWS' EFA installer, and the versions that this installer is said to carry."""

    kind: Literal["efa"]
    installer: PackageVersion
    sha256: Sha256
    aws_ofi_nccl: UpstreamVersion
    libfabric: UpstreamVersion
    rdma_core: UpstreamVersion


Fabric = Annotated[DistroFabric | EfaFabric, Field(discriminator="kind")]


InstanceType = Annotated[str, _pattern(r"[a-z][a-z0-9-]*\.[a-z0-9-]+", "an EC2 instance type, as in p5.48xlarge")]


class Stack(_Row):
    """One row of the matrix: an image and the exact version of everything that is pinned in it.

    What follows the pins is claimed of the stack and checked by `drydock matrix --check`: `instances` are
    EC2 instance types that it is for, `driver` the oldest NVIDIA driver of its hosts, `kuberay` the oldest
    KubeRay, `head` the stack that runs the head of its clusters (its own by default), `features` what it
    promises. `ranges` are the versions to which `drydock bump` may move a pin.
    """

    image: ImageKind
    status: Status
    support_end: Annotated[date, BeforeValidator(_date)]
    base: str
    fabric: str
    python: PythonVersion
    cuda: CudaVersion
    torch: PackageVersion
    nccl: PackageVersion
    ray: PackageVersion
    vllm: PackageVersion | None = None
    nixl: PackageVersion | None = None
    instances: Annotated[tuple[InstanceType, ...], Field(strict=False)] = ()
    driver: PackageVersion | None = None
    kuberay: PackageVersion | None = None
    head: str | None = None
    features: Annotated[tuple[Literal["gin"], ...], Field(strict=False)] = ()
    ranges: dict[Pin, VersionRange] = {}

    @model_validator(mode="after")
    def _pins_of_its_image(self) -> Self:
        for pin in ("vllm", "nixl"):
            given = getattr(self, pin) is not None
            if self.image == "llm" and not given:
                raise ValueError(f"an llm stack pins {pin}")
            if self.image == "train" and given:
                raise ValueError(f"a train stack has no {pin}: remove it, or make it image: llm")
        return self

    @property
    def pins(self) -> dict[str, str]:
        """Pin name to version, in the order of this class' fields."""
        return {name: value for name in get_args(Pin) if (value := getattr(self, name)) is not None}

    @property
    def cuda_major(self) -> int:
        """Major version of CUDA; PyPI's nvidia packages carry it in their names."""
        return Version(self.cuda).major


class Matrix(_Row):
    """The whole of versions.yaml.

    `registries` are the kinds of registry to which the images go (ecr, ecr-public, ghcr). `other_cuda_majors`
    maps distributions that may be of another CUDA major than their stack to the reason why; `shared_files`
    maps files (below site-packages) that several distributions may write to the reason why.
    """

    schema_: Literal[1] = Field(alias="schema")
    source: Annotated[str, _pattern(r"https?://\S+", "the URL of the project's source")]
    licenses: str
    images: dict[ImageKind, Image]
    bases: dict[str, Base]
    fabrics: dict[str, Fabric]
    stacks: dict[str, Stack]
    registries: Annotated[tuple[str, ...], Field(strict=False)] = ()
    other_cuda_majors: dict[str, str] = {}
    shared_files: dict[str, str] = {}

    def current(self) -> list[str]:
        """Names of the stacks that `build` builds when none is named."""
        return [name for name, stack in self.stacks.items() if stack.status == "current"]

    def stack(self, name: str) -> Stack:
        """Look one stack up. Raises BadInputError with the nearest legal name."""
        if name not in self.stacks:
            raise BadInputError(
                f"no stack is named '{name}'{nearest(name, self.stacks)}",
                remedy=f"name one of {', '.join(self.stacks)}",
            )
        return self.stacks[name]


def load(file: Path) -> Matrix:
    """Read and check a matrix. Raises MistakesError with every mistake in it, by line and dotted path."""
    document = read(file)
    mistakes: list[Mistake] = []
    matrix: Matrix | None = None
    try:
        matrix = Matrix.model_validate(document.data)
    except ValidationError as errors:
        mistakes += [_mistake(document, dict(error)) for error in errors.errors()]
    mistakes += _mistakes_between(document)
    if mistakes or matrix is None:
        raise MistakesError(file, mistakes)
    return matrix


def _mistakes_between(document: Document) -> list[Mistake]:
    """What no single row can tell: names, references from stacks, an empty matrix.

    Works on the raw data, so that it reports beside mistakes of form and not only after them.
    """
    tables = {
        key: table if isinstance(table := document.data.get(key), dict) else {}
        for key in ("images", "bases", "fabrics", "stacks")
    }
    found = [*_wrong_names(document, tables), *_wrong_references(document, tables)]
    if isinstance(document.data.get("stacks"), dict) and not tables["stacks"]:
        found.append(Mistake(document.line(("stacks",)), "stacks", "a matrix needs at least one stack"))
    return found


def _wrong_names(document: Document, tables: dict[str, dict[Any, Any]]) -> Iterator[Mistake]:
    for key in ("bases", "fabrics", "stacks"):
        for name in map(str, tables[key]):
            path = (key, name)
            if not _NAME.fullmatch(name):
                message = "names are small letters and digits with '-' or '.' between them, at most 63"
                yield Mistake(document.line(path), dotted(path), message)
            # Results of stacks and bases lie side by side under out/.
            if key == "stacks" and (name in _TAKEN or name in tables["bases"]):
                whose = "Drydock's own" if name in _TAKEN else "a base's name already"
                yield Mistake(document.line(path), dotted(path), f"'{name}' is {whose}; choose another")


def _wrong_references(document: Document, tables: dict[str, dict[Any, Any]]) -> Iterator[Mistake]:
    for name, stack in tables["stacks"].items():
        if not isinstance(stack, dict):
            continue
        for key, table in (("base", tables["bases"]), ("fabric", tables["fabrics"])):
            wanted = stack.get(key)
            if isinstance(wanted, str) and wanted not in table:
                path = ("stacks", str(name), key)
                message = f"no {key} is named '{wanted}'{nearest(wanted, map(str, table))}"
                yield Mistake(document.line(path), dotted(path), message)
        image = stack.get("image")
        if tables["images"] and image in get_args(ImageKind) and image not in tables["images"]:
            path = ("stacks", str(name), "image")
            message = f"the matrix has no images.{image} (title, description, size_budget_gb)"
            yield Mistake(document.line(path), dotted(path), message)


def _mistake(document: Document, error: dict[str, Any]) -> Mistake:
    """One pydantic error as a mistake with its place, in words for people."""
    # pydantic puts the tag of a discriminated union into the path; the file has no such key.
    raw: tuple[str | int, ...] = error["loc"]
    tags = get_args(EfaFabric.model_fields["kind"].annotation) + get_args(
        DistroFabric.model_fields["kind"].annotation
    )
    path = tuple(step for i, step in enumerate(raw) if not (raw[0] == "fabrics" and i == 2 and step in tags))
    path = tuple(step for step in path if step != "[key]")
    kind, context = error["type"], error.get("ctx", {})
    match kind:
        case "extra_forbidden":
            message = f"unknown key{nearest(str(path[-1]), _legal_keys(raw))}"
        case "missing":
            message = "is missing"
        case "value_error":
            message = str(context["error"])
        case "literal_error" | "union_tag_invalid":
            legal = context.get("expected") or context.get("expected_tags")
            given = error["input"]
            if kind == "union_tag_invalid":
                path, given = (*path, "kind"), given.get("kind")
            message = f"'{given}' is not one of {legal}"
        case "union_tag_not_found":
            path, message = (*path, "kind"), "is missing (distro or efa)"
        case "string_type" if raw[-1] == "[key]":
            message = "a name is text: write it in quotes"
        case "model_type" | "dict_type" | "model_attributes_type":
            message = f"expected a mapping, found {_yaml_type(error['input'])}"
        case _:
            wanted = {"string_type": "text", "float_type": "a number"}.get(kind)
            found = _yaml_type(error["input"])
            message = f"expected {wanted}, found {found}" if wanted else str(error["msg"])
    return Mistake(document.line(path), dotted(path), message)


def _legal_keys(path: tuple[str | int, ...]) -> list[str]:
    rows: dict[str, list[type[BaseModel]]] = {
        "images": [Image],
        "bases": [Base],
        "fabrics": [DistroFabric if "distro" in path[2:-1] else EfaFabric],
        "stacks": [Stack],
    }
    models = rows.get(str(path[0]), [Matrix]) if len(path) > 1 else [Matrix]
    fields: list[tuple[str, FieldInfo]] = [f for model in models for f in model.model_fields.items()]
    return [field.alias or name for name, field in fields]


def _yaml_type(value: object) -> str:
    names = {
        dict: "a mapping",
        list: "a list",
        str: "text",
        bool: "true/false",
        int: "a number",
        float: "a number",
    }
    return "nothing" if value is None else names.get(type(value), type(value).__name__)

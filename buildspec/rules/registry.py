"""Rules of the registries to which images go: tags, layers and their sizes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from buildspec.console import size
from buildspec.located import nearest
from buildspec.rules.facts import links
from buildspec.rules.finding import Finding, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from buildspec.matrix import Matrix
    from buildspec.rules.facts import Facts, Registry


def kind_of(reference: str, facts: Facts) -> str | None:
    """Which kind of registry the host of a reference is; None when it is none that is recorded."""
    host = reference.partition("/")[0]
    return next((name for name, row in facts.registries.registries.items() if re.fullmatch(row.host, host)), None)


def check_matrix(matrix: Matrix, facts: Facts) -> Iterator[Finding]:
    """Judge what a matrix alone tells: the kinds of registry, and stack names as tags."""
    known = facts.registries.registries
    for number, kind in enumerate(matrix.registries):
        if kind not in known:
            yield unknown(
                "registry.known",
                ("registries", str(number)),
                kind,
                f"no registry of the kind '{kind}' is recorded{nearest(kind, known)}",
                f"name one of {', '.join(known)}, or add it to buildspec/facts/registries.yaml",
            )
        else:
            yield from _budgets(matrix, kind, known[kind])
    for name in matrix.stacks:
        yield from check_image(facts, ("stacks", name), tags=[name])


def _budgets(matrix: Matrix, kind: str, registry: Registry) -> Iterator[Finding]:
    """An image that may become larger than a registry's largest layer: only its build tells."""
    for name, image in matrix.images.items():
        if image.size_budget_gb * 1e9 > registry.layer_bytes:
            yield unknown(
                "registry.layer_size",
                ("images", name, "size_budget_gb"),
                f"{image.size_budget_gb} GB for {kind}",
                f"{registry.title} takes layers of at most {size(registry.layer_bytes)}; one of an image of that "
                "size can be larger",
                "the sizes of the compressed layers show when it is pushed; a smaller budget decides it before",
            )


def check_image(
    facts: Facts,
    path: tuple[str, ...],
    *,
    kind: str | None = None,
    tags: Sequence[str] = (),
    layers: Sequence[int] = (),
) -> Iterator[Finding]:
    """Judge an image for a kind of registry: its tags, and the compressed sizes of its layers in bytes."""
    rows = facts.registries
    for tag in tags:
        if not re.fullmatch(rows.tag.pattern, tag):
            yield Finding(
                rule="registry.tag",
                severity="error",
                path=path,
                pinned=f"tag {tag}",
                needed="at most 128 letters, digits, '_', '.', '-', not beginning with '.' or '-'",
                reason="registries refuse such a tag",
                says=links(rows.sources, rows.tag),
                remedy="rename the stack",
            )
    if len(layers) > rows.layers.max:
        yield Finding(
            rule="registry.layers",
            severity="error",
            path=path,
            pinned=f"{len(layers)} layers",
            needed=f"at most {rows.layers.max}",
            reason="container engines can't mount more layers",
            says=links(rows.sources, rows.layers),
            remedy="join layers",
            confidence=rows.layers.confidence,
        )
    registry = rows.registries.get(kind or "")
    if registry is not None:
        yield from _sizes(facts, path, registry, layers)


def _sizes(facts: Facts, path: tuple[str, ...], registry: Registry, layers: Sequence[int]) -> Iterator[Finding]:
    for number, bytes_ in enumerate(layers):
        if bytes_ > registry.layer_bytes:
            yield Finding(
                rule="registry.layer_size",
                severity="error",
                path=path,
                pinned=f"layer {number} of {size(bytes_)}",
                needed=f"at most {size(registry.layer_bytes)} a layer",
                reason=f"{registry.title} takes layers of at most {size(registry.layer_bytes)}",
                says=links(facts.registries.sources, registry),
                remedy="split the layer, or compress it with zstd",
                confidence=registry.confidence,
            )

"""versions.yaml with other pins: comments, order, quotes, anchors and aliases stay as they are."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, ScalarString
from ruamel.yaml.util import load_yaml_guess_indent

from buildspec.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Never break a line that the author did not break.
_WIDTH = 1 << 20


def with_pins(text: str, pins: Mapping[str, Mapping[str, str]]) -> str:
    """Set pins (stack -> pin -> version) in the text of a matrix.

    Where a pin is an alias of another stack's, both stay one as long as they are equal; else the alias becomes
    a value of its own. Raises BadInputError when the YAML can't be written back.
    """
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    try:
        _, indent, offset = load_yaml_guess_indent(text)
        yaml.indent(mapping=2, sequence=indent or 2, offset=offset or 0)
        document = yaml.load(text)
    except YAMLError as error:
        raise BadInputError(f"versions.yaml can't be rewritten: {error}") from error
    stacks = document["stacks"]
    places = [(stacks[name], pin) for name in stacks for pin in stacks[name]]
    wanted = {(id(stacks[name]), pin): version for name, moved in pins.items() for pin, version in moved.items()}
    by_node: dict[int, list[tuple[Any, str]]] = {}
    for row, pin in places:
        by_node.setdefault(id(row[pin]), []).append((row, pin))
    # Ids hold while the old values live.
    kept = [row[pin] for row, pin in places]
    for group in by_node.values():
        _set(group, wanted)
    del kept
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def _set(group: list[tuple[Any, str]], wanted: Mapping[tuple[int, str], str]) -> None:
    """Set one value and its aliases; the first of them carries the anchor."""
    targets = [wanted.get((id(row), pin)) for row, pin in group]
    if not any(targets):
        return
    old = group[0][0][group[0][1]]
    first = targets[0] or str(old)
    shared = _like(old, first) if first != str(old) else old
    for (row, pin), target in zip(group, targets, strict=True):
        value = target or str(old)
        row[pin] = shared if value == first else _like(old, value, anchor=False)


def _like(old: Any, value: str, *, anchor: bool = True) -> Any:
    """A new value, quoted as the old one was."""
    kind: Any = type(old) if isinstance(old, ScalarString) else DoubleQuotedScalarString
    name = getattr(getattr(old, "anchor", None), "value", None) if anchor else None
    return kind(value, anchor=name) if name else kind(value)

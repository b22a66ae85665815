"""What an image is asked to hold: images/<image>/requirements.in with a stack's pins filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildspec.errors import BadInputError
from buildspec.located import nearest

if TYPE_CHECKING:
    from pathlib import Path

    from buildspec.matrix import Stack

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
# As in pip: a # inside a word belongs to a URL.
_COMMENT = re.compile(r"(^|\s)#.*")


@dataclass(frozen=True, slots=True)
class Requirements:
    """Input of a resolution.

    `lines` are requirements as pip reads them, `excluded` the names of distributions that something
    requires and that must stay out, `received` the pins that a line received.
    """

    lines: tuple[str, ...]
    excluded: tuple[str, ...]
    received: frozenset[str]


def read(images: Path, stack: Stack) -> Requirements:
    """Read the requirements of a stack's image. Raises BadInputError for a placeholder that is no pin."""
    file = images / stack.image / "requirements.in"
    values = stack.pins | {"cuda_major": str(stack.cuda_major)}
    received: set[str] = set()
    lines: list[str] = []
    for number, line in enumerate(_text(file).splitlines(), 1):
        content = _COMMENT.sub("", line).strip()
        for name in _PLACEHOLDER.findall(content):
            if name not in values:
                raise BadInputError(
                    f"{file}:{number}: {{{name}}} is not a pin of a {stack.image} stack{nearest(name, values)}"
                )
            received.add(name)
        if re.search(r"[{}]", _PLACEHOLDER.sub("", content)):
            raise BadInputError(f"{file}:{number}: a brace without its partner: {content}")
        if content:
            lines.append(_PLACEHOLDER.sub(lambda found: values[found[1]], content))
    exclude = images / stack.image / "exclude.txt"
    excluded = [_COMMENT.sub("", line).strip() for line in _text(exclude).splitlines()] if exclude.exists() else []
    return Requirements(tuple(lines), tuple(filter(None, excluded)), frozenset(received))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file} can't be read: {error}") from error

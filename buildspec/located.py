"""YAML with its places: the plain data of a document, and the line of every dotted path in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from buildspec.errors import BadInputError

# No file of ours comes near this; what does is a mistake or an attack (aliases that multiply).
MAX_BYTES = 1 << 20
MAX_NODES = 100_000
MAX_DEPTH = 50

PathKey = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """YAML without timestamps: whoever reads a date parses it, and can say what is wrong with it."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regex) for tag, regex in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a file: its line (1-based), its dotted path, and what to write instead."""

    line: int
    path: str
    message: str


class MistakesError(BadInputError):
    """All mistakes of one file, reported at once."""

    def __init__(self, file: Path, mistakes: Sequence[Mistake]) -> None:
        self.file = file
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.path)))
        count = len(self.mistakes)
        rows = [
            f"  {file}:{mistake.line}: {mistake.path + ': ' if mistake.path else ''}{mistake.message}"
            for mistake in self.mistakes
        ]
        super().__init__("\n".join([f"{file} has {count} mistake{'s' if count != 1 else ''}:", *rows]))


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML mapping, with the line on which each dotted path starts."""

    file: Path
    data: dict[str, Any]
    lines: dict[PathKey, int]

    def line(self, path: PathKey) -> int:
        """Line of a path, or of its nearest parent that stands in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def dotted(path: Iterable[str | int]) -> str:
    """Write a path as people do: `stacks.train-2.60.ray`, `policies[0].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def nearest(word: str, legal: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the legal name nearest to a wrong one, or an empty text."""
    close = difflib.get_close_matches(word, list(legal), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def read(file: Path) -> Document:
    """Read one YAML mapping with its places.

    Raises MistakesError for what YAML itself rejects and for duplicate keys; BadInputError for a file
    that is missing, unreadable, not UTF-8 or larger than MAX_BYTES.
    """
    text = _text(file)
    try:
        return _parsed(file, text)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        mistake = Mistake(line, "", f"the character U+{ord(text[error.position]):04X} is not allowed in YAML")
        raise MistakesError(file, [mistake]) from error


def _parsed(file: Path, text: str) -> Document:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise MistakesError(file, [Mistake(1, "", "the file is empty")])
        if not isinstance(node, yaml.MappingNode):
            raise MistakesError(file, [Mistake(1, "", "expected a mapping at the top")])
        duplicates = list(_duplicates(node))
        if duplicates:
            raise MistakesError(file, duplicates)
        lines = _lines(loader, node)
        data = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(filter(None, [error.context, error.problem]))
        raise MistakesError(file, [Mistake(mark.line + 1 if mark else 1, "", message)]) from error
    except yaml.YAMLError as error:
        raise MistakesError(file, [Mistake(1, "", str(error))]) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # PyYAML's constructors trust what an explicit tag says: `!!int ''`, `!!bool x`, `!!timestamp x`.
        raise MistakesError(file, [Mistake(1, "", f"a value can't be read: {error}")]) from error
    except RecursionError as error:
        raise MistakesError(file, [Mistake(1, "", "nested too deeply")]) from error
    finally:
        loader.dispose()
    return Document(file, data, lines)


def _text(file: Path) -> str:
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise BadInputError(
            f"{file} does not exist",
            why="the command was started outside a Drydock checkout, or the name is mistyped",
            remedy="go to the folder with versions.yaml",
        ) from None
    except OSError as error:
        raise BadInputError(f"{file} can't be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise BadInputError(f"{file} has {len(raw)} bytes; at most {MAX_BYTES} are read")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise MistakesError(file, [Mistake(line, "", "not UTF-8 text")]) from error


def _duplicates(root: yaml.Node) -> Iterator[Mistake]:
    """Keys that stand twice in one mapping; YAML would silently keep the last."""
    for path, node in _walk(root):
        if not isinstance(node, yaml.MappingNode):
            continue
        first: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in first and key.tag != "tag:yaml.org,2002:merge":
                where = dotted((*path, name))
                yield Mistake(line, where, f"stands twice; the first is on line {first[name]}")
            first.setdefault(name, line)


def _lines(loader: yaml.SafeLoader, root: yaml.MappingNode) -> dict[PathKey, int]:
    for _, node in _walk(root):
        if isinstance(node, yaml.MappingNode):
            loader.flatten_mapping(node)
    lines: dict[PathKey, int] = {}
    for path, node in _walk(root):
        lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                lines[(*path, str(key.value))] = key.start_mark.line + 1
    return lines


def _walk(root: yaml.Node) -> Iterator[tuple[PathKey, yaml.Node]]:
    """Every node with its path. An aliased node is visited once per place, up to MAX_NODES in all."""
    queue: list[tuple[PathKey, yaml.Node]] = [((), root)]
    seen = 0
    while queue:
        path, node = queue.pop()
        seen += 1
        if seen > MAX_NODES:
            raise yaml.YAMLError(f"aliases expand to more than {MAX_NODES} values")
        # An alias inside the node that it names goes round for ever.
        if len(path) > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"nested more than {MAX_DEPTH} levels deep, or an alias inside the value that it names",
                problem_mark=node.start_mark,
            )
        yield path, node
        if isinstance(node, yaml.MappingNode):
            queue.extend(((*path, str(key.value)), value) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            queue.extend(((*path, index), value) for index, value in enumerate(node.value))

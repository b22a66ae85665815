"""YAML with its places."""

# ruff: noqa: E501 - one case a line is a table

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buildspec import located
from buildspec.errors import BadInputError, ExitCode
from buildspec.located import Mistake, MistakesError, dotted, nearest, read


def write(folder: Path, content: str | bytes) -> Path:
    file = folder / "file.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def mistakes(folder: Path, content: str | bytes) -> list[tuple[int, str, str]]:
    """What is wrong with a document, as (line, path, message)."""
    with pytest.raises(MistakesError) as caught:
        read(write(folder, content))
    return [(mistake.line, mistake.path, mistake.message) for mistake in caught.value.mistakes]


def outcome(file: Path) -> located.Document | MistakesError:
    """What became of a file. Anything else than a document or a list of mistakes fails the test."""
    try:
        return read(file)
    except MistakesError as error:
        return error


def test_every_path_has_the_line_of_its_key(tmp_path: Path) -> None:
    document = read(write(tmp_path, "a: 1\nb:\n  c: [x,\n    y]\n\n  d: {e: 2}\n"))
    assert document.data == {"a": 1, "b": {"c": ["x", "y"], "d": {"e": 2}}}
    assert document.lines == {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 3,
        ("b", "c", 0): 3,
        ("b", "c", 1): 4,
        ("b", "d"): 6,
        ("b", "d", "e"): 6,
    }


def test_the_line_of_what_is_missing_is_that_of_its_nearest_parent(tmp_path: Path) -> None:
    document = read(write(tmp_path, "a: 1\nb:\n  c:\n    d: 2\n"))
    assert document.line(("b", "c", "gone", "too")) == 3
    assert document.line(("gone",)) == 1


def test_merged_keys_have_the_line_on_which_they_stand(tmp_path: Path) -> None:
    document = read(write(tmp_path, "base: &base\n  x: 1\n  y: 2\nrow:\n  <<: *base\n  y: 3\n"))
    assert document.data["row"] == {"x": 1, "y": 3}
    assert document.line(("row", "x")) == 2
    assert document.line(("row", "y")) == 6


def test_dates_stay_text(tmp_path: Path) -> None:
    assert read(write(tmp_path, "end: 2027-11-30\nother: 2027-13-45\n")).data == {
        "end": "2027-11-30",
        "other": "2027-13-45",
    }


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path, start: bytes, end: bytes) -> None:
    document = read(write(tmp_path, start + end.join([b"a: 1", b"b:", b"  c: 2", b""])))
    assert document.data == {"a": 1, "b": {"c": 2}}
    assert document.line(("b", "c")) == 3


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", (1, "", "the file is empty")),
        ("# only a comment\n", (1, "", "the file is empty")),
        ("---\n", (1, "", "expected a mapping at the top")),
        ("- a\n- b\n", (1, "", "expected a mapping at the top")),
        ("just text", (1, "", "expected a mapping at the top")),
        (
            "a: 1\nb:\n\tc: 2\n",
            (3, "", "while scanning for the next token found character '\\t' that cannot start any token"),
        ),
        ("a: 1\n---\nb: 2\n", (2, "", "expected a single document in the stream but found another document")),
        ("a: 1\nb: *gone\n", (2, "", "found undefined alias 'gone'")),
        ("a: 1\nb: [1, 2\nc: 3\n", (3, "", "while parsing a flow sequence expected ',' or ']', but got ':'")),
        ("a: 1\n? [x, y]\n: 2\n", (2, "", "while constructing a mapping found unhashable key")),
        (
            "a: !!python/object/apply:os.system [ls]\n",
            (
                1,
                "",
                "could not determine a constructor for the tag 'tag:yaml.org,2002:python/object/apply:os.system'",
            ),
        ),
        ('a: 1\nb: "\0"\n', (2, "", "the character U+0000 is not allowed in YAML")),
        ("a: 1\nb: caf\xe9\n".encode("latin-1"), (2, "", "not UTF-8 text")),
        ("a: 1\n".encode("utf-16"), (1, "", "not UTF-8 text")),
        (
            "a:\n  <<: 3\n",
            (
                2,
                "",
                "while constructing a mapping expected a mapping or list of mappings for merging, but found scalar",
            ),
        ),
    ],
)
def test_what_yaml_rejects_has_its_line(
    tmp_path: Path, content: str | bytes, expected: tuple[int, str, str]
) -> None:
    assert mistakes(tmp_path, content) == [expected]


def test_keys_that_stand_twice_are_all_named(tmp_path: Path) -> None:
    content = "a: 1\nb:\n  c: 1\n  d: [{e: 1, e: 2}]\n  c: 2\na: 3\n"
    assert mistakes(tmp_path, content) == [
        (4, "b.d[0].e", "stands twice; the first is on line 4"),
        (5, "b.c", "stands twice; the first is on line 3"),
        (6, "a", "stands twice; the first is on line 1"),
    ]


def test_a_merge_may_stand_twice_and_be_overridden(tmp_path: Path) -> None:
    content = "x: &x {a: 1}\ny: &y {b: 2}\nz:\n  <<: *x\n  <<: *y\n  a: 3\n"
    assert read(write(tmp_path, content)).data["z"] == {"a": 3, "b": 2}


def test_the_text_names_file_line_and_path(tmp_path: Path) -> None:
    file = write(tmp_path, "a: 1\na: 2\n")
    with pytest.raises(MistakesError) as caught:
        read(file)
    assert str(caught.value) == f"{file} has 1 mistake:\n  {file}:2: a: stands twice; the first is on line 1"
    assert caught.value.code == ExitCode.BAD_INPUT


def test_mistakes_are_sorted_by_line() -> None:
    error = MistakesError(Path("f"), [Mistake(9, "b", "y"), Mistake(2, "", "x"), Mistake(9, "a", "z")])
    assert str(error) == "f has 3 mistakes:\n  f:2: x\n  f:9: a: z\n  f:9: b: y"


def test_a_missing_file(tmp_path: Path) -> None:
    file = tmp_path / "versions.yaml"
    with pytest.raises(BadInputError) as caught:
        read(file)
    assert str(caught.value) == (
        f"{file} does not exist\n"
        "  why: the command was started outside a Drydock checkout, or the name is mistyped\n"
        "  do:  go to the folder with versions.yaml"
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as caught:
        read(tmp_path)
    assert str(caught.value) == f"{tmp_path} can't be read: Is a directory"


def test_a_huge_file_is_not_parsed(tmp_path: Path) -> None:
    file = write(tmp_path, b"#" * (1024 * 1024 + 1))
    with pytest.raises(BadInputError) as caught:
        read(file)
    assert str(caught.value) == f"{file} has 1048577 bytes; at most 1048576 are read"


@pytest.mark.parametrize(
    ("content", "line"),
    [("x: 1\na: &a {b: *a}\n", 2), ("a: &a\n  - *a\n", 1), ("a: &a\n  b: 1\n  <<: *a\n", 1)],
    ids=["mapping", "sequence", "merge"],
)
def test_an_alias_inside_its_own_value_ends(tmp_path: Path, content: str, line: int) -> None:
    assert mistakes(tmp_path, content) == [
        (line, "", "nested more than 50 levels deep, or an alias inside the value that it names")
    ]


def test_aliases_that_multiply_end(tmp_path: Path) -> None:
    rows = ["a: &a [" + ",".join("x" * 10) + "]"]
    rows += [
        f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]"
        for before, name in zip("abcdef", "bcdefg", strict=True)
    ]
    assert mistakes(tmp_path, "\n".join(rows)) == [(1, "", "aliases expand to more than 100000 values")]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
def test_deep_nesting_ends(tmp_path: Path, opening: str, closing: str) -> None:
    assert mistakes(tmp_path, "a: " + opening * 3000 + closing * 3000) == [(1, "", "nested too deeply")]


def test_fifty_levels_are_read(tmp_path: Path) -> None:
    document = read(write(tmp_path, "a: " + "{a: " * 49 + "1" + "}" * 49))
    assert document.line(("a",) * 50) == 1


@pytest.mark.parametrize("value", ["!!int ''", "!!bool x", "!!float x", "!!timestamp x", "!!binary ü"])
def test_an_explicit_tag_that_does_not_fit(tmp_path: Path, value: str) -> None:
    [(line, path, message)] = mistakes(tmp_path, f"a: {value}\n")
    assert (line, path) == (1, "")
    assert message


def test_a_number_too_long_for_python(tmp_path: Path) -> None:
    [(line, path, message)] = mistakes(tmp_path, "a: " + "9" * 5000)
    assert (line, path) == (1, "")
    assert message.startswith("a value can't be read: Exceeds the limit")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("stacks", "train-2.60", "ray"), "stacks.train-2.60.ray"),
        (("policies", 0, "name"), "policies[0].name"),
        ((1, "a"), "[1].a"),
    ],
)
def test_dotted(path: tuple[str | int, ...], text: str) -> None:
    assert dotted(path) == text


def test_nearest() -> None:
    assert nearest("pyhton", ["torch", "python", "ray"]) == " (did you mean 'python'?)"
    assert nearest("xyz", ["torch", "python", "ray"]) == ""
    assert nearest("xyz", []) == ""


# Text near YAML, so that the parser gets past its first character.
near_yaml = st.lists(
    st.one_of(
        st.sampled_from(
            ["a", "b: ", ": ", "- ", "\n", "  ", "\n  ", "\t", "&x ", "*x", "<<: ", "{", "}", "[", "]"]
        ),
        st.sampled_from([",", "? ", "!!set ", "!!binary ", "!!float ", "!!int ", "!!omap ", "!!timestamp ", "! "]),
        st.sampled_from(
            ["|\n", ">-\n", "'", '"', "\\x", "#", "---\n", "...\n", "%YAML 1.1\n", "0x", "1:2", ".nan"]
        ),
        st.sampled_from(["~", "\r", "\ufeff", "\0", "\x85"]),
        st.text(max_size=3),
    ),
    max_size=25,
).map("".join)
many = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(text=st.one_of(near_yaml, st.text()))
def test_any_text_is_a_document_or_a_mistake(tmp_path: Path, text: str) -> None:
    file = tmp_path / "any.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    found = outcome(file)
    if isinstance(found, MistakesError):
        lines = len(text.replace("\r\n", "\n").replace("\r", "\n").splitlines())
        assert all(1 <= mistake.line <= lines + 1 for mistake in found.mistakes)
    else:
        assert isinstance(found, located.Document)


@many
@given(raw=st.binary(max_size=60))
def test_any_bytes_are_a_document_or_a_mistake(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "any.yaml"
    file.write_bytes(raw)
    found = outcome(file)
    assert found.file == file


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text("abc äß漢:#-'\"{}[],&*!|>%@`?0123\n")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abcxyz-", min_size=1), inner, max_size=3)
    ),
    max_leaves=12,
)


@many
@given(data=st.dictionaries(st.text("abcxyz-", min_size=1), plain, max_size=4))
def test_what_yaml_writes_is_read_back_with_a_line_for_every_value(
    tmp_path: Path, data: dict[str, object]
) -> None:
    file = tmp_path / "written.yaml"
    file.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    document = located.read(file)
    assert document.data == data

    def places(value: object, path: located.PathKey) -> None:
        assert path in document.lines
        if isinstance(value, dict):
            for key, inner in value.items():
                places(inner, (*path, key))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                places(inner, (*path, index))

    places(data, ())

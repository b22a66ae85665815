"""The version matrix."""

# ruff: noqa: E501 - one case a line is a table

from __future__ import annotations

import contextlib
import json
import re
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packaging.version import InvalidVersion, Version

from buildspec import matrix
from buildspec.errors import BadInputError, DrydockError, ExitCode
from buildspec.located import MistakesError
from tests.sample import VERSIONS

SHA = "ab" * 32


def load(folder: Path, text: str) -> matrix.Matrix:
    file = folder / "versions.yaml"
    file.write_text(text, encoding="utf-8")
    return matrix.load(file)


def mistakes(folder: Path, text: str) -> list[str]:
    """Lines of the message, without the file's name."""
    with pytest.raises(MistakesError) as caught:
        load(folder, text)
    return [f"{mistake.line}: {mistake.path}: {mistake.message}" for mistake in caught.value.mistakes]


def line_of(text: str, start: str, after: str = "") -> int:
    """Number of the first line that starts so (below the line `after`)."""
    lines = text.splitlines()
    first = lines.index(after) if after else 0
    return next(number for number, line in enumerate(lines, 1) if number > first and line.startswith(start))


def changed(old: str, new: str, count: int = 1) -> str:
    assert VERSIONS.count(old) >= 1, old
    return VERSIONS.replace(old, new, count)


def with_fabric(rows: str) -> str:
    return VERSIONS.replace("fabrics:\n", f"fabrics:\n  efa:\n{rows}")


def test_the_real_matrix_is_whole(root: Path) -> None:
    real = matrix.load(root / "versions.yaml")
    kinds = {real.stacks[name].image for name in real.current()}
    assert kinds == {"train", "llm"}
    maintained = {stack.image for stack in real.stacks.values() if stack.status == "maintenance"}
    assert maintained == {"train", "llm"}
    for stack in real.stacks.values():
        assert set(stack.pins) - {"vllm", "nixl"} == {"python", "cuda", "torch", "nccl", "ray"}
        assert stack.cuda_major == int(stack.cuda.split(".")[0])


def test_a_version_of_a_stack_stands_in_the_matrix_only(root: Path) -> None:
    """No other file of the build names a version: Dockerfiles, requirements, packages, scripts."""
    sources = [root / "images" / "Dockerfile", root / "images" / "os.Dockerfile", root / "images" / "packages.txt"]
    sources += (root / "images").glob("*/requirements.in")
    sources += [file for file in (root / "images" / "rootfs").rglob("*") if file.is_file()]
    assert len(sources) >= 7
    for file in sources:
        code = [line.split("#", 1)[0] for line in file.read_text().splitlines()]
        found = [line for line in code if re.search(r"(?<![\w.])\d+\.\d+(\.\d+)?(?![\w.]*/)", line)]
        assert found == [], file


def test_stacks_share_a_value_by_anchor(tmp_path: Path) -> None:
    loaded = load(tmp_path, VERSIONS)
    assert loaded.stack("barge").ray == loaded.stack("tug").ray == "2.60.0"
    assert loaded.stack("barge").support_end == date(2027, 11, 30)
    assert loaded.current() == ["tug", "barge"]


def test_stacks_share_rows_by_merge(tmp_path: Path) -> None:
    text = VERSIONS.replace("  tug:\n", "  tug: &tug\n") + "\n  dinghy:\n    <<: *tug\n    ray: '2.61.0'\n"
    loaded = load(tmp_path, text)
    assert loaded.stack("dinghy").pins == loaded.stack("tug").pins | {"ray": "2.61.0"}


def test_pins_in_their_order(tmp_path: Path) -> None:
    loaded = load(tmp_path, VERSIONS)
    assert list(loaded.stack("tug").pins.items()) == [
        ("python", "3.13.5"),
        ("cuda", "13.2"),
        ("torch", "2.15.0"),
        ("nccl", "2.30.7"),
        ("ray", "2.60.0"),
    ]
    assert loaded.stack("barge").pins["vllm"] == "0.29.0"
    assert loaded.stack("barge").pins["nixl"] == "1.3.2"
    assert loaded.stack("raft").cuda_major == 12


def test_a_matrix_does_not_change(tmp_path: Path) -> None:
    stack = load(tmp_path, VERSIONS).stack("tug")
    with pytest.raises(ValueError, match="frozen"):
        stack.ray = "9.9.9"


def test_all_mistakes_at_once_by_line_and_path(tmp_path: Path) -> None:
    text = (
        VERSIONS.replace("licenses:", "licences:")
        .replace("    suite: trixie\n    bootstrap: mmdebstrap", "    suite: Trixie\n    bootstrap: debootstrap")
        .replace("    kind: distro", "    kind: roce")
        .replace('    cuda: "13.2"', "    cuda: 13.2")
        .replace("  raft:\n    image: train\n", "  raft:\n    image: train\n    status_: x\n")
        .replace("    base: given", "    base: givven")
        .replace('    vllm: "0.29.0"\n', "")
    )
    file = tmp_path / "versions.yaml"
    with pytest.raises(MistakesError) as caught:
        load(tmp_path, text)
    at = {
        "licences": line_of(text, "licences"),
        "suite": line_of(text, "    suite: Trixie"),
        "bootstrap": line_of(text, "    bootstrap: debootstrap"),
        "kind": line_of(text, "    kind"),
        "cuda": line_of(text, "    cuda: 13.2"),
        "barge": line_of(text, "  barge"),
        "status_": line_of(text, "    status_"),
        "base": line_of(text, "    base: givven"),
    }
    assert str(caught.value).splitlines() == [
        f"{file} has 9 mistakes:",
        f"  {file}:1: licenses: is missing",
        f"  {file}:{at['licences']}: licences: unknown key (did you mean 'licenses'?)",
        f"  {file}:{at['suite']}: bases.tiny.suite: 'Trixie' is not the code name of a Debian suite, as in trixie",
        f"  {file}:{at['bootstrap']}: bases.tiny.bootstrap: 'debootstrap' is not one of 'mmdebstrap'",
        f"  {file}:{at['kind']}: fabrics.distro.kind: 'roce' is not one of 'distro', 'efa'",
        (
            f"  {file}:{at['cuda']}: stacks.tug.cuda: versions are written in quotes: "
            '"13.2" (without them YAML reads 13.10 as the number 13.1)'
        ),
        f"  {file}:{at['barge']}: stacks.barge: an llm stack pins vllm",
        f"  {file}:{at['status_']}: stacks.raft.status_: unknown key (did you mean 'status'?)",
        f"  {file}:{at['base']}: stacks.raft.base: no base is named 'givven' (did you mean 'given'?)",
    ]
    assert caught.value.code == ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("schema: 1\n", "schema: 2\n", "schema", "schema: '2' is not one of 1"),
        ("schema: 1\n", "schema: '1'\n", "schema", "schema: '1' is not one of 1"),
        ("source: https://", "source: ", "source", "source: 'git.example.org/harbour/ships' is not the URL of the project's source"),
        ("licenses: Apache-2.0", "licenses: 2.0", "licenses", "licenses: expected text, found a number"),
        ("  train:\n", "  trian:\n", "  trian", "images.trian: 'trian' is not one of 'train' or 'llm'"),
        ("size_budget_gb: 0.5", "size_budget_gb: 0", "    size_budget_gb: 0", "images.train.size_budget_gb: Input should be greater than 0"),
        ("size_budget_gb: 0.5", "size_budget_gb: .inf", "    size_budget_gb: .inf", "images.train.size_budget_gb: Input should be a finite number"),
        ("size_budget_gb: 0.5", "size_budget_gb: .nan", "    size_budget_gb: .nan", "images.train.size_budget_gb: Input should be a finite number"),
        ("size_budget_gb: 0.5", "size_budget_gb: '8'", "    size_budget_gb: '8'", "images.train.size_budget_gb: expected a number, found text"),
        ("size_budget_gb: 0.5", "size_budget_gb: yes", "    size_budget_gb: yes", "images.train.size_budget_gb: expected a number, found true/false"),
        ("    bootstrap: mmdebstrap\n", "", "  tiny", "bases.tiny: give exactly one of bootstrap (mmdebstrap) and image (a reference with digest)"),
        ("    bootstrap: mmdebstrap", f"    bootstrap: mmdebstrap\n    image: a/b@sha256:{SHA}", "  tiny", "bases.tiny: give exactly one of bootstrap (mmdebstrap) and image (a reference with digest)"),
        ("    bootstrap: mmdebstrap", "    bootstrap: mmdebstrap\n    snapshot: 20261130T000000Z", "  tiny", "bases.tiny: a snapshot time needs the mirror that keeps history"),
        ("    bootstrap: mmdebstrap", "    bootstrap: mmdebstrap\n    mirror: http://a.example\n    snapshot: 20261130", "    snapshot", 'bases.tiny.snapshot: versions are written in quotes: "20261130" (without them YAML reads 13.10 as the number 13.1)'),
        ("    bootstrap: mmdebstrap", "    bootstrap: mmdebstrap\n    mirror: http://a.example\n    snapshot: yesterday", "    snapshot", "bases.tiny.snapshot: 'yesterday' is not a snapshot time, as in 20261130T000000Z"),
        ("    bootstrap: mmdebstrap", "    bootstrap: mmdebstrap\n    mirror: ftp://a.example", "    mirror", "bases.tiny.mirror: 'ftp://a.example' is not an http(s) or file URL"),
        ("  distro:\n    kind: distro", "  distro:", "  distro", "fabrics.distro: expected a mapping, found nothing"),
        ("    kind: distro", "    flavour: distro", "  distro", "fabrics.distro.kind: is missing (distro or efa)"),
        ("    kind: distro", "    kind: distro\n    libfabric: '2'", "    libfabric", "fabrics.distro.libfabric: unknown key"),
        ("  tug:\n    image: train", "  tug:\n    image: rain", "    image: rain", "stacks.tug.image: 'rain' is not one of 'train' or 'llm'"),
        ("    status: current", "    status: curent", "    status: curent", "stacks.tug.status: 'curent' is not one of 'current', 'maintenance' or 'retired'"),
        ("support_end: 2027-11-30", "support_end: 2027-02-30", "    support_end", "stacks.tug.support_end: '2027-02-30' is not a date, as in 2027-11-30"),
        ("support_end: 2027-11-30", "support_end: next year", "    support_end", "stacks.tug.support_end: 'next year' is not a date, as in 2027-11-30"),
        ("support_end: 2027-11-30", "support_end: 86400", "    support_end", "stacks.tug.support_end: expected a date, as in 2027-11-30, found a number"),
        ("support_end: 2027-11-30", "support_end:", "    support_end", "stacks.tug.support_end: expected a date, as in 2027-11-30, found nothing"),
        ('torch: "2.15.0"', "torch: 2", "    torch", 'stacks.tug.torch: versions are written in quotes: "2" (without them YAML reads 13.10 as the number 13.1)'),
        ('torch: "2.15.0"', "torch: yes", "    torch", "stacks.tug.torch: expected text, found true/false"),
        ('torch: "2.15.0"', "torch: [2]", "    torch", "stacks.tug.torch: expected text, found a list"),
        ('torch: "2.15.0"', "torch: {a: 2}", "    torch", "stacks.tug.torch: expected text, found a mapping"),
        ('torch: "2.15.0"', "torch: latest", "    torch", "stacks.tug.torch: 'latest' is not a version (expected digits and dots, as in 2.60.0)"),
        ('torch: "2.15.0"', 'torch: "2.15.0\\n"', "    torch", "stacks.tug.torch: '2.15.0\\n' is not a version (expected digits and dots, as in 2.60.0)"),
        ('torch: "2.15.0"', 'torch: ">=2.15"', "    torch", "stacks.tug.torch: '>=2.15' is not a version (expected digits and dots, as in 2.60.0)"),
        ('torch: "2.15.0"', 'torch: "2.15.*"', "    torch", "stacks.tug.torch: '2.15.*' is not a version (expected digits and dots, as in 2.60.0)"),
        ('cuda: "13.2"', 'cuda: "13"', "    cuda", "stacks.tug.cuda: '13' is not a CUDA version of two parts, as in 13.2"),
        ('cuda: "13.2"', 'cuda: "13.2.1"', "    cuda", "stacks.tug.cuda: '13.2.1' is not a CUDA version of two parts, as in 13.2"),
        ('cuda: "13.2"', 'cuda: "١٣.٢"', "    cuda", "stacks.tug.cuda: '١٣.٢' is not a CUDA version of two parts, as in 13.2"),
        ('*python\n    cuda: "12.9"', '"3.13"\n    cuda: "12.9"', '    python: "3.13"', "stacks.raft.python: '3.13' is not a full Python version, as in 3.13.5 (Ray compares the patch level between nodes)"),
        ('    torch: "2.15.0"\n', "", "  tug", "stacks.tug.torch: is missing"),
        ('    torch: "2.15.0"\n', '    torch: "2.15.0"\n    nixl: "1.0"\n', "  tug", "stacks.tug: a train stack has no nixl: remove it, or make it image: llm"),
        ('    nixl: "1.3.2"\n', "", "  barge", "stacks.barge: an llm stack pins nixl"),
        ("    fabric: distro", "    fabric: distros", "    fabric", "stacks.tug.fabric: no fabric is named 'distros' (did you mean 'distro'?)"),
        ("    fabric: distro", "    fabric: xyz", "    fabric", "stacks.tug.fabric: no fabric is named 'xyz'"),
        ("  tug:\n", "  Tug:\n", "  Tug", "stacks.Tug: names are small letters and digits with '-' or '.' between them, at most 63"),
        ("  tug:\n", "  tug-:\n", "  tug-", "stacks.tug-: names are small letters and digits with '-' or '.' between them, at most 63"),
        ("  tug:\n", "  a..b:\n", "  a..b", "stacks.a..b: names are small letters and digits with '-' or '.' between them, at most 63"),
        ("  tug:\n", "  ../tug:\n", "  ../tug", "stacks.../tug: names are small letters and digits with '-' or '.' between them, at most 63"),
        ("  tug:\n", f"  {'t' * 64}:\n", "  ttt", f"stacks.{'t' * 64}: names are small letters and digits with '-' or '.' between them, at most 63"),
        ("  tug:\n", "  2.60:\n", "stacks", "stacks.2.6: a name is text: write it in quotes"),
        ("  tug:\n", "  tiny:\n", "stacks.tiny", "stacks.tiny: 'tiny' is a base's name already; choose another"),
        ("  tug:\n", "  os:\n", "  os", "stacks.os: 'os' is Drydock's own; choose another"),
        ("  tug:\n", "  default:\n", "  default", "stacks.default: 'default' is Drydock's own; choose another"),
        ("  tug:\n", "  buoy:\n  tug:\n", "  buoy", "stacks.buoy: expected a mapping, found nothing"),
    ],
)  # fmt: skip
def test_each_mistake(tmp_path: Path, old: str, new: str, line: str, expected: str) -> None:
    text = changed(old, new)
    number = line_of(text, "  tiny", "stacks:") if line == "stacks.tiny" else line_of(text, line)
    found = mistakes(tmp_path, text)
    assert f"{number}: {expected}" in found
    if "trian" not in text and "flavour" not in text:
        assert len(found) == 1


@pytest.mark.parametrize("key", ["images", "bases", "fabrics", "stacks"])
@pytest.mark.parametrize(
    ("value", "found"), [("", "nothing"), (" [a]", "a list"), (" text", "text"), (" 3", "a number")]
)
def test_a_table_that_is_no_mapping(tmp_path: Path, key: str, value: str, found: str) -> None:
    kept = [part for part in VERSIONS.split("\n\n") if not part.startswith(f"{key}:")]
    kept = [part for part in kept if key != "stacks" or not part.startswith("  ")]
    text = "\n\n".join([*kept, f"{key}:{value}"])
    expected = f"{line_of(text, f'{key}:')}: {key}: expected a mapping, found {found}"
    assert expected in mistakes(tmp_path, text)


def test_an_empty_matrix(tmp_path: Path) -> None:
    text = VERSIONS[: VERSIONS.index("stacks:")] + "stacks: {}\n"
    assert mistakes(tmp_path, text) == [f"{line_of(text, 'stacks')}: stacks: a matrix needs at least one stack"]


def test_a_kind_of_image_that_nobody_declares(tmp_path: Path) -> None:
    start, end = VERSIONS.index("  llm:\n"), VERSIONS.index("bases:")
    text = VERSIONS[:start] + VERSIONS[end:]
    line = line_of(text, "    image: llm")
    assert mistakes(tmp_path, text) == [
        f"{line}: stacks.barge.image: the matrix has no images.llm (title, description, size_budget_gb)"
    ]


def test_a_shared_mistake_is_named_where_each_stack_has_it(tmp_path: Path) -> None:
    text = changed('&python "3.13.5"', "&python 3.13")
    message = 'versions are written in quotes: "3.13" (without them YAML reads 13.10 as the number 13.1)'
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith("    python:")]
    assert mistakes(tmp_path, text) == [
        f"{line}: stacks.{stack}.python: {message}"
        for line, stack in zip(lines, ("tug", "barge", "raft"), strict=True)
    ]


def test_a_stack_that_stands_twice(tmp_path: Path) -> None:
    text = VERSIONS + "\n  tug:\n    image: llm\n"
    assert mistakes(tmp_path, text) == [
        f"{text.count(chr(10)) - 1}: stacks.tug: stands twice; the first is on line {line_of(text, '  tug')}"
    ]


@pytest.mark.parametrize(
    ("old", "new", "path", "says"),
    [
        (f"sha256: {SHA}", "sha256: abc", "sha256", "'abc' is not a SHA-256 checksum of 64 hexadecimal digits"),
        ('installer: "1.50.0"', "installer: 1.5", "installer", 'versions are written in quotes: "1.5" (without them YAML reads 13.10 as the number 13.1)'),
        ("libfabric: 2.6.0amzn1.0", "libfabric: v2", "libfabric", "'v2' is not a version that starts with a digit"),
        ('rdma_core: "64.0"', "rdma_cor: '64'", "rdma_cor", "unknown key (did you mean 'rdma_core'?)"),
    ],
)  # fmt: skip
def test_mistakes_in_an_efa_fabric(tmp_path: Path, old: str, new: str, path: str, says: str) -> None:
    rows = (
        f'    kind: efa\n    installer: "1.50.0"\n    sha256: {SHA}\n    aws_ofi_nccl: "1.21.1"\n'
        '    libfabric: 2.6.0amzn1.0\n    rdma_core: "64.0"\n'
    )
    assert load(tmp_path, with_fabric(rows)).fabrics["efa"].kind == "efa"
    text = with_fabric(rows.replace(old, new))
    assert f"{line_of(text, f'    {path}:')}: fabrics.efa.{path}: {says}" in mistakes(tmp_path, text)


@pytest.mark.parametrize(
    "reference",
    ["debian:trixie", "debian", f"Debian@sha256:{SHA}", f"debian@sha256:{SHA[1:]}", f"debian@sha512:{SHA}", f"a b@sha256:{SHA}"],
)  # fmt: skip
def test_a_base_image_needs_its_digest(tmp_path: Path, reference: str) -> None:
    text = changed("127.0.0.1:5000/bases/tiny@sha256:" + "1" * 64, reference)
    assert mistakes(tmp_path, text) == [
        (
            f"{line_of(text, '    image: ' + reference)}: bases.given.image: "
            f"'{reference}' is not an image reference with a digest, as in registry/name@sha256:…"
        )
    ]


def test_an_unknown_stack_has_its_nearest_name(tmp_path: Path) -> None:
    loaded = load(tmp_path, VERSIONS)
    with pytest.raises(BadInputError) as caught:
        loaded.stack("bagre")
    assert str(caught.value) == (
        "no stack is named 'bagre' (did you mean 'barge'?)\n  do:  name one of tug, barge, raft"
    )
    with pytest.raises(BadInputError, match=r"^no stack is named 'zzz'\n"):
        loaded.stack("zzz")


# Version-like text: what PEP 440 takes must be taken, and nothing else.
version_like = st.lists(
    st.sampled_from(["0", "1", "13", ".", "a", "rc", "post", "dev", "+", "-", "_", "!", " ", "v", "*", "٣", "\n"]),
    min_size=1,
    max_size=6,
).map("".join)
many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _pep440(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


@many
@given(version=version_like)
def test_a_version_is_one_of_pep_440_in_ascii(tmp_path: Path, version: str) -> None:
    text = changed('torch: "2.15.0"', f"torch: {json.dumps(version)}")
    if _pep440(version) and version.isascii() and version.strip() == version:
        assert load(tmp_path, text).stack("tug").torch == version
    else:
        with pytest.raises(MistakesError, match=r"stacks\.tug\.torch: .* is not a version"):
            load(tmp_path, text)


@many
@given(name=st.text(st.sampled_from("ab1.-_/A "), min_size=1, max_size=5))
def test_a_stack_name_is_what_docker_takes_in_a_repository(tmp_path: Path, name: str) -> None:
    # The distribution specification's grammar of one path component, without underscores.
    legal = re.fullmatch(r"[a-z0-9]+((\.|-+)[a-z0-9]+)*", name)
    text = changed("  tug:\n", f"  {json.dumps(name)}:\n")
    if legal:
        assert name in load(tmp_path, text).stacks
    else:
        with pytest.raises(MistakesError, match="names are small letters"):
            load(tmp_path, text)


@many
@given(data=st.data())
def test_a_matrix_with_any_value_anywhere_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    document = yaml.safe_load(VERSIONS.replace("support_end: 2027-11-30", 'support_end: "2027-11-30"'))
    place = document
    for _ in range(data.draw(st.integers(0, 3))):
        key = data.draw(st.sampled_from(sorted(place, key=str)))
        if not isinstance(place[key], dict):
            break
        place = place[key]
    key = data.draw(st.sampled_from([*sorted(place, key=str), "new"]))
    place[key] = data.draw(
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), st.text("ab1.-"),
            st.lists(st.text("ab"), max_size=2), st.dictionaries(st.one_of(st.text("ab"), st.integers()), st.none(), max_size=2),
        )
    )  # fmt: skip
    # Anything else than a DrydockError fails the test.
    with contextlib.suppress(DrydockError):
        load(tmp_path, yaml.safe_dump(document))

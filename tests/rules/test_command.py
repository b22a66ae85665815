"""`drydock matrix`: the table, the check, their exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from buildspec import cli
from buildspec.errors import BadInputError, ExitCode
from buildspec.rules import table
from tests.local_index import Wheel, serving
from tests.rules.checkout import EFA, LLM, TRAIN, Row, efa, write, write_lock

Matrix = Callable[..., tuple[int, str]]


@pytest.fixture
def matrix(capsys: pytest.CaptureFixture[str]) -> Matrix:
    def run(*arguments: str) -> tuple[int, str]:
        code = cli.dispatch(["matrix", *arguments])
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    def make(stacks: dict[str, Row], **options: object) -> Path:
        folder = tmp_path / "checkout"
        write(folder, stacks, **options)  # type: ignore[arg-type]
        monkeypatch.chdir(folder)
        # An index that nobody asks, and a cache that nobody filled.
        monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
        monkeypatch.setenv("DRYDOCK_CACHE", str(tmp_path / "cache"))
        return folder

    return make


def test_the_table(matrix: Matrix, place: Callable[..., Path]) -> None:
    stacks = {
        "train-2.60": TRAIN | {"fabric": "efa", "instances": ["p5.48xlarge", "p4d.24xlarge"]},
        "llm-2.54": LLM | {"cuda": "12.8", "status": "retired"},
    }
    place(stacks, fabric=efa("1.50.0"))

    code, out = matrix()
    assert code == ExitCode.DONE
    assert [line.split("  ")[0] for line in out.splitlines()] == ["Stack", "train-2.60", "llm-2.54"]
    for text in (
        "2.15.0",
        ">= 580.65.06",
        ">= 525.60.13",
        "p5.48xlarge, p4d.24xlarge",
        "yes (1.50.0)",
        "2027-11-30",
    ):
        assert text in out

    code, out = matrix("--json")
    first, second = json.loads(out)["stacks"]
    assert first["pins"]["torch"] == "2.15.0"
    assert (first["efa"], first["efa_installer"], second["efa"]) == (True, "1.50.0", False)
    assert (first["driver_floor"], second["driver_floor"]) == ("580.65.06", "525.60.13")
    assert first["audited_digest"] is None


def test_the_readme_is_generated_and_checked_for_drift(matrix: Matrix, place: Callable[..., Path]) -> None:
    folder = place({"train-2.60": TRAIN})
    readme = folder / "README.md"
    with pytest.raises(BadInputError, match=r"README\.md can't be read"):
        matrix("--markdown", "--write")
    readme.write_text("# Ships\n\nBefore.\n")
    with pytest.raises(BadInputError, match="has no place for the table"):
        matrix("--markdown", "--write")
    readme.write_text(f"# Ships\n\n{table.BEGIN}\n{table.END}\n\nAfter.\n")
    assert matrix("--check", "--offline")[0] == ExitCode.NOT_PROVEN

    assert matrix("--markdown", "--write")[0] == ExitCode.DONE

    text = readme.read_text()
    assert text.startswith(f"# Ships\n\n{table.BEGIN}\n| Stack | Status | python |")
    assert text.endswith(f"{table.END}\n\nAfter.\n")
    assert matrix("--markdown")[1].strip() in text
    assert matrix("--check", "--offline")[0] == ExitCode.DONE
    readme.write_text(text.replace("2.15.0", "2.15.1"))
    code, out = matrix("--check", "--offline")
    assert code == ExitCode.NOT_PROVEN
    assert "[docs.table]" in out
    with pytest.raises(BadInputError, match="--write goes with --markdown"):
        matrix("--write")


def test_a_violation_is_told_with_everything_that_one_needs(matrix: Matrix, place: Callable[..., Path]) -> None:
    place({"train-2.60": TRAIN | {"nccl": "2.29.7"}})

    code, out = matrix("--check", "--offline")

    assert code == ExitCode.NOT_PROVEN
    shown = next(block for block in out.split("\n\n") if ": error: " in block)
    number = next(
        number for number, line in enumerate(Path("versions.yaml").read_text().splitlines(), 1) if "nccl:" in line
    )
    assert f"versions.yaml:{number}: error: stacks.train-2.60.nccl [packages.requires]" in shown
    assert shown.splitlines()[1:] == [
        "  pinned   nvidia-nccl-cu13 2.29.7",
        "  needed   nvidia-nccl-cu13 ==2.30.7",
        "  because  torch 2.15.0 requires nvidia-nccl-cu13==2.30.7",
        '  says     torch 2.15.0 (Requires-Dist: nvidia-nccl-cu13==2.30.7; platform_system == "Linux")',
        "  nearest  nccl 2.30.7 (up)",
        "           torch 2.13.0 (down) with nccl 2.29.7",
        "  do       move nccl, or torch",
    ]


def test_machines_get_the_same(matrix: Matrix, place: Callable[..., Path]) -> None:
    place({"train-2.60": TRAIN | {"nccl": "2.29.7"}})
    code, out = matrix("--check", "--offline", "--json")
    result = json.loads(out)
    assert code == result["exit_code"] == ExitCode.NOT_PROVEN
    assert result["index"] == "not asked"
    assert [(f["severity"], f["rule"]) for f in result["findings"]] == [
        ("error", "packages.requires"),
        ("warning", "lock.fresh"),
    ]
    assert all(
        {"pinned", "needed", "says", "nearest", "remedy", "confidence"} <= f.keys() for f in result["findings"]
    )


def test_warnings_and_unknowns_pass_unless_strict(matrix: Matrix, place: Callable[..., Path]) -> None:
    place({"train-2.60": TRAIN})
    assert matrix("--check", "--offline")[0] == ExitCode.DONE
    assert matrix("--check", "--offline", "--strict")[0] == ExitCode.NOT_PROVEN


def test_what_can_not_be_proven_without_an_index_is_no_pass(matrix: Matrix, place: Callable[..., Path]) -> None:
    place({"train-2.60": TRAIN | {"ray": "2.60.7"}})
    code, out = matrix("--check", "--offline")
    assert code == ExitCode.ENVIRONMENT
    assert "unknown: stacks.train-2.60.ray [packages.exists]" in out
    assert "it may be newer, or not exist" in out


def test_a_fresh_lock_proves_pins_that_nothing_else_knows(matrix: Matrix, place: Callable[..., Path]) -> None:
    """uv resolved exactly these pins: they fit together, whatever is recorded."""
    folder = place({"train-2.60": TRAIN | {"ray": "2.60.7"}})
    from buildspec.project import Project  # noqa: PLC0415

    write_lock(Project.find(folder), "train-2.60", "ray==2.60.7\n")
    assert matrix("--check", "--offline")[0] == ExitCode.DONE


def test_an_index_out_of_reach_is_named_and_the_rest_is_judged(
    matrix: Matrix, place: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("buildspec.index.web._PAUSES", ())
    place({"train-2.60": TRAIN}, fabric=efa("1.50.0", rdma_core=EFA["1.49.0"]["rdma_core"]))
    code = cli.dispatch(["matrix", "--check"])
    printed = capsys.readouterr()
    assert code == ExitCode.NOT_PROVEN
    assert "[efa.carries]" in printed.out
    assert "is out of reach" in printed.err


def test_the_index_is_asked(matrix: Matrix, place: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    place({"train-2.60": TRAIN})
    with serving([Wheel("ray", "2.60.0", ()), Wheel("torch", "2.15.0", ("nvidia-nccl-cu13==2.31.2",))]) as served:
        monkeypatch.setenv("UV_DEFAULT_INDEX", served.url)
        code, out = matrix("--check", "--json")
    found = {(f["rule"], f["pinned"]) for f in json.loads(out)["findings"] if f["severity"] == "error"}
    assert code == ExitCode.NOT_PROVEN
    assert found == {
        ("packages.requires", "nvidia-nccl-cu13 2.30.7"),
        ("packages.cuda", "torch 2.15.0"),
        ("packages.exists", "nvidia-nccl-cu13 2.30.7"),
        ("packages.exists", "cuda-toolkit 13.2"),
    }

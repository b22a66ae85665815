"""`drydock nccl` as people call it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from buildspec.cli import dispatch
from buildspec.errors import BadInputError, EnvironmentLacksError, NotProvenError
from tests.nccl.logs import path
from validate.nccl.result import from_json


def _log(name: str) -> str:
    return str(path(name))


def test_text_names_verdict_cause_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["nccl", _log("101")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("socket: TCP sockets\n")
    assert "[plugin-not-found]" in out
    assert f"{_log('101')}:5: trainer-0:88:140 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so." in out
    assert "NCCL 2.27.5+cuda12.9" in out


def test_json_is_the_library_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["nccl", "--json", _log("201")]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "mixed"
    assert data["hosts"] == {"efa-gdr": ["node-a"], "socket": ["node-b"]}
    assert from_json(data).cause.id == "plugin-not-found"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("v221_efa_gdr_ofi19", "efa"),
        ("v221_efa_gdr_ofi19", "efa-gdr"),
        ("v226_efa_no_gdr", "efa"),
        ("v24_ib_gdr", "ib"),
        ("v218_roce", "roce"),
        ("101", "socket"),
        ("v223_nnodes_one_with_efa_talk", "intra-node"),
        ("101", "SOCKET"),
    ],
)
def test_expected_verdicts_pass(log: str, expected: str) -> None:
    assert dispatch(["nccl", "--expect", expected, _log(log)]) == 0


@pytest.mark.parametrize(
    ("log", "expected", "reason"),
    [
        ("101", "efa", "expected efa, found socket"),
        ("v226_efa_no_gdr", "efa-gdr", "expected efa-gdr, found efa"),
        ("201", "efa", "expected efa, found mixed"),
        ("110", "efa", "the log does not show which network"),
        ("v225_provider_tcp", "efa", "found socket"),
        ("v218_roce", "ib", "found roce"),
        ("v223_nnodes_one_with_efa_talk", "efa", "found intra-node"),
        ("106", "efa", "found failed"),
        ("document_readme", "efa", "does not show"),
    ],
)
def test_other_verdicts_are_not_proven(
    log: str, expected: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotProvenError, match=reason):
        dispatch(["nccl", "--expect", expected, _log(log)])
    assert capsys.readouterr().out, "the judgement is printed all the same"


@pytest.mark.parametrize("word", ["tcp", "zzz", "1", ""])
def test_an_expectation_like_no_verdict_lists_the_legal_ones(word: str) -> None:
    with pytest.raises(BadInputError, match="no such verdict") as error:
        dispatch(["nccl", "--expect", word, _log("101")])
    assert error.value.remedy == "Legal are: efa, efa-gdr, ib, ib-gdr, roce, socket, other-plugin, intra-node"


def test_unknown_expectation_names_the_nearest() -> None:
    with pytest.raises(BadInputError, match="no such verdict") as error:
        dispatch(["nccl", "--expect", "efa-gpr", _log("101")])
    assert "did you mean efa-gdr?" in error.value.remedy
    for never in ("unknown", "mixed", "failed"):
        with pytest.raises(BadInputError):
            dispatch(["nccl", "--expect", never, _log("101")])


def test_empty_input_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.log").touch()
    with pytest.raises(BadInputError, match="empty"):
        dispatch(["nccl", str(tmp_path / "empty.log")])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(BadInputError, match="<stdin>: empty"):
        dispatch(["nccl"])


def test_binary_junk_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "junk").write_bytes(bytes(range(256)) * 50)
    assert dispatch(["nccl", str(tmp_path / "junk")]) == 0
    assert capsys.readouterr().out.startswith("unknown:")


def test_timeout_goes_with_watch() -> None:
    with pytest.raises(BadInputError, match="--timeout goes with --watch"):
        dispatch(["nccl", "--timeout", "3", _log("101")])


def test_unwritable_page_is_said(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacksError, match="cannot be written"):
        dispatch(["nccl", "--html", str(tmp_path / "no" / "page.html"), _log("101")])


def test_unknown_instance_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="no rates are known"):
        dispatch(["nccl", "--instance", "p9.huge", _log("101")])


@pytest.mark.integration
def test_exit_codes_and_no_tracebacks(tmp_path: Path) -> None:
    def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        program = "import sys; from buildspec.cli import main; sys.exit(main())"
        return subprocess.run(
            [sys.executable, "-c", program, "nccl", *arguments],
            input=given,
            capture_output=True,
            check=False,
            cwd=tmp_path,
        )

    results = {
        0: run(given=path("101").read_bytes()),
        1: run("--expect", "efa", _log("101")),
        2: run("missing.log"),
    }
    for code, result in results.items():
        assert result.returncode == code, result
        assert b"Traceback" not in result.stderr
    assert run(given=b"").returncode == 2
    assert run("--no-such-option").returncode == 2


@pytest.mark.integration
def test_benchmark_runs_on_a_small_log(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "nccl_log.py"
    result = subprocess.run(
        [sys.executable, str(script), "--gigabytes", "0.005"], capture_output=True, check=False, cwd=tmp_path
    )
    assert result.returncode in (0, 1), result.stderr
    assert b"efa-gdr" in result.stdout
    assert b"ratio" in result.stdout

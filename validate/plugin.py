"""The pytest plugin: gives the checks their bench, decides applicability, and records each outcome.

Every outcome is written to standard output as one JSON line as soon as it is known; `validate.suite` reads
them. pytest's own outcomes agree: fail and error fail, not-applicable and blocked are skips.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, DockerException

from validate.bench import Bench
from validate.catalogue import Check
from validate.claims import Claims
from validate.facts import Facts
from validate.outcome import BlockedError, CheckFailedError, Outcome
from validate.request import Request

REQUEST_OPTION = "--drydock-request"
REASON_CHARACTERS = 2000
PR_SET_PDEATHSIG = 1  # linux/prctl.h
EVIDENCE_LINES = 30
EVIDENCE_CHARACTERS = 400


class Said:
    """What a check tells beside pass or fail: the reason of a pass, and lines of evidence."""

    def __init__(self) -> None:
        self.reason = ""
        self.lines: list[str] = []

    def because(self, reason: str) -> None:
        """Say what was observed that makes this a pass."""
        self.reason = reason

    def line(self, text: str) -> None:
        """Add a line of evidence."""
        self.lines.append(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the one option that the suite needs."""
    parser.addoption(REQUEST_OPTION, type=Path, required=True, help="the request's JSON file")


def _end_with_parent() -> None:
    """Have the kernel interrupt us when the process that started the checks is killed: nobody reads them then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def pytest_configure(config: pytest.Config) -> None:
    """Open the bench and register what uses it."""
    _end_with_parent()
    request = Request.read(config.getoption(REQUEST_OPTION))
    os.environ["DOCKER_HOST"] = request.docker_host  # testinfra's docker backend takes it from there
    config.pluginmanager.register(Session(request), "drydock-session")


class Session:
    """Hooks and fixtures of one run."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.open_bench = request.bench()
        self._notes: dict[str, Said] = {}

    @pytest.fixture(scope="session")
    def bench(self) -> Bench:
        """The image with its lab and experiments."""
        return self.open_bench

    @pytest.fixture(scope="session")
    def claims(self) -> Claims:
        """What the image is held to."""
        return self.request.claims

    @pytest.fixture
    def facts(self) -> Facts:
        """What the probe saw."""
        return self.open_bench.facts

    @pytest.fixture
    def said(self, request: pytest.FixtureRequest) -> Said:
        """Where the check tells what it saw."""
        return self._notes.setdefault(request.node.nodeid, Said())

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the checks of the levels asked for, and start what they need before the first one runs."""
        items[:] = [item for item in items if _check(item).level in self.request.levels]
        wanted: dict[Any, None] = {}
        for item in items:
            entry = _check(item)
            if entry.applies.by_claims(self.request.claims) and entry.applies.by_facts is None:
                wanted.update(dict.fromkeys(entry.needs))
        # The longest first: the others fit beside it.
        self.open_bench.start(sorted(wanted, key=lambda one: -LONG.get(one.__name__, 0)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> None:
        """Skip a check that does not apply, by its declared rule."""
        rule = _check(pyfuncitem).applies
        applies = rule.by_claims(self.request.claims)
        if applies and rule.by_facts is not None:
            applies = rule.by_facts(self.open_bench.facts)
        if not applies:
            self._tell(pyfuncitem, Outcome.NOT_APPLICABLE, f"applies to images that {rule.text}")
            pytest.skip("not applicable")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn what happened into one of the five outcomes."""
        report = yield
        said = self._notes.get(item.nodeid, Said())
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, KeyboardInterrupt) or (error is None and call.when != "call"):
            return report
        match error:
            case None:
                self._tell(item, Outcome.PASS, said.reason or _check(item).proves, said.lines)
            case CheckFailedError():
                self._tell(item, Outcome.FAIL, error.reason, [*error.evidence, *said.lines])
            case BlockedError():
                self._tell(item, Outcome.BLOCKED, error.missing, said.lines)
                report.outcome = "skipped"
            case pytest.skip.Exception():
                pass
            case APIError() if (cause := _image_can_not_run(error)) is not None:
                self._tell(item, Outcome.FAIL, cause, [str(error.explanation)])
            case _:
                self._tell(item, Outcome.ERROR, _words(error), traceback.format_exception(error)[-3:])
        return report

    def pytest_unconfigure(self) -> None:
        """Leave nothing on the engine."""
        self.open_bench.close()

    def _tell(self, item: pytest.Item, outcome: Outcome, reason: str, evidence: list[str] | None = None) -> None:
        entry = _check(item)
        row = {
            "id": entry.id,
            "level": entry.level.value,
            "outcome": outcome.value,
            "reason": reason[:REASON_CHARACTERS],
            "evidence": [line[:EVIDENCE_CHARACTERS] for line in (evidence or [])[:EVIDENCE_LINES]],
        }
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


# Seconds on two cores, roughly; only their order matters.
LONG = {"head": 60, "facts": 35, "llm_app": 30, "arbitrary_user": 25, "imports": 25, "torch": 10}


def _check(item: pytest.Item) -> Check:
    found = getattr(getattr(item, "function", None), "drydock_check", None)
    if not isinstance(found, Check):
        raise pytest.UsageError(f"{item.nodeid} is no check: decorate it with validate.catalogue.check")
    return found


def _image_can_not_run(error: APIError) -> str | None:
    """What the image lacks when the engine could not start a program of it; None for the engine's own trouble."""
    match = re.search(r'exec: "([^"]+)": .*(not found|no such file|permission denied)', str(error.explanation))
    return f"the image can't start {match[1]}: {match[2]}" if match else None


def _words(error: BaseException) -> str:
    if isinstance(error, DockerException):
        return f"the engine refused what this check needs: {error}"
    return f"the check itself broke: {type(error).__name__}: {error}"

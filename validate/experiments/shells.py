"""What a process finds in its environment, by each way in which an orchestrator starts one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from validate.bench import Bench
from validate.lab import Ran

# The three ways: exec of the program, KubeRay's `bash -c`, and its login shell.
WAYS: Mapping[str, str] = {
    "exec": "{}",
    "bash -c": "/bin/bash -c -- '{}'",
    "bash -lc": "/bin/bash -cl -- '{}'",
}


@dataclass(frozen=True, slots=True)
class Shells:
    """Environment variables by way; a way that doesn't work has none, and says why in `problems`."""

    variables: Mapping[str, Mapping[str, str]]
    problems: Mapping[str, str]


def shells(bench: Bench) -> Shells:
    """Experiment: the environment in exec, in `bash -c` and in `bash -lc`."""
    variables, problems = {}, {}
    for way, form in WAYS.items():
        ran = bench.lab.sh(bench.lab.main, form.format("env -0"))
        if ran.code:
            problems[way] = f"{ran.command} {ran.ending}: {ran.said}"
        rows = (row.partition("=") for row in ran.out.split("\0") if "=" in row)
        variables[way] = {name: value for name, _, value in rows}
    return Shells(variables, problems)


def ray_by_each_way(bench: Bench) -> Mapping[str, Ran]:
    """Experiment: `ray --version` by each way."""
    return {way: bench.lab.sh(bench.lab.main, form.format("ray --version")) for way, form in WAYS.items()}

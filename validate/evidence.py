"""Evidence: the outcomes of all checks on one image, bound to the image, the suite and the environment."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from validate.errors import EngineGoneError
from validate.outcome import Level, Outcome

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the checks ran: what could make them come out differently on the same image."""

    engine: str
    kernel: str
    arch: str
    cpus: int
    memory_gib: int
    cgroup: str
    storage: str
    runtimes: tuple[str, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `asdict` wrote."""
        return cls(**{**data, "runtimes": tuple(data["runtimes"])})


def environment(docker_host: str) -> Environment:
    """Ask the engine where it runs. Raises EngineGoneError."""
    try:
        client = docker.DockerClient(base_url=docker_host)
        try:
            info = client.info()
        finally:
            client.close()
    except (DockerException, RequestException) as error:
        raise EngineGoneError(
            f"the container engine at {docker_host} does not answer: {error}",
            why="it is not running, or its address is wrong",
            remedy="start it (`drydock engine start`), or set DOCKER_HOST",
        ) from error
    return Environment(
        engine=info["ServerVersion"],
        kernel=info["KernelVersion"],
        arch=info["Architecture"],
        cpus=info["NCPU"],
        memory_gib=round(info["MemTotal"] / 2**30),
        cgroup=info.get("CgroupVersion", "1"),
        storage=info["Driver"],
        runtimes=tuple(sorted(name for name in info.get("Runtimes", {}) if not name.startswith("io."))),
    )


@dataclass(frozen=True, slots=True)
class ImageUnderTest:
    """The image that is looked at: how it was named, its config digest, its manifest's digest if known."""

    ref: str
    id: str
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What became of one check. `reason` is for people; `evidence` are the lines it rests on."""

    id: str
    level: Level
    outcome: Outcome
    reason: str
    evidence: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read one row of `checks`."""
        return cls(
            data["id"],
            Level(data["level"]),
            Outcome(data["outcome"]),
            data["reason"],
            tuple(data["evidence"]),
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """All outcomes for one image. It holds for this image id, this suite and this environment only."""

    image: ImageUnderTest
    stack: str | None
    suite: str
    environment: Environment
    checks: tuple[CheckResult, ...]

    @property
    def summary(self) -> dict[str, int]:
        """How many checks had each outcome; every outcome is named, also with none."""
        return {outcome.value: sum(row.outcome is outcome for row in self.checks) for outcome in Outcome}

    @property
    def levels(self) -> frozenset[Level]:
        """The levels that were asked for."""
        return frozenset(row.level for row in self.checks)

    @property
    def passed(self) -> bool:
        """No check failed or broke, something passed, and no level was only blocked.

        A blocked check is no evidence: a level that was asked for and could not be looked at did not pass.
        """
        of = {outcome: {row.level for row in self.checks if row.outcome is outcome} for outcome in Outcome}
        bad = of[Outcome.FAIL] | of[Outcome.ERROR] | (of[Outcome.BLOCKED] - of[Outcome.PASS])
        return bool(of[Outcome.PASS]) and not bad

    def covers(self, image_id: str, suite_hash: str, levels: Collection[Level], environment: Environment) -> bool:
        """Tell whether this evidence still answers for that image, suite, environment and levels."""
        return (
            self.image.id == image_id
            and self.suite == suite_hash
            and self.environment == environment
            and set(levels) <= self.levels
        )

    def to_json(self) -> dict[str, Any]:
        """The content of report.json."""
        return {
            "schema": SCHEMA,
            "image": asdict(self.image),
            "stack": self.stack,
            "suite": self.suite,
            "environment": {**asdict(self.environment), "runtimes": list(self.environment.runtimes)},
            "checks": [
                {
                    "id": row.id,
                    "level": row.level.value,
                    "outcome": row.outcome.value,
                    "reason": row.reason,
                    "evidence": list(row.evidence),
                }
                for row in self.checks
            ],
            "summary": self.summary,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read report.json's content. Raises ValueError or KeyError for anything else."""
        if data["schema"] != SCHEMA:
            raise ValueError(f"evidence of schema {data['schema']}, expected {SCHEMA}")
        return cls(
            image=ImageUnderTest(**data["image"]),
            stack=data["stack"],
            suite=data["suite"],
            environment=Environment.from_json(data["environment"]),
            checks=tuple(CheckResult.from_json(row) for row in data["checks"]),
        )

    def write(self, file: Path) -> None:
        """Write report.json."""
        file.write_text(json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Read report.json; None when there is none, or none that this version understands."""
        try:
            return cls.from_json(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            return None

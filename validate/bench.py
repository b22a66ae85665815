"""The bench: one image with its claims, its lab, and the experiments that run on it side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from validate.claims import Claims
from validate.evidence import Environment, ImageUnderTest
from validate.facts import Facts
from validate.lab import Lab

Result = TypeVar("Result")

# Experiments mostly wait for processes in containers; more of them at once than this make Ray's own
# timeouts run out on a machine of two cores.
WORKERS = 3


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What the engine tells of an image without running it."""

    environment: Mapping[str, str]
    labels: Mapping[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    user: str
    architecture: str
    size: int
    history: tuple[tuple[str, int], ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ImageConfig:
        """Read what `asdict` wrote."""
        return cls(
            environment=data["environment"],
            labels=data["labels"],
            entrypoint=tuple(data["entrypoint"]),
            command=tuple(data["command"]),
            user=data["user"],
            architecture=data["architecture"],
            size=data["size"],
            history=tuple((text, size) for text, size in data["history"]),
        )


class Bench:
    """Runs each experiment at most once; whoever asks for its result waits for it."""

    def __init__(
        self,
        lab: Lab,
        image: ImageUnderTest,
        config: ImageConfig,
        claims: Claims,
        environment: Environment,
        facts_file: Path | None = None,
    ) -> None:
        self.lab = lab
        self.image = image
        self.config = config
        self.claims = claims
        self.environment = environment
        self.facts_file = facts_file
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="experiment")
        self._futures: dict[Callable[..., Any], Future[Any]] = {}
        self._lock = threading.Lock()

    def start(self, experiments: Sequence[Callable[[Bench], Any]]) -> None:
        """Begin experiments in this order."""
        for experiment in experiments:
            self._future(experiment)

    def seen(self, experiment: Callable[[Bench], Result]) -> Result:
        """The result of an experiment; raises what it raised."""
        result: Result = self._future(experiment).result()
        return result

    def _future(self, experiment: Callable[[Bench], Result]) -> Future[Result]:
        with self._lock:
            if experiment not in self._futures:
                self._futures[experiment] = self._pool.submit(experiment, self)
            return self._futures[experiment]

    @property
    def facts(self) -> Facts:
        """The probe's facts; waits for them."""
        from validate.experiments.probing import facts  # noqa: PLC0415 - experiments import the bench

        return self.seen(facts)

    def close(self) -> None:
        """Start nothing more, remove all containers, then wait for what still runs in them."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.lab.close()
        self._pool.shutdown(wait=True)

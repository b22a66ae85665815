"""What one run of the suite is asked: passed from the command to the pytest process as one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from validate.bench import Bench, ImageConfig
from validate.claims import Claims
from validate.evidence import Environment, ImageUnderTest
from validate.lab import Lab
from validate.outcome import Level


@dataclass(frozen=True, slots=True)
class Request:
    """One image, the levels asked for, and where everything is."""

    docker_host: str
    run: str
    image: ImageUnderTest
    config: ImageConfig
    claims: Claims
    environment: Environment
    levels: tuple[Level, ...]
    facts_file: Path

    def write(self, file: Path) -> None:
        """Write the request for `read`."""
        data = {
            "docker_host": self.docker_host,
            "run": self.run,
            "image": asdict(self.image),
            "config": asdict(self.config),
            "claims": self.claims.to_json(),
            "environment": asdict(self.environment),
            "levels": list(self.levels),
            "facts_file": str(self.facts_file),
        }
        file.write_text(json.dumps(data, default=_plain), encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read what `write` wrote."""
        data = json.loads(file.read_text(encoding="utf-8"))
        return cls(
            docker_host=data["docker_host"],
            run=data["run"],
            image=ImageUnderTest(**data["image"]),
            config=ImageConfig.from_json(data["config"]),
            claims=Claims.from_json(data["claims"]),
            environment=Environment.from_json(data["environment"]),
            levels=tuple(map(Level, data["levels"])),
            facts_file=Path(data["facts_file"]),
        )

    def bench(self) -> Bench:
        """Open the lab on the engine."""
        lab = Lab(self.docker_host, self.image.id, self.run)
        return Bench(lab, self.image, self.config, self.claims, self.environment, self.facts_file)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)

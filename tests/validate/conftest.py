"""Small real images for the suite to look at, made once per session from Debian's archive."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from docker.errors import ImageNotFound

from buildspec import matrix
from tests.conftest import ROOT
from tests.validate.mutants import small
from tests.validate.mutants.harness import LABEL, build

if TYPE_CHECKING:
    from buildspec.engine import Engine
    from buildspec.matrix import Matrix

# What the checks of an image with claims ask for, besides what every Debian has.
PACKAGES = ("python3", "bash", "wget", "openssl", "openssh-client", "ca-certificates")


def debian(engine: Engine, name: str, packages: tuple[str, ...]) -> str:
    """A Debian image of these packages, bootstrapped from the archive; kept on the engine for the next run."""
    reference = f"drydock-test/{name}:trixie"
    try:
        return str(engine.client.images.get(reference).id)
    except ImageNotFound:
        pass
    if shutil.which("mmdebstrap") is None:
        pytest.fail("these tests make a small Debian image: apt-get install mmdebstrap")
    include = [f"--include={','.join(packages)}"] if packages else []
    command = ["mmdebstrap", "--quiet", "--variant=minbase", *include, "trixie", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        imported = engine.client.api.import_image_from_stream(
            process.stdout,
            repository=reference.partition(":")[0],
            tag="trixie",
            changes=[f"LABEL {key}={value}" for key, value in LABEL.items()],
        )
    assert process.returncode == 0, imported
    return str(engine.client.images.get(reference).id)


@pytest.fixture(scope="session")
def minimal(engine: Engine) -> str:
    """Debian without Python."""
    return debian(engine, "minimal", ())


@pytest.fixture(scope="session")
def system(engine: Engine) -> str:
    """Debian with Python and the tools that orchestrators ask for."""
    return debian(engine, "system", PACKAGES)


@pytest.fixture(scope="session")
def bases(engine: Engine, system: str) -> dict[str, str]:
    """The good images that mutants are made from, by name; the engine's build cache knows them next time."""
    return {
        "small": build(engine, system, small.GOOD_LINES, small.GOOD_FILES, tag="drydock-test/small"),
        "plain": build(engine, system, small.PLAIN_LINES, small.PLAIN_FILES, tag="drydock-test/plain"),
    }


@pytest.fixture(scope="session")
def built(engine: Engine, root_matrix: Matrix) -> dict[str, str]:
    """The current Train and LLM images, as `nox -s build` leaves them on the engine, by kind."""
    found = {}
    for name in root_matrix.current():
        reference = f"drydock/{name}:local"
        try:
            found[str(root_matrix.stacks[name].image)] = str(engine.client.images.get(reference).id)
        except ImageNotFound:
            pytest.fail(f"these tests break real images, and {reference} is not there: run `nox -s build` first")
    return found


@pytest.fixture(scope="session")
def root_matrix() -> Matrix:
    """The checkout's own versions.yaml."""
    return matrix.load(ROOT / matrix.FILE_NAME)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where reports go."""
    return tmp_path / "report"

"""Integration: a small stack that is really built, and the servers around it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound
from docker.models.containers import Container

from buildspec import base, lock, plan
from buildspec import build as builds
from buildspec.base import Os
from buildspec.build import Built
from buildspec.engine import Engine
from buildspec.plan import Target
from buildspec.project import Project, Revision
from tests.buildspec.servers import Index, Proxy, registry, wheel
from tests.sample import VERSIONS, write_project

TEST = {"io.drydock": "test"}
REVISION = Revision("0123456789abcdef0123456789abcdef01234567", 1700000000)
PACKAGES = "openssh-client\nopenssh-server\npython3\ntini\n"
# The stack's ray pin is the version of a wheel that the private index has.
REQUIREMENTS = "dinghy=={ray}\noar\n"


@dataclass(frozen=True)
class Harbour:
    """A project with one base and one stack that are on the engine, and what they were made with.

    `stack` and `base` have names of this run alone, so that runs beside each other don't meet.
    """

    project: Project
    engine: Engine
    os: Os
    target: Target
    built: Built
    index: Index
    proxy: Proxy

    @property
    def stack(self) -> str:
        return self.built.stack

    @property
    def secrets(self) -> list[bytes]:
        return [self.index.password.encode(), self.proxy.password.encode()]

    def copy(self, folder: Path) -> Project:
        """A project of the same content elsewhere, which finds the same base on the engine."""
        shutil.copytree(self.project.images, folder / "images", symlinks=True)
        shutil.copy2(self.project.root / "versions.yaml", folder)
        shutil.copytree(self.project.out / self.os.name, folder / "out" / self.os.name)
        return Project.find(folder)


def settings(patch: pytest.MonkeyPatch, index: Index, proxy: Proxy) -> None:
    """The environment of a builder behind a proxy, with a private index and a CA of the company."""
    for name in ("UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        patch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "https_proxy"):
        patch.delenv(name, raising=False)
    patch.setenv("HTTPS_PROXY", proxy.url)
    patch.setenv("UV_DEFAULT_INDEX", index.url)
    patch.setenv("SSL_CERT_FILE", str(index.ca))


def remove(engine: Engine, *images: str) -> None:
    for image in images:
        try:
            engine.client.images.remove(image, force=True)
        except ImageNotFound:
            continue


@pytest.fixture(scope="session")
def gateway(engine: Engine) -> str:
    """This machine's address as containers see it."""
    rows = engine.client.networks.get("bridge").attrs["IPAM"]["Config"]
    return str(next(row["Gateway"] for row in rows if "." in row.get("Gateway", "")))


@pytest.fixture(scope="session")
def index(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    one = Index(gateway)
    one.add(wheel("dinghy", "2.60.0"), wheel("dinghy", "2.61.0"), wheel("oar", "1.4"), wheel("oar", "1.3"))
    with one.running(tmp_path_factory.mktemp("index")):
        yield one


@pytest.fixture(scope="session")
def proxy(gateway: str) -> Iterator[Proxy]:
    with Proxy(gateway).running() as one:
        yield one


@pytest.fixture(scope="session")
def registry_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as address:
        yield address


def python_of(system: Os) -> str:
    """The interpreter's version, from the base's Debian packages: python3.13 3.13.5-2+deb13u5 is 3.13.5."""
    version = next(package.version for package in system.packages if re.fullmatch(r"python3\.\d+", package.name))
    return version.split("-")[0]


def small_project(folder: Path, stack: str, name: str) -> Project:
    """The sample with its first stack and its bootstrapped base renamed."""
    versions = re.sub(r"\btug:", f"{stack}:", VERSIONS)
    versions = versions.replace("  tiny:", f"  {name}:").replace("base: tiny", f"base: {name}")
    return write_project(folder, versions=versions, train=REQUIREMENTS, packages=PACKAGES)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One worker of pytest-xdist at a time."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def tiny(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The results of one bootstrapped base, a folder with its name. Workers share it: the last removes it."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    users, place = shared / "users", shared / "bases"
    with alone(shared):
        if not place.exists():
            project = small_project(
                tmp_path_factory.mktemp("base") / "project", "any", f"tiny-{uuid.uuid4().hex[:8]}"
            )
            name = next(iter(project.matrix.bases))
            base.prepare(project, name, engine)
            shutil.copytree(project.out, place)
        users.write_text(str(int(users.read_text() if users.exists() else 0) + 1))
    [folder] = place.iterdir()
    yield folder
    with alone(shared):
        left = int(users.read_text()) - 1
        users.write_text(str(left))
        if left == 0:
            record = json.loads((folder / "base.json").read_text())
            remove(engine, record["reference"], record["image"])


@pytest.fixture(scope="session")
def harbour(
    engine: Engine, index: Index, proxy: Proxy, tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harbour]:
    """Lock a stack on the base and build it; all of it for real, removed at the end."""
    stack = f"tug-{uuid.uuid4().hex[:8]}"
    project = small_project(tmp_path_factory.mktemp("harbour") / "project", stack, tiny.name)
    shutil.copytree(tiny, project.out / tiny.name)
    system = base.prepare(project, tiny.name, engine)
    file = project.root / "versions.yaml"
    file.write_text(file.read_text().replace("3.13.5", python_of(system)))
    project = Project.find(project.root)
    with pytest.MonkeyPatch.context() as patch:
        settings(patch, index, proxy)
        lock.path(project, stack).write_text(lock.resolve(project, stack))
        target = plan.target(project, stack, system, REVISION)
        built = builds.build(project, [target], engine)[stack]
    yield Harbour(project, engine, system, target, built, index, proxy)
    remove(engine, built.tag)


@pytest.fixture
def behind_proxy(monkeypatch: pytest.MonkeyPatch, index: Index, proxy: Proxy) -> None:
    """The environment in which the small stack was built, for a test that builds again."""
    settings(monkeypatch, index, proxy)


Launch = Callable[..., Container]


@pytest.fixture
def launch(engine: Engine) -> Iterator[Launch]:
    """Start containers that are labelled as tests' and gone at the end."""
    started: list[Container] = []

    def start(image: str, command: list[str] | None = None, **options: Any) -> Container:
        container = engine.client.containers.create(image, command, labels=TEST, **options)
        started.append(container)
        container.start()
        return container

    try:
        yield start
    finally:
        for container in started:
            try:
                container.remove(force=True, v=True)
            except APIError as error:
                if error.status_code not in (404, 409):
                    raise

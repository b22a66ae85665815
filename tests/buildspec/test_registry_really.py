"""Push and pull with a real registry: digests, refusals, a base by digest."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from buildspec import base, plan, push
from buildspec.base import Os
from buildspec.errors import BadInputError, EnvironmentLacksError
from buildspec.project import Project
from tests.buildspec.conftest import REVISION, Harbour, remove
from tests.buildspec.servers import digest_at, free_port, registry
from tests.sample import VERSIONS, write_lock, write_project

pytestmark = pytest.mark.integration


def names(harbour: Harbour) -> set[str]:
    """Names that this image has on the engine."""
    return set(harbour.engine.client.images.get(harbour.built.image).tags)


def test_the_recorded_digest_is_the_registrys(harbour: Harbour, registry_address: str) -> None:
    pushed = push.push(harbour.project, harbour.built, f"{registry_address}/team/a", harbour.engine)
    assert pushed.repository == f"{registry_address}/team/a/drydock-train"
    assert pushed.digest == digest_at(registry_address, "team/a/drydock-train", harbour.stack)
    assert pushed.reference == f"{pushed.repository}@{pushed.digest}"
    assert pushed.image == harbour.built.image
    file = harbour.project.out / harbour.stack / "push.json"
    assert json.loads(file.read_text()) == dataclasses.asdict(pushed)


def test_a_push_leaves_no_name_behind_and_can_be_repeated(harbour: Harbour, registry_address: str) -> None:
    before = names(harbour)
    first = push.push(harbour.project, harbour.built, f"{registry_address}/team/b", harbour.engine)
    second = push.push(harbour.project, harbour.built, f"{registry_address}/team/b", harbour.engine)
    assert first == second
    assert names(harbour) == before == {harbour.built.tag}


def test_what_was_pushed_can_be_pulled_by_digest_and_is_the_same_image(
    harbour: Harbour, registry_address: str
) -> None:
    pushed = push.push(harbour.project, harbour.built, f"{registry_address}/team/c", harbour.engine)
    image = harbour.engine.client.images.pull(pushed.repository, tag=pushed.digest)
    assert image.id == harbour.built.image


def test_a_closed_port(harbour: Harbour) -> None:
    before = names(harbour)
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(EnvironmentLacksError) as caught:
        push.push(harbour.project, harbour.built, f"{address}/team", harbour.engine)
    first, why, remedy = str(caught.value).splitlines()
    assert first.startswith(f"the registry of {address}/team/drydock-train is out of reach: ")
    assert "connection refused" in first
    assert why == (
        "  why: it is down, its name is wrong, or it speaks plain HTTP (which engines accept only on loopback)"
    )
    assert remedy == (
        "  do:  check the name and the network, then run this again: layers that arrived are not sent twice"
    )
    assert caught.value.code == 3
    assert names(harbour) == before


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry that lets nobody in: the password of its one user was thrown away."""
    # bcrypt of a random password, as `htpasswd -B` writes it.
    line = "nobody:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
    with registry(tmp_path_factory.mktemp("closed"), login=line) as address:
        yield address


def test_no_login(harbour: Harbour, closed: str) -> None:
    before = names(harbour)
    with pytest.raises(EnvironmentLacksError) as caught:
        push.push(harbour.project, harbour.built, f"{closed}/team", harbour.engine)
    first, why, remedy = str(caught.value).splitlines()
    assert first.startswith(f"the registry refuses the push to {closed}/team/drydock-train: ")
    assert why == "  why: no login for it on this machine, or one that may not write there"
    assert remedy == f"  do:  `docker login {closed}`, then run this again"
    assert caught.value.code == 3
    assert names(harbour) == before


@pytest.fixture(scope="module")
def given(
    harbour: Harbour, registry_address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Project, Os, str]]:
    """A base that is an image by digest in a registry, with one more package installed on it."""
    engine = harbour.engine
    name = f"given-{harbour.os.name}"
    repository = f"{registry_address}/bases/tiny"
    engine.client.images.get(harbour.os.image).tag(repository, tag="1")
    try:
        for event in engine.client.api.push(repository, tag="1", stream=True, decode=True):
            assert "error" not in event, event
    finally:
        engine.client.images.remove(f"{repository}:1", noprune=True)
    reference = f"{repository}@{digest_at(registry_address, 'bases/tiny', '1')}"
    versions = VERSIONS.replace("127.0.0.1:5000/bases/tiny@sha256:" + "1" * 64, reference)
    versions = versions.replace("  given:", f"  {name}:").replace("base: given", f"base: {name}")
    folder = tmp_path_factory.mktemp("given") / "project"
    packages = (harbour.project.images / "packages.txt").read_text() + "which\n"
    project = write_project(folder, versions=versions, packages=packages)
    os = base.prepare(project, name, engine)
    try:
        yield project, os, reference
    finally:
        remove(engine, os.reference, reference)


def test_a_base_by_digest_has_the_packages_installed_on_it(
    harbour: Harbour, given: tuple[Project, Os, str]
) -> None:
    _, os, _ = given
    before = {(package.name, package.architecture) for package in harbour.os.packages}
    now = {(package.name, package.architecture) for package in os.packages}
    assert now >= before
    added = {name for name, _ in now - before}
    assert "gnu-which" in added or "which" in added or "debianutils" in added
    assert all(package.sha256 for package in os.packages)


def test_a_base_by_digest_is_found_again(harbour: Harbour, given: tuple[Project, Os, str]) -> None:
    project, os, _ = given
    assert base.prepare(project, os.name, harbour.engine) == os


def test_a_base_by_digest_holds_no_host_key(harbour: Harbour, given: tuple[Project, Os, str]) -> None:
    found = harbour.engine.client.containers.run(
        given[1].image,
        ["/", "-xdev", "-name", "ssh_host_*"],
        entrypoint="find",
        remove=True,
        labels={"io.drydock": "test"},
    )
    assert found == b""


def test_a_base_by_digest_is_named_in_the_labels(given: tuple[Project, Os, str]) -> None:
    project, os, reference = given
    inputs = ["python 3.13.5", "platform x86_64-manylinux_2_40", "ray==2.58.1", "torch==2.13.0"]
    write_lock(project, "raft", "ray==2.58.1\n", inputs=[*inputs, "nvidia-nccl-cu12==2.29.7"])
    labels = plan.target(project, "raft", os, REVISION).labels
    name, digest = reference.split("@")
    assert labels["org.opencontainers.image.base.name"] == name
    assert labels["org.opencontainers.image.base.digest"] == digest


def test_a_package_that_the_archive_lacks(
    harbour: Harbour, given: tuple[Project, Os, str], tmp_path: Path
) -> None:
    project, os, _ = given
    shutil.copytree(project.root, tmp_path / "copy", ignore=shutil.ignore_patterns("out"))
    copy = Project.find(tmp_path / "copy")
    with (copy.images / "packages.txt").open("a") as file:
        file.write("no-such-package\nnor-this-one\n")
    with pytest.raises(BadInputError) as caught:
        base.prepare(copy, os.name, harbour.engine)
    assert str(caught.value) == (
        f"the archive of {os.name} has no package no-such-package, nor-this-one\n"
        "  do:  correct images/packages.txt, or the suite in versions.yaml"
    )


def test_docker_pulls_what_the_push_recorded(harbour: Harbour, registry_address: str) -> None:
    """With the docker command, as a user would."""
    pushed = push.push(harbour.project, harbour.built, f"{registry_address}/team/d", harbour.engine)
    done = subprocess.run(
        ["docker", "buildx", "imagetools", "inspect", pushed.reference], capture_output=True, text=True, check=True
    )
    assert pushed.digest in done.stdout

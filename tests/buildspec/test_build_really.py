"""A small stack, really built: by proxy, private index and CA; found again; refused when tampered with."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from buildspec import base, baselock, lock, plan
from buildspec import build as builds
from buildspec.errors import BadInputError, NotProvenError
from buildspec.project import CONSTANT_TIME, Project
from tests.buildspec.conftest import REVISION, Harbour, remove

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("behind_proxy"),
]


def inside(harbour: Harbour, *command: str) -> str:
    """Standard output of a command in a container of the image, without its entrypoint."""
    output = harbour.engine.client.containers.run(
        harbour.built.image,
        list(command[1:]),
        entrypoint=command[0],
        remove=True,
        network_mode="none",
        labels={"io.drydock": "test"},
    )
    assert isinstance(output, bytes)
    return output.decode()


def test_the_base_holds_the_packages_it_lists(harbour: Harbour) -> None:
    names = {package.name for package in harbour.os.packages}
    assert {"openssh-client", "openssh-server", "python3", "tini", "libc6", "bash"} <= names
    assert all(package.sha256 and len(package.sha256) == 64 for package in harbour.os.packages)
    listed = inside(harbour, "dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\n").splitlines()
    assert sorted(listed) == sorted(f"{p.name} {p.version} {p.architecture}" for p in harbour.os.packages)


def test_the_base_is_found_again_and_its_lock_fits(harbour: Harbour) -> None:
    assert base.prepare(harbour.project, harbour.os.name, harbour.engine) == harbour.os
    file = baselock.path(harbour.project, harbour.os.name)
    file.write_text(baselock.text(harbour.os))
    assert baselock.moved(baselock.read(harbour.project, harbour.os.name), harbour.os) == []


def test_the_base_has_drydocks_label_and_a_constant_time(harbour: Harbour) -> None:
    attributes = harbour.engine.client.images.get(harbour.os.image).attrs
    assert attributes["Config"]["Labels"]["io.drydock"] == "base"
    assert attributes["Created"].startswith("2020-01-01T00:00:00")
    assert CONSTANT_TIME == 1577836800


def test_the_image_holds_what_was_pinned(harbour: Harbour) -> None:
    code = "print(dinghy.version, oar.version, platform.python_version(), sys.prefix)"
    found = inside(harbour, "bash", "-lc", f"python -c 'import dinghy, oar, platform, sys; {code}'")
    assert found == f"2.60.0 1.4 {harbour.project.matrix.stack(harbour.stack).python} /opt/venv\n"


def test_labels_are_those_of_the_plan(harbour: Harbour) -> None:
    config = harbour.engine.client.images.get(harbour.built.image).attrs["Config"]
    assert config["Labels"] == harbour.target.labels
    for name, version in harbour.project.matrix.stack(harbour.stack).pins.items():
        assert config["Labels"][f"io.drydock.pin.{name}"] == version


def test_the_time_is_that_of_the_plan(harbour: Harbour) -> None:
    # date -u -d @1700000000
    assert harbour.target.labels["org.opencontainers.image.created"] == "2023-11-14T22:13:20Z"
    assert harbour.engine.client.images.get(harbour.built.image).attrs["Created"].startswith("2023-11-14T22:13:20")


def test_what_was_recorded_is_what_the_engine_has(harbour: Harbour) -> None:
    built = harbour.built
    image = harbour.engine.client.images.get(built.tag)
    assert built.image == image.id
    assert built.size == image.attrs["Size"] > 50_000_000
    assert built.layers == len(image.attrs["RootFS"]["Layers"]) >= 3
    assert built.seconds > 0
    file = harbour.project.out / built.stack / "build.json"
    assert json.loads(file.read_text()) == dataclasses.asdict(built)


def test_it_is_found_again_while_its_plan_is_the_same(harbour: Harbour) -> None:
    assert builds.existing(harbour.project, harbour.target, harbour.engine) == harbour.built
    other = dataclasses.replace(harbour.target, key="0" * 64)
    assert builds.existing(harbour.project, other, harbour.engine) is None


def test_it_is_not_found_when_the_engine_no_longer_has_it(harbour: Harbour, tmp_path: Path) -> None:
    project = harbour.copy(tmp_path / "copy")
    gone = dataclasses.replace(harbour.built, image="sha256:" + "0" * 64)
    (project.results(harbour.stack) / "build.json").write_text(json.dumps(dataclasses.asdict(gone)))
    assert builds.recorded(project, harbour.stack) == gone
    assert builds.existing(project, harbour.target, harbour.engine) is None


def test_everything_came_through_the_proxy(harbour: Harbour) -> None:
    port = harbour.index.url.split(":")[-1].split("/")[0]
    assert set(harbour.proxy.tunnels) == {f"{harbour.index.address}:{port}"}
    # At least one tunnel of the resolver on this machine and one from inside the build.
    assert len(harbour.proxy.tunnels) >= 2


def test_no_secret_is_in_the_image(harbour: Harbour) -> None:
    """In no layer, no ENV, no history: the whole saved image, byte by byte."""
    found = set()
    with subprocess.Popen(
        ["docker", "save", harbour.built.image],
        stdout=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", **harbour.engine.environment},
    ) as save:
        assert save.stdout is not None
        before, total = b"", 0
        while block := save.stdout.read(1 << 20):
            total += len(block)
            found |= {secret for secret in (*harbour.secrets, b"Small Train") if secret in before + block}
            before = block[-64:]
    assert save.returncode == 0
    assert total > harbour.built.size
    # The search finds what is there: the title is in the configuration.
    assert found == {b"Small Train"}


def test_no_secret_is_on_the_disk(harbour: Harbour) -> None:
    files = [file for file in harbour.project.root.rglob("*") if file.is_file()]
    assert any(file.name == "build.log" for file in files)
    for file in files:
        content = file.read_bytes()
        assert not [secret for secret in harbour.secrets if secret in content], file


def test_no_private_key_is_in_the_image(harbour: Harbour) -> None:
    pattern = "-----BEGIN [A-Z ]*PRIVATE KEY-----$"
    found = inside(
        harbour, "bash", "-c", f"grep -rIlE -e '{pattern}' / --exclude-dir=proc --exclude-dir=sys || true"
    )
    assert found == ""
    assert (
        inside(harbour, "find", "/", "-xdev", "-name", "ssh_host_*", "-o", "-xdev", "-name", "id_*", "-type", "f")
        == ""
    )


def test_two_stacks_in_one_go_share_their_layers(harbour: Harbour, tmp_path: Path) -> None:
    project = harbour.copy(tmp_path / "copy")
    file = project.root / "versions.yaml"
    text = file.read_text()
    start, end = text.index(f"  {harbour.stack}:"), text.index("  barge:")
    twin = f"{harbour.stack}-2"
    row = text[start:end].replace(harbour.stack, twin).replace("&python ", "").replace("&ray ", "")
    file.write_text(text[:end] + row + text[end:])
    project = Project.find(project.root)
    shutil.copy2(lock.path(project, harbour.stack), lock.path(project, twin))
    targets = [plan.target(project, name, harbour.os, REVISION) for name in (harbour.stack, twin)]
    built = builds.build(project, targets, harbour.engine)
    try:
        layers = [harbour.engine.client.images.get(one.tag).attrs["RootFS"]["Layers"] for one in built.values()]
        assert list(built) == [harbour.stack, twin]
        assert layers[0] == layers[1]
        assert built[harbour.stack].image == harbour.built.image
        assert built[twin].image != harbour.built.image
        log = (project.out / twin / "build.log").read_text()
        assert log == (project.out / harbour.stack / "build.log").read_text()
    finally:
        remove(harbour.engine, built[twin].tag)


def tampered(harbour: Harbour, folder: Path, old: str, new: str) -> tuple[Project, plan.Target]:
    """A copy of the project whose lock was edited, with the checksum in its header made to fit."""
    project = harbour.copy(folder)
    file = lock.path(project, harbour.stack)
    head, mark, rest = file.read_text().partition("# body sha256:")
    body = rest.split("\n", 1)[1]
    assert re.search(old, body)
    changed = re.sub(old, new, body)
    file.write_text(f"{head}{mark}{hashlib.sha256(changed.encode()).hexdigest()}\n{changed}")
    return project, plan.target(project, harbour.stack, harbour.os, REVISION)


def test_a_tampered_hash(harbour: Harbour, tmp_path: Path) -> None:
    project, target = tampered(harbour, tmp_path / "copy", r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}")
    with pytest.raises(NotProvenError) as caught:
        builds.build(project, [target], harbour.engine)
    assert re.fullmatch(
        r"the index served another file for (dinghy==2\.60\.0|oar==1\.4) than the lock names "
        r"\(it has sha256:[0-9a-f]{64}\)",
        caught.value.what,
    )
    assert str(project.out / harbour.stack / "build.log") in caught.value.remedy
    assert caught.value.code == 1
    assert not (project.out / harbour.stack / "build.json").exists()


def test_a_requirement_without_a_hash(harbour: Harbour, tmp_path: Path) -> None:
    project, target = tampered(
        harbour, tmp_path / "copy", r"(?s)(oar==1\.4) \\\n    --hash=sha256:[0-9a-f]{64}", r"\1"
    )
    with pytest.raises(
        BadInputError, match=r"^the lock has a requirement without a hash\n  do:  lock anew: `nox -s lock`$"
    ):
        builds.build(project, [target], harbour.engine)


def test_another_python_than_the_pinned_one(harbour: Harbour, tmp_path: Path) -> None:
    right = harbour.project.matrix.stack(harbour.stack).python
    target = dataclasses.replace(
        harbour.target, arguments={**harbour.target.arguments, "PYTHON_VERSION": "3.13.0"}
    )
    with pytest.raises(NotProvenError) as caught:
        builds.build(harbour.copy(tmp_path / "copy"), [target], harbour.engine)
    assert str(caught.value) == (
        f"the stack pins Python 3.13.0, but its base has {right}\n"
        "  why: Debian moved on to another patch release\n"
        f'  do:  write python: "{right}" in versions.yaml, then `nox -s lock`'
    )

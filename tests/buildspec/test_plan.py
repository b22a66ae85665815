"""The plan of a build."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildspec import plan
from buildspec.base import Os, Package
from buildspec.network import Network
from buildspec.project import Project, Revision
from tests.sample import BODY, INPUTS, write_lock

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REVISION = Revision(COMMIT, 1796000000)
OS = Os("tiny", "sha256:" + "5" * 64, "drydock/base-tiny:abc", (Package("libc6", "2.41-12", "amd64", "e" * 64),))
# SHA-256 of the JSON text of the one package, its keys sorted.
OS_DIGEST = "48b2bcbfdc1b05f2bbb0e82fa4c8ff8eabee1bf4b2e14f19eb9bb0ae4aa5a22e"
NETWORK = Network({"HTTP_PROXY": "http://u:hush@p"}, None)


@pytest.fixture
def locked(small: Project) -> Project:
    for name in ("tug", "barge", "raft"):
        write_lock(small, name, BODY, inputs=INPUTS[name])
    return small


def target(project: Project, name: str = "tug") -> plan.Target:
    return plan.target(project, name, OS, REVISION)


def test_arguments_are_the_pins_that_no_requirement_received(locked: Project) -> None:
    assert target(locked).arguments == {
        "PYTHON_VERSION": "3.13.5",
        "CUDA_VERSION": "13.2",
        "SOURCE_DATE_EPOCH": "1796000000",
    }


def test_every_argument_of_the_dockerfile_is_fed_for_every_real_stack(root: Path) -> None:
    project = Project.find(root)
    declared = {
        line.split()[1]
        for line in (root / "images" / "Dockerfile").read_text().splitlines()
        if line.startswith("ARG ")
    }
    assert declared
    for name in project.matrix.stacks:
        arguments = plan.target(project, name, OS, REVISION).arguments
        assert declared <= set(arguments), name
        assert set(arguments) <= declared | {"SOURCE_DATE_EPOCH"}, name


def test_labels_of_a_train_image(locked: Project) -> None:
    lock = target(locked).lock.sha256
    assert target(locked).labels == {
        "org.opencontainers.image.title": "Small Train",
        "org.opencontainers.image.description": "A small image for tests",
        "org.opencontainers.image.version": "2.60.0-cu13.2",
        "org.opencontainers.image.revision": COMMIT,
        # date -u -d @1796000000
        "org.opencontainers.image.created": "2026-11-30T00:53:20Z",
        "org.opencontainers.image.source": "https://git.example.org/harbour/ships",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.base.name": "debian:trixie",
        "org.opencontainers.image.base.digest": f"sha256:{OS.digest}",
        "io.drydock": "image",
        "io.drydock.stack": "tug",
        "io.drydock.image": "train",
        "io.drydock.fabric": "distro",
        "io.drydock.lock": lock,
        "io.drydock.pin.python": "3.13.5",
        "io.drydock.pin.cuda": "13.2",
        "io.drydock.pin.torch": "2.15.0",
        "io.drydock.pin.nccl": "2.30.7",
        "io.drydock.pin.ray": "2.60.0",
    }


def test_labels_equal_pins_for_every_stack(locked: Project) -> None:
    for name, stack in locked.matrix.stacks.items():
        labels = target(locked, name).labels
        found = {key.removeprefix("io.drydock.pin."): labels[key] for key in labels if "pin." in key}
        assert found == stack.pins


def test_labels_of_an_llm_image_name_what_is_left_out(locked: Project) -> None:
    labels = target(locked, "barge").labels
    assert labels["io.drydock.image"] == "llm"
    assert labels["io.drydock.pin.vllm"] == "0.29.0"
    assert labels["io.drydock.excluded"] == "nixl-cu12"


def test_a_base_by_digest_is_named_in_the_labels(locked: Project) -> None:
    labels = target(locked, "raft").labels
    assert labels["org.opencontainers.image.base.name"] == "127.0.0.1:5000/bases/tiny"
    assert labels["org.opencontainers.image.base.digest"] == "sha256:" + "1" * 64


def test_the_name_on_the_engine(locked: Project) -> None:
    assert target(locked).tag == "drydock/tug:local"


@pytest.mark.parametrize(("stack", "name"), [("train-2.60", "train-2_60"), ("a.b.c", "a_b_c"), ("tug", "tug")])
def test_bake_names_have_no_dot(locked: Project, stack: str, name: str) -> None:
    assert dataclasses.replace(target(locked), stack=stack).bake_name == name


def test_the_key_is_stable(locked: Project) -> None:
    assert target(locked).key == target(Project.find(locked.root)).key
    assert len(target(locked).key) == 64


CHANGES = {
    "a pin": ("versions.yaml", 'cuda: "13.2"', 'cuda: "13.3"'),
    "the title": ("versions.yaml", "title: Small Train", "title: Little Train"),
    "the licence": ("versions.yaml", "licenses: Apache-2.0", "licenses: MIT"),
    "the source": ("versions.yaml", "harbour/ships", "harbour/boats"),
    "the suite": ("versions.yaml", "suite: trixie\n    bootstrap", "suite: forky\n    bootstrap"),
    "the lock": ("images/locks/tug.txt", None, None),
    "the Dockerfile": ("images/Dockerfile", "WORKDIR /home/ray", "WORKDIR /"),
    "a build script": ("images/with-network", "set -eu", "set -eux"),
    "the root file system": ("images/rootfs/usr/local/bin/drydock-entrypoint", "set -eu", "set -u"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_key_changes_with_each_input(locked: Project, what: str) -> None:
    before = target(locked).key
    name, old, new = CHANGES[what]
    file = locked.root / name
    if old is None or new is None:
        write_lock(locked, "tug", BODY + "# more\n")
    else:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
    assert target(Project.find(locked.root)).key != before


def test_the_key_changes_with_mode_name_and_number_of_files(locked: Project) -> None:
    keys = {target(locked).key}
    script = locked.images / "rootfs" / "usr" / "local" / "bin" / "drydock-entrypoint"
    script.chmod(0o644)
    keys.add(target(locked).key)
    script.rename(script.with_name("other"))
    keys.add(target(locked).key)
    (locked.images / "rootfs" / "etc" / "new").write_text("")
    keys.add(target(locked).key)
    (locked.images / "rootfs" / "etc" / "link").symlink_to("new")
    keys.add(target(locked).key)
    (locked.images / "rootfs" / "etc" / "link").unlink()
    (locked.images / "rootfs" / "etc" / "link").symlink_to("other")
    keys.add(target(locked).key)
    (locked.images / "rootfs" / "srv").mkdir()
    keys.add(target(locked).key)
    assert len(keys) == 7


def test_the_key_changes_with_revision_and_base(locked: Project) -> None:
    other = dataclasses.replace(OS, packages=(Package("libc6", "2.41-13", "amd64", "f" * 64),))
    keys = {
        target(locked).key,
        plan.target(locked, "tug", other, REVISION).key,
        plan.target(locked, "tug", OS, Revision(COMMIT, 1796000001)).key,
        plan.target(locked, "tug", OS, Revision(COMMIT + "-dirty", 1796000000)).key,
    }
    assert len(keys) == 4


def test_the_key_stays_when_what_changes_is_no_input(locked: Project) -> None:
    before = target(locked).key
    (locked.images / "README").write_text("for people")
    (locked.images / "packages.txt").write_text("bash\n")
    (locked.root / "out").mkdir()
    write_lock(locked, "barge", BODY + "# other\n")
    file = locked.root / "versions.yaml"
    text = file.read_text()
    changed = text.replace("support_end: 2027-11-30", "support_end: 2028-01-31").replace("0.5", "0.6")
    file.write_text(changed.replace('vllm: "0.29.0"', 'vllm: "0.30.0"') + "# a comment\n")
    assert target(Project.find(locked.root)).key == before


def test_the_bake_file(locked: Project, tmp_path: Path) -> None:
    targets = [target(locked), dataclasses.replace(target(locked, "barge"), stack="barge-1.2")]
    content = plan.bake(targets, images=locked.images, contexts=tmp_path, network=NETWORK)
    assert content["group"] == {"default": {"targets": ["tug", "barge-1_2"]}}
    assert set(content["target"]) == {"tug", "barge-1_2"}
    assert content["target"]["tug"] == {
        "context": str(locked.images),
        "dockerfile": "Dockerfile",
        "contexts": {
            "os": "docker-image://drydock/base-tiny:abc",
            "tools": str(tmp_path / "tools"),
            "requirements": str(tmp_path / "tug"),
        },
        "args": targets[0].arguments,
        "labels": targets[0].labels,
        "secret": ["id=network,env=DRYDOCK_NETWORK"],
        "tags": ["drydock/tug:local"],
        "output": ["type=docker"],
    }
    assert content["target"]["barge-1_2"]["contexts"]["requirements"] == str(tmp_path / "barge-1.2")


def test_no_secret_is_in_the_bake_file_or_the_plan(locked: Project, tmp_path: Path) -> None:
    one = target(locked)
    text = json.dumps(plan.bake([one], images=locked.images, contexts=tmp_path, network=NETWORK)) + repr(one)
    assert "hush" not in text


@pytest.mark.integration
def test_bake_takes_every_text_as_it_is(locked: Project, tmp_path: Path) -> None:
    odd = "100 %{if} of ${HOME} $${x} %%{y} 'a' \"b\" \\\\ ü\n<&>"
    one = target(locked)
    one = dataclasses.replace(one, labels={**one.labels, "org.opencontainers.image.title": odd})
    (tmp_path / "bake.json").write_text(
        json.dumps(plan.bake([one], images=locked.images, contexts=tmp_path / "${odd}", network=NETWORK))
    )
    command = ["docker", "buildx", "bake", "--file", str(tmp_path / "bake.json"), "--print"]
    read = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert read["target"]["tug"]["labels"] == one.labels
    assert read["target"]["tug"]["args"] == one.arguments
    assert read["target"]["tug"]["contexts"]["tools"] == f"{tmp_path}/${{odd}}/tools"


@given(st.text(), st.text())
def test_packages_in_another_order_are_the_same_base(first: str, second: str) -> None:
    one, two = (Package(name, "1", "all", None) for name in (first, second))
    assert Os("a", "1", "x", (one, two)).digest == Os("b", "2", "y", (one, two)).digest
    if first != second:
        assert Os("a", "1", "x", (one,)).digest != Os("a", "1", "x", (two,)).digest

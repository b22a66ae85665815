"""Builds a broken image from a good one, runs the suite on it, and tells whether it was killed rightly."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validate import suite
from validate.evidence import Evidence, ImageUnderTest
from validate.outcome import Level, Outcome

if TYPE_CHECKING:
    from buildspec.engine import Engine

LABEL = {"io.drydock": "test"}
SITE = "opt/venv/lib/python3.13/site-packages"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way to break an image, and what must be said of it.

    `lines` follow FROM in a Dockerfile; `files` are copied over the image's root before them. `check` must
    fail, and its reason and evidence must hold every text of `says`. Besides it only the checks of `also`
    may fail: those that see the same break from another side. `wheels` are installed over the environment, as
    `uv pip install --no-deps` would.
    """

    id: str
    check: str
    says: tuple[str, ...]
    lines: str = ""
    also: frozenset[str] = frozenset()
    files: Mapping[str, bytes] = field(default_factory=dict)
    base: str = "small"
    level: Level = Level.STATIC
    wheels: tuple[str, ...] = ()


def distribution(
    name: str,
    version: str,
    files: Mapping[str, bytes] | None = None,
    requires: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """Files of an installed Python distribution, by path from the image's root, with a right RECORD."""
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {row}\n" for row in requires)
    inside = {f"{folder}/METADATA": metadata.encode(), f"{folder}/INSTALLER": b"uv\n", **(files or {})}
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in inside.items())
    inside[f"{folder}/RECORD"] = (record + f"{folder}/RECORD,,\n").encode()
    return {f"{SITE}/{path}": data for path, data in inside.items()}


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def build(
    engine: Engine,
    base: str,
    lines: str,
    files: Mapping[str, bytes] | None = None,
    *,
    tag: str | None = None,
    tree: Path | None = None,
) -> str:
    """Build an image and return its id; one without a tag is for `remove`.

    `files` and what lies below `tree` are copied over the root, in this order.
    """
    with tempfile.TemporaryFile() as context:
        copies = ("COPY root/ /\n" if files else "") + ("COPY tree/ /\n" if tree else "")
        with tarfile.open(fileobj=context, mode="w") as archive:
            _add(archive, "Dockerfile", f"FROM {base}\n{copies}{lines}\n".encode())
            for path, data in (files or {}).items():
                _add(archive, f"root/{path}", data)
            if tree:
                archive.add(tree, "tree")
        context.seek(0)
        image, _ = engine.client.images.build(
            fileobj=context, custom_context=True, rm=True, forcerm=True, labels=LABEL, tag=tag
        )
    return str(image.id)


def install(wheels: tuple[str, ...], root: Path) -> Path:
    """Lay these wheels out below a root, as the image's environment would have them."""
    target = root / SITE
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
    subprocess.run([*command, "--python-version", "3.13", "--python-platform", "linux", *wheels], check=True)
    (target / ".lock").unlink(missing_ok=True)
    return root


def remove(engine: Engine, image: str) -> None:
    """Remove an image that `build` made; the one it was made from has a tag, and stays."""
    engine.client.images.remove(image, force=True)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    row = tarfile.TarInfo(name)
    row.size, row.mode = len(data), 0o755
    archive.addfile(row, io.BytesIO(data))


def judge(engine: Engine, image: str, levels: list[Level], folder: Path) -> Evidence:
    """Run the suite on an image."""
    return suite.run(
        ImageUnderTest(image, image),
        stack_name=None,
        stack=None,
        levels=levels,
        report_dir=folder,
        docker_host=engine.url,
    )


def failures(evidence: Evidence) -> dict[str, str]:
    """Check to reason and evidence, for all that did not go well."""
    return {
        row.id: "\n".join([row.reason, *row.evidence])
        for row in evidence.checks
        if row.outcome in (Outcome.FAIL, Outcome.ERROR)
    }


def assert_killed(mutant: Mutant, evidence: Evidence) -> None:
    """Fail unless the mutant was killed by its check, with its reason, and nothing else cried."""
    found = failures(evidence)
    assert mutant.check in found, f"{mutant.id} lives: {mutant.check} did not fail; failed: {sorted(found)}"
    row = next(row for row in evidence.checks if row.id == mutant.check)
    assert row.outcome is Outcome.FAIL, f"{mutant.id}: {mutant.check} broke: {row.reason}"
    for text in mutant.says:
        assert text in found[mutant.check], f"{mutant.id}: {text!r} is not said in: {found[mutant.check]}"
    more = set(found) - {mutant.check} - mutant.also
    assert not more, f"{mutant.id}: unrelated checks failed: { {name: found[name] for name in more} }"


def labelled(engine: Engine) -> list[dict[str, Any]]:
    """Containers and networks that a run of the suite would have left behind."""
    filters = {"label": "io.drydock=validate"}
    rows: list[dict[str, Any]] = engine.client.api.containers(all=True, filters=filters)
    return rows + list(engine.client.api.networks(filters=filters))

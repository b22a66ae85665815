"""The plan of a build: every target with its contexts, arguments, labels and tags, before anything is done."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from buildspec import lock as locks
from buildspec import requirements

if TYPE_CHECKING:
    from pathlib import Path

    from buildspec.base import Os
    from buildspec.lock import Lock
    from buildspec.network import Network
    from buildspec.project import Project, Revision

# Files of images/ that the Dockerfile reads; a change to another one builds nothing.
_SOURCES = ("Dockerfile", "with-network", "rootfs")
PIN_LABEL = "io.drydock.pin."


@dataclass(frozen=True, slots=True)
class Target:
    """One image to build.

    `arguments` are the Dockerfile's ARGs; `key` identifies everything that goes into the image, so that two
    equal keys mean the same image; `tag` is its name on this engine only.
    """

    stack: str
    lock: Lock
    os: Os
    arguments: dict[str, str]
    labels: dict[str, str]
    tag: str
    key: str

    @property
    def bake_name(self) -> str:
        """The target's name in the bake file, where dots are not allowed."""
        return self.stack.replace(".", "_")


def target(project: Project, stack_name: str, os: Os, revision: Revision) -> Target:
    """Resolve one stack to its last argument. Raises BadInputError when its lock is missing or stale."""
    stack = project.matrix.stack(stack_name)
    lock = locks.read(project, stack_name)
    asked = requirements.read(project.images, stack)
    arguments = {
        f"{name.upper()}_VERSION": version for name, version in stack.pins.items() if name not in asked.received
    }
    arguments["SOURCE_DATE_EPOCH"] = str(revision.time)
    image, base = project.matrix.images[stack.image], project.matrix.bases[stack.base]
    oci = {
        "title": image.title,
        "description": image.description,
        "version": f"{stack.ray}-cu{stack.cuda}",
        "revision": revision.commit,
        "created": datetime.fromtimestamp(revision.time, UTC).isoformat().replace("+00:00", "Z"),
        "source": project.matrix.source,
        "licenses": project.matrix.licenses,
        "base.name": base.image.split("@")[0] if base.image else f"debian:{base.suite}",
        # A bootstrapped base has no manifest in any registry: its identity is the list of its packages.
        "base.digest": base.image.split("@")[1] if base.image else f"sha256:{os.digest}",
    }
    drydock = {
        "io.drydock": "image",
        "io.drydock.stack": stack_name,
        "io.drydock.image": stack.image,
        "io.drydock.fabric": project.matrix.fabrics[stack.fabric].kind,
        "io.drydock.lock": lock.sha256,
        **{PIN_LABEL + name: version for name, version in stack.pins.items()},
        **({"io.drydock.excluded": ",".join(asked.excluded)} if asked.excluded else {}),
    }
    labels = {f"org.opencontainers.image.{name}": value for name, value in oci.items()} | drydock
    parts: list[Any] = [sources_sha256(project.images), lock.sha256, os.digest, arguments, labels]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return Target(stack_name, lock, os, arguments, labels, f"drydock/{stack_name}:local", key)


def bake(targets: list[Target], *, images: Path, contexts: Path, network: Network) -> dict[str, Any]:
    """Write the plan as a bake file's content.

    `contexts` holds one folder per stack with requirements.txt, and `tools` with uv.
    """
    content: dict[str, Any] = {
        "group": {"default": {"targets": [one.bake_name for one in targets]}},
        "target": {
            one.bake_name: {
                "context": str(images),
                "dockerfile": "Dockerfile",
                "contexts": {
                    "os": f"docker-image://{one.os.reference}",
                    "tools": str(contexts / "tools"),
                    "requirements": str(contexts / one.stack),
                },
                "args": one.arguments,
                "labels": one.labels,
                "secret": network.bake_secrets,
                "tags": [one.tag],
                "output": ["type=docker"],
            }
            for one in targets
        },
    }
    literal: dict[str, Any] = _literal(content)
    return literal


def _literal(value: Any) -> Any:
    """Keep bake from reading `${…}` and `%{…}` in a title or a folder's name as its own templates."""
    if isinstance(value, str):
        return value.replace("${", "$${").replace("%{", "%%{")
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return {key: _literal(item) for key, item in value.items()}


def sources_sha256(images: Path) -> str:
    """SHA-256 over the names, modes and content of what the Dockerfile reads from images/.

    A link counts as its target's name, since it is copied as a link.
    """
    digest = hashlib.sha256()
    for name in _SOURCES:
        top = images / name
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if file.is_symlink():
                mode, content = "l", str(file.readlink()).encode()
            elif file.is_dir():
                mode, content = "d", b""
            else:
                mode, content = "x" if file.stat().st_mode & 0o100 else "-", file.read_bytes()
            digest.update(f"\0{file.relative_to(images)}\0{mode}{len(content)}\0".encode() + content)
    return digest.hexdigest()

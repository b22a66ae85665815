"""Facts, claims and evidence of made-up images, for tests that need no engine."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.validate.elf_file import elf
from validate import probe
from validate.bench import ImageConfig
from validate.evidence import CheckResult, Environment, Evidence, ImageUnderTest
from validate.facts import Facts
from validate.outcome import Level, Outcome

SITE = "/opt/venv/lib/python3.13/site-packages"
ENVIRONMENT = Environment("26.1.5", "6.1.0", "x86_64", 2, 24, "2", "overlay2", ("runc",))
IMAGE = ImageUnderTest("team/trainer:7", "sha256:" + "a" * 64)


def library(path: str, *, owners: Sequence[str] = (), **headers: Any) -> dict[str, Any]:
    """One row of the probe's `elf` list, read back from a real ELF file with these headers."""
    data = elf(**headers)
    stream = io.BytesIO(data)
    row = probe.read_elf(stream, len(data))
    defined, undefined = probe.dynamic_symbols(stream, len(data), re.compile(rb"nccl"))
    return {
        "path": path,
        "size": len(data),
        "owners": list(owners),
        "symbols_defined": defined,
        "symbols_undefined": undefined,
        "says_version": None,
        **row,
    }


def distribution(name: str, version: str = "1.0", requires: Sequence[str] = (), **other: Any) -> dict[str, Any]:
    """One row of the probe's `distributions` list."""
    return {
        "name": name, "version": version, "requires": list(requires), "licence": "", "installer": "uv",
        "folder": f"{SITE}/{name}-{version}.dist-info", "has_record": True, "altered": [], "altered_count": 0,
        "missing": [], "missing_count": 0, "size": 1000, "files": 3, **other,
    }  # fmt: skip


def document(
    *,
    elf_rows: Sequence[Mapping[str, Any]] = (),
    distributions: Sequence[Mapping[str, Any]] = (),
    overlaps: Sequence[Mapping[str, Any]] = (),
    **other: Any,
) -> dict[str, Any]:
    """The probe's document for an image with these libraries and distributions."""
    return {
        "schema": probe.SCHEMA,
        "python": {
            "executable": "/opt/venv/bin/python3", "version": "3.13.5", "prefix": "/opt/venv", "path": [SITE],
            "markers": {"python_version": "3.13", "python_full_version": "3.13.5", "sys_platform": "linux",
                        "platform_machine": "x86_64", "os_name": "posix", "platform_system": "Linux",
                        "implementation_name": "cpython", "implementation_version": "3.13.5",
                        "platform_python_implementation": "CPython", "platform_release": "",
                        "platform_version": ""},
        },
        "os_release": {"ID": "debian"}, "packages": [], "package_manager": "dpkg", "altered_os_files": [],
        "environments": [{"site": SITE, "distributions": list(distributions), "overlaps": list(overlaps)}],
        "bytecode": {"valid": 1, "stale": 0, "orphan": 0, "examples": []},
        "elf": list(elf_rows), "broken_elf": [], "library_links": {}, "directory_links": {"/lib": "usr/lib"},
        "loader_cache": [], "configuration": {}, "privileged": [], "world_writable": [], "findings": [],
        "clutter": [], "copies": [], "executables": ["sh", "bash"],
        "known_files": {"/etc/ssl/certs/ca-certificates.crt": 1000}, "passwords": [], "half_installed": [],
        "sizes": {}, "file_count": 1, "seconds": 0.1,
        **other,
    }  # fmt: skip


def facts(**other: Any) -> Facts:
    """Facts of such an image, through JSON as in reality."""
    return Facts.from_json(json.loads(json.dumps(document(**other))))


def config(**other: Any) -> ImageConfig:
    """What the engine would tell of such an image."""
    given: dict[str, Any] = {
        "environment": {"PATH": "/opt/venv/bin:/usr/bin"}, "labels": {}, "entrypoint": (), "command": ("bash",),
        "user": "", "architecture": "amd64", "size": 5 << 30,
        "history": (("RUN /bin/sh -c apt-get install thing # buildkit", 700 << 20), ("COPY a b", 1 << 30)),
        **other,
    }  # fmt: skip
    return ImageConfig(**given)


def result(identity: str, outcome: Outcome, level: Level = Level.STATIC, *evidence: str) -> CheckResult:
    """One outcome."""
    return CheckResult(identity, level, outcome, f"reason of {identity}", tuple(evidence))


def evidence(*rows: CheckResult, stack: str | None = None) -> Evidence:
    """Evidence of these outcomes."""
    return Evidence(IMAGE, stack, "f" * 64, ENVIRONMENT, rows)

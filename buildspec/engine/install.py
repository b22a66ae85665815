"""Installs the Docker Engine from the distribution's own packages, on Debian and Ubuntu, as root."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from buildspec import process
from buildspec.console import note, step
from buildspec.errors import EnvironmentLacksError

# Debian 12's own engine is 20.10, too old. The next release's packages run there; a low priority keeps
# everything else of that release out.
_NEXT_SUITE = {"bookworm": "trixie"}
_SOURCES = Path("/etc/apt/sources.list.d/drydock-engine.sources")
_PREFERENCES = Path("/etc/apt/preferences.d/drydock-engine")
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def possible() -> bool:
    """Tell whether this is Debian or Ubuntu and we are root."""
    return os.geteuid() == 0 and _system()[0] in ("debian", "ubuntu") and shutil.which("apt-get") is not None


def install() -> None:
    """Install the engine, its command line and buildx, and say so first.

    Raises EnvironmentLacksError when apt can't.
    """
    distribution, suite = _system()
    packages = ["docker.io", "docker-buildx", "iptables"]
    if distribution == "debian":
        packages.append("docker-cli")
    origin = _NEXT_SUITE.get(suite)
    note(
        f"no Docker Engine is installed: installing {', '.join(packages)} from {distribution.capitalize()} "
        f"{origin or suite}"
    )
    if origin:
        _SOURCES.write_text(
            f"Types: deb\nURIs: {_mirror()}\nSuites: {origin}\nComponents: main\nSigned-By: {_KEYRING}\n"
        )
        _PREFERENCES.write_text(f"Package: *\nPin: release n={origin}\nPin-Priority: 90\n")
        packages = [f"{name}/{origin}" if name != "iptables" else name for name in packages]
        packages.append(f"containerd/{origin}")
    try:
        with step("installing the Docker Engine") as detail:
            environment = {"DEBIAN_FRONTEND": "noninteractive"}
            process.stream(["apt-get", "update"], on_line=detail, env=environment)
            command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
            process.stream(command, on_line=detail, env=environment)
    except process.CommandFailedError as error:
        raise EnvironmentLacksError(
            f"the Docker Engine could not be installed: {error}",
            why="the package archive is out of reach, or another program holds apt's lock",
            remedy="run this again, or install Docker Engine and buildx by hand",
        ) from error


def _system() -> tuple[str, str]:
    """Distribution and suite as /etc/os-release tells them, `("debian", "bookworm")`."""
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        return "", ""
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))
    return fields.get("ID", ""), fields.get("VERSION_CODENAME", "")


def _mirror() -> str:
    """Return the archive that this machine's own packages come from."""
    folder = Path("/etc/apt")
    for file in [*sorted(folder.glob("sources.list.d/*.sources")), folder / "sources.list"]:
        if file == _SOURCES or not file.exists():
            continue
        for url in re.findall(
            r"^(?:URIs:|deb(?: \[[^]]*\])?)\s+(\S+/debian/?)(?=\s|$)", file.read_text(), re.MULTILINE
        ):
            return str(url)
    raise EnvironmentLacksError(
        "no Debian archive is named in /etc/apt",
        why="Debian 12's own Docker Engine is too old, and its successor's archive could not be derived",
        remedy="install Docker Engine 25.0 or newer with buildx by hand",
    )

"""The operating system of images: bootstrapped from Debian's signed archive, or an image by digest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from docker.errors import ImageNotFound

from buildspec import atomic, network, process
from buildspec.console import note, step
from buildspec.errors import BadInputError, EnvironmentLacksError, NotProvenError
from buildspec.project import CONSTANT_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from buildspec.engine import Engine
    from buildspec.matrix import Base
    from buildspec.project import Project

LABEL = "io.drydock"
# Written in every base: the fields Package, Version, Architecture, SHA256 of each package, as apt shows them.
MANIFEST = PurePosixPath("usr/share/drydock/debian-packages")
_LIST = (
    "apt-cache show --no-all-versions $(dpkg-query -W -f '${Package}:${Architecture}=${Version} ' "
    "| sed 's/:all=/=/g') 2>/dev/null | grep -E '^$|^(Package|Version|Architecture|SHA256): '"
)
# What nobody reads in a container; licences stay.
_LEFT_OUT = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/info/*",
)
# openssh-server's installation makes host keys, and whoever pulled the image would share them. Debian's tools for
# Python were compiled when they ran, against times that their packed sources do not have.
_TIDY = "rm -rf etc/ssh/ssh_host_* usr/share/python3/__pycache__ usr/share/python3/debpython/__pycache__"


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """One Debian package: `sha256` is that of its .deb file, None when the archive no longer has it."""

    name: str
    version: str
    architecture: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Os:
    """A base with Drydock's packages installed, on the engine.

    `image` is its id, `reference` its name there; `packages` is what is installed in it.
    """

    name: str
    image: str
    reference: str
    packages: tuple[Package, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over the packages: equal for two bases that hold the same."""
        rows = json.dumps([asdict(package) for package in self.packages], sort_keys=True)
        return hashlib.sha256(rows.encode()).hexdigest()


def package_names(images: Path) -> list[str]:
    """Names in images/packages.txt. Raises BadInputError for a line that is no Debian package name."""
    file = images / "packages.txt"
    try:
        lines = [line.split("#", 1)[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file} can't be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line and not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", line):
            raise BadInputError(f"{file}:{number}: '{line}' is not the name of a Debian package")
    return [line for line in lines if line]


def inputs(project: Project, name: str) -> str:
    """SHA-256 over what makes a base: its row in the matrix, its packages, and how they are installed."""
    base = project.matrix.bases[name]
    dockerfile = project.images / f"{'os' if base.image else 'bootstrap'}.Dockerfile"
    parts = [
        base.model_dump_json(),
        dockerfile.read_text(encoding="utf-8"),
        *package_names(project.images),
        *_LEFT_OUT,
        _LIST,
        _TIDY,
        str(CONSTANT_TIME),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def prepare(project: Project, name: str, engine: Engine, *, anew: bool = False) -> Os:
    """Return a base on the engine: the one of an earlier run when its inputs are the same, else a new one.

    With `anew` it is made again from what the archive holds now.
    Raises EnvironmentLacksError (mmdebstrap, network), BadInputError (an archive without one of the packages).
    """
    key = inputs(project, name)
    if not anew and (found := cached(project, name, engine)):
        return found
    base = project.matrix.bases[name]
    reference = f"drydock/base-{name}:{key[:12]}"
    if base.image is None:
        _bootstrap(project, name, base, reference, engine)
    else:
        _extend(project, name, base.image, reference, engine)
    image = engine.client.images.get(reference).id
    assert image is not None  # noqa: S101 - an image that was found by name has an id
    made = Os(name, image, reference, _packages(engine, image))
    record = {
        "inputs": key,
        "image": image,
        "reference": reference,
        "packages": [asdict(package) for package in made.packages],
    }
    atomic.write(project.results(name) / "base.json", json.dumps(record, indent=1))
    return made


def cached(project: Project, name: str, engine: Engine) -> Os | None:
    """Return the base that an earlier run made from the same inputs, if the engine still has it."""
    try:
        record = json.loads((project.out / name / "base.json").read_text())
        if record["inputs"] != inputs(project, name):
            return None
        engine.client.images.get(record["image"])
        packages = tuple(Package(**row) for row in record["packages"])
        return Os(name, record["image"], record["reference"], packages)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ImageNotFound):
        return None


def _bootstrap(project: Project, name: str, base: Base, reference: str, engine: Engine) -> None:
    _need_mmdebstrap()
    log = project.results(name) / "bootstrap.log"
    with tempfile.TemporaryDirectory(prefix=".rootfs-", dir=project.results(name)) as folder:
        hook = f'mkdir -p "$1/{MANIFEST.parent}"; chroot "$1" sh -c {shlex.quote(_LIST)} > "$1/{MANIFEST}"'
        command = [
            *("mmdebstrap", "--variant=minbase", "--include=" + ",".join(package_names(project.images))),
            "--aptopt=APT::Install-Recommends false",
            *(f"--dpkgopt={option}" for option in _LEFT_OUT),
            *(f"--customize-hook={hook}", f'--customize-hook=cd "$1" && {_TIDY}'),
            *(base.suite, f"{folder}/rootfs.tar", *sources(base)),
        ]
        with step(f"bootstrapping {name} from Debian's archive") as detail, _explaining(name):
            process.stream(command, on_line=detail, env={"SOURCE_DATE_EPOCH": str(CONSTANT_TIME)}, log_file=log)
        with step(f"importing {name} into the engine") as detail, _explaining(name):
            command = [*_build(project, "bootstrap", reference), folder]
            process.stream(command, on_line=detail, env=engine.environment)


def _extend(project: Project, name: str, image: str, reference: str, engine: Engine) -> None:
    secrets = network.read()
    command = [
        *_build(project, "os", reference),
        *("--build-context", f"base=docker-image://{image}"),
        *("--build-arg", f"PACKAGES={' '.join(package_names(project.images))}"),
        *("--build-arg", f"LIST={_LIST}", "--build-arg", f"TIDY={_TIDY}"),
        *(word for secret in secrets.bake_secrets for word in ("--secret", secret)),
        str(project.images),
    ]
    log = project.results(name) / "bootstrap.log"
    with step(f"installing Debian packages on {name}") as detail, _explaining(name):
        process.stream(command, on_line=detail, env=engine.environment | secrets.environment, log_file=log)


def _build(project: Project, dockerfile: str, reference: str) -> list[str]:
    """Start of the command that builds a base; its context is still to be named."""
    return [
        *("docker", "buildx", "build", "--progress=plain", "--load", "--provenance=false"),
        *("--file", str(project.images / f"{dockerfile}.Dockerfile")),
        *("--label", f"{LABEL}=base", "--tag", reference, "--build-arg", f"SOURCE_DATE_EPOCH={CONSTANT_TIME}"),
    ]


def sources(base: Base) -> list[str]:
    """APT lines for mmdebstrap; none when its own default (Debian's archive with security) is wanted."""
    if base.mirror is None:
        return []
    root = base.mirror.rstrip("/")
    # A snapshot is long past the date until which its Release file is valid; its signature still counts.
    option = "[check-valid-until=no] " if base.snapshot else ""
    tail = f"/{base.snapshot}" if base.snapshot else ""
    return [
        f"deb {option}{root}/debian{tail} {base.suite} main",
        f"deb {option}{root}/debian{tail} {base.suite}-updates main",
        f"deb {option}{root}/debian-security{tail} {base.suite}-security main",
    ]


def _need_mmdebstrap() -> None:
    if shutil.which("mmdebstrap"):
        return
    remedy = "`apt-get install mmdebstrap`, or give the base an image by digest instead of bootstrap"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise EnvironmentLacksError("mmdebstrap, which bootstraps Debian, is not installed", remedy=remedy)
    note("mmdebstrap, which bootstraps Debian, is not installed: installing it")
    try:
        with step("installing mmdebstrap") as detail:
            process.stream(["apt-get", "update"], on_line=detail)
            process.stream(
                ["apt-get", "install", "--yes", "--no-install-recommends", "mmdebstrap"],
                on_line=detail,
                env={"DEBIAN_FRONTEND": "noninteractive"},
            )
    except process.CommandFailedError as error:
        raise EnvironmentLacksError(f"mmdebstrap could not be installed: {error}", remedy=remedy) from error


@contextlib.contextmanager
def _explaining(name: str) -> Iterator[None]:
    """Turn a failed command into an error of the class that fits."""
    try:
        yield
    except process.CommandFailedError as error:
        raise _explained(name, error) from error


def _explained(name: str, error: process.CommandFailedError) -> Exception:
    if missing := re.findall(r"Unable to locate package (\S+)", error.output):
        return BadInputError(
            f"the archive of {name} has no package {', '.join(dict.fromkeys(missing))}",
            remedy="correct images/packages.txt, or the suite in versions.yaml",
        )
    if re.search(r"No space left on device", error.output):
        return EnvironmentLacksError(
            f"the disk is full while making {name}",
            remedy="free some; `drydock clean` shows what it would free",
        )
    if re.search(r"Could not (resolve|connect)|Temporary failure|Failed to fetch", error.output):
        return EnvironmentLacksError(
            f"Debian's archive is out of reach:\n{_told(error)}",
            why="no network, or a proxy that is not set in http_proxy",
            remedy="check it, or give the base a mirror in versions.yaml",
        )
    if re.search(r"signatures? (were invalid|couldn't be verified)|NO_PUBKEY|not signed", error.output):
        return NotProvenError(
            f"the archive of {name} is not signed by a key that this machine trusts:\n{_told(error)}",
            remedy="install debian-archive-keyring, or correct the mirror",
        )
    if found := re.search(r"The repository '(.+?)(?: Release)?' does not have a Release file", error.output):
        return BadInputError(
            f"there is no suite for {name} at '{found[1]}'",
            remedy="correct suite, mirror or snapshot of this base in versions.yaml",
        )
    if found := re.search(r"ERROR: .*failed to resolve source metadata for (\S+?): (.*)", error.output):
        return EnvironmentLacksError(
            f"the image {found[1]} of base {name} can't be pulled: {found[2]}",
            why="its registry is out of reach, wants a login, or no longer has it",
            remedy="check the reference in versions.yaml, the network, and `docker login`",
        )
    return error


def _told(error: process.CommandFailedError) -> str:
    told = [line for line in error.output.splitlines() if re.match(r"(#\d+ [\d.]+ )?(E|W|Err:\d+|ERROR):? ", line)]
    return "\n".join(f"    {line}" for line in (told or error.output.splitlines())[-8:])


def _packages(engine: Engine, image: str) -> tuple[Package, ...]:
    """Read the list of packages that was written into a base."""
    command = [
        "docker",
        "run",
        "--rm",
        "--network=none",
        "--label",
        f"{LABEL}=base",
        "--entrypoint=/bin/cat",
        image,
    ]
    text = process.run([*command, f"/{MANIFEST}"], env=engine.environment).output
    return parse_packages(text)


def parse_packages(text: str) -> tuple[Package, ...]:
    """Parse paragraphs of `Field: value` lines (Package, Version, Architecture, SHA256), sorted by name."""
    rows = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        fields = dict(re.findall(r"^(\w+): (\S+)$", paragraph, re.MULTILINE))
        if "Package" in fields:
            rows.append(
                Package(
                    fields["Package"],
                    fields.get("Version", ""),
                    fields.get("Architecture", ""),
                    fields.get("SHA256"),
                )
            )
    return tuple(sorted(set(rows), key=lambda row: (row.name, row.architecture, row.version)))

"""Python locks: every distribution of a stack with its version and hashes, and the inputs that made it."""

from __future__ import annotations

import hashlib
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from buildspec import process, requirements
from buildspec.errors import BadInputError, EnvironmentLacksError

if TYPE_CHECKING:
    from buildspec.matrix import Stack
    from buildspec.project import Project

# The newest manylinux platform that uv knows and that Debian 13 (glibc 2.41) runs.
PLATFORM = "x86_64-manylinux_2_40"
_INPUT = "#: "
_BODY = "# body sha256:"
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)
_REFUSED = re.compile(r"Permission denied|Read-only file system|No space left on device")
_NETWORK = ("error sending request", "dns error", "Connection refused", "timed out", "Failed to fetch")


@dataclass(frozen=True, slots=True)
class Lock:
    """A stack's lock, known to be whole and to fit its inputs.

    `text` is what the installer reads (with hashes), `versions` maps canonical distribution names to
    versions, `sha256` identifies the file's content.
    """

    path: Path
    text: str
    sha256: str
    versions: dict[str, str]


def path(project: Project, name: str) -> Path:
    """Where the lock of a stack lies."""
    return project.locks / f"{name}.txt"


def read(project: Project, name: str) -> Lock:
    """Read a stack's lock.

    Raises BadInputError when there is no such stack, or its lock is missing, was edited by hand, or was made
    from other inputs (and names what changed).
    """
    stack = project.matrix.stack(name)
    file = path(project, name)
    remedy = f"make it anew: `nox -s lock -- {name}`"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInputError(
            f"stack {name} has no lock ({file})",
            why="the stack is new, or its lock was not committed",
            remedy=remedy,
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file} can't be read: {error}", remedy=remedy) from error
    head, mark, rest = text.partition(_BODY)
    declared, _, body = rest.partition("\n")
    if not mark or declared != _sha256(body):
        raise BadInputError(
            f"{file} was changed after it was made: its content does not have the checksum in its header",
            why="a lock was edited by hand, merged badly, or tampered with",
            remedy=f"restore it from version control, or {remedy}",
        )
    recorded = [line.removeprefix(_INPUT) for line in head.splitlines() if line.startswith(_INPUT)]
    wanted = _inputs(project, stack)
    if recorded != wanted:
        changes = [f"    - {line}" for line in recorded if line not in wanted]
        changes += [f"    + {line}" for line in wanted if line not in recorded]
        raise BadInputError(
            f"the lock of {name} is stale; its inputs changed since it was made:\n"
            + "\n".join(changes or ["    (their order)"]),
            remedy=remedy,
        )
    versions = {str(canonicalize_name(found)): version for found, version in _PINNED.findall(body)}
    return Lock(file, text, _sha256(text), versions)


def resolve(project: Project, name: str) -> str:
    """Resolve a stack's requirements to exact versions with hashes; returns the lock file's text.

    Raises BadInputError when no set of versions fits, EnvironmentLacksError when the index is out of reach.
    """
    stack = project.matrix.stack(name)
    import uv  # noqa: PLC0415 - an extra: reading a lock does without

    asked = requirements.read(project.images, stack)
    with tempfile.TemporaryDirectory(prefix="drydock-lock-") as folder:
        overrides, result = Path(folder) / "overrides.txt", Path(folder) / "result.txt"
        # uv leaves a distribution out when its only requirement holds on no platform.
        overrides.write_text("".join(f"{line} ; sys_platform == 'never'\n" for line in asked.excluded))
        command = [
            *(uv.find_uv_bin(), "pip", "compile", "-", "--no-config", "--no-header", "--quiet"),
            # The interpreter that runs here will do: nothing is fetched but what the index has.
            "--no-python-downloads",
            *("--generate-hashes", "--no-emit-index-url", "--no-emit-find-links"),
            *("--python-version", stack.python, "--python-platform", PLATFORM, "--overrides", str(overrides)),
            *("--output-file", str(result)),
        ]
        try:
            process.run(command, stdin="\n".join(asked.lines) + "\n")
        except process.CommandFailedError as error:
            if any(sign in error.output for sign in _NETWORK):
                raise EnvironmentLacksError(
                    f"the package index is out of reach while resolving {name}:\n{error.output}",
                    remedy="check the network, the proxy and UV_DEFAULT_INDEX, then run it again",
                ) from error
            if found := _REFUSED.search(error.output):
                raise EnvironmentLacksError(
                    f"uv could not write while resolving {name}: {found[0]}\n{error.output}",
                    remedy="free the disk, correct the permissions, or set UV_CACHE_DIR to a folder of your own",
                ) from error
            raise BadInputError(
                f"no set of versions satisfies stack {name}:\n{error.output}",
                why="a pin in versions.yaml does not fit what another package requires",
                remedy=f"correct the pins of {name}",
            ) from error
        body = result.read_text()
    head = [f"# Lock of stack {name}, made by `nox -s lock -- {name}`. Its inputs:"]
    head += [_INPUT + line for line in _inputs(project, stack)]
    return "\n".join([*head, _BODY + _sha256(body), body])


def _inputs(project: Project, stack: Stack) -> list[str]:
    asked = requirements.read(project.images, stack)
    return [
        f"python {stack.python}",
        f"platform {PLATFORM}",
        *asked.lines,
        *(f"without {name}" for name in asked.excluded),
    ]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

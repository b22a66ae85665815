"""The newest set of versions that fits together, as uv resolves it, with some pins free to move."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from buildspec import process, requirements
from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError
from buildspec.lock import PLATFORM
from buildspec.rules import locked
from buildspec.rules.versions import minor

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from packaging.requirements import Requirement

    from buildspec.rules import Case
    from buildspec.rules.locked import Locked

# Moved in this order of importance; the others follow from them.
LEADING = ("ray", "vllm", "torch")
# Follower -> whose requirements decide about it.
FOLLOWING = {"cuda": "torch", "nccl": "torch", "nixl": "ray"}
MOVABLE = (*LEADING, *FOLLOWING)

# What uv prints when the index, and not the versions, is at fault.
_OUT_OF_REACH = ("error sending request", "dns error", "connection refused", "timed out", "failed to fetch")
_VANISHED = re.compile(r"(\S+) was not found in the (?:package registry|provided package locations)")
_NO_FILE = re.compile(r"HTTP status client error \((\d{3}) [^)]*\) for url \((\S+)\)")


class NoSolutionError(DrydockError):
    """No set of versions satisfies what was asked for; `text` is uv's explanation."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(what)
        self.text = text


@dataclass(frozen=True, slots=True)
class Resolution:
    """A resolved set: pins as versions.yaml writes them, and everything with who requires it."""

    pins: dict[str, str]
    locked: Locked


def resolve(case: Case, free: Collection[str], forced: Mapping[str, str] | None = None) -> Resolution:
    """Resolve a stack with the pins in `free` at liberty within their ranges, `forced` pins at other versions.

    Leading pins never move down. Raises NoSolutionError, EnvironmentLacksError.
    """
    lines = [_line(case, requirement, free, forced or {}) for requirement in case.requirements]
    text = _compile(case, lines)
    found = locked.parse("\n".join(f"#: {line}" for line in lines) + "\n" + text)
    pins = dict(case.stack.pins)
    for name, asked in case.asked.items():
        if asked.pin in free and name in found.versions and name != "nixl":
            version = found.versions[name]
            pins[asked.pin] = minor(Version(version)) if asked.pin == "cuda" else version
    return Resolution(pins, found)


def free(case: Case, only: Collection[str] | None) -> list[str]:
    """Pins of a stack that may move: all, or `only` these and what follows them."""
    return [
        pin
        for pin in MOVABLE
        if pin in case.stack.pins and (only is None or pin in only or FOLLOWING.get(pin) in only)
    ]


def allowed(case: Case, pin: str) -> SpecifierSet:
    """The range to which a pin may move: its own in versions.yaml, no step down, and the same CUDA major."""
    ranges: dict[str, str] = {str(name): text for name, text in case.stack.ranges.items()}
    bounds = SpecifierSet(ranges.get(pin, ""))
    if pin == "cuda":
        # ==13.0 means every release of 13.0; and names of distributions carry the major version.
        bounds = SpecifierSet(",".join(map(_whole_minor, bounds))) & SpecifierSet(f"<{case.stack.cuda_major + 1}")
    if pin in LEADING:
        bounds &= SpecifierSet(f">={case.stack.pins[pin]}")
    return bounds


def _whole_minor(specifier: Specifier) -> str:
    exact = specifier.operator in ("==", "!=") and "*" not in specifier.version
    return f"{specifier.operator}{specifier.version}.*" if exact else str(specifier)


def _line(case: Case, requirement: Requirement, free: Collection[str], forced: Mapping[str, str]) -> str:
    asked = case.asked.get(canonicalize_name(requirement.name))
    if asked is None:
        return str(requirement)
    if asked.pin in forced:
        version = forced[asked.pin]
        bounds = f"=={version}.*" if asked.pin == "cuda" else f"=={version}"
    elif asked.pin in free:
        bounds = str(allowed(case, asked.pin))
    else:
        return str(requirement)
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras}{bounds}{marker}"


def _compile(case: Case, lines: list[str]) -> str:
    import uv  # noqa: PLC0415 - reading a matrix needs no uv

    excluded = requirements.read(case.images, case.stack).excluded
    with tempfile.TemporaryDirectory(prefix="drydock-bump-") as folder:
        overrides, result = Path(folder) / "overrides.txt", Path(folder) / "result.txt"
        overrides.write_text("".join(f"{line} ; sys_platform == 'never'\n" for line in excluded))
        # A release that appeared or was yanked since uv looked last must be seen.
        refreshed = [word for name in case.asked for word in ("--refresh-package", name)]
        command = [
            *(uv.find_uv_bin(), "pip", "compile", "-", "--no-config", "--no-header", "--quiet"),
            *("--no-emit-index-url", "--no-emit-find-links", "--python-version", case.stack.python),
            *("--python-platform", PLATFORM, "--overrides", str(overrides), "--output-file", str(result)),
            *refreshed,
        ]
        try:
            process.run(command, stdin="\n".join(lines) + "\n")
        except process.CommandFailedError as error:
            raise _failure(case, error.output) from error
        return result.read_text(encoding="utf-8")


def _failure(case: Case, output: str) -> DrydockError:
    """What uv's failure means: the index lacks something, or versions do not fit."""
    remedy = "nothing was written; check the index and run it again"
    # uv breaks lines where the terminal ends.
    flat = " ".join(output.split())
    if found := _NO_FILE.search(flat):
        return EnvironmentLacksError(
            f"the index lacks a file while resolving {case.name}: {found[2]} (HTTP {found[1]})",
            why="a mirror lists files that it does not have, or a release was deleted meanwhile",
            remedy=remedy,
        )
    if any(sign in flat.lower() for sign in _OUT_OF_REACH):
        return EnvironmentLacksError(
            f"the package index is out of reach while resolving {case.name}:\n{output.strip()}", remedy=remedy
        )
    if found := _VANISHED.search(flat):
        return EnvironmentLacksError(
            f"the index has no distribution '{found[1]}', which {case.name} needs",
            why="it was removed, or the index is another one than before",
            remedy=remedy,
        )
    return NoSolutionError(f"no set of versions satisfies stack {case.name}", output.strip())


def contradiction(case: Case, error: NoSolutionError) -> BadInputError:
    """The stack's own pins, ranges and requirements have no solution: the user's to correct."""
    return BadInputError(
        f"{error.what} within its ranges:\n{error.text}",
        why="its ranges, or pins that may not move, contradict what other packages require",
        remedy=f"correct the ranges of {case.name} in versions.yaml, or name more pins with --only",
    )

"""What a check is: its identity, what it proves, when it applies, and what it needs to have run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from validate.outcome import Level

if TYPE_CHECKING:
    from validate.claims import Claims
    from validate.facts import Facts

Function = TypeVar("Function", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class Rule:
    """Which images a check applies to. The text completes "applies to images that …"."""

    text: str
    by_claims: Callable[[Claims], bool] = lambda _: True
    by_facts: Callable[[Facts], bool] | None = None

    def __and__(self, other: Rule) -> Rule:
        """Both rules must hold."""
        mine, theirs = self.by_facts, other.by_facts
        facts = (lambda f: mine(f) and theirs(f)) if mine and theirs else mine or theirs
        return Rule(
            f"{self.text} and {other.text}",
            lambda claims: self.by_claims(claims) and other.by_claims(claims),
            facts,
        )


ANY = Rule("exist")
HAS_PYTHON_PACKAGES = Rule(
    "hold Python distributions", by_facts=lambda facts: any(site.distributions for site in facts.sites)
)
HAS_DPKG = Rule("are managed by dpkg", by_facts=lambda facts: facts.package_manager == "dpkg")
HAS_SHELL = Rule("have a shell", by_facts=lambda facts: "sh" in facts.executables)
CLAIMS_STACK = Rule("name their stack in io.drydock.stack (or by --stack)", lambda claims: bool(claims.stack))


def claims_pin(name: str) -> Rule:
    """Images that are held to a version of that name."""
    return Rule(f"pin {name}", lambda claims: name in claims.pins)


def claims_image(kind: str) -> Rule:
    """Images of that kind."""
    return Rule(f"are of kind {kind}", lambda claims: claims.image == kind)


def claims_fabric(*kinds: str) -> Rule:
    """Images with one of those fabrics."""
    return Rule(f"claim the fabric {' or '.join(kinds)}", lambda claims: claims.fabric in kinds)


@dataclass(frozen=True, slots=True)
class Check:
    """One question asked of an image.

    `needs` are the experiments whose results it reads: they are started early and side by side.
    """

    id: str
    level: Level
    proves: str
    remedy: str
    source: str
    applies: Rule
    needs: tuple[Callable[..., Any], ...]


def check(
    identity: str,
    *,
    level: Level,
    proves: str,
    remedy: str,
    source: str,
    applies: Rule = ANY,
    needs: tuple[Callable[..., Any], ...] = (),
) -> Callable[[Function], Function]:
    """Make a test function a check of the catalogue."""
    entry = Check(identity, level, proves, remedy, source, applies, needs)

    def mark(function: Function) -> Function:
        function.drydock_check = entry  # type: ignore[attr-defined]
        return function

    return mark

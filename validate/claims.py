"""Claims: what an image says of itself in its labels, or what a named stack says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from buildspec.matrix import Stack

PREFIX = "io.drydock."
PIN_PREFIX = PREFIX + "pin."


@dataclass(frozen=True, slots=True)
class Claims:
    """What the image is held to; every field may be empty for an image that claims nothing.

    `pins` are the stack's where one is named, else the labels'. `labelled` are the labels' alone.
    """

    stack: str | None
    image: str | None
    fabric: str | None
    pins: Mapping[str, str]
    labelled: Mapping[str, str]
    excluded: frozenset[str]
    lock: str | None = None

    @classmethod
    def read(cls, labels: Mapping[str, str], stack_name: str | None, stack: Stack | None) -> Self:
        """Claims from an image's labels and, if one was named, from the stack in the matrix."""
        labelled = {
            key.removeprefix(PIN_PREFIX): value for key, value in labels.items() if key.startswith(PIN_PREFIX)
        }
        excluded = labels.get(PREFIX + "excluded", "")
        return cls(
            stack=stack_name or labels.get(PREFIX + "stack"),
            image=stack.image if stack else labels.get(PREFIX + "image"),
            fabric=labels.get(PREFIX + "fabric"),
            pins=dict(stack.pins) if stack else labelled,
            labelled=labelled,
            excluded=frozenset(name.strip() for name in excluded.split(",") if name.strip()),
            lock=labels.get(PREFIX + "lock"),
        )

    def to_json(self) -> dict[str, object]:
        """Plain data for `from_json`."""
        return {
            "stack": self.stack,
            "image": self.image,
            "fabric": self.fabric,
            "pins": dict(self.pins),
            "labelled": dict(self.labelled),
            "excluded": sorted(self.excluded),
            "lock": self.lock,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        """Read what `to_json` wrote."""
        fields = dict(data)
        fields["excluded"] = frozenset(fields["excluded"])  # type: ignore[call-overload]
        return cls(**fields)  # type: ignore[arg-type]

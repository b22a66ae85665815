"""Claims: labels, a named stack over them, and nothing for an image that says nothing."""

from __future__ import annotations

import json
from pathlib import Path

from buildspec import matrix
from validate.catalogue import ANY, claims_fabric, claims_image, claims_pin
from validate.claims import Claims

LABELS = {
    "io.drydock.stack": "train-2.60",
    "io.drydock.image": "train",
    "io.drydock.fabric": "distro",
    "io.drydock.pin.ray": "2.60.0",
    "io.drydock.excluded": "nixl-cu12, other",
    "maintainer": "somebody",
}


def test_labels() -> None:
    claims = Claims.read(LABELS, None, None)
    assert (claims.stack, claims.image, claims.fabric) == ("train-2.60", "train", "distro")
    assert claims.pins == claims.labelled == {"ray": "2.60.0"}
    assert claims.excluded == {"nixl-cu12", "other"}


def test_nothing() -> None:
    claims = Claims.read({"maintainer": "somebody"}, None, None)
    assert claims == Claims(None, None, None, {}, {}, frozenset())


def test_named_stack_wins_and_labels_stay_to_be_compared(root: Path) -> None:
    loaded = matrix.load(root / matrix.FILE_NAME)
    name = loaded.current()[0]
    stack = loaded.stack(name)
    claims = Claims.read({"io.drydock.pin.ray": "1.0"}, name, stack)
    assert claims.pins == stack.pins
    assert claims.labelled == {"ray": "1.0"}
    assert (claims.stack, claims.image) == (name, stack.image)


def test_json() -> None:
    claims = Claims.read(LABELS, None, None)
    assert Claims.from_json(json.loads(json.dumps(claims.to_json()))) == claims


def test_rules() -> None:
    claims = Claims.read(LABELS, None, None)
    assert claims_pin("ray").by_claims(claims)
    assert not claims_pin("vllm").by_claims(claims)
    assert claims_image("train").by_claims(claims)
    assert not claims_fabric("efa").by_claims(claims)
    both = claims_pin("ray") & claims_pin("vllm")
    assert not both.by_claims(claims)
    assert both.text == "pin ray and pin vllm"
    assert (ANY & claims_pin("ray")).by_claims(claims)

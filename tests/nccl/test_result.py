"""The result survives JSON."""

from __future__ import annotations

import json

import pytest

from buildspec.errors import BadInputError
from tests.nccl.logs import Case, cases, path
from validate.nccl import judge
from validate.nccl.result import from_json, to_json


@pytest.mark.parametrize("case", cases()[::6], ids=lambda case: str(case["log"]))
def test_round_trip(case: Case) -> None:
    judgement = judge([path(case["log"])])
    assert from_json(json.loads(json.dumps(to_json(judgement)))) == judgement


@pytest.mark.parametrize("data", [{}, {"schema": 2}, {"schema": 1, "verdict": "efa"}, {"schema": 1, "cause": 3}])
def test_other_shapes_are_bad_input(data: dict[str, object]) -> None:
    with pytest.raises(BadInputError):
        from_json(data)

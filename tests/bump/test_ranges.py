"""Where a pin may move."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from buildspec.bump.resolution import FOLLOWING, LEADING, MOVABLE, allowed, free
from buildspec.rules import Case
from tests.rules.checkout import LLM, TRAIN, cases, write

RANGES = {"ray": "==2.60.*", "torch": ">=2.13,!=2.14.0", "cuda": "==13.0", "nccl": "<2.31"}


@cache
def stack(ranged: bool = True) -> Case:
    folder = Path(mkdtemp(prefix="drydock-test-"))
    rows = {"llm-2.60": LLM | ({"ranges": RANGES} if ranged else {}), "train-2.60": TRAIN}
    return cases(write(folder / "checkout", rows))["llm-2.60"]


versions = st.builds("{}.{}.{}".format, st.integers(0, 15), st.integers(0, 70), st.integers(0, 9))


@given(st.sampled_from(LEADING), versions, st.booleans())
def test_what_leads_never_steps_down(pin: str, version: str, ranged: bool) -> None:
    if Version(version) < Version(stack(ranged).stack.pins[pin]):
        assert not allowed(stack(ranged), pin).contains(version)


@given(versions)
def test_ranges_hold(version: str) -> None:
    release = Version(version)
    in_line = (release.major, release.minor) == (2, 60)
    assert allowed(stack(), "ray").contains(version) == in_line
    assert allowed(stack(), "torch").contains(version) == (
        release >= Version("2.13.0") and release != Version("2.14.0")
    )
    assert allowed(stack(), "nccl").contains(version) == (release < Version("2.31"))
    # Every release of that minor version.
    assert allowed(stack(), "cuda").contains(version) == ((release.major, release.minor) == (13, 0))


@given(versions)
def test_without_a_range_the_cuda_major_holds(version: str) -> None:
    assert allowed(stack(ranged=False), "cuda").contains(version) == (Version(version).major < 14)
    assert allowed(stack(ranged=False), "nixl").contains(version)


@given(st.none() | st.lists(st.sampled_from(MOVABLE), unique=True))
def test_followers_go_with_their_leader(only: list[str] | None) -> None:
    moving = free(stack(), only)
    assert "python" not in moving
    assert moving == [pin for pin in MOVABLE if pin in moving]
    for pin in moving:
        assert only is None or pin in only or FOLLOWING.get(pin) in only
    for follower, leader in FOLLOWING.items():
        assert follower in moving or leader not in moving

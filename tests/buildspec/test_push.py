"""Where images are pushed to."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildspec import push
from buildspec.errors import BadInputError, DrydockError, EnvironmentLacksError, ExitCode, NotProvenError


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1:5000/team",
        "localhost/team",
        "localhost:5000/a/b/c",
        "builder:5000/team",
        "registry.example.com/team",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team",
        "public.ecr.aws/a1b2c3d4/my_team",
        "r.example/a__b/c-d.e---f",
    ],
)
def test_destinations(text: str) -> None:
    assert push.destination(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "team",
        "team/images",
        "registry.example.com",
        "registry.example.com/",
        "registry.example.com//team",
        "/team",
        "https://registry.example.com/team",
        "registry.example.com/Team",
        "registry.example.com/team:tag",
        "registry.example.com/team@sha256:" + "a" * 64,
        "registry.example.com:port/team",
        "registry.example.com:/team",
        "registry.example.com/te am",
        "registry.example.com/team\n",
        "registry.example.com/../team",
        "registry.example.com/a..b",
        "registry.example.com/a___b",
        "registry.example.com/-a",
        "-registry.example.com/a",
        "--help",
        "user:password@registry.example.com/team",
    ],
)
def test_what_is_no_destination(text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        push.destination(text)
    assert str(caught.value) == (
        f"'{text}' is not REGISTRY/NAMESPACE\n"
        "  why: a destination has a host, perhaps a port, and one or more names in small letters\n"
        "  do:  write it as registry.example.com/team or 127.0.0.1:5000/team"
    )
    assert caught.value.code == ExitCode.BAD_INPUT


@given(st.text(st.sampled_from("ab1.-_:/ A@"), max_size=20))
def test_a_destination_is_a_repository_of_the_distribution_specification(text: str) -> None:
    try:
        push.destination(text)
    except BadInputError:
        return
    host, _, name = text.partition("/")
    assert re.fullmatch(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*", name)
    assert "." in host or ":" in host or host == "localhost"


@pytest.mark.parametrize(
    ("told", "kind", "first", "remedy"),
    [
        (
            "unauthorized: authentication required",
            EnvironmentLacksError,
            "the registry refuses the push to r.example:5000/team/x: ",
            "`docker login r.example:5000`, then run this again",
        ),
        (
            "no basic auth credentials",
            EnvironmentLacksError,
            "the registry refuses the push to r.example:5000/team/x: ",
            "`docker login r.example:5000`, then run this again",
        ),
        (
            "denied: requested access to the resource is denied",
            EnvironmentLacksError,
            "the registry refuses the push to r.example:5000/team/x: ",
            "`docker login r.example:5000`, then run this again",
        ),
        (
            "dial tcp 127.0.0.1:5000: connect: connection refused",
            EnvironmentLacksError,
            "the registry of r.example:5000/team/x is out of reach: ",
            "check the name and the network, then run this again: layers that arrived are not sent twice",
        ),
        (
            "dial tcp: lookup r.example: no such host",
            EnvironmentLacksError,
            "the registry of r.example:5000/team/x is out of reach: ",
            "check the name and the network, then run this again: layers that arrived are not sent twice",
        ),
        (
            "manifest invalid: too many layers",
            NotProvenError,
            "the registry refuses the push to r.example:5000/team/x: ",
            "correct what it names, then run this again: layers that arrived are not sent twice",
        ),
    ],
)
def test_what_a_registry_tells(told: str, kind: type[DrydockError], first: str, remedy: str) -> None:
    error = push._refused("r.example:5000/team/x", told)
    assert type(error) is kind
    assert error.what == first + told
    assert error.remedy == remedy


def test_the_identity_of_a_pushed_image() -> None:
    pushed = push.Pushed("tug", "sha256:1", "r.example/team/drydock-train", "sha256:2")
    assert pushed.reference == "r.example/team/drydock-train@sha256:2"

"""Secrets in commands and variables: by the variable's name, and never by its value alone."""

from __future__ import annotations

import pytest

from validate.checks.test_security import LOGIN_IN_URL, _secret_assignments


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("|1 HF_TOKEN=abcdefgh1234 /bin/sh -c pip install x", ["HF_TOKEN"]),
        ("ENV DB_PASSWORD='correct horse battery'", ["DB_PASSWORD"]),
        ("export AWS_SECRET_ACCESS_KEY=abcdefgh1234 && run", ["AWS_SECRET_ACCESS_KEY"]),
        ('RUN OPENAI_API_KEY="k-0123456789" python x.py', ["OPENAI_API_KEY"]),
    ],
)
def test_secret(text: str, names: list[str]) -> None:
    assert list(_secret_assignments(text)) == names


@pytest.mark.parametrize(
    "text",
    [
        "GPG_KEY=7169605F62C751356D054A26A821E680E5FA6305",
        "HF_TOKEN_PATH=/run/secrets/token",
        "HF_TOKEN=/run/secrets/hf_token",
        "HF_TOKEN=$HF_TOKEN",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN=1",
        "TOKENIZERS_PARALLELISM=disabled-by-us",
        "--mount=type=secret,id=token",
        "DB_PASSWORD=changeme",
    ],
)
def test_no_secret(text: str) -> None:
    assert list(_secret_assignments(text)) == []


def test_login_in_address() -> None:
    assert LOGIN_IN_URL.search("http://bob:s3cret@proxy.corp:3128")
    assert not LOGIN_IN_URL.search("http://proxy.corp:3128/a@b")
    assert not LOGIN_IN_URL.search("https://bob:$PASSWORD@proxy.corp")
    assert not LOGIN_IN_URL.search("git@host.example:team/project.git")

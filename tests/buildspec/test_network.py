"""The builder's network, which travels as secrets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildspec import network
from buildspec.errors import BadInputError, ExitCode

NOTHING = {"HOME": "/nonexistent"}


def home(folder: Path, netrc: str) -> dict[str, str]:
    (folder / ".netrc").write_text(netrc, errors="surrogateescape")
    (folder / ".netrc").chmod(0o600)
    return {"HOME": str(folder)}


def test_nothing_set() -> None:
    found = network.read(NOTHING)
    assert found.settings == {}
    assert found.ca is None
    assert found.names == []
    assert found.bake_secrets == ["id=network,env=DRYDOCK_NETWORK"]
    assert found.environment == {"DRYDOCK_NETWORK": ""}


@pytest.mark.parametrize("spelled", ["https_proxy", "HTTPS_PROXY"])
def test_a_proxy_is_set_in_both_spellings(spelled: str) -> None:
    found = network.read({**NOTHING, spelled: "http://proxy.example:3128"})
    assert found.settings == {
        "HTTPS_PROXY": "http://proxy.example:3128",
        "https_proxy": "http://proxy.example:3128",
    }
    assert found.names == ["HTTPS_PROXY", "https_proxy"]


def test_all_proxy_variables() -> None:
    given_ = {name: name.lower() for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")}
    assert set(network.read({**NOTHING, **given_}).settings) == {*given_, *given_.values()}


def test_an_empty_variable_is_none() -> None:
    assert network.read({**NOTHING, "HTTP_PROXY": "", "UV_INDEX": "", "PIP_INDEX_URL": ""}).settings == {}


def test_indexes_of_uv() -> None:
    environ = {"UV_DEFAULT_INDEX": "https://a.example/simple", "UV_INDEX_STRATEGY": "unsafe-best-match"}
    assert network.read({**NOTHING, **environ}).settings == environ


def test_indexes_of_pip_become_those_of_uv() -> None:
    environ = {
        "PIP_INDEX_URL": "https://a.example/simple",
        "PIP_EXTRA_INDEX_URL": "https://b.example/s https://c.example/s",
    }
    assert network.read({**NOTHING, **environ}).settings == {
        "UV_DEFAULT_INDEX": "https://a.example/simple",
        "UV_INDEX": "https://b.example/s https://c.example/s",
    }


def test_uv_goes_before_pip() -> None:
    environ = {"PIP_INDEX_URL": "https://pip.example", "UV_DEFAULT_INDEX": "https://uv.example"}
    assert network.read({**NOTHING, **environ}).settings == {"UV_DEFAULT_INDEX": "https://uv.example"}


def test_logins_of_named_indexes() -> None:
    environ = {"UV_INDEX_CORP_USERNAME": "u", "UV_INDEX_CORP_PASSWORD": "p", "UV_INDEX_OTHER": "x"}
    assert set(network.read({**NOTHING, **environ}).settings) == {
        "UV_INDEX_CORP_USERNAME",
        "UV_INDEX_CORP_PASSWORD",
    }


def test_a_variable_that_a_shell_does_not_take_is_left_out() -> None:
    environ = {"UV_INDEX_a b;reboot_PASSWORD": "p", "UV_INDEX_ü_USERNAME": "u"}
    assert network.read({**NOTHING, **environ}).settings == {}


def test_a_login_from_netrc(tmp_path: Path) -> None:
    environ = home(tmp_path, "machine a.example login ann password hush\n")
    found = network.read({**environ, "UV_DEFAULT_INDEX": "https://a.example:8443/simple"})
    assert found.settings["UV_DEFAULT_INDEX"] == "https://ann:hush@a.example:8443/simple"


def test_a_password_with_odd_characters_is_quoted(tmp_path: Path) -> None:
    environ = home(tmp_path, 'machine a.example login ann@corp password "p@ss/w:rd#%"\n')
    found = network.read({**environ, "UV_DEFAULT_INDEX": "https://a.example/simple"})
    assert found.settings["UV_DEFAULT_INDEX"] == "https://ann%40corp:p%40ss%2Fw%3Ard%23%25@a.example/simple"


def test_each_url_of_a_list_gets_its_login(tmp_path: Path) -> None:
    environ = home(tmp_path, "machine a.example login a password 1\nmachine b.example login b password 2\n")
    value = "corp=https://a.example/simple https://b.example/s https://c.example/s"
    assert network.read({**environ, "UV_INDEX": value}).settings["UV_INDEX"] == (
        "corp=https://a:1@a.example/simple https://b:2@b.example/s https://c.example/s"
    )


def test_a_login_in_the_url_goes_before_netrc(tmp_path: Path) -> None:
    environ = home(tmp_path, "machine a.example login ann password hush\n")
    found = network.read({**environ, "PIP_INDEX_URL": "https://me:mine@a.example/simple"})
    assert found.settings["UV_DEFAULT_INDEX"] == "https://me:mine@a.example/simple"


def test_netrc_elsewhere(tmp_path: Path) -> None:
    home(tmp_path, "machine a.example login ann password hush\n")
    environ = {**NOTHING, "NETRC": str(tmp_path / ".netrc"), "UV_DEFAULT_INDEX": "https://a.example/simple"}
    assert network.read(environ).settings["UV_DEFAULT_INDEX"] == "https://ann:hush@a.example/simple"


@pytest.mark.parametrize("content", ["machine\n", "nonsense here\n", "machine a.example login \udce9\n"])
def test_a_netrc_that_can_not_be_read_is_no_netrc(tmp_path: Path, content: str) -> None:
    environ = home(tmp_path, content)
    found = network.read({**environ, "UV_DEFAULT_INDEX": "https://a.example/simple"})
    assert found.settings["UV_DEFAULT_INDEX"] == "https://a.example/simple"


def test_a_url_that_can_not_be_read_is_not_shown() -> None:
    with pytest.raises(BadInputError) as caught:
        network.read({**NOTHING, "UV_DEFAULT_INDEX": "https://ann:hush@[a.example/simple"})
    assert str(caught.value) == "UV_DEFAULT_INDEX holds a URL that can't be read\n  do:  correct it, or unset it"


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE"])
def test_a_ca(tmp_path: Path, name: str) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("certificates")
    found = network.read({**NOTHING, name: str(ca)})
    assert found.ca == ca
    assert found.names == ["CA certificates"]
    assert found.bake_secrets == ["id=network,env=DRYDOCK_NETWORK", f"id=ca,src={ca}"]


def test_a_ca_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as caught:
        network.read({**NOTHING, "PIP_CERT": str(tmp_path / "gone.pem")})
    assert str(caught.value) == (
        f"the CA file {tmp_path}/gone.pem does not exist\n"
        "  why: one of SSL_CERT_FILE, REQUESTS_CA_BUNDLE, PIP_CERT, CURL_CA_BUNDLE names it\n"
        "  do:  correct it, or unset it"
    )
    assert caught.value.code == ExitCode.BAD_INPUT


def test_values_are_not_shown(tmp_path: Path) -> None:
    environ = home(tmp_path, "machine a.example login ann password hush\n")
    found = network.read({**environ, "HTTP_PROXY": "http://u:hush@p.example", "UV_INDEX": "https://a.example/s"})
    shown = " ".join([*found.names, *found.bake_secrets])
    assert "hush" not in shown
    assert "hush" in found.environment["DRYDOCK_NETWORK"]
    assert "hush" not in repr(found)


def parsed(text: str) -> dict[str, str]:
    """What a POSIX shell takes from lines of quoted assignments."""
    rows = (word.split("=", 1) for word in shlex.split(text))
    return dict(rows)


@given(st.dictionaries(st.sampled_from(["HTTP_PROXY", "NO_PROXY", "UV_INDEX_A_PASSWORD"]), st.text(min_size=1)))
def test_a_shell_reads_back_what_was_set(settings: dict[str, str]) -> None:
    text = network.Network(settings, None).environment["DRYDOCK_NETWORK"]
    assert parsed(text) == settings
    assert len(re.findall(r"^(?:HTTP_PROXY|NO_PROXY|UV_INDEX_A_PASSWORD)=", text, re.MULTILINE)) >= len(settings)

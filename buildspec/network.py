"""The builder's network: proxies, package index and CA of this machine, given to builds as secrets."""

from __future__ import annotations

import netrc
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from buildspec.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

# What uv and apt read. Names in capitals are also read in small letters.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_INDEX_STRATEGY")
# pip's own names for the same thing, for those who configured pip.
_FROM_PIP = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL": "UV_INDEX"}
_CAS = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
VARIABLE = "DRYDOCK_NETWORK"


@dataclass(frozen=True, slots=True)
class Network:
    """Settings of the builder's network. Their values are secrets: `names` may be shown, `settings` not.

    `ca` is a file with certificates to trust, or None for the image's own.
    """

    settings: Mapping[str, str] = field(repr=False)
    ca: Path | None

    @property
    def names(self) -> list[str]:
        """What is set, without values."""
        return [*sorted(self.settings), *(["CA certificates"] if self.ca else [])]

    @property
    def bake_secrets(self) -> list[str]:
        """`secret` entries of a bake target; the settings travel in an environment variable, in no file."""
        return [f"id=network,env={VARIABLE}", *([f"id=ca,src={self.ca}"] if self.ca else [])]

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the build command, which holds the secret's content."""
        return {VARIABLE: "".join(f"{name}={shlex.quote(value)}\n" for name, value in self.settings.items())}


def read(environ: Mapping[str, str] = os.environ) -> Network:
    """Read the network's settings from environment variables and ~/.netrc.

    Raises BadInputError when a CA file that is named does not exist.
    """
    settings: dict[str, str] = {}
    for name in _PROXIES:
        for spelled in (name, name.lower()):
            if value := environ.get(spelled):
                settings[name] = settings[name.lower()] = value
    settings |= {name: _with_logins(name, environ) for name in _INDEXES if environ.get(name)}
    for theirs, ours in _FROM_PIP.items():
        if environ.get(theirs):
            settings.setdefault(ours, _with_logins(theirs, environ))
    # Logins of named indexes, as uv reads them.
    settings |= {
        name: value
        for name, value in environ.items()
        if re.fullmatch(r"UV_INDEX_\w+_(USERNAME|PASSWORD)", name, re.ASCII)
    }
    ca = next((Path(environ[name]) for name in _CAS if environ.get(name)), None)
    if ca is not None and not ca.is_file():
        raise BadInputError(
            f"the CA file {ca} does not exist",
            why=f"one of {', '.join(_CAS)} names it",
            remedy="correct it, or unset it",
        )
    return Network(settings, ca)


def _with_logins(name: str, environ: Mapping[str, str]) -> str:
    """Value of a variable with one or more URLs, each with its login. Raises BadInputError for what is none."""
    try:
        # uv gives an index a name with `name=url`.
        return re.sub(r"https?://\S+", lambda found: _with_login(found[0], environ), environ[name])
    except ValueError:
        # The value may hold a password: it is not shown.
        raise BadInputError(f"{name} holds a URL that can't be read", remedy="correct it, or unset it") from None


def _with_login(url: str, environ: Mapping[str, str]) -> str:
    """Put a login from netrc into an index's URL; the build has no home folder to find it in."""
    parts = urlsplit(url)
    if parts.username or not parts.hostname:
        return url
    file = Path(environ.get("NETRC") or Path(environ.get("HOME", "/")) / ".netrc")
    try:
        entry = netrc.netrc(file).hosts.get(parts.hostname)
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError):
        return url
    if entry is None:
        return url
    login = f"{quote(entry[0], safe='')}:{quote(entry[2], safe='')}"
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}"))

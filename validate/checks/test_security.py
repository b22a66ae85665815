"""Security: no key, no credential, no privilege and no left-over that the image's users would carry on."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator

from validate.allowances import allowances
from validate.bench import Bench
from validate.catalogue import CLAIMS_STACK, HAS_DPKG, check
from validate.experiments.probing import credential_patterns
from validate.facts import Facts, Finding
from validate.outcome import CheckFailedError, Level
from validate.plugin import Said
from validate.probe import compile_patterns, find_credentials

SECRET_NAME = re.compile(
    r"(?:^|.*_)(?:TOKEN|PASSWORD|PASSWD|SECRET|SECRET_KEY|SECRET_ACCESS_KEY|API_KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS)",
    re.IGNORECASE,
)
# What stands in such a variable without being a secret: a path, a reference, a switch, a placeholder.
NO_SECRET = re.compile(
    r"/.*|\$.*|\{.*|<.*>|[A-Za-z]{0,7}|\d{1,7}|true|false|disabled|changeme|placeholder|example.*", re.IGNORECASE
)
ASSIGNED = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|[^\s;&|]+)")
LOGIN_IN_URL = re.compile(r"\w+://[^\s:/@]+:[^\s/@$]{3,}@[^\s]+")


def _keys(facts: Facts) -> Iterator[Finding]:
    for row in facts.findings:
        if row.kind.startswith("private key"):
            yield row


def _secret_assignments(text: str) -> Iterator[str]:
    """Names of variables that are given a secret in a text; values stay in the text."""
    for match in ASSIGNED.finditer(text):
        value = match[2].strip("\"'")
        if SECRET_NAME.fullmatch(match[1]) and len(value) >= 8 and not NO_SECRET.fullmatch(value):
            yield match[1]


@check(
    "security.private_keys",
    level=Level.STATIC,
    proves="no private key is in the image",
    remedy="make keys when the container starts, or mount them; replace this one: who pulls the image has it",
    source="CWE-798; NetApp/ez-rancher#36, determined-ai/environments#56",
)
def test_private_keys(facts: Facts, said: Said) -> None:
    public = {row.sha256: row.reason for row in allowances().public_keys}
    found = []
    for row in _keys(facts):
        if row.sha256 in public:
            said.line(f"allowed: {row.path}: {public[row.sha256]}")
        else:
            found.append(f"a private key is in the image: {row.path}, line {row.line} ({row.kind})")
    if found:
        raise CheckFailedError(found[0] + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""), found)
    said.because(f"none in {facts.file_count} files")


@check(
    "security.credentials",
    level=Level.STATIC,
    proves="no file holds a credential",
    remedy="revoke it, and give it to the build as a secret or to the container as an environment variable",
    source="CWE-798",
)
def test_credentials(facts: Facts, said: Said) -> None:
    found = [
        f"a credential is in the image: {row.kind} in {row.path}, line {row.line}"
        for row in facts.findings if not row.kind.startswith("private key")
    ]  # fmt: skip
    if found:
        raise CheckFailedError(found[0] + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""), found)
    said.because(f"none in {facts.file_count} files")


@check(
    "security.environment",
    level=Level.STATIC,
    proves="no variable of the image's ENV and no label holds a credential",
    remedy="revoke it; pass it when the container starts",
    source="CWE-526",
)
def test_environment(bench: Bench, said: Said) -> None:
    patterns = compile_patterns(credential_patterns())
    found = []
    for place, table in (("ENV", bench.config.environment), ("label", bench.config.labels)):
        for name, value in table.items():
            kinds = [kind for kind, _ in find_credentials(value.encode(), patterns)]
            if not kinds and place == "ENV" and list(_secret_assignments(f"{name}='{value}'")):
                kinds = ["value of a variable that is named as a secret"]
            if not kinds and LOGIN_IN_URL.search(value):
                kinds = ["password in an address"]
            found += [f"a credential is in {place} {name}: {kind}" for kind in kinds]
    if found:
        raise CheckFailedError(found[0], found)
    said.because(f"none in {len(bench.config.environment)} variables and {len(bench.config.labels)} labels")


@check(
    "security.history",
    level=Level.STATIC,
    proves="no command in the image's history shows a credential",
    remedy="revoke it; use a build secret (RUN --mount=type=secret) instead of ARG or ENV",
    source="Docker documentation, build secrets",
)
def test_history(bench: Bench, said: Said) -> None:
    patterns = compile_patterns(credential_patterns())
    found = []
    for number, (command, _) in enumerate(bench.config.history, 1):
        kinds = [kind for kind, _ in find_credentials(command.encode(), patterns)]
        kinds += [f"value of {name}" for name in _secret_assignments(command)]
        if LOGIN_IN_URL.search(command):
            kinds.append("password in an address")
        found += [f"step {number} of the history shows a credential: {kind}" for kind in dict.fromkeys(kinds)]
    if found:
        raise CheckFailedError(found[0], found)
    said.because(f"none in {len(bench.config.history)} steps")


@check(
    "security.ssh_host_keys",
    level=Level.STATIC,
    proves="the SSH server's host keys are not in the image",
    remedy="remove /etc/ssh/ssh_host_*_key in the layer that installs openssh-server; make them at start",
    source="aws/deep-learning-containers, install_efa scripts: every container has the same host key",
)
def test_ssh_host_keys(facts: Facts, said: Said) -> None:
    row = next((c for c in facts.clutter if c.kind.startswith("host key")), None)
    if row:
        raise CheckFailedError(
            f"host keys of the SSH server are in the image: {', '.join(row.examples)}", row.examples
        )
    said.because("none under /etc/ssh")


@check(
    "security.ssh_trust",
    level=Level.STATIC,
    proves="the SSH server, if it is there, lets nobody in without a key",
    remedy="remove the setting: MPI needs keys that are made at start, and no password",
    source="aws/deep-learning-containers, configure_ssh.sh",
)
def test_ssh_trust(facts: Facts, said: Said) -> None:
    for file, text in facts.configuration.items():
        if file.startswith("/etc/ssh/sshd_config"):
            wrong = re.search(
                r"^\s*(PermitEmptyPasswords\s+yes|PermitRootLogin\s+yes)", text, re.IGNORECASE | re.MULTILINE
            )
            if wrong:
                raise CheckFailedError(f"{file} says {wrong[1]}: whoever reaches the port may log in as root")
    said.because("sshd allows no empty passwords and no root password")


@check(
    "security.privileged",
    level=Level.STATIC,
    applies=HAS_DPKG,
    proves="no program has setuid or setgid rights but those that a Debian package gave it",
    remedy="chmod u-s,g-s it, or install it as a package",
    source="CIS Docker benchmark 4.8",
)
def test_privileged(facts: Facts, said: Said) -> None:
    added = [row for row in facts.privileged if not row.owned]
    if added:
        lines = [
            f"{row.path} runs with the rights of {'user' if row.mode & stat.S_ISUID else 'group'} "
            f"{row.uid if row.mode & stat.S_ISUID else row.gid} (mode {row.mode:o}) and belongs to no package"
            for row in added
        ]
        raise CheckFailedError(lines[0], lines)
    said.because(f"{len(facts.privileged)} privileged programs, all from packages")


@check(
    "security.world_writable",
    level=Level.STATIC,
    applies=CLAIMS_STACK,
    proves="no file can be changed by every user, and no folder lets users replace each other's files",
    remedy="chmod o-w it; give group 0 the right instead",
    source="CIS benchmarks; CWE-732",
)
def test_world_writable(facts: Facts, said: Said) -> None:
    if facts.world_writable:
        raise CheckFailedError(f"any user may change {', '.join(facts.world_writable[:3])}", facts.world_writable)
    said.because(f"none of {facts.file_count} files")


def _no_clutter(facts: Facts, said: Said, *starts: str) -> None:
    rows = [row for row in facts.clutter if row.kind.startswith(starts)]
    if rows:
        lines = [
            f"{row.kind}: {row.count} files, {row.size / 2**20:.1f} MiB, as {row.examples[0]}" for row in rows
        ]
        raise CheckFailedError(lines[0], lines)
    said.because("none")


@check(
    "size.caches",
    level=Level.STATIC,
    applies=CLAIMS_STACK,
    proves="no package manager's cache or list is left in the image",
    remedy="use a cache mount, or remove it in the same RUN",
    source="rule 7: no caches; vllm-project/vllm#7609",
)
def test_caches(facts: Facts, said: Said) -> None:
    _no_clutter(facts, said, "cache", "package lists", "packages downloaded")


@check(
    "size.leftovers",
    level=Level.STATIC,
    applies=CLAIMS_STACK,
    proves="nothing is left under /tmp and /var/tmp",
    remedy="remove it in the same RUN",
    source="rule 7",
)
def test_leftovers(facts: Facts, said: Said) -> None:
    _no_clutter(facts, said, "left-over")


@check(
    "security.version_control",
    level=Level.STATIC,
    applies=CLAIMS_STACK,
    proves="no version control folder and no shell history is in the image",
    remedy="add .git to .dockerignore; remove the history in the same RUN",
    source="CWE-527",
)
def test_version_control(facts: Facts, said: Said) -> None:
    _no_clutter(facts, said, "version control", "shell history")


@check(
    "security.passwords",
    level=Level.STATIC,
    proves="no user can log in with a password, or without one",
    remedy="lock the account: passwd --lock",
    source="CIS Docker benchmark; everyone who pulls the image has the hash",
)
def test_passwords(facts: Facts, said: Said) -> None:
    if facts.passwords:
        raise CheckFailedError(f"/etc/shadow has a password, or an empty one, for {', '.join(facts.passwords)}")
    said.because("every account is locked")


@check(
    "security.sudo",
    level=Level.STATIC,
    applies=CLAIMS_STACK,
    proves="nobody becomes root without a password",
    remedy="remove the NOPASSWD line; install what is needed when the image is built",
    source="CIS Docker benchmark 4.1",
)
def test_sudo(facts: Facts, said: Said) -> None:
    for file, text in facts.configuration.items():
        if not file.startswith("/etc/sudoers"):
            continue
        found = re.search(r"^\s*[^#\s].*NOPASSWD:.*$", text, re.MULTILINE)
        if found:
            raise CheckFailedError(f"{file} lets users become root without a password: {found[0].strip()}")
    said.because("no NOPASSWD in sudoers")

# /// script
# dependencies = ["nox[uv]>=2026.4"]
# ///
"""Sessions of Drydock: each calls the `drydock` command of the same name, or a tool on its code."""

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["build"]

DRYDOCK = ("-e", ".[build,logs]")


@nox.session
def build(session: nox.Session) -> None:
    """Build the stacks of the matrix and check them: [STACK...] [--plan] [--push REGISTRY/NAMESPACE]."""
    session.install(*DRYDOCK)
    session.run("drydock", "build", *session.posargs)


@nox.session
def lock(session: nox.Session) -> None:
    """Resolve and hash-lock what goes into the images: [STACK...|os]."""
    session.install(*DRYDOCK)
    session.run("drydock", "lock", *session.posargs)

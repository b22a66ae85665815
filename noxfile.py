"""Sessions of Drydock: each calls the `drydock` command of the same name, or a tool on its code."""

from pathlib import Path

import nox

nox.needs_version = ">=2026.4"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["build"]

PYPROJECT = Path("pyproject.toml")
PYTHON = ["buildspec", "validate", "tests", "benchmarks", "noxfile.py"]


def install(session: nox.Session, *groups: str) -> None:
    """Install Drydock with everything that building and checking needs, and these dependency groups.

    Done once per session and pyproject.toml: the install is editable, and a run with nothing to do is fast.
    """
    done = Path(session.virtualenv.location) / "drydock-installed.toml"
    if not done.exists() or done.read_text() != PYPROJECT.read_text():
        extra = nox.project.dependency_groups(nox.project.load_toml(PYPROJECT), *groups)
        session.install("-e", ".[build,logs]", *extra)
        done.write_text(PYPROJECT.read_text())


def drydock(session: nox.Session) -> None:
    """Run the command that is named as the session is."""
    install(session)
    session.run("drydock", session.name, *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build stacks and check them: [STACK...] [--plan] [--locked] [--push REGISTRY/NAMESPACE]."""
    drydock(session)


@nox.session
def tests(session: nox.Session) -> None:
    """Run Drydock's own tests; arguments go to pytest, for example -m 'not integration'."""
    install(session, "tests")
    session.run("pytest", "--numprocesses=auto", "--maxprocesses=4", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Break built images in many ways and see each break found by its check; needs both current images."""
    install(session, "tests")
    session.run("pytest", "-m", "mutants", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the code: ruff, mypy, hadolint, shellcheck."""
    install(session, "tests", "lint")
    session.run("ruff", "check", *PYTHON)
    session.run("ruff", "format", "--check", *PYTHON)
    session.run("mypy")
    session.run("hadolint", "--config", "images/hadolint.yaml", "images/Dockerfile", "images/os.Dockerfile")
    session.run("shellcheck", ".ci/run", "images/with-network", "images/rootfs/usr/local/bin/drydock-entrypoint",
                "images/rootfs/usr/local/bin/drydock-sshd")  # fmt: skip


@nox.session
def validate(session: nox.Session) -> None:
    """Run the checks on any image: --image REF [--stack NAME] [--level L] [--report DIR]."""
    drydock(session)


@nox.session
def lock(session: nox.Session) -> None:
    """Resolve and hash-lock what goes into the images: [STACK...|os] [--plan]."""
    drydock(session)


@nox.session
def matrix(session: nox.Session) -> None:
    """Show the version matrix, or check that it fits together: [--check] [--json|--markdown] [--offline]."""
    drydock(session)


@nox.session
def bump(session: nox.Session) -> None:
    """Move pins to the newest versions that fit together: [STACK...] [--only PIN,...] [--plan|--check]."""
    drydock(session)


@nox.session
def engine(session: nox.Session) -> None:
    """Show, start or stop the container engine that Drydock uses: status|start|stop."""
    drydock(session)


@nox.session
def clean(session: nox.Session) -> None:
    """Free what earlier builds left on the engine: [--plan] [--all]."""
    drydock(session)

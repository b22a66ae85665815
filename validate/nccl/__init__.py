"""Which network did NCCL use? A job's logs in, a verdict with its evidence out."""

from validate.nccl.judge import judge, judge_text
from validate.nccl.result import Cause, Communicator, Evidence, Judgement, Rank, Verdict

__all__ = ["Cause", "Communicator", "Evidence", "Judgement", "Rank", "Verdict", "judge", "judge_text"]

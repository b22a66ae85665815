"""Lines of a job's log that NCCL itself did not print: errors, benchmark tables, host lists, prose."""

from __future__ import annotations

import json
import re
from typing import Literal, TypeAlias

__all__ = ["TRIGGER", "ApplicationFact", "read_application"]

ApplicationFact: TypeAlias = tuple[
    Literal["version", "failure", "timeout", "bandwidth", "host", "doc", "libfabric-refused"], tuple[str, ...]
]

# Every line that says something holds one of these; letters only, as in wording.DECISIVE_WORDS.
TRIGGER = re.compile(
    r"NCCL|nccl|busbw|bus_bw|bfloat|float|int8|uint8|int32|uint32|int64|half|double|Group|on \S+ device|```"
    r"|[Ss]hould (?:see|show|contain|print|look)|[Ll]ook for|(?:[Ee]xpected|[Ee]xample|[Ss]ample) (?:output|log)"
    r"|[Vv]erify (?:that|the)|[Yy]ou(?:'ll| will| can) see|[Ii]f you see|^\s*#{1,5} [A-Z]|^ *[-*] `"
    r"|provider efa|remote process exited|[Ww]atchdog caught|remote peer|Proxy Call|unhandled |Cuda failure"
)
_VERSION = re.compile(r"(?:^|[\s|\]:>\)])(?P<lib>[NR])CCL version ?:? ?(?P<version>\d+\.\d+[\w.+:-]*)")
_FAILURE = re.compile(
    r"nccl(?:System|Remote|Internal|UnhandledCuda|InvalidUsage|InvalidArgument)Error\b|Test NCCL (?:init )?failure"
    r"|NCCL error(?: in)?:|unhandled (?:system|cuda) error|ncclCommInitRank\w* failed|NCCL Error \d|NCCL failure"
    r"|remote process exited or there was a network error|DistBackendError: NCCL"
    r"|Connection closed by remote peer|Proxy Call to rank \d+ failed|Cuda failure \d*"
)
_QUOTED_FAILURE = re.compile(
    r"(?:^\s*(?:#|//|\*|-|echo|grep|\+)\s)|\b(?:if you (?:see|get)|such as|for example|caused by errors like)\b",
    re.IGNORECASE,
)
_TIMEOUT = re.compile(
    r"[Ww]atchdog caught collective operation timeout|Collective \w+ timeout|Timeout at NCCL work"
)
# A text about NCCL has marks of a document, and tells what one should see.
_MARK = re.compile(r"^```|^\s*#{1,5} [A-Z][a-z]+ [a-z]+|^ *[-*] `")
_PHRASE = re.compile(
    r"[Ss]hould (?:see|show|contain|print|look)|[Ll]ook for|(?:[Ee]xpected|[Ee]xample|[Ss]ample) (?:output|log)"
    r"|[Vv]erify (?:that|the)|[Yy]ou(?:'ll| will| can) see|[Ii]f you see"
)
_TEST_HEADER = re.compile(
    r"^\s*#\s+(?:Rank|nThread|Using devices|Out of bounds|Avg bus|Collective test|\(B\)|size)"
)
_HOST = re.compile(
    r"#\s+Rank\s+(?P<rank>\d{1,9})\s+(?:Group\s+\d+\s+)?Pid\s+(?P<pid>\d+)\s+on\s+(?P<host>\S+)\s+device"
)
_NUMBER = r"\d{1,12}(?:\.\d{1,9})?(?:[eE][+-]?\d{1,2})?"
# size count type [redop] [root] time algbw busbw #wrong time algbw busbw #wrong; "N/A" where not checked
_ROW = re.compile(
    rf"(?:^|\s)(?P<size>\d{{1,18}})\s+(?P<count>\d{{1,18}})\s+(?P<type>bfloat16|float\d*|half|double|u?int\d+|f8e\dm\d|fp8_\w+)\s+"
    rf"(?P<redop>[a-z]+\d*)?\s*(?P<root>-?\d+\s+)?(?P<t1>{_NUMBER})\s+(?P<a1>{_NUMBER})\s+(?P<b1>{_NUMBER})\s+(?P<w1>\S+)"
    rf"(?:\s+(?P<t2>{_NUMBER})\s+(?P<a2>{_NUMBER})\s+(?P<b2>{_NUMBER})\s+(?P<w2>\S+))?\s*\|?\s*$"
)
_JSON = re.compile(r"\{[^{}]*\"(?:busbw|bus_bw|busbw_gbps|busbw_GBps)\w*\"[^{}]*\}")
# GB/s; more is no measurement.
_MOST_BUSBW = 1e6
_COLLECTIVE = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoall|all_to_all|broadcast|sendrecv|reduce|gather|scatter)(?:_perf)?\b"
)
_REFUSED = re.compile(r"libfabric:.*provider efa output empty list")


def read_application(text: str) -> ApplicationFact | None:
    """Tell what a decoded line without a message of NCCL says; None for nothing of interest.

    "bandwidth" is (size in bytes, busbw in GB/s, collective or ""); "host" is (host, rank, pid).
    """
    if len(text) > 20000 or not TRIGGER.search(text):
        return None
    if match := _HOST.search(text):
        return "host", (match["host"], match["rank"], match["pid"])
    if match := _ROW.search(text):
        return "bandwidth", (match["size"], str(max(float(match["b1"]), float(match["b2"] or 0))), "")
    if (match := _JSON.search(text)) and (row := _json_row(match[0])):
        return row
    if (match := _VERSION.search(text)) and not _FAILURE.search(text):
        return "version", (("RCCL " if match["lib"] == "R" else "") + match["version"],)
    return _remark(text)


def _remark(text: str) -> ApplicationFact | None:
    """Tell errors and prose, which have no values of their own."""
    if _TIMEOUT.search(text):
        return "timeout", ()
    if _FAILURE.search(text) and not _QUOTED_FAILURE.search(text):
        return "failure", ()
    if _REFUSED.search(text):
        return "libfabric-refused", ()
    if _MARK.search(text) and not _TEST_HEADER.search(text):
        return "doc", ("mark",)
    if _PHRASE.search(text):
        return "doc", ("phrase",)
    return None


def _json_row(text: str) -> ApplicationFact | None:
    try:
        row = json.loads(text)
    except ValueError:
        return None
    size = next(
        (
            row[key]
            for key in ("size", "bytes", "size_bytes", "message_bytes")
            if isinstance(row.get(key), int | float)
        ),
        None,
    )
    busbw = next(
        (row[key] for key in row if key.startswith(("busbw", "bus_bw")) and isinstance(row[key], int | float)),
        None,
    )
    if (
        size is None
        or busbw is None
        or isinstance(size, bool)
        or isinstance(busbw, bool)
        or not 0 <= size < 1 << 60
        or not 0 <= busbw < _MOST_BUSBW
    ):
        return None
    name = _COLLECTIVE.search(str(row.get("collective") or row.get("op") or row.get("test") or ""))
    return "bandwidth", (str(int(size)), str(float(busbw)), name[1] if name else "")

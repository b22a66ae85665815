"""One line of a job's log: what other programs put around NCCL's messages is taken off here.

A line may hold no message of NCCL, one, or several that were written into each other. Messages carry who
wrote them (`host:pid:tid [device]`). A message without that is *loose*: people cut it off when they paste.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Message", "decode", "messages", "owner"]

# Colours: the real escape, the ways in which JSON, syslog and `cat -v` write it, and what a browser leaves of it.
_COLOUR = re.compile(
    r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|#033|\^\[|[\u241b\u2190]|ESC)?\[[0-9;]{0,11}m|\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]{0,200}\x07"
)
# A clock reading may stand directly before the host name, so it goes first.
_ANY_COLOUR = re.compile(r"\[[0-9;]{0,11}m")
_CLOCK = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?=[A-Za-z<|]|\s|\])")
_HEAD = re.compile(
    r"(?P<host><[^<>:]{1,60}>|\[[\w .-]{1,60}\](?=:)|[^\s:|()\[\]{}<>\"'`/,;=]{0,255}):(?P<pid>\d+):(?P<tid>\d+)"
    r" ?\[(?P<device>-?\d+)\] "
    r"(?:NCCL (?P<level>INFO|TRACE|CALL|ABORT|VERSION) |"
    r"(?:\d+\.\d+ )?(?P<where>(?:(?!\[-?\d+\] )[^\n]){0,200}?:-?\d+) NCCL (?P<loud>WARN|INFO|TRACE|ERROR) )"
)
_LOOSE = re.compile(r"NCCL (?P<level>INFO|WARN|ERROR) |(?P<test>INFO|WARN): Function: (?P<where>\w+) Line: \d+: ")
# What may stand before a loose message: brackets, clocks, one word and a colon, table bars, quote marks.
_LOOSE_PREFIX = re.compile(
    r"(?:\s++|[|>\u2026\u2502]++|\.\.\.|\[[^\]\n]{0,60}\]:?|\([^)\n]{0,80}\):?|<[^>\n]{0,40}>|[\w./-]++:"
    r"|\d[\d:.,/TZ+-]*+|stderr|stdout|[FP]\b)*+"
)
# Someone shows the message instead of printing it.
_SHOWN = re.compile(
    r"(?:^|[\s;|&(])(?:echo|printf|e?grep|rg|awk|sed|assert|print)\s|^\s*\++ |^\s*(?:#(?! ?MAGIC)|//)"
    r"|(?<![\w-])(?:look for|expect(?:ed)?|should|for example|example|e\.g\.|must (?:see|contain)|such as"
    r"|instead of)(?![\w-])"
    r"|(?<![\w-])(?:good|bad) ?:",
    re.IGNORECASE,
)
# The rest of a JSON object or of key="value" pairs; Ray's counts and marks of copied text at the end.
_REST = re.compile(r"(?:\\n)?\",\s*\"\w+\":|(?:\\n)?\"\s*\}|\"\s+\w+=")
_END = re.compile(r"\s*(?:\[repeated \d+x across cluster\].*|\[cite: ?[\d, ]+\]|\((?:\.\.\.|\u2026)\))$")
_BLANKS = ' \t|`\\"'
_FOLDED = re.compile(r"\[repeated (\d{1,9})x across cluster\]")
# The end of one message glued to the host name of the next.
_GLUE = re.compile(
    r"\d*(?:GDRDMA|Shared|CUMEM|IPC|read|direct|pointer|Socket|IB|Libfabric|COMPLETE|START|rings|trees|comm|version)(?=[A-Za-z0-9<])"
)


# Nobody's message is longer; a line of a megabyte is something else.
_MOST_LINE = 200_000
_MOST_BODY = 4000
_MOST_PREFIX = 400


class Message(NamedTuple):
    """One message of NCCL or of a plugin.

    `owner` is `host:pid:tid [device`, empty for a loose message; `level` INFO, WARN, ...; `where` the place
    in the source that a warning names; `folded` how many equal lines Ray says it left out.
    """

    owner: str
    level: str
    where: str
    body: str
    folded: int


def decode(raw: bytes) -> str:
    """Make text of a raw line; bytes that are no UTF-8 become replacement characters, colours go."""
    text = raw[:_MOST_LINE].decode("utf-8", "replace").rstrip("\r\n")
    if "\x1b" in text or _ANY_COLOUR.search(text):
        text = _COLOUR.sub("", text)
    return text.replace("\x00", "") if "\x00" in text else text


def owner(name: str) -> tuple[str, str, str, str]:
    """Split `host:pid:tid [device` into host, pid, tid, device; four empty strings for a loose message."""
    if not name:
        return "", "", "", ""
    left, _, device = name.rpartition(" [")
    host, pid, tid = left.rsplit(":", 2)
    return host, pid, tid, device


def messages(text: str) -> list[Message]:
    """Find the messages in one decoded line; empty where there are none or where they are only shown."""
    if "NCCL" not in text and "Function:" not in text:
        return []
    head = _HEAD.match(text)
    if head and text.find("NCCL ", head.end()) < 0 and head["host"]:
        body = text[head.end() :]
        folded = _FOLDED.search(body) if "[repeated" in body else None
        return [_message(head, head["host"], _trim(body), int(folded[1]) if folded else 0)]
    text = _CLOCK.sub(" ", text)
    heads = list(_HEAD.finditer(text))
    if not heads:
        return _loose(text)
    if _SHOWN.search(text, 0, heads[0].start()):
        return []
    folded = _FOLDED.search(text)
    found: list[Message] = []
    for index, head in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(text)
        host = head["host"]
        if index or head.start():
            host = host[_glued(text, head.start(), host, heads[0]["host"] if index else "") :]
        if index + 1 < len(heads):
            after = heads[index + 1]
            end += _glued(text, after.start(), after["host"], host)
        body = _trim(text[head.end() : end])
        found.append(_message(head, host, body, int(folded[1]) if folded else 0))
    return found


def _trim(body: str) -> str:
    """Take off what others put behind a message."""
    if '"' in body and (rest := _REST.search(body)):
        body = body[: rest.start()]
    body = body.strip().rstrip(_BLANKS)
    while body.endswith(("]", ")")) and (end := _END.search(body, max(0, len(body) - 600))):
        body = body[: end.start()].rstrip(_BLANKS)
    return body.removesuffix("\\n")


def _message(head: re.Match[str], host: str, body: str, folded: int) -> Message:
    _, pid, thread, device, level, where, loud = head.groups()
    return Message(f"{host}:{pid}:{thread} [{device}", level or loud, where or "", body[:_MOST_BODY], folded)


def _glued(text: str, start: int, host: str, neighbour: str) -> int:
    """Tell how many leading characters of what looks like a host name belong to the message before it."""
    if not start:
        return 0
    if neighbour and host != neighbour and host.endswith(neighbour):
        return len(host) - len(neighbour)
    match = _GLUE.match(host)
    if match:
        return match.end()
    if text[start - 1] == "/":
        return len(host) - len(host.lstrip("0123456789"))
    return 0


def _loose(text: str) -> list[Message]:
    match = _LOOSE.search(text)
    if (
        not match
        or match.start() > _MOST_PREFIX
        or not _LOOSE_PREFIX.fullmatch(text, 0, match.start())
        or _SHOWN.search(text, 0, match.start())
    ):
        return []
    folded = _FOLDED.search(text)
    return [
        Message(
            "",
            match["level"] or match["test"],
            match["where"] or "",
            _trim(text[match.end() :])[:_MOST_BODY],
            int(folded[1]) if folded else 0,
        )
    ]

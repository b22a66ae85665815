"""A picture of a job: one square per rank, in the colour of its network, gathered by host."""

from __future__ import annotations

from html import escape

from validate.nccl.result import Judgement, Rank, Verdict

__all__ = ["COLOURS", "picture"]

# Dark enough for white text, and told apart without red and green alone.
COLOURS: dict[Verdict, str] = {
    "efa-gdr": "#1a7f37",
    "efa": "#4d7c0f",
    "ib-gdr": "#0550ae",
    "ib": "#2f6fb3",
    "roce": "#0e7490",
    "socket": "#c2410c",
    "other-plugin": "#7c3aed",
    "intra-node": "#6e7781",
    "mixed": "#a16207",
    "failed": "#b91c1c",
    "unknown": "#8c959f",
}
# What a rank did in its communicators, the most telling first.
_TELLING: tuple[Verdict, ...] = (
    "failed",
    "mixed",
    "socket",
    "other-plugin",
    "roce",
    "ib",
    "ib-gdr",
    "efa",
    "efa-gdr",
    "unknown",
    "intra-node",
)
_SQUARE, _GAP = 14, 3
# The labelled picture is as wide as a phone, so that its text stays readable there.
_WIDE, _NARROW = 640, 360
_LABELLED = 64


def picture(judgement: Judgement) -> str:
    """Draw the job as SVG with a key; empty where no rank is known."""
    hosts = _hosts(judgement)
    if not hosts:
        return ""
    counts: dict[Verdict, int] = {}
    for ranks in hosts.values():
        for verdict, _ in ranks.values():
            counts[verdict] = counts.get(verdict, 0) + 1
    key = "".join(
        f'<span><i style="background:{COLOURS[name]}"></i>{name}: {counts[name]}</span>'
        for name in _TELLING
        if name in counts
    )
    labelled = len(hosts) <= _LABELLED
    body, height = _labelled(hosts) if labelled else _packed(hosts)
    width = _NARROW if labelled else _WIDE
    title = f"{sum(counts.values())} ranks on {len(hosts)} hosts: " + ", ".join(
        f"{count} {name}" for name, count in counts.items()
    )
    return (
        f'<div class="key">{key}</div>\n<svg viewBox="0 0 {width} {height}"'
        f' style="max-width: {width * 1.1:.0f}px" role="img"><title>{escape(title)}</title>{body}</svg>'
    )


def _hosts(judgement: Judgement) -> dict[str, dict[str, tuple[Verdict, Rank]]]:
    """Give each host's ranks by process and device, each with its most telling verdict."""
    found: dict[str, dict[str, tuple[Verdict, Rank]]] = {}
    for comm in judgement.communicators:
        for rank in comm.ranks:
            ranks = found.setdefault(rank.host, {})
            key = f"{rank.pid} [{rank.device}]"
            known = ranks.get(key)
            if known is None or _TELLING.index(rank.verdict) < _TELLING.index(known[0]):
                ranks[key] = (rank.verdict, rank)
    return dict(sorted(found.items()))


def _square(x: int, y: int, host: str, verdict: Verdict, rank: Rank) -> str:
    number = f"rank {rank.rank}" if rank.rank is not None else "rank unknown"
    says = f"{host or 'host unknown'}, GPU {rank.device}, {number}: {verdict}"
    return (
        f'<rect x="{x}" y="{y}" width="{_SQUARE}" height="{_SQUARE}" rx="3"'
        f' fill="{COLOURS[verdict]}"><title>{escape(says)}</title></rect>'
    )


def _labelled(hosts: dict[str, dict[str, tuple[Verdict, Rank]]]) -> tuple[str, int]:
    """Draw a row per host, with its name above so that long names do not squeeze the squares."""
    parts, y = [], 0
    for host, ranks in hosts.items():
        parts.append(f'<text x="0" y="{y + 12}">{escape((host or "host unknown")[:48])}</text>')
        y += 17
        x = 0
        for verdict, rank in ranks.values():
            if x + _SQUARE > _NARROW:
                x, y = 0, y + _SQUARE + _GAP
            parts.append(_square(x, y, host, verdict, rank))
            x += _SQUARE + _GAP
        y += _SQUARE + 9
    return "".join(parts), y


def _packed(hosts: dict[str, dict[str, tuple[Verdict, Rank]]]) -> tuple[str, int]:
    """Draw hosts side by side as blocks of two rows; names show when pointed at."""
    parts, x, y = [], 0, 0
    block = 2 * (_SQUARE + _GAP)
    for host, ranks in hosts.items():
        columns = max(1, (len(ranks) + 1) // 2)
        width = columns * (_SQUARE + _GAP)
        if x and x + width > _WIDE:
            x, y = 0, y + block + 6
        for index, (verdict, rank) in enumerate(ranks.values()):
            parts.append(
                _square(
                    x + index % columns * (_SQUARE + _GAP),
                    y + index // columns * (_SQUARE + _GAP),
                    host,
                    verdict,
                    rank,
                )
            )
        x += width + 6
    return "".join(parts), y + block

"""A judgement as one HTML page that needs nothing else: light and dark, wide and narrow."""

from __future__ import annotations

from html import escape

from validate.nccl.bandwidth import size_text
from validate.nccl.picture import COLOURS, picture
from validate.nccl.report import HEADLINES
from validate.nccl.result import Judgement

__all__ = ["page"]

_MOST_COMMUNICATORS = 40

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --line: #d0d7de; --box: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --line: #30363d; --box: #161b22; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.verdict { display: inline-block; padding: .1rem .6rem; border-radius: .4rem; margin-right: .5rem;
  color: #fff; font-family: ui-monospace, monospace; }
dl { display: grid; grid-template-columns: minmax(4.5rem, auto) 1fr; gap: .3rem 1rem; margin: 0; }
dt { color: var(--soft); }
p, dd { overflow-wrap: anywhere; }
dd { margin: 0; }
ol { list-style: none; margin: 0; padding: 0; }
li { border-left: 3px solid var(--line); padding: .3rem .6rem; margin: .4rem 0; background: var(--box); }
code { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
.at { color: var(--soft); display: block; font-size: 12px; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; }
td.n, th.n { text-align: right; white-space: nowrap; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--ink); font: 12px ui-monospace, monospace; }
a { color: inherit; }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: .5rem 0; font-size: 14px; }
.key i { display: inline-block; width: .9rem; height: .9rem; border-radius: .2rem; margin-right: .35rem;
  vertical-align: -.1rem; }
"""


def page(judgement: Judgement) -> str:
    """Write the page."""
    verdict = judgement.verdict
    parts = [
        "<!doctype html>",
        (
            '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,'
            ' initial-scale=1">'
        ),
        f"<title>{escape(verdict)}: which network did NCCL use?</title><style>{_STYLE}</style></head><body>",
        (
            '<h1><span class="verdict"'
            f' style="background:{COLOURS[verdict]}">{escape(verdict)}</span>{escape(HEADLINES[verdict])}</h1>'
        ),
        "<dl>",
        _pair("Why", f"{escape(judgement.cause.sentence)} <code>{escape(judgement.cause.id)}</code>"),
        _pair("Do", escape(judgement.cause.remedy)),
        _pair("See", _link(judgement.cause.source)),
        _pair(
            "Seen in",
            escape(
                f"{', '.join(judgement.files[:6])}{' …' if len(judgement.files) > 6 else ''}; {judgement.lines}"
                " lines"
            ),
        ),
    ]
    for name, versions in (
        ("NCCL", judgement.nccl_versions),
        ("aws-ofi-nccl", judgement.plugin_versions),
        ("libfabric", judgement.libfabric_versions),
    ):
        if versions:
            parts.append(_pair(name, escape(", ".join(versions))))
    if judgement.settings:
        parts.append(
            _pair(
                "Set", f"<code>{escape(', '.join(f'{name}={value}' for name, value in judgement.settings))}</code>"
            )
        )
    parts.append("</dl>")
    parts += [f"<p>{escape(note)}</p>" for note in judgement.notes]
    if judgement.evidence:
        parts += ["<h2>Lines that decide</h2>", "<ol>"]
        parts += [
            f'<li><span class="at">{escape(line.file)}:{line.line}</span><code>{escape(line.text)}</code></li>'
            for line in judgement.evidence
        ]
        parts.append("</ol>")
    drawn = picture(judgement)
    if drawn:
        parts += ["<h2>Ranks by host and network</h2>", drawn]
    parts += _bandwidth(judgement)
    parts += _communicators(judgement)
    if judgement.known_issues:
        parts += ["<h2>Known bugs of these versions</h2>", "<dl>"]
        parts += [
            _pair(
                f"<code>{escape(issue.id)}</code>",
                f"{escape(issue.sentence)} {escape(issue.remedy)} {_link(issue.source)}",
            )
            for issue in judgement.known_issues
        ]
        parts.append("</dl>")
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _pair(name: str, value: str) -> str:
    return f"<dt>{name}</dt><dd>{value}</dd>"


def _link(url: str) -> str:
    return f'<a href="{escape(url, quote=True)}" rel="noreferrer">{escape(url)}</a>'


def _bandwidth(judgement: Judgement) -> list[str]:
    if not judgement.bandwidth:
        return []
    parts = ["<h2>Bus bandwidth</h2>", *(f"<p>{escape(sentence)}</p>" for sentence in judgement.bandwidth_says)]
    top = max(row.busbw for row in judgement.bandwidth) or 1.0
    parts.append(
        '<table><tr><th>collective</th><th class="n">size</th><th class="n">GB/s</th><th'
        ' style="width:45%"></th></tr>'
    )
    for row in judgement.bandwidth:
        bar = (
            '<svg viewBox="0 0 100 8" preserveAspectRatio="none" height="10" width="100%"><rect'
            f' width="{row.busbw / top * 100:.1f}" height="8" fill="{COLOURS["efa-gdr"]}"/></svg>'
        )
        parts.append(
            f'<tr><td>{escape(row.collective or "")}</td><td class="n">{size_text(row.size)}</td><td'
            f' class="n">{row.busbw:.2f}</td><td>{bar}</td></tr>'
        )
    parts.append("</table>")
    return parts


def _communicators(judgement: Judgement) -> list[str]:
    if not judgement.communicators:
        return []
    parts = [
        f"<h2>Communicators: {len(judgement.communicators)}</h2>",
        (
            "<table><tr><th>id</th><th>verdict</th><th class='n'>ranks</th><th class='n'>seen</th><th>channels"
            " over a network</th></tr>"
        ),
    ]
    biggest = sorted(judgement.communicators, key=lambda comm: (-(comm.size or 0), comm.id))
    parts += [
        (
            f"<tr><td><code>{escape(comm.id)}</code></td><td>{comm.verdict}</td><td"
            f' class="n">{comm.size or "?"}</td><td'
            f' class="n">{len(comm.ranks)}</td><td>{escape(comm.channels_shown)}</td></tr>'
        )
        for comm in biggest[:_MOST_COMMUNICATORS]
    ]
    parts.append("</table>")
    if len(biggest) > _MOST_COMMUNICATORS:
        parts.append(f"<p>and {len(biggest) - _MOST_COMMUNICATORS} smaller ones.</p>")
    return parts

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The HTML form of a report: one file, no script, no request, light and dark, readable on a phone. Pure."""

from __future__ import annotations

import html
import string
import typing as t

from . import plots
from .document import Body, Bullets, Charts, Code, Document, Notes, Table

NO_DIAGRAMS: t.Final = (
    "There are no diagrams: matplotlib is not installed for the Python that wrote this page. The tables have all their "
    "figures. Install matplotlib there (in AWX: in the execution environment) and write the report again."
)

_PAGE: t.Final = string.Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
:root { --bg: #ffffff; --card: #f4f6f8; --text: #1a2027; --soft: #56616d; --line: #d5dbe1;
        --good: #146c36; --bad: #b3261e; --warn: #8a5a00; --accent: #1f5fa8;
        --series-0: #1f5fa8; --series-1: #b4530a; --series-2: #0f766e; --series-3: #7c3aed; --series-4: #be185d;
        --series-5: #6b5b00; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #12161b; --card: #1b2128; --text: #e6eaee; --soft: #a3aeb9; --line: #333c46;
          --good: #67d391; --bad: #ff8a80; --warn: #f2c063; --accent: #82b6f5;
          --series-0: #82b6f5; --series-1: #f5a45b; --series-2: #5fd3b9; --series-3: #b79df8; --series-4: #f58ac0;
          --series-5: #d8c75a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 72rem; background: var(--bg); color: var(--text);
       font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
.verdict { margin: 0 0 1rem; padding: .7rem .9rem; background: var(--card); border-left: .3rem solid var(--accent);
           border-radius: .25rem; font-weight: 600; }
.verdict.better, .verdict.winner { border-color: var(--good); }
.verdict.worse, .verdict.invalid, .verdict.no_winner { border-color: var(--bad); color: var(--bad); }
.verdict.not_comparable { border-color: var(--warn); }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .5rem; margin: 0; }
dl.facts div { background: var(--card); border-radius: .4rem; padding: .5rem .75rem; min-width: 0; }
dt { color: var(--soft); font-size: .8rem; }
dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .45rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 600; background: var(--card); white-space: normal; vertical-align: bottom; }
td:last-child { white-space: normal; }
th:first-child, td:first-child, .words td, .words th { text-align: left; }
.words td { white-space: normal; overflow-wrap: anywhere; }
.words td:first-child { color: var(--soft); width: 14rem; }
tr.better .judged { color: var(--good); font-weight: 600; } tr.worse .judged { color: var(--bad); font-weight: 600; }
td.name { white-space: normal; overflow-wrap: anywhere; min-width: 8rem; }
td.prose, th.prose { text-align: left; white-space: normal; min-width: 16rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem;
          align-items: start; }
figure { margin: 0; padding: .75rem; background: var(--card); border-radius: .4rem; min-width: 0; }
figure h3 { margin: 0 0 .4rem; font-size: 1rem; }
figure svg { display: block; width: 100%; max-width: 36rem; height: auto; margin: 0 auto; }
figure svg text { font-family: inherit !important; }
figcaption { color: var(--soft); font-size: .85rem; margin-top: .4rem; }
pre { margin: 0; padding: .75rem; background: var(--card); border-radius: .4rem; overflow-x: auto; }
ul { padding-left: 1.2rem; }
ul.findings { list-style: none; padding: 0; }
ul.findings li { background: var(--card); border-radius: .4rem; padding: .6rem .8rem; margin: 0 0 .5rem; }
.error { color: var(--bad); } .warning { color: var(--warn); } .info { color: var(--accent); }
.where { color: var(--soft); font-size: .85rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { padding: .9rem .75rem 2rem; }
  .cards table, .cards tbody, .cards tr, .cards td { display: block; width: 100%; }
  .cards thead { display: none; }
  .cards.scroll { border: 0; overflow: visible; }
  .cards tr { border: 1px solid var(--line); border-radius: .4rem; margin-bottom: .75rem; }
  .cards td { display: flex; justify-content: space-between; gap: 1rem; text-align: right; white-space: normal; }
  .cards td::before { content: attr(data-label); color: var(--soft); text-align: left; }
  .cards td.prose { display: block; min-width: 0; text-align: left; }
  .cards td.prose::before { display: block; }
  .words td:first-child { width: 40%; }
}
@media print { body { max-width: none; } }
</style>
</head>
<body>
<h1>$title</h1>
<p class="verdict $verdict">$headline</p>
<dl class="facts">
$facts
</dl>
$sections
</body>
</html>
""")


def _e(text: t.Any) -> str:
    return html.escape(str(text), quote=True)


# Cells that look other than figures do, by their heading.
_CLASSES: t.Final[dict[str, str]] = {
    "candidate": "name",
    "outcome": "judged",
    "verdict": "judged",
    "why": "prose",
}


def _class(heading: str) -> str:
    return f' class="{_CLASSES[heading]}"' if heading in _CLASSES else ""


def _row(headings: t.Sequence[str], cells: t.Sequence[str], mark: str) -> str:
    body = [f'<td{_class(h)} data-label="{_e(h)}">{_e(c)}</td>' for h, c in zip(headings, cells, strict=True)]
    return f'<tr class="{_e(mark)}">{"".join(body)}</tr>'


def _table(table: Table) -> str:
    head = "".join(f'<th{_class(h)} scope="col">{_e(h)}</th>' for h in table.headings)
    marks = table.marks or [""] * len(table.rows)
    lines = [_row(table.headings, row, mark) for row, mark in zip(table.rows, marks, strict=True)]
    return (
        f'<div class="scroll {table.kind}"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody>\n</table></div>"
    )


def _bullets(bullets: Bullets) -> str:
    return "<ul>\n" + "\n".join(f"<li>{_e(item)}</li>" for item in bullets.items) + "\n</ul>"


def _notes(notes: Notes) -> str:
    if not notes.findings:
        return "<p>None.</p>"
    items = [
        f'<li><strong class="{_e(f["severity"])}">{_e(f["severity"])}: {_e(f["id"])}</strong> '
        f'<span class="where">{_e(f["where"])}</span><br>{_e(f["message"])} {_e(f["remedy"])}</li>'
        for f in notes.findings
    ]
    return '<ul class="findings">\n' + "\n".join(items) + "\n</ul>"


def _charts(charts: Charts) -> str:
    if plots.MISSING:
        return f"<p>{_e(NO_DIAGRAMS)}</p>"
    drawn = [
        f'<figure role="group" aria-label="{_e(chart.title)}"><h3>{_e(chart.title)}</h3>\n{plots.draw(chart)}\n'
        f"<figcaption>{_e(chart.caption)}</figcaption></figure>"
        for chart in charts.charts
    ]
    return '<div class="charts">\n' + "\n".join(drawn) + "\n</div>"


def _code(code: Code) -> str:
    return f"<pre>{_e(code.text)}</pre>"


_RENDERERS: t.Final[dict[type, t.Callable[[t.Any], str]]] = {
    Bullets: _bullets,
    Charts: _charts,
    Code: _code,
    Notes: _notes,
    Table: _table,
}


def _body(body: Body) -> str:
    return _RENDERERS[body.__class__](body)


def render(document: Document) -> str:
    """The whole page. Everything that comes from a result is escaped."""
    return _PAGE.substitute(
        title=_e(document.title),
        verdict=_e(document.verdict),
        headline=_e(document.headline),
        facts="\n".join(f"<div><dt>{_e(name)}</dt><dd>{_e(value)}</dd></div>" for name, value in document.facts),
        sections="\n".join(
            f"<section>\n<h2>{_e(section.title)}</h2>\n{_body(section.body)}\n</section>"
            for section in document.sections
        ),
    )

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The HTML form of a report: one file, no script, no request, light and dark, readable on a phone. Pure."""

from __future__ import annotations

import html
import string
import typing as t

from .report import Report, change_rows, rows

_PAGE: t.Final = string.Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
:root { --bg: #ffffff; --card: #f4f6f8; --text: #1a2027; --soft: #56616d; --line: #d5dbe1;
        --good: #146c36; --bad: #b3261e; --warn: #8a5a00; --accent: #1f5fa8; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #12161b; --card: #1b2128; --text: #e6eaee; --soft: #a3aeb9; --line: #333c46;
          --good: #67d391; --bad: #ff8a80; --warn: #f2c063; --accent: #82b6f5; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 72rem; background: var(--bg); color: var(--text);
       font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
.verdict { margin: 0 0 1rem; padding: .7rem .9rem; background: var(--card); border-left: .3rem solid var(--accent);
           border-radius: .25rem; font-weight: 600; }
.verdict.better { border-color: var(--good); }
.verdict.worse, .verdict.invalid { border-color: var(--bad); color: var(--bad); }
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
ul { padding-left: 1.2rem; }
ul.findings { list-style: none; padding: 0; }
ul.findings li { background: var(--card); border-radius: .4rem; padding: .6rem .8rem; margin: 0 0 .5rem; }
.error { color: var(--bad); } .warning { color: var(--warn); } .info { color: var(--accent); }
.where { color: var(--soft); font-size: .85rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { padding: .9rem .75rem 2rem; }
  .points table, .points tbody, .points tr, .points td { display: block; width: 100%; }
  .points thead { display: none; }
  .points.scroll { border: 0; overflow: visible; }
  .points tr { border: 1px solid var(--line); border-radius: .4rem; margin-bottom: .75rem; }
  .points td { display: flex; justify-content: space-between; gap: 1rem; text-align: right; white-space: normal; }
  .points td::before { content: attr(data-label); color: var(--soft); text-align: left; }
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


def _table(headings: t.Sequence[str], body: t.Iterable[t.Sequence[str]], css: str) -> str:
    head = "".join(f'<th scope="col">{_e(h)}</th>' for h in headings)
    lines = [
        "<tr>" + "".join(f'<td data-label="{_e(h)}">{_e(c)}</td>' for h, c in zip(headings, row, strict=True)) + "</tr>"
        for row in body
    ]
    return (
        f'<div class="scroll {css}"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody>\n</table></div>"
    )


def _list(items: t.Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{_e(item)}</li>" for item in items) + "\n</ul>"


def _findings(findings: t.Sequence[dict[str, t.Any]]) -> str:
    if not findings:
        return "<p>None.</p>"
    items = [
        f'<li><strong class="{_e(f["severity"])}">{_e(f["severity"])}: {_e(f["id"])}</strong> '
        f'<span class="where">{_e(f["where"])}</span><br>{_e(f["message"])} {_e(f["remedy"])}</li>'
        for f in findings
    ]
    return '<ul class="findings">\n' + "\n".join(items) + "\n</ul>"


def render(report: Report) -> str:
    """The whole page. Everything that comes from a result is escaped."""
    comparison = report.comparison
    sections = [("Points", _table(*rows(report), "points"))]
    if comparison.reasons:
        sections.append(("Why", _list(comparison.reasons)))
    if comparison.changes:
        sections.append(("Against the baseline", _table(*change_rows(comparison), "points")))
    if comparison.subjects:
        sections.append(("What differs", _list(comparison.subjects)))
    sections += [
        ("Findings", _findings(report.findings)),
        ("Identity", _table(("what", "value"), report.identity, "words")),
        ("What is not claimed", _list(report.not_claimed)),
    ]
    return _PAGE.substitute(
        title=_e(report.title),
        verdict=_e(comparison.verdict),
        headline=_e(report.headline),
        facts="\n".join(f"<div><dt>{_e(name)}</dt><dd>{_e(value)}</dd></div>" for name, value in report.facts),
        sections="\n".join(f"<section>\n<h2>{_e(heading)}</h2>\n{body}\n</section>" for heading, body in sections),
    )

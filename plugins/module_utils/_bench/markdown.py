# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The Markdown form of a report, for tickets. Pure."""

from __future__ import annotations

import typing as t

from .document import Bullets, Charts, Code, Document, Notes, Table


def escape(text: str) -> str:
    """Text that Markdown shows as it is, in one line, also inside a table."""
    flat = " ".join(text.split())
    for character in "\\`*_{}[]<>|#~!":
        flat = flat.replace(character, f"\\{character}")
    return flat


def table(headings: t.Sequence[str], body: t.Iterable[t.Sequence[str]]) -> list[str]:
    """Lines of a table; every cell is escaped."""
    rows = ["| " + " | ".join(escape(cell) for cell in line) + " |" for line in [headings, *body]]
    return [rows[0], "|" + "|".join(["---"] * len(headings)) + "|", *rows[1:]]


def _finding(found: t.Mapping[str, t.Any]) -> str:
    where = f" ({escape(found['where'])})" if found["where"] else ""
    return (
        f"- **{found['severity']}** {escape(found['id'])}{where}: "
        f"{escape(found['message'])} {escape(found['remedy'])}".rstrip()
    )


def _body(body: Table | Bullets | Notes | Code) -> list[str]:
    if isinstance(body, Table):
        return table(body.headings, body.rows)
    if isinstance(body, Bullets):
        return [f"- {escape(item)}" for item in body.items]
    if isinstance(body, Code):
        return [f"    {line}" for line in body.text.splitlines()]
    return [_finding(found) for found in body.findings] or ["None."]


def render(document: Document) -> str:
    """The whole report. Diagrams are left out: tickets show no SVG, and the tables have all their figures."""
    lines = [f"# {escape(document.title)}", "", f"**{escape(document.headline)}**", ""]
    lines += [f"- {name}: {escape(value)}" for name, value in document.facts]
    for section in document.sections:
        if not isinstance(section.body, Charts):
            lines += ["", f"## {escape(section.title)}", "", *_body(section.body)]
    return "\n".join([*lines, ""])

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a report consists of, apart from how it looks: written once, rendered as HTML and as Markdown. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

Scale = t.Literal["linear", "log", "log2"]


@dataclass(frozen=True)
class Dot:
    """One measured point: the median, the range of its repeats, and what is written beside it."""

    x: float
    y: float
    low: float
    high: float
    label: str = ""


@dataclass(frozen=True)
class Curve:
    """Dots that belong together, in ascending order of load; ``muted`` for what is only there to compare with."""

    label: str
    dots: list[Dot]
    muted: bool = False


@dataclass(frozen=True)
class Chart:
    """A diagram with two axes; ``caption`` says in a sentence how to read it. ``id`` is a word, unique on a page."""

    id: str
    title: str
    x_label: str
    y_label: str
    curves: list[Curve]
    caption: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"


@dataclass(frozen=True)
class Bar:
    """One bar; ``band`` is the half width around zero in which it is noise, None where there is no such thing."""

    label: str
    value: float
    text: str
    band: float | None = None
    mark: str = ""


@dataclass(frozen=True)
class Bars:
    """Horizontal bars from zero, the first on top."""

    id: str
    title: str
    x_label: str
    bars: list[Bar]
    caption: str


@dataclass(frozen=True)
class Charts:
    """Diagrams; left out where a format has none, so nothing is only in them."""

    charts: list[Chart | Bars]


@dataclass(frozen=True)
class Table:
    """Cells as text. ``marks`` has a class for each row, or is empty.

    On a phone ``cards`` become one card a row, ``words`` (no figures) are wrapped, and ``wide`` tables are scrolled.
    """

    headings: list[str]
    rows: list[list[str]]
    marks: list[str] = field(default_factory=list)
    kind: t.Literal["cards", "words", "wide"] = "cards"


@dataclass(frozen=True)
class Bullets:
    """Sentences."""

    items: list[str]


@dataclass(frozen=True)
class Notes:
    """Findings, each with ``where`` it was found."""

    findings: list[dict[str, t.Any]]


@dataclass(frozen=True)
class Code:
    """Lines to copy."""

    text: str


Body: t.TypeAlias = "Charts | Table | Bullets | Notes | Code"


@dataclass(frozen=True)
class Section:
    """A heading with what stands below it."""

    title: str
    body: Body


@dataclass(frozen=True)
class Document:
    """The whole report. ``verdict`` is a word of the interface, ``headline`` the same as a sentence."""

    title: str
    verdict: str
    headline: str
    facts: list[tuple[str, str]]
    sections: list[Section]


def number(value: float | None) -> str:
    """A figure for people: no more digits than it deserves; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Diagrams as SVG for a page: matplotlib draws them, the page colours them, in light and dark alike.

matplotlib is needed where reports are written (the controller), and nowhere else.
"""

from __future__ import annotations

import io
import re
import traceback
import typing as t

from .document import Bars, Chart, Curve

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator, PercentFormatter
except ImportError:
    # Modules are loaded where it is not there too: the page then has its tables and says why there is nothing else.
    MISSING: str | None = traceback.format_exc()
else:
    MISSING = None

if t.TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that stand for the page's own (CSS variables): a file that is drawn once follows the reader's light or dark.
_TEXT, _SOFT, _LINE, _CARD = "#010101", "#020202", "#030303", "#040404"
_GOOD, _BAD, _ACCENT = "#050505", "#060606", "#070707"
_SERIES: t.Final = tuple(f"#0a0a{n:02x}" for n in range(6))
_VARIABLES: t.Final[dict[str, str]] = {
    _TEXT: "var(--text)",
    _SOFT: "var(--soft)",
    _LINE: "var(--line)",
    _CARD: "var(--card)",
    _GOOD: "var(--good)",
    _BAD: "var(--bad)",
    _ACCENT: "var(--accent)",
    **{colour: f"var(--series-{n})" for n, colour in enumerate(_SERIES)},
}
_MARKS: t.Final[dict[str, str]] = {"better": _GOOD, "worse": _BAD, "same": _SOFT, "": _ACCENT}
# Not by colour alone: people and printers that see none tell the curves by their markers.
_MARKERS: t.Final = "os^Dv*Pph"

# Inches at 72 units each: as wide as a phone shows it, with text that is still read there.
_WIDTH, _HEIGHT, _BAR_HEIGHT, _FRAME_HEIGHT = 5.6, 3.9, 0.30, 1.1
_TEXT_ROOM: t.Final = 1.4
_STYLE: t.Final[dict[str, t.Any]] = {
    "svg.fonttype": "none",  # text stays text: small, searchable, in the page's font
    "text.parse_math": False,  # names come from results; a dollar sign is a dollar sign
    "font.size": 11,
    "font.family": "sans-serif",
    "text.color": _TEXT,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _LINE,
    "grid.linewidth": 0.6,
    "xtick.color": _LINE,
    "ytick.color": _LINE,
    "xtick.labelcolor": _SOFT,
    "ytick.labelcolor": _SOFT,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.labelcolor": _TEXT,
    "legend.fontsize": 10.5,
}


def draw(chart: Chart | Bars) -> str:
    """One diagram as an ``svg`` element, without a fixed size. The same diagram gives the same text.

    Raises RuntimeError without matplotlib; look at ``MISSING`` before.
    """
    if MISSING:
        raise RuntimeError(MISSING)
    # The salt names the parts of a drawing: two on a page must not share names.
    style: t.Any = {**_STYLE, "svg.hashsalt": chart.id}
    with mpl.rc_context(style):
        figure = _bars(chart) if isinstance(chart, Bars) else _chart(chart)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(out.getvalue())


def _chart(chart: Chart) -> Figure:
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    coloured = 0
    for curve in chart.curves:
        colour = _SOFT if curve.muted else _SERIES[coloured % len(_SERIES)]
        _curve(axes, curve, colour, _MARKERS[coloured % len(_MARKERS)])
        coloured += not curve.muted
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    _scale(axes, "x", chart.x_scale, sorted({dot.x for curve in chart.curves for dot in curve.dots}))
    _scale(axes, "y", chart.y_scale, [])
    if chart.y_scale == "linear":
        axes.set_ylim(bottom=0)
    if chart.x_scale == "linear":
        axes.set_xlim(left=0)
    axes.margins(x=0.08)
    if len(chart.curves) > 1:
        columns = 2 if max(len(curve.label) for curve in chart.curves) <= 24 else 1
        figure.legend(loc="outside upper left", ncols=columns)
    return figure


def _curve(axes: Axes, curve: Curve, colour: str, marker: str) -> None:
    xs, ys = [dot.x for dot in curve.dots], [dot.y for dot in curve.dots]
    ranges = [[dot.y - dot.low for dot in curve.dots], [dot.high - dot.y for dot in curve.dots]]
    axes.errorbar(
        xs,
        ys,
        yerr=ranges,
        color=colour,
        marker=marker,
        linestyle="--" if curve.muted else "-",
        elinewidth=1.2,
        capsize=3,
        label=curve.label,
    )
    for dot in curve.dots:
        if dot.label and not curve.muted:
            axes.annotate(
                dot.label, (dot.x, dot.y), xytext=(5, 5), textcoords="offset points", color=_SOFT, fontsize=9.5
            )


def _plain(value: float, _position: t.Any = None) -> str:
    """A number on an axis: 1,000 and 0.5, never a power of ten."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def _scale(axes: Axes, name: t.Literal["x", "y"], scale: str, ticks: list[float]) -> None:
    axis = axes.xaxis if name == "x" else axes.yaxis
    if scale != "linear":
        (axes.set_xscale if name == "x" else axes.set_yscale)("log", base=2 if scale == "log2" else 10)
        if ticks:
            axis.set_ticks(ticks)
            axis.set_minor_locator(NullLocator())
        else:
            axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(_plain))


def _bars(chart: Bars) -> Figure:
    figure = Figure(figsize=(_WIDTH, _FRAME_HEIGHT + _BAR_HEIGHT * len(chart.bars)), layout="constrained")
    axes = figure.add_subplot()
    rows = range(len(chart.bars))
    shares = any(column.band is not None for column in chart.bars)
    if shares:
        bands = [column.band or 0.0 for column in chart.bars]
        axes.barh(rows, [2 * band for band in bands], left=[-band for band in bands], color=_LINE, height=0.8)
        axes.axvline(0, color=_SOFT, linewidth=1)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    bars = axes.barh(
        rows,
        [column.value for column in chart.bars],
        color=[_MARKS.get(column.mark, _ACCENT) for column in chart.bars],
        height=0.45,
    )
    axes.bar_label(bars, [column.text for column in chart.bars], padding=4, color=_TEXT, fontsize=10)
    axes.set_yticks(rows, [column.label for column in chart.bars])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.invert_yaxis()
    axes.margins(y=0.02)
    reach = max([abs(column.value) for column in chart.bars] + [column.band or 0.0 for column in chart.bars]) or 1.0
    lowest = -reach if shares else 0.0
    # Room for the texts beside the longest bars, which do not count as data.
    axes.set_xlim(lowest * _TEXT_ROOM, reach * _TEXT_ROOM)
    axes.set_xlabel(chart.x_label)
    return figure


def _inline(svg: str) -> str:
    """The element alone, as wide as its place, in the page's colours, without names that nothing refers to."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>\s*", "", element, flags=re.DOTALL)
    head, rest = element.split(">", 1)
    element = re.sub(r'\s(?:width|height)="[^"]*"', "", head) + ">" + rest
    used = set(re.findall(r"#([\w-]+)", element))
    element = re.sub(r'\sid="([^"]+)"', lambda m: m.group(0) if m.group(1) in used else "", element)
    for colour, variable in _VARIABLES.items():
        element = element.replace(colour, variable)
    return element.strip()

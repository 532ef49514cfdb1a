# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Which diagrams a result deserves, and what is in them. Pure."""

from __future__ import annotations

import dataclasses
import statistics
import typing as t
from dataclasses import dataclass

from .compare import Comparison, PointResult
from .document import Bar, Bars, Chart, Curve, Dot, Scale, number

# A page is read, not searched: of many compared figures those that moved most are drawn, the table has all.
_MOST_BARS: t.Final = 24


@dataclass(frozen=True)
class Series:
    """What was measured as one thing (a layout, a candidate, the baseline), with its points."""

    label: str
    results: list[PointResult]
    muted: bool = False

    def shapes(self) -> list[tuple[t.Any, t.Any]]:
        """The input and output lengths of its points."""
        return list(dict.fromkeys((r.point.get("input_len"), r.point.get("output_len")) for r in self.results))


@dataclass(frozen=True)
class _Axis:
    """A figure that can be on an axis: its name in a title, its place in the metrics, and the axis' label."""

    name: str
    path: tuple[str, ...]
    label: str


_OUTPUT: t.Final = _Axis("Output", ("output_tokens_per_s",), "output (tok/s)")
_PER_GPU: t.Final = _Axis("Output per GPU", ("output_tokens_per_s_per_gpu",), "output per GPU (tok/s)")
_PER_USER: t.Final = _Axis("Speed", ("decode_tokens_per_s_per_user",), "decode speed for one user (tok/s)")
# Where token times are withheld or were never told, the share of one stream still says something.
_SHARE: t.Final = _Axis("Speed", ("output_tokens_per_s_per_user",), "output per stream (tok/s)")
_TTFT: t.Final = _Axis("Time to first token", ("ttft_ms", "median"), "time to first token, p50 (ms)")
_TPOT: t.Final = _Axis("Time per output token", ("tpot_ms", "median"), "time per output token, p50 (ms)")


@dataclass(frozen=True)
class _Load:
    """What a point is loaded by, as an axis."""

    key: str
    name: str
    label: str
    scale: Scale

    def value(self, result: PointResult) -> float:
        return float(result.point[self.key])


_LOADS: t.Final = (
    _Load("concurrency", "concurrency", "requests under way", "log2"),
    _Load("rate", "the request rate", "requests sent (1/s)", "linear"),
)
_RANGES: t.Final = "Medians; bars are the range of the repeats."
_DECADES: t.Final = 20


@dataclass(frozen=True)
class _Part:
    """Points that may share a curve: of one series, with the same lengths."""

    label: str
    muted: bool
    results: list[PointResult]


def charts(series: t.Sequence[Series]) -> list[Chart | Bars]:
    """Every diagram that has something to show: a single dot is none."""
    return [chart for chart in (_pareto(series), *_over_load(series)) if chart is not None]


def _parts(series: t.Sequence[Series]) -> list[_Part]:
    """The lengths are named when they differ."""
    shapes = {shape for one in series for shape in one.shapes()}
    parts = []
    for one in series:
        for shape in one.shapes():
            label = one.label if len(shapes) == 1 else f"{one.label} {shape[0] or 'file'}/{shape[1]}".strip()
            same = [r for r in one.results if (r.point.get("input_len"), r.point.get("output_len")) == shape]
            parts.append(_Part(label, one.muted, same))
    return parts


def _pareto(series: t.Sequence[Series]) -> Chart | None:
    parts = _parts(series)
    everything = [result for part in parts for result in part.results if result.valid]
    x = _PER_USER if all(r.median(*_PER_USER.path) is not None for r in everything) else _SHARE
    y = _PER_GPU if all(r.median(*_PER_GPU.path) is not None for r in everything) else _OUTPUT
    curves = [
        Curve(
            part.label,
            [
                _dot(across, values, f"C {result.point['concurrency']}")
                for result in part.results
                if result.point.get("concurrency")
                and (across := result.median(*x.path)) is not None
                and (values := result.values(*y.path))
            ],
            part.muted,
        )
        for part in parts
    ]
    return _worth(
        Chart(
            id="pareto",
            title="Speed for one user against output" + (" of a GPU" if y is _PER_GPU else ""),
            x_label=x.label,
            y_label=y.label,
            curves=curves,
            caption="Up and to the right is better. C is the number of requests under way; bars are the range.",
        )
    )


def _over_load(series: t.Sequence[Series]) -> list[Chart | None]:
    drawn = []
    for load in _LOADS:
        parts = [
            _Part(part.label, part.muted, sorted((r for r in part.results if r.point.get(load.key)), key=load.value))
            for part in _parts(series)
        ]
        drawn += [
            _worth(
                Chart(
                    id=f"output-{load.key}",
                    title=f"Output over {load.name}",
                    x_label=load.label,
                    y_label=_OUTPUT.label,
                    curves=_over(parts, load, _OUTPUT),
                    caption=_RANGES,
                    x_scale=load.scale,
                )
            ),
            _latency(parts, load, _TTFT),
            _latency(parts, load, _TPOT),
        ]
    return drawn


def _latency(parts: list[_Part], load: _Load, axis: _Axis) -> Chart | None:
    """A latency's median; its p90 beside it where there is one curve only."""
    curves, y_label = _over(parts, load, axis), axis.label
    if len(parts) == 1 and len(curves[0].dots) > 1:
        y_label = y_label.replace(", p50", "")
        tails = _over(parts, load, _Axis("", (axis.path[0], "p90"), ""))
        curves = [
            Curve("p50", curves[0].dots),
            *(Curve("p90", curve.dots, muted=True) for curve in tails if curve.dots),
        ]
    high = [dot.y for curve in curves for dot in curve.dots]
    return _worth(
        Chart(
            id=f"{axis.path[0].replace('_', '-')}-{load.key}",
            title=f"{axis.name} over {load.name}",
            x_label=load.label,
            y_label=y_label,
            curves=curves,
            caption=_RANGES,
            x_scale=load.scale,
            # Latencies of a loaded server span decades; a linear axis would show the last point only.
            y_scale="log" if high and max(high) > _DECADES * min(high) > 0 else "linear",
        )
    )


def _over(parts: list[_Part], load: _Load, axis: _Axis) -> list[Curve]:
    return [
        Curve(
            part.label,
            [_dot(load.value(r), values) for r in part.results if (values := r.values(*axis.path))],
            part.muted,
        )
        for part in parts
    ]


def _dot(x: float, values: list[float], label: str = "") -> Dot:
    return Dot(x, statistics.median(values), min(values), max(values), label)


def _worth(chart: Chart) -> Chart | None:
    """The chart with the curves that have a dot; None when one dot is all there is."""
    curves = [curve for curve in chart.curves if curve.dots]
    return dataclasses.replace(chart, curves=curves) if sum(len(curve.dots) for curve in curves) > 1 else None


def highest(series: t.Sequence[Series]) -> Bars | None:
    """The most output of each series, of two or more; the text beside a bar says at what load, and per GPU."""
    bars = []
    for one in series:
        best = max(one.results, key=lambda r: r.median(*_OUTPUT.path) or 0.0, default=None)
        value = best.median(*_OUTPUT.path) if best else None
        if best and value is not None:
            per_gpu = best.median(*_PER_GPU.path)
            text = number(value) + (f" ({number(per_gpu)} per GPU)" if per_gpu is not None else "")
            bars.append(Bar(one.label, value, text))
    if len(bars) < 2:
        return None
    return Bars("highest", "Highest output", "output (tok/s)", bars, "The point with the most output of each.")


def changes(comparison: Comparison) -> Bars | None:
    """What changed against the baseline, with the noise band behind each bar; None without a comparison."""
    if not comparison.changes:
        return None
    ordered = sorted(comparison.changes, key=lambda c: (c.verdict == "same", -abs(c.difference)))[:_MOST_BARS]
    kept = [change for change in comparison.changes if change in ordered]
    names = {change.point: change.point.split("-")[0] for change in kept}
    if len(set(names.values())) < len(names):
        names = {point: point for point in names}
    bars = [Bar(f"{names[c.point]} {c.figure}", c.difference, f"{c.difference:+.1%}", c.band, c.verdict) for c in kept]
    left = len(comparison.changes) - len(kept)
    more = f" {left} figures that moved less are in the table only." if left else ""
    return Bars(
        "changes",
        "Change against the baseline",
        "change of the median",
        bars,
        "The grey part is noise: a change counts when it leaves it and the ranges of both sides do not overlap." + more,
    )

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which diagrams a result gets, and what is in them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import figures, report
from ansible_collections.modelops.vllm.plugins.module_utils._bench.compare import group, judge
from ansible_collections.modelops.vllm.plugins.module_utils._bench.document import Chart, Dot

from tests.support.bench_records import as_baseline, failed, record, repeats

Records = list[dict[str, t.Any]]


def drawn(*series: figures.Series) -> dict[str, Chart]:
    return {chart.id: chart for chart in figures.charts(series) if isinstance(chart, Chart)}


def one(records: Records, label: str = "tp8-ep", *, muted: bool = False) -> figures.Series:
    return figures.Series(label, group(records), muted)


def test_a_sweep_has_pareto_output_and_latencies() -> None:
    charts = drawn(one([record(1, rate=60.0), record(8, rate=400.0), record(64, rate=2400.0)]))
    assert list(charts) == ["pareto", "output-concurrency", "ttft-ms-concurrency", "tpot-ms-concurrency"]
    (curve,) = charts["pareto"].curves
    assert curve.dots == [
        Dot(60.0, 7.5, 7.5, 7.5, "C 1"),
        Dot(50.0, 50.0, 50.0, 50.0, "C 8"),
        Dot(37.5, 300.0, 300.0, 300.0, "C 64"),
    ]
    assert charts["pareto"].y_label == "output per GPU (tok/s)"
    assert charts["output-concurrency"].x_scale == "log2"
    assert [dot.x for dot in charts["output-concurrency"].curves[0].dots] == [1.0, 8.0, 64.0]


def test_a_dot_is_the_median_with_the_range_of_its_valid_repeats() -> None:
    records = [*repeats([900.0, 1000.0, 1300.0]), failed(repeat=4, rate=9999.0), record(1)]
    (curve,) = drawn(one(records))["output-concurrency"].curves
    assert (curve.dots[1].low, curve.dots[1].y, curve.dots[1].high) == (900.0, 1000.0, 1300.0)


def test_a_single_dot_is_no_diagram_but_one_beside_a_baseline_is() -> None:
    assert drawn(one([record(8)])) == {}
    charts = drawn(one([record(8)]), one([record(8, rate=900.0)], "baseline", muted=True))
    assert [(curve.label, curve.muted) for curve in charts["output-concurrency"].curves] == [
        ("tp8-ep", False),
        ("baseline", True),
    ]


def test_the_tail_stands_beside_the_median_of_a_single_curve() -> None:
    charts = drawn(one([record(1, ttft_ms=50.0), record(8, ttft_ms=80.0)]))
    assert [(curve.label, [dot.y for dot in curve.dots]) for curve in charts["ttft-ms-concurrency"].curves] == [
        ("p50", [50.0, 80.0]),
        ("p90", [100.0, 160.0]),
    ]
    several = drawn(one([record(1), record(8)]), one([record(1), record(8)], "tp4"))
    assert [curve.label for curve in several["ttft-ms-concurrency"].curves] == ["tp8-ep", "tp4"]


def test_without_token_times_or_gpus_other_figures_are_drawn_for_all() -> None:
    records = [record(1), record(8)]
    records[0]["metrics"]["decode_tokens_per_s_per_user"] = None
    records[0]["metrics"]["output_tokens_per_s_per_gpu"] = None
    for item in records:
        item["metrics"]["output_tokens_per_s_per_user"] = 12.5
    pareto = drawn(one(records))["pareto"]
    assert (pareto.x_label, pareto.y_label) == ("output per stream (tok/s)", "output (tok/s)")
    assert [dot.x for dot in pareto.curves[0].dots] == [12.5, 12.5]


def test_lengths_that_differ_are_curves_of_their_own() -> None:
    longer = record(8)
    longer["point"] = {**longer["point"], "id": "c8-i4096-o128-n80", "input_len": 4096}
    curves = drawn(one([record(1), record(8), longer]))["output-concurrency"].curves
    assert [curve.label for curve in curves] == ["tp8-ep 512/128", "tp8-ep 4096/128"]


def test_rates_have_their_own_axis() -> None:
    def at(rate: float) -> dict[str, t.Any]:
        point = {"id": f"q{rate:g}", "concurrency": None, "rate": rate, "input_len": 512, "output_len": 128}
        return record(point={**point, "num_prompts": 64})

    charts = drawn(one([at(4.0), at(2.0)]))
    assert "output-concurrency" not in charts
    assert [dot.x for dot in charts["output-rate"].curves[0].dots] == [2.0, 4.0]


@pytest.mark.parametrize(("slow", "scale"), [(90.0, "linear"), (9000.0, "log")])
def test_latencies_over_decades_are_on_a_log_axis(slow: float, scale: str) -> None:
    assert drawn(one([record(1), record(8, ttft_ms=slow)]))["ttft-ms-concurrency"].y_scale == scale


def test_the_bars_of_a_comparison_have_their_noise_band_and_verdict() -> None:
    bars = figures.changes(judge(repeats([790.0, 800.0, 810.0]), as_baseline(repeats([990.0, 1000.0, 1010.0]))))
    assert bars is not None
    first = bars.bars[0]
    assert (first.label, first.text, first.mark) == ("c8 output tokens/s", "-20.0%", "worse")
    assert first.value == pytest.approx(-0.2)
    assert first.band is not None
    assert 0.05 < first.band < 0.2
    assert figures.changes(judge([record()], None)) is None


def test_of_many_changes_those_that_moved_most_are_drawn_and_the_rest_is_told() -> None:
    def run(scale: float) -> Records:
        loads = (1, 2, 4, 8, 16, 32, 64, 96, 128)
        return [r for c in loads for r in repeats([scale * 100 * c] * 3, concurrency=c)]

    bars = figures.changes(judge(run(1.2), as_baseline(run(1.0))))
    assert bars is not None
    assert len(bars.bars) == 24
    assert "3 figures that moved less are in the table only." in bars.caption
    assert sum(column.mark == "better" for column in bars.bars) == 18


def test_the_highest_output_of_several_is_compared() -> None:
    assert figures.highest([one([record(1), record(8)])]) is None
    bars = figures.highest([one([record(1, rate=60.0), record(8, rate=400.0)]), one([record(8, rate=800.0)], "tp4")])
    assert bars is not None
    assert [(column.label, column.value, column.text) for column in bars.bars] == [
        ("tp8-ep", 400.0, "400 (50.0 per GPU)"),
        ("tp4", 800.0, "800 (100 per GPU)"),
    ]


def test_a_run_of_several_layouts_is_split_by_them() -> None:
    other = record(8)
    other["identity"]["given"]["layout"] = "tp4"
    assert [one.label for one in report.split([record(8), other])] == ["tp8-ep", "tp4"]

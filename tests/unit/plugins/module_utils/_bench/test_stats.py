# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Percentiles, their floors, and the spread that outliers cannot move."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench.stats import percentile, sigma_by_mad, summary


@pytest.mark.parametrize(("p", "value"), [(0, 1.0), (50, 2.5), (90, 3.7), (100, 4.0)])
def test_percentiles_are_interpolated_as_numpy_does(p: float, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], p) == pytest.approx(value)


@pytest.mark.parametrize(
    ("n", "known"),
    [
        (63, set()),
        (64, {"p90"}),
        (129, {"p90"}),
        (130, {"p90", "p95"}),
        (661, {"p90", "p95"}),
        (662, {"p90", "p95", "p99"}),
    ],
)
def test_a_percentile_needs_its_floor_of_samples(n: int, known: set[str]) -> None:
    result = summary([float(i) for i in range(n)])
    assert {p for p in ("p90", "p95", "p99") if result[p] is not None} == known
    assert result["max"] == n - 1
    assert result["n"] == n


def test_an_empty_sample_has_no_figures_rather_than_zeros() -> None:
    result = summary([])
    assert result.pop("n") == 0
    assert set(result.values()) == {None}


def test_the_scale_turns_seconds_into_milliseconds() -> None:
    assert summary([0.1, 0.3, 0.2], 1000)["median"] == pytest.approx(200)


def test_one_outlier_does_not_move_the_spread() -> None:
    assert sigma_by_mad([10.0, 11.0, 12.0]) == pytest.approx(1.4826)
    assert sigma_by_mad([10.0, 11.0, 500.0]) == pytest.approx(1.4826)

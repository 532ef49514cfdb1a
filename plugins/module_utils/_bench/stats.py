# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Order statistics, with the sample sizes below which a percentile is not reported. Pure."""

from __future__ import annotations

import math
import statistics
import typing as t

# Smallest sample for which the order statistic bounds the percentile with 99 % confidence (the early-stopping
# estimate of MLPerf Inference gives the values for p90 and p99). Below the floor only the maximum is honest.
PERCENTILE_FLOORS: t.Final[dict[int, int]] = {90: 64, 95: 130, 99: 662}

# A normal distribution's standard deviation is this many times its median absolute deviation.
MAD_TO_SIGMA: t.Final = 1.4826


def percentile(values: t.Sequence[float], p: float) -> float:
    """The p-th percentile (0..100) with linear interpolation, as numpy and ``vllm bench serve`` compute it."""
    ordered = sorted(values)
    rank = (len(ordered) - 1) * p / 100
    low = math.floor(rank)
    high = math.ceil(rank)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def summary(values: t.Sequence[float], scale: float = 1.0) -> dict[str, float | None]:
    """Keys n, mean, min, median, p90, p95, p99, max of ``values`` times ``scale``.

    A percentile whose floor the sample does not reach is None, and so is everything of an empty sample.
    """
    scaled = [v * scale for v in values]
    n = len(scaled)
    if not n:
        return {"n": 0, "mean": None, "min": None, "median": None, "p90": None, "p95": None, "p99": None, "max": None}
    tails = {f"p{p}": percentile(scaled, p) if n >= floor else None for p, floor in PERCENTILE_FLOORS.items()}
    return {
        "n": n,
        "mean": statistics.fmean(scaled),
        "min": min(scaled),
        "median": statistics.median(scaled),
        **tails,
        "max": max(scaled),
    }


def sigma_by_mad(values: t.Sequence[float]) -> float:
    """A standard deviation that one outlier cannot move: 1.4826 times the median absolute deviation."""
    middle = statistics.median(values)
    return MAD_TO_SIGMA * statistics.median(abs(v - middle) for v in values)

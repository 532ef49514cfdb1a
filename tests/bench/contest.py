# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Contenders that do the same work, measured side by side in one run.

The rounds are interleaved, so that a noisy machine is as noisy for all of them, and the best round of each counts.
"""

from __future__ import annotations

import time
import typing as t

Work = t.Callable[[], t.Any]


def contest(
    title: str, contenders: t.Mapping[str, Work], rounds: int, prepare: Work = lambda: None
) -> dict[str, float]:
    """Seconds of the best round of each contender; ``prepare`` runs before each round of each, unmeasured."""
    best = dict.fromkeys(contenders, float("inf"))
    for _round in range(rounds):
        for name, work in contenders.items():
            prepare()
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    print(f"\n{title}, best of {rounds} rounds")
    ours = next(iter(best.values()))
    for name, seconds in best.items():
        print(f"  {name:46} {seconds:8.3f} s   {seconds / ours:6.2f} x ours")
    return best


def goal(what: str, value: float, limit: float, at_most: bool = True, unit: str = "") -> None:
    """Print a figure beside its goal."""
    met = value <= limit if at_most else value >= limit
    sign = "<=" if at_most else ">="
    print(f"  goal: {what} {value:.2f}{unit} {sign} {limit:g}{unit}: {'met' if met else 'NOT met'}")

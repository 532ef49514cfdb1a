# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads, seeds and schedules."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import (
    Point,
    auto_prompts,
    context_excess,
    derive_seed,
    make_points,
    schedule,
)
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError

DEFAULTS = {"input_len": 512, "output_len": 128, "num_prompts": 0}


@pytest.mark.parametrize(("concurrency", "prompts"), [(1, 11), (2, 64), (6, 64), (7, 70), (128, 1280)])
@pytest.mark.case("first-wave-burst", "warmup-uses-first-prompt")
def test_the_number_of_prompts_is_ten_waves_and_at_least_64(concurrency: int, prompts: int) -> None:
    # first-wave-burst, warmup-uses-first-prompt
    assert auto_prompts(concurrency) == prompts


def test_points_are_completed_and_ascend() -> None:
    points = make_points([{"concurrency": 8, "output_len": None}, {"concurrency": 1, "num_prompts": 20}], DEFAULTS)
    assert points == [Point(1, 512, 128, 20), Point(8, 512, 128, 80)]
    assert points[1].id == "c8-i512-o128-n80"


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": 1, "output_len": 1}, "output_len is 1"),
        ({"concurrency": 1, "input_len": 0}, "input_len is 0"),
        ({"concurrency": 1, "num_prompts": -1}, "num_prompts is -1"),
        ({"concurrency": 16, "num_prompts": 8}, "fewer than the 16"),
        ({}, "neither concurrency nor rate"),
    ],
)
def test_a_load_that_is_none_is_refused(point: dict[str, t.Any], words: str) -> None:
    with pytest.raises(ModelopsError, match=words):
        make_points([point], DEFAULTS)


def test_no_points_and_double_points_are_refused() -> None:
    with pytest.raises(ModelopsError, match="no point to measure"):
        make_points([], DEFAULTS)
    with pytest.raises(ModelopsError, match="asked for twice"):
        make_points([{"concurrency": 2}, {"concurrency": 2, "num_prompts": 64}], DEFAULTS)


@pytest.mark.case("worker-same-seed")
def test_every_measurement_has_a_seed_of_its_own() -> None:
    # worker-same-seed: prompts that come twice are cache hits
    points = make_points([{"concurrency": c} for c in (1, 2, 4)], DEFAULTS)
    first, second = schedule(points, 3, 1), schedule(points, 3, 2)
    seeds = [m.seed for m in first + second]
    assert len(set(seeds)) == 18
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert [m.seed for m in schedule(points, 3, 1)] == [m.seed for m in first]


def test_repeats_run_through_the_whole_list() -> None:
    points = make_points([{"concurrency": 1}, {"concurrency": 2}], DEFAULTS)
    assert [(m.point.concurrency, m.repeat) for m in schedule(points, 2, 0)] == [(1, 1), (2, 1), (1, 2), (2, 2)]
    with pytest.raises(ModelopsError, match="repeats is 0"):
        schedule(points, 0, 0)


def test_a_seed_depends_on_every_part() -> None:
    assert len({derive_seed(1), derive_seed(1, "a"), derive_seed(1, "a", 1), derive_seed(2, "a", 1)}) == 4


def test_rates_are_points_of_their_own() -> None:
    points = make_points([{"rate": 10.0}, {"rate": 0.5}, {"concurrency": 8}], DEFAULTS)
    assert [p.id for p in points] == ["c8-i512-o128-n80", "q0.5-i512-o128-n64", "q10-i512-o128-n600"]
    assert [p.warmup_streams for p in points] == [8, 1, 10]
    assert [p.streams for p in points] == [8, 64, 600]
    assert points[2].as_dict() == {
        "id": "q10-i512-o128-n600",
        "concurrency": None,
        "rate": 10.0,
        "input_len": 512,
        "output_len": 128,
        "num_prompts": 600,
    }


@pytest.mark.case("request-rate-burst", "client-queue-excluded")
def test_a_rate_with_a_limit_of_streams_is_refused() -> None:
    with pytest.raises(ModelopsError, match="has both concurrency and rate"):
        make_points([{"concurrency": 8, "rate": 10.0}], DEFAULTS)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ModelopsError, match="rate is"):
        make_points([{"rate": rate}], DEFAULTS)


def test_prompts_of_a_file_have_no_common_length() -> None:
    (point,) = make_points([{"concurrency": 8, "input_len": 100}], DEFAULTS, fixed_input=False)
    assert (point.id, point.input_len) == ("c8-o128-n80", None)
    assert context_excess(point, 200) == 0


@pytest.mark.parametrize(("length", "excess"), [(640, 0), (639, 1), (100, 540), (None, 0)])
@pytest.mark.case("range-ratio-context-overflow")
def test_the_context_must_hold_input_and_output(length: int | None, excess: int) -> None:
    # range-ratio-context-overflow
    assert context_excess(Point(1, 512, 128, 11), length) == excess


def test_rates_that_differ_have_ids_that_differ() -> None:
    rates = [1.0000001, 1.0000002, 1.0, 0.5, 2.0, 100000.0, 0.1 + 0.2]
    made = make_points([{"rate": rate} for rate in rates], {"input_len": 8, "output_len": 4, "num_prompts": 9})
    assert {p.id.split("-i")[0] for p in made} == {
        "q1.0000001",
        "q1.0000002",
        "q1",
        "q0.5",
        "q2",
        "q100000",
        "q0.30000000000000004",
    }

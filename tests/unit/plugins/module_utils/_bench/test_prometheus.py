# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's counters, from a page of a real server and from changed ones."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench.prometheus import (
    Sample,
    delta,
    parse,
    restarted,
    total,
)

LoadFixture = t.Callable[[str], str]


def test_a_real_page_is_read(load_fixture: LoadFixture) -> None:
    sample = parse(load_fixture("vllm_metrics.txt"))
    assert sample is not None
    assert sample.start_time == pytest.approx(1.7959983036e09)
    assert sample.finished == {"stop": 0.0, "length": 0.0, "abort": 0.0, "error": 0.0, "repetition": 0.0}
    assert (sample.running, sample.waiting, sample.generation_tokens, sample.prefix_hits) == (0, 0, 0, 0)
    assert sample.drafts is None  # this server does not speculate
    assert sample.busy == 0


def test_a_page_without_vllm_is_no_sample() -> None:
    assert parse("python_info 1.0\nprocess_start_time_seconds 5\n") is None
    assert parse("<html>") is None


def test_engines_are_added_up_and_the_fullest_cache_counts() -> None:
    page = "\n".join(
        [
            'vllm:num_requests_running{engine="0",model_name="a, b=\\"c\\""} 3.0',
            'vllm:num_requests_running{engine="1"} 2',
            'vllm:num_requests_waiting{engine="0"} 4',
            'vllm:kv_cache_usage_perc{engine="0"} 0.25',
            'vllm:kv_cache_usage_perc{engine="1"} 0.75',
            'vllm:request_success_total{engine="0",finished_reason="length"} 5',
            'vllm:request_success_total{engine="1",finished_reason="length"} 6',
            'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",num_gpu_blocks="9"} 1.0',
            "vllm:generation_tokens_total NaN-ish",
        ]
    )
    sample = parse(page)
    assert sample is not None
    assert (sample.running, sample.busy, sample.kv_usage) == (5, 9, 0.75)
    assert sample.finished == {"length": 11}
    assert sample.settings == {"block_size": "16", "enable_prefix_caching": "True"}
    assert sample.generation_tokens is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_what_is_no_figure_leaves_its_sum_unknown(value: str) -> None:
    page = [
        'vllm:num_requests_running{engine="0"} 3.0',
        f'vllm:num_requests_running{{engine="1"}} {value}',
        f"vllm:generation_tokens_total {value}",
        "vllm:prompt_tokens_total 5",
        'vllm:request_success_total{finished_reason="length"} 5',
        f'vllm:request_success_total{{finished_reason="abort"}} {value}',
        f"process_start_time_seconds {value}",
    ]
    sample = parse("\n".join(page))
    assert sample == Sample(prompt_tokens=5.0)
    assert sample.busy == 0
    change = delta(sample, sample)
    assert (change.generation_tokens, change.finished, change.prompt_tokens) == (None, None, 0)


def test_a_restart_within_the_load_shows_although_the_counters_passed_what_they_were() -> None:
    before, after = (Sample(generation_tokens=n, finished={"length": n}) for n in (10.0, 500.0))
    assert not restarted(before, after)
    assert not restarted(before, Sample(generation_tokens=200.0), after)
    assert restarted(before, Sample(generation_tokens=0.0), after)
    assert restarted(before, Sample(finished={"length": 4.0, "abort": 5.0}), after)
    assert restarted(Sample(preemptions=5.0), Sample(preemptions=4.0))


def test_replicas_are_added_up_and_the_fullest_cache_counts() -> None:
    one = Sample(
        start_time=1000.5,
        generation_tokens=10,
        running=3,
        kv_usage=0.25,
        finished={"length": 4.0, "abort": 1.0},
        settings={"block_size": "16", "kv_cache_size_tokens": "900"},
    )
    other = Sample(
        start_time=2000.25,
        generation_tokens=20,
        running=2,
        kv_usage=0.75,
        finished={"length": 6.0},
        settings={"block_size": "16", "kv_cache_size_tokens": "905"},
    )
    assert total([one, other]) == Sample(
        start_time=3000.75,
        generation_tokens=30,
        running=5,
        kv_usage=0.75,
        finished={"length": 10.0, "abort": 1.0},
        settings={"block_size": "16", "kv_cache_size_tokens": "900, 905"},
    )
    assert total([one]) == one


def test_a_replica_that_does_not_answer_leaves_no_sum() -> None:
    known = Sample(generation_tokens=10, finished={"length": 1.0})
    assert total([known, None]) is None
    assert total([]) is None
    partly = total([known, Sample(prompt_tokens=5)])
    assert partly == Sample()


def test_the_restart_of_one_replica_shows_behind_the_work_of_the_others() -> None:
    before = total([Sample(start_time=1000.0, generation_tokens=50), Sample(start_time=1000.0, generation_tokens=50)])
    after = total([Sample(start_time=1200.0, generation_tokens=1), Sample(start_time=1000.0, generation_tokens=150)])
    assert before is not None
    assert after is not None
    assert restarted(before, after)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Sample(start_time=1.0, generation_tokens=5), Sample(start_time=1.0, generation_tokens=9), False),
        (Sample(start_time=1.0, generation_tokens=5), Sample(start_time=2.0, generation_tokens=9), True),
        (Sample(generation_tokens=5), Sample(generation_tokens=4), True),
        (Sample(), Sample(), False),
    ],
)
def test_a_restart_shows_in_the_start_time_or_in_a_counter_that_went_back(
    before: Sample, after: Sample, expected: bool
) -> None:
    assert restarted(before, after) is expected


def test_the_difference_of_two_samples() -> None:
    before = Sample(
        prefix_queries=100, prefix_hits=10, generation_tokens=50, queue_seconds=1.0, queue_count=4, drafts=10,
        ttft_seconds=0.0, ttft_count=0,
        accepted_tokens=5, preemptions=1, finished={"length": 4.0},
    )  # fmt: skip
    after = Sample(
        prefix_queries=300, prefix_hits=60, generation_tokens=90, queue_seconds=1.5, queue_count=14, drafts=20,
        ttft_seconds=0.4, ttft_count=10,
        accepted_tokens=20, preemptions=3, finished={"length": 12.0, "abort": 2.0},
    )  # fmt: skip
    change = delta(before, after, [Sample(running=3, waiting=1, kv_usage=0.2), Sample(running=8, kv_usage=0.1)])
    assert (change.finished, change.finished_by_length, change.generation_tokens) == (10, 8, 40)
    assert change.prefix_hit_rate == 0.25
    assert change.queue_ms_mean == pytest.approx(50)
    assert change.ttft_ms_mean == pytest.approx(40)
    assert change.tpot_ms_mean is None
    assert change.acceptance_length == pytest.approx(2.5)
    assert change.preemptions == 2
    assert (change.peak_running, change.peak_waiting, change.peak_kv_usage, change.samples) == (8, 1, 0.2, 2)


def test_what_a_page_does_not_tell_stays_unknown() -> None:
    change = delta(Sample(), Sample())
    assert change.finished is None
    assert change.prefix_hit_rate is None
    assert change.peak_running is None
    assert not change.still

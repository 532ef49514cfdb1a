# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on one measurement."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench.evaluate import evaluate
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import Point
from ansible_collections.modelops.vllm.plugins.module_utils._bench.prometheus import Sample

LoadFixture = t.Callable[[str], str]
POINT = Point(concurrency=4, input_len=64, output_len=32, num_prompts=16)
BEFORE = Sample(
    start_time=1.0, finished={"length": 1.0}, generation_tokens=8, prompt_tokens=60, prefix_queries=60, prefix_hits=0
)
AFTER = Sample(
    start_time=1.0,
    finished={"length": 17.0},
    generation_tokens=520,
    prompt_tokens=1104,
    prefix_queries=1104,
    prefix_hits=0,
)


def ids(verdict: t.Any) -> set[str]:
    return {f.id for f in verdict.findings}


def result(load_fixture: LoadFixture) -> dict[str, t.Any]:
    data: dict[str, t.Any] = json.loads(load_fixture("bench/vllm-0.32.0-python.json"))
    return data


def test_a_real_run_confirmed_by_the_server_is_valid(load_fixture: LoadFixture) -> None:
    verdict = evaluate(result(load_fixture), POINT, before=BEFORE, after=AFTER, gpus=2)
    assert verdict.valid
    assert ids(verdict) == {"few-prompts"}
    assert verdict.metrics is not None
    assert verdict.server is not None
    assert verdict.metrics["output_tokens"] == 512
    assert verdict.server["generation_tokens"] == 512


@pytest.mark.case("ttft-includes-queue")
def test_a_queue_is_told_although_the_clients_own_times_are_withheld(load_fixture: LoadFixture) -> None:
    data = {**result(load_fixture), "itls": [[0.0] * 31] * 16}
    after = dataclasses.replace(
        AFTER, queue_seconds=1.6, queue_count=16.0, ttft_seconds=3.2, ttft_count=16.0, tpot_seconds=1.0, tpot_count=16.0
    )
    before = dataclasses.replace(
        BEFORE, queue_seconds=0.0, queue_count=0.0, ttft_seconds=0.0, ttft_count=0.0, tpot_seconds=0.0, tpot_count=0.0
    )
    verdict = evaluate(data, POINT, before=before, after=after)
    assert {"token-times-withheld", "ttft-includes-queue"} <= ids(verdict)


def test_the_prompts_of_others_make_it_invalid(load_fixture: LoadFixture) -> None:
    verdict = evaluate(
        result(load_fixture), POINT, before=BEFORE, after=dataclasses.replace(AFTER, prompt_tokens=101104)
    )
    assert not verdict.valid
    assert ids(verdict) == {"few-prompts", "other-traffic"}


def test_what_a_chat_template_adds_is_of_nobody_else(load_fixture: LoadFixture) -> None:
    after = dataclasses.replace(AFTER, prompt_tokens=1104 + 16 * 40)
    assert "other-traffic" in ids(evaluate(result(load_fixture), POINT, before=BEFORE, after=after))
    assert "other-traffic" not in ids(evaluate(result(load_fixture), POINT, before=BEFORE, after=after, chat=True))


@pytest.mark.parametrize("seconds", [-1, 0, float("nan"), float("inf"), None, "1"])
def test_without_start_times_and_a_duration_there_is_no_rate_to_believe(
    load_fixture: LoadFixture, seconds: object
) -> None:
    data = {**result(load_fixture), "duration": seconds}
    del data["start_times"]
    verdict = evaluate(data, POINT)
    assert not verdict.valid
    assert "duration-unknown" in ids(verdict)
    assert verdict.metrics is not None
    assert (verdict.metrics["duration_s"], verdict.metrics["output_tokens_per_s"]) == (None, None)
    assert evaluate({**data, "duration": 2.0}, POINT).valid


def test_a_restart_that_only_a_look_in_between_shows_makes_it_invalid(load_fixture: LoadFixture) -> None:
    before, after = (dataclasses.replace(one, start_time=None) for one in (BEFORE, AFTER))
    verdict = evaluate(result(load_fixture), POINT, before=before, after=after, between=[Sample(generation_tokens=0.0)])
    assert not verdict.valid
    assert "server-restarted" in ids(verdict)


def test_without_counters_a_run_is_valid_and_says_so(load_fixture: LoadFixture) -> None:
    verdict = evaluate(result(load_fixture), POINT)
    assert verdict.valid
    assert "server-counters-missing" in ids(verdict)
    assert verdict.server is None


@pytest.mark.case("all-fail-exit-0")
def test_when_all_requests_fail_there_are_no_figures(load_fixture: LoadFixture) -> None:
    # all-fail-exit-0
    data = result(load_fixture)
    zeros = {"ttfts": [0.0] * 16, "itls": [[]] * 16, "latencies": [0.0] * 16, "output_lens": [0] * 16}
    verdict = evaluate({**data, **zeros, "errors": ["Internal Server Error"] * 16}, POINT)
    assert not verdict.valid
    assert verdict.metrics is None
    assert "requests-failed" in ids(verdict)


def test_a_budget_lets_a_failure_pass_and_keeps_it_out_of_the_figures(load_fixture: LoadFixture) -> None:
    data = result(load_fixture)
    data["output_lens"][5] = 7
    assert not evaluate(data, POINT).valid
    verdict = evaluate(data, POINT, max_failures=1)
    assert verdict.valid
    assert verdict.metrics is not None
    assert (verdict.metrics["requests"], verdict.metrics["failed"]) == (15, 1)


def test_a_restart_during_the_load_makes_it_invalid(load_fixture: LoadFixture) -> None:
    after = Sample(start_time=2.0, finished={"length": 16.0}, generation_tokens=512, prompt_tokens=1044)
    verdict = evaluate(result(load_fixture), POINT, before=BEFORE, after=after)
    assert not verdict.valid
    assert "server-restarted" in ids(verdict)
    assert "server-counters-missing" not in ids(verdict)


def test_a_server_that_is_gone_makes_it_invalid(load_fixture: LoadFixture) -> None:
    verdict = evaluate(result(load_fixture), POINT, before=BEFORE, after=None)
    assert not verdict.valid
    assert "server-gone" in ids(verdict)


def test_few_events_are_merged_tokens_when_the_server_confirms_them_and_else_a_cut_stream(
    load_fixture: LoadFixture,
) -> None:
    # 6 events for 32 tokens were seen on a loaded host; a stream that was cut and guessed looks the same
    data = result(load_fixture)
    data["itls"][2] = data["itls"][2][:5]
    assert evaluate(data, POINT, before=BEFORE, after=AFTER).valid
    verdict = evaluate(data, POINT)
    assert not verdict.valid
    assert verdict.findings[0].numbers["kinds"] == {"stream-cut": 1}
    assert evaluate(data, POINT, warmup_tokens_per_event=3.0).valid
    # The server aborted one request: it confirms only 15.
    after = Sample(start_time=1.0, finished={"length": 16.0, "abort": 1.0}, generation_tokens=494, prompt_tokens=1104)
    assert not evaluate(data, POINT, before=BEFORE, after=after).valid


def test_latencies_of_a_stalled_client_are_withheld_and_its_throughput_is_not(load_fixture: LoadFixture) -> None:
    # Seen on a loaded host: whole streams read at once, 0.003 ms a token and 320,000 tokens/s for each user.
    data = result(load_fixture)
    for i in range(16):
        data["itls"][i] = [3e-6] * 31
        data["ttfts"][i] = data["latencies"][i] - 31 * 3e-6
    verdict = evaluate(data, POINT, before=BEFORE, after=AFTER)
    assert verdict.valid
    assert "token-times-withheld" in ids(verdict)
    assert verdict.metrics is not None
    assert verdict.metrics["ttft_ms"]["median"] is None
    assert verdict.metrics["tpot_ms"]["median"] is None
    assert verdict.metrics["decode_tokens_per_s_per_user"] is None
    assert verdict.metrics["output_tokens_per_s"] > 1000
    assert verdict.metrics["e2e_ms"]["median"] > 100


def test_a_torn_result_is_invalid_and_not_an_exception() -> None:
    verdict = evaluate({"duration": 1.0}, POINT)
    assert not verdict.valid
    assert ids(verdict) == {"result-unreadable"}

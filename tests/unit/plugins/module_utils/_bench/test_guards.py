# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each trap gives its finding, and a healthy run gives none."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import client_guards, guards
from ansible_collections.modelops.vllm.plugins.module_utils._bench.answers import Failure, Request
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import Point
from ansible_collections.modelops.vllm.plugins.module_utils._bench.prometheus import Delta, Sample
from ansible_collections.modelops.vllm.plugins.module_utils._findings import Finding

POINT = Point(concurrency=8, input_len=64, output_len=20, num_prompts=80)
HEALTHY = Delta(
    finished=80,
    finished_by_length=80,
    generation_tokens=1600,
    prompt_tokens=5120,
    prefix_hit_rate=0.0,
    preemptions=0,
    queue_ms_mean=0.1,
    ttft_ms_mean=48.0,
    tpot_ms_mean=10.0,
    acceptance_length=None,
    peak_running=8,
    peak_waiting=0,
    peak_kv_usage=0.5,
    samples=4,
)


def changed(**values: t.Any) -> Delta:
    return dataclasses.replace(HEALTHY, **values)


def request(input_len: int = 64, output_len: int = 20, error: str = "") -> Request:
    return Request(0, 0.0, 0.1, 0.2, (0.1,), input_len, output_len, error)


def said(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(f.id, f.severity) for f in findings]


def test_failures_above_the_budget_are_an_error_and_below_it_a_warning() -> None:
    failed = [Failure(3, "output-length", "5 tokens instead of 20"), Failure(4, "request-error", "OSError: x")]
    found = guards.failures(failed, 80, 1)
    assert said(found) == [("requests-failed", "error")]
    assert found[0].numbers["kinds"] == {"output-length": 1, "request-error": 1}
    assert "request 3: 5 tokens instead of 20" in found[0].message
    assert "is not compared" in (found[0].remedy or "")
    (within,) = guards.failures(failed, 80, 2)
    assert (within.severity, within.remedy) == (
        "warning",
        "Look at the server's log; the figures are those of the other requests.",
    )
    assert guards.failures([], 80, 0) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (HEALTHY, []),
        (None, [("server-counters-missing", "warning")]),
        (changed(finished=None), [("server-counters-missing", "warning")]),
        (changed(finished=0, generation_tokens=0), [("server-counters-still", "warning")]),
        (changed(generation_tokens=1500), [("tokens-not-confirmed", "error")]),
        (changed(finished=79), [("tokens-not-confirmed", "error")]),
        (changed(finished=81, generation_tokens=1610), [("other-traffic", "warning")]),
        (changed(finished=90, generation_tokens=1800), [("other-traffic", "error")]),
    ],
)
def test_the_server_must_confirm_what_the_client_counted(change: Delta | None, expected: list[tuple[str, str]]) -> None:
    assert said(guards.counters(change, 80, 0, 20)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # One probe of one token is no load, whatever share of few requests it is.
        ({"finished": 81, "generation_tokens": 1601, "prompt_tokens": 5150}, [("other-traffic", "warning")]),
        # What the server adds to a prompt, and what the client's own tokenizer misses, is nobody else's.
        ({"prompt_tokens": 5696}, []),
        ({"prompt_tokens": 5697}, [("other-traffic", "error")]),
        # Long prompts with one token each, finished or still under way at the end.
        ({"finished": 81, "generation_tokens": 1601, "prompt_tokens": 105120}, [("other-traffic", "error")]),
        ({"prompt_tokens": 6405120}, [("other-traffic", "error")]),
        ({"prompt_tokens": None}, []),
    ],
)
def test_foreign_prompts_are_load_although_they_generate_nothing(
    values: dict[str, t.Any], expected: list[tuple[str, str]]
) -> None:
    most = guards.most_prompt_tokens([request()] * 80, 80)
    assert most == 5696
    found = guards.counters(changed(**values), 80, 0, 20, most)
    assert said(found) == expected
    if values["prompt_tokens"] == 6405120:
        assert found[0].message == (
            "The server finished 0 requests with 0 tokens, and read 6399424 prompt tokens that are not of this "
            "benchmark."
        )


def test_a_failed_request_may_have_had_the_longest_prompt() -> None:
    good = [request(input_len=100), request(input_len=300)]
    assert guards.most_prompt_tokens(good, 3) == 747
    assert guards.most_prompt_tokens([], 3) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # Two of 80 requests failed, and what they left at the server may be nothing or all of their tokens.
        (changed(finished=78, generation_tokens=1560), []),
        (changed(finished=80, generation_tokens=1600), []),
        (changed(finished=77, generation_tokens=1560), [("tokens-not-confirmed", "error")]),
        (changed(finished=78, generation_tokens=1559), [("tokens-not-confirmed", "error")]),
        (changed(finished=80, generation_tokens=1610), [("other-traffic", "warning")]),
        (changed(finished=81, generation_tokens=1600), [("other-traffic", "warning")]),
        (changed(finished=90, generation_tokens=1800), [("other-traffic", "error")]),
    ],
)
def test_a_budget_of_failures_turns_no_other_guard_off(change: Delta, expected: list[tuple[str, str]]) -> None:
    assert said(guards.counters(change, 80, 2, 20)) == expected


def test_counters_that_stand_still_are_no_surprise_when_nothing_was_answered() -> None:
    still = changed(finished=0, generation_tokens=0)
    assert guards.counters(still, 80, 80, 20) == []
    assert said(guards.counters(still, 80, 79, 20)) == [("server-counters-still", "warning")]


def test_a_run_is_confirmed_only_when_requests_tokens_and_reasons_agree() -> None:
    whole = [request()] * 80
    assert guards.confirmed(HEALTHY, whole, 20)
    assert not guards.confirmed(changed(finished_by_length=79), whole, 20)
    assert not guards.confirmed(changed(generation_tokens=1601), whole, 20)
    assert not guards.confirmed(changed(generation_tokens=None), whole, 20)
    assert not guards.confirmed(None, whole, 20)


def test_failed_requests_do_not_take_the_confirmation_from_the_others() -> None:
    # Two requests failed at the client; one of them had left three tokens at the server.
    requests = [*[request()] * 78, request(error="reset"), request(output_len=7)]
    assert guards.confirmed(changed(finished_by_length=78, generation_tokens=1563), requests, 20)
    assert not guards.confirmed(changed(finished_by_length=77, generation_tokens=1563), requests, 20)
    assert not guards.confirmed(changed(finished_by_length=78, generation_tokens=1550), requests, 20)


@pytest.mark.parametrize(("rate", "severity"), [(None, None), (0.01, None), (0.03, "warning"), (0.94, "error")])
def test_cache_hits_are_noted_and_then_refused(rate: float | None, severity: str | None) -> None:
    found = guards.prefix_cache(changed(prefix_hit_rate=rate))
    assert said(found) == ([("prefix-cache-hits", severity)] if severity else [])


@pytest.mark.case("ttft-includes-queue")
def test_queueing_is_told_from_prefill() -> None:
    # ttft-includes-queue
    assert said(guards.queueing(changed(queue_ms_mean=80.0), 100.0)) == [("ttft-includes-queue", "warning")]
    assert guards.queueing(changed(queue_ms_mean=5.0), 100.0) == []
    assert guards.queueing(None, 100.0) == []


@pytest.mark.case("spec-random-unrepresentative")
def test_preemptions_and_speculation_are_told() -> None:
    # spec-random-unrepresentative
    assert said(guards.preemptions(changed(preemptions=3))) == [("preemptions", "warning")]
    assert guards.preemptions(HEALTHY) == []
    assert said(guards.speculation(changed(acceptance_length=2.4))) == [("speculation-on-random-prompts", "warning")]
    assert guards.speculation(HEALTHY) == []


@pytest.mark.parametrize(("ratio", "told"), [(1.0, False), (1.02, False), (1.13, True), (None, False)])
def test_merged_tokens_are_told(ratio: float | None, told: bool) -> None:
    assert bool(guards.coalescing(ratio)) is told


@pytest.mark.case("range-ratio-semantics")
def test_prompts_of_another_length_are_told() -> None:
    # range-ratio-semantics: what counts is the realised length
    assert guards.shape([request(66), request(65)], POINT) == []
    assert said(guards.shape([request(70), request(70)], POINT)) == [("input-length-drift", "warning")]


def test_short_runs_are_told() -> None:
    assert client_guards.few_prompts(POINT) == []
    assert said(client_guards.few_prompts(dataclasses.replace(POINT, num_prompts=16))) == [("few-prompts", "warning")]


@pytest.mark.case("client-gil-ttft")
def test_the_python_client_is_distrusted_when_it_is_busy_or_too_many_streams_ask() -> None:
    # client-gil-ttft
    assert said(client_guards.client_load("python", 0.95)) == [("client-saturated", "warning")]
    assert (
        client_guards.client_load("python", 0.5)
        == client_guards.client_load("rust", 4.0)
        == client_guards.client_load("python", None)
        == []
    )
    assert client_guards.client_ceiling("python", 64) == client_guards.client_ceiling("rust", 512) == []
    assert client_guards.client_ceiling("python", 128)[0].numbers["late_ms"] == [17, 56]
    assert client_guards.client_ceiling("python", 1000)[0].numbers["late_ms"] == [118, 540]


@pytest.mark.case("client-gil-ttft")
def test_the_other_clients_have_limits_of_their_own() -> None:
    # The builtin client has one core, too, and stays exact up to it; aiperf is late with many cores.
    assert said(client_guards.client_load("builtin", 0.95)) == [("client-saturated", "warning")]
    assert client_guards.client_load("aiperf", 4.0) == client_guards.client_ceiling("builtin", 1000) == []
    (late,) = client_guards.client_ceiling("aiperf", 512)
    assert late.numbers["late_ms"] == [32, 293]
    assert "512 aiperf reads first tokens late" in late.message


@pytest.mark.parametrize(
    ("late", "tpot", "change", "withheld"),
    [
        (0.0, 10.5, HEALTHY, False),
        (0.1, 10.5, HEALTHY, False),
        (0.2, 10.5, HEALTHY, True),
        (0.2, 10.5, None, True),
        # read at once after a stall: 0.003 ms a token
        (0.0, 0.003, HEALTHY, True),
        (0.0, 13.0, HEALTHY, True),
        (0.0, 12.4, HEALTHY, False),
        # fast decoding: a difference below a millisecond is not the client's fault
        (0.0, 2.9, changed(tpot_ms_mean=2.0), False),
        (0.0, 0.003, changed(tpot_ms_mean=None), False),
        (0.0, None, HEALTHY, False),
    ],
)
def test_token_times_of_a_stalled_client_are_withheld(
    late: float, tpot: float | None, change: Delta | None, withheld: bool
) -> None:
    figures = {"late_first_reads": late, "tpot_ms": {"mean": tpot}}
    assert said(client_guards.token_times(figures, change)) == (
        [("token-times-withheld", "warning")] if withheld else []
    )


@pytest.mark.parametrize(("ttft", "told"), [(57.9, False), (58.1, True), (None, False), (20.0, False)])
@pytest.mark.case("client-gil-ttft")
def test_a_late_client_is_told(ttft: float | None, told: bool) -> None:
    # client-gil-ttft
    assert bool(client_guards.late_client({"ttft_ms": {"mean": ttft}}, HEALTHY)) is told
    assert client_guards.late_client({"ttft_ms": {"mean": ttft}}, None) == []


@pytest.mark.case("client-connection-limit")
def test_the_load_must_have_been_there() -> None:
    # client-connection-limit
    assert client_guards.reached(POINT, 8, HEALTHY) == []
    assert said(client_guards.reached(POINT, 5, HEALTHY)) == [("concurrency-not-reached", "warning")]
    assert said(client_guards.reached(POINT, 8, changed(peak_running=9))) == [("other-requests-seen", "warning")]
    assert client_guards.reached(POINT, None, None) == []


def figures(**changes: t.Any) -> dict[str, t.Any]:
    middle = {"n": 80, "median": 100.0, "mean": 100.0}
    return {"tokens_per_event": 1.0, "ttft_ms": middle, "e2e_ms": {**middle, "median": 500.0}, **changes}


@pytest.mark.case("reasoning-hidden")
def test_tokens_that_the_server_does_not_send_are_told() -> None:
    late = {"n": 80, "median": 450.0}
    found = guards.hidden_tokens(figures(tokens_per_event=5.0, ttft_ms=late), HEALTHY)
    assert said(found) == [("tokens-hidden", "warning")]
    assert found[0].numbers["ttft_share"] == pytest.approx(0.9)
    # Several tokens an event are merged ones when the first comes early, and accepted ones with speculation.
    assert guards.hidden_tokens(figures(tokens_per_event=5.0), HEALTHY) == []
    assert guards.hidden_tokens(figures(tokens_per_event=5.0, ttft_ms=late), changed(acceptance_length=4.8)) == []
    assert guards.hidden_tokens(figures(ttft_ms=late), None) == []


@pytest.mark.case("reasoning-hidden")
def test_an_answer_in_one_event_has_no_token_times() -> None:
    one = {"late_first_reads": 0.0, "tpot_ms": {"mean": 0.0}, "event_gap_ms": {"n": 0}}
    assert said(client_guards.token_times(one, None)) == [("token-times-withheld", "warning")]


@pytest.mark.case("spec-random-unrepresentative")
def test_speculation_on_text_is_no_trap() -> None:
    assert guards.speculation(changed(acceptance_length=2.4), random_prompts=False) == []


@pytest.mark.case("client-queue-excluded")
def test_requests_that_wait_at_the_client_are_told() -> None:
    assert said(client_guards.client_queue({"client_queue_ms": {"median": 450.0}})) == [("client-queue", "warning")]
    assert client_guards.client_queue({"client_queue_ms": {"median": 2.0}}) == []
    assert client_guards.client_queue({"client_queue_ms": {"median": None}}) == []


def arriving(every: float, latencies: t.Iterable[float]) -> list[Request]:
    return [Request(i, every * i, 0.05, latency, (0.1,), 64, 20, "") for i, latency in enumerate(latencies)]


RATE = Point(None, 64, 20, 600, rate=10.0)


def test_a_rate_that_was_not_offered_is_told() -> None:
    assert client_guards.open_loop(arriving(0.1, [0.5] * 600), RATE, 10.0) == []
    assert client_guards.open_loop(arriving(0.1, [0.5] * 600), RATE, 8.9) == []
    assert said(client_guards.open_loop(arriving(0.1, [0.5] * 600), RATE, 8.5)) == [("rate-not-reached", "warning")]
    assert client_guards.open_loop(arriving(0.1, [0.5] * 600), POINT, 8.5) == []


def test_a_queue_that_grows_is_told() -> None:
    growing = [0.5 + 0.005 * i for i in range(600)]
    (found,) = client_guards.open_loop(arriving(0.1, growing), RATE, 10.0)
    assert (found.id, found.severity) == ("overload", "warning")
    assert found.numbers["late_ms"] > 2 * found.numbers["early_ms"]
    assert client_guards.open_loop(arriving(0.1, [0.5, 1.5] * 10), RATE, 10.0) == []


def test_an_open_loop_has_no_concurrency_to_reach() -> None:
    assert client_guards.reached(RATE, 3, HEALTHY) == []
    assert said(client_guards.few_prompts(dataclasses.replace(RATE, num_prompts=64))) == [("few-prompts", "warning")]
    assert client_guards.few_prompts(RATE) == []


@pytest.mark.case("moe-random-routing")
@pytest.mark.parametrize(
    ("given", "dummy"),
    [
        ({"vllm_args": {"load-format": "dummy"}}, True),
        ({"vllm_args": {"load_format": "dummy"}}, True),
        ({"args": ["serve", "m", "--load-format", "dummy", "--port", "1"]}, True),
        ({"args": ["--load-format=dummy"]}, True),
        ({"args": "vllm serve m --load-format dummy"}, True),
        ({"vllm_args": {"load-format": "auto"}}, False),
        ({"args": ["--load-format", "safetensors", "dummy"]}, False),
        ({"vllm_args": None}, False),
        ({}, False),
    ],
)
def test_weights_that_were_never_loaded_are_told(given: dict[str, t.Any], dummy: bool) -> None:
    assert said(guards.dummy_weights(given)) == ([("dummy-weights", "warning")] if dummy else [])


@pytest.mark.case("role-chunk-as-first-token")
def test_a_first_event_without_a_token_is_not_the_first_token() -> None:
    # A frontend sends a role at once and the first token after 300 ms: 4.5 ms and 26 ms a token at the client.
    seen = {"late_first_reads": 0.0, "ttft_ms": {"mean": 4.5}, "tpot_ms": {"mean": 10.5}}
    (found,) = client_guards.token_times(seen, changed(ttft_ms_mean=300.0))
    assert (found.id, found.severity) == ("token-times-withheld", "warning")
    assert "4.5 ms at the client and 300.0 ms at the server" in found.message
    absorbed = {"late_first_reads": 0.0, "ttft_ms": {"mean": 300.0}, "tpot_ms": {"mean": 26.0}}
    assert said(client_guards.token_times(absorbed, HEALTHY)) == [("token-times-withheld", "warning")]


@pytest.mark.case("reasoning-not-counted")
def test_a_first_token_at_the_end_of_the_thinking_is_not_the_first_token() -> None:
    # Ten tokens of reasoning were not seen: the first token is late, and ten tokens share the time of the others.
    seen = {"late_first_reads": 0.0, "ttft_ms": {"mean": 148.0}, "tpot_ms": {"mean": 4.7}}
    assert said(client_guards.token_times(seen, HEALTHY)) == [("token-times-withheld", "warning")]
    assert said(client_guards.late_client(seen, HEALTHY)) == [("first-tokens-late", "warning")]


def test_a_server_that_counts_no_cache_hits_is_told() -> None:
    silent = changed(prefix_hit_rate=None)
    assert said(guards.prefix_cache(silent, Sample())) == [("prefix-cache-unknown", "info")]
    # With the cache off there is nothing to count, and nothing to know.
    assert guards.prefix_cache(silent, Sample(settings={"enable_prefix_caching": "False"})) == []
    assert guards.prefix_cache(silent, Sample(prefix_queries=0.0)) == []
    assert guards.prefix_cache(None, None) == []

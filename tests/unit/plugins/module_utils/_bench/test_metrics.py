# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading, judging and computing what real clients wrote, and what broken ones would."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import metrics
from ansible_collections.modelops.vllm.plugins.module_utils._bench.answers import judge, read_requests
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError

LoadFixture = t.Callable[[str], str]


def raw(n: int = 2, **changes: t.Any) -> dict[str, t.Any]:
    """A healthy result of ``n`` requests, one after another: 10 tokens, the first after 0.1 s, then one each 10 ms."""
    data: dict[str, t.Any] = {
        "input_lens": [8] * n,
        "output_lens": [10] * n,
        "ttfts": [0.1] * n,
        "itls": [[0.01] * 9 for _request in range(n)],
        "latencies": [0.19] * n,
        "start_times": [100.0 + 0.2 * i for i in range(n)],
        "errors": [""] * n,
        "generated_texts": ["text"] * n,
    }
    return {**data, **changes}


def verdicts(data: dict[str, t.Any], n: int = 2, limit: float | None = None) -> list[tuple[int, str]]:
    return [(f.index, f.kind) for f in judge(read_requests(data, n), 10, limit)]


def test_a_healthy_result_has_no_failure() -> None:
    assert verdicts(raw()) == []


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        # all-fail-exit-0: a failed request has latencies of 0 and would win every comparison
        ({"errors": ["", "Internal Server Error"], "output_lens": [10, 0]}, "request-error"),
        # ignore-eos-missing, skip-tokenizer-one-token
        ({"output_lens": [10, 3]}, "output-length"),
        ({"output_lens": [10, 1]}, "output-length"),
        # without usage the Python client counts the text with a tokenizer
        ({"output_lens": [10, 40]}, "output-length"),
        # a keep-alive comment glued to the next event: events and the usage are lost, and the client calls it success
        pytest.param({"output_lens": [10, 1], "itls": [[0.01] * 9, []]}, "output-length", id="sse-comment-glue"),
        ({"ttfts": [0.1, 0.0]}, "impossible-times"),
        ({"latencies": [0.19, 0.05]}, "impossible-times"),
        ({"ttfts": [0.1, float("nan")]}, "impossible-times"),
        ({"itls": [[0.01] * 9, [0.01] * 14]}, "too-many-events"),
        ({"itls": [[0.01] * 9, [float("inf")] * 9]}, "impossible-times"),
        ({"start_times": [100.0, float("nan")]}, "impossible-times"),
        ({"start_times": [100.0, float("inf")]}, "impossible-times"),
        ({"queue_times": [0.1, float("inf")]}, "impossible-times"),
        ({"ttfos": [0.1, float("nan")]}, "impossible-times"),
        ({"input_lens": [8, 0]}, "input-length"),
        ({"input_lens": [8, -8]}, "input-length"),
        ({"errors": ["", " "]}, "request-error"),
        # A request that failed has no figures, whatever stands in their place.
        ({"errors": ["", "gone"], "ttfts": [0.1, None], "itls": [[0.01] * 9, None]}, "request-error"),
        ({"errors": ["", "gone"], "input_lens": [8, None], "output_lens": [10, float("inf")]}, "request-error"),
    ],
)
@pytest.mark.case("ignore-eos-missing", "skip-tokenizer-one-token")
def test_a_request_that_does_not_count_is_named(changes: dict[str, t.Any], kind: str) -> None:
    assert verdicts(raw(**changes)) == [(1, kind)]


@pytest.mark.case("truncated-stream-counted-success")
def test_a_cut_stream_is_seen_by_its_events_although_its_length_looks_right() -> None:
    # truncated-stream-counted-success: two words counted as the asked ten tokens
    data = raw(itls=[[0.01] * 9, [0.01]], latencies=[0.19, 0.11])
    assert verdicts(data) == []
    assert verdicts(data, limit=2.0) == [(1, "stream-cut")]


def test_merged_tokens_are_no_cut_stream() -> None:
    data = raw(itls=[[0.01] * 9, [0.01] * 6])
    assert verdicts(data, limit=2.0) == []


@pytest.mark.parametrize("missing", ["output_lens", "errors", "itls"])
def test_a_result_without_its_arrays_is_refused(missing: str) -> None:
    data = raw()
    del data[missing]
    with pytest.raises(ModelopsError, match=missing):
        read_requests(data, 2)


def test_a_result_with_too_few_requests_is_refused() -> None:
    with pytest.raises(ModelopsError, match="must hold 3 requests"):
        read_requests(raw(2), 3)


def test_a_result_with_words_for_numbers_is_refused() -> None:
    with pytest.raises(ModelopsError, match="not readable"):
        read_requests(raw(ttfts=[0.1, "soon"]), 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_lens": [8, float("inf")]}, "inf is no count"),
        ({"output_lens": [10, float("nan")]}, "nan is no count"),
        ({"output_lens": [10, 9.9]}, "9.9 is no count"),
        ({"output_lens": [10, None]}, "not readable"),
        ({"itls": [[0.01] * 9, None]}, "not readable"),
        ({"start_times": 100.0}, "no list in start_times"),
        ({"queue_times": 1}, "no list in queue_times"),
        ({"latencies": "soon"}, "no list in latencies"),
        ({"kinds": {"a": 1}}, "no list in kinds"),
    ],
)
def test_a_result_with_other_things_than_counts_and_lists_is_refused(changes: dict[str, t.Any], words: str) -> None:
    with pytest.raises(ModelopsError, match=words):
        read_requests(raw(**changes), 2)


def test_results_before_vllm_0_30_get_their_latency_from_the_gaps_and_their_duration_from_the_client() -> None:
    data = raw()
    del data["latencies"], data["start_times"]
    requests = read_requests(data, 2)
    assert requests[0].latency_s == pytest.approx(0.19)
    figures = metrics.compute(requests, 0, 1, client_duration_s=0.4)
    assert (figures["duration_s"], figures["duration_source"]) == (0.4, "client")
    assert figures["output_tokens_per_s"] == pytest.approx(50)
    assert figures["peak_in_flight"] is None
    assert figures["steady_output_tokens_per_s"] is None


def test_the_figures_of_a_paced_single_stream() -> None:
    figures = metrics.compute(read_requests(raw(), 2), 0, 1, gpus=4)
    assert figures["duration_s"] == pytest.approx(0.39)
    assert figures["output_tokens_per_s"] == pytest.approx(20 / 0.39)
    assert figures["total_tokens_per_s"] == pytest.approx(36 / 0.39)
    assert figures["output_tokens_per_s_per_gpu"] == pytest.approx(20 / 0.39 / 4)
    assert figures["total_tokens_per_s_per_gpu"] == pytest.approx(36 / 0.39 / 4)
    assert figures["ttft_ms"]["median"] == pytest.approx(100)
    assert figures["tpot_ms"]["median"] == pytest.approx(10)
    assert figures["e2e_ms"]["median"] == pytest.approx(190)
    # "tokens/s of a single stream" is two figures
    assert figures["decode_tokens_per_s_per_user"] == pytest.approx(100)
    assert figures["e2e_tokens_per_s_per_user"] == pytest.approx(10 / 0.19)
    assert figures["tokens_per_event"] == 1.0
    assert figures["peak_in_flight"] == 1


def test_without_gpus_there_is_no_figure_for_each_gpu() -> None:
    figures = metrics.compute(read_requests(raw(), 2), 0, 1)
    assert figures["output_tokens_per_s_per_gpu"] is None


@pytest.mark.case("failed-requests-drag-metrics")
def test_failed_requests_are_in_the_error_rate_and_in_no_latency() -> None:
    # failed-requests-drag-metrics
    requests = read_requests(raw(4), 4)
    alone = metrics.compute(requests[:3], 0, 1)
    beside = metrics.compute(requests[:3], 1, 1)
    assert beside["error_rate"] == 0.25
    assert beside["ttft_ms"] == alone["ttft_ms"]


@pytest.mark.case("chunk-is-not-token-coalesced")
def test_several_tokens_in_an_event_change_no_tpot() -> None:
    # chunk-is-not-token-coalesced
    data = raw(itls=[[0.045, 0.045]] * 2)
    figures = metrics.compute(read_requests(data, 2), 0, 1)
    assert figures["tpot_ms"]["median"] == pytest.approx(10)
    assert figures["tokens_per_event"] == pytest.approx(10 / 3)


def test_a_single_stream_drops_its_first_request_in_order_of_sending() -> None:
    data = raw(3, start_times=[102.0, 100.0, 101.0])
    requests = read_requests(data, 3)
    assert [r.index for r in requests] == [1, 2, 0]
    assert [r.index for r in metrics.measured_part(requests, 1)] == [2, 0]
    assert len(metrics.measured_part(requests, 8)) == 3


@pytest.mark.case("max-concurrent-requests-exceeds-cap")
def test_the_peak_comes_from_the_requests_and_not_from_whole_seconds() -> None:
    # max-concurrent-requests-exceeds-cap: four short requests inside one second, two at a time
    data = raw(4, start_times=[100.0, 100.0, 100.19, 100.19])
    assert metrics.peak_in_flight(read_requests(data, 4)) == 2


def test_the_steady_rate_leaves_out_the_first_wave_and_the_drain() -> None:
    # Two streams. The first wave has a slow prefill; of the last requests one ends early, and only one stream is left.
    data = raw(
        5,
        start_times=[0.0, 0.0, 2.0, 2.0, 2.5],
        output_lens=[10, 10, 10, 5, 10],
        ttfts=[1.1, 1.1, 0.1, 0.1, 0.1],
        itls=[[0.1] * 9, [0.1] * 9, [0.1] * 9, [0.1] * 4, [0.1] * 9],
        latencies=[2.0, 2.0, 1.0, 0.5, 1.0],
    )
    requests = read_requests(data, 5)
    assert metrics.steady_window(requests, 2) == (2.0, 3.0)
    assert metrics.steady_rate(requests, 2) == pytest.approx(20.0)
    # One wave has no steady state, and neither has a load that was never reached.
    assert metrics.steady_rate(requests[:2], 2) is None
    assert metrics.steady_rate(requests, 3) is None


@pytest.mark.parametrize("engine", ["python", "rust"])
@pytest.mark.case("definition-tpot")
def test_our_figures_agree_with_those_of_the_real_client(engine: str, load_fixture: LoadFixture) -> None:
    # Recorded from vLLM 0.32.0 on CPU with a tiny model: 16 requests, concurrency 4, 64 input and 32 output tokens.
    data = json.loads(load_fixture(f"bench/vllm-0.32.0-{engine}.json"))
    requests = read_requests(data, 16)
    assert judge(requests, 32, 2.0) == []
    figures = metrics.compute(requests, 0, 4)
    assert figures["duration_s"] == pytest.approx(data["duration"], rel=0.01)
    assert figures["output_tokens_per_s"] == pytest.approx(data["output_throughput"], rel=0.01)
    assert figures["total_tokens_per_s"] == pytest.approx(data["total_token_throughput"], rel=0.01)
    assert figures["requests_per_s"] == pytest.approx(data["request_throughput"], rel=0.01)
    for name, theirs in {"ttft_ms": "ttft_ms", "tpot_ms": "tpot_ms", "e2e_ms": "e2el_ms"}.items():
        assert figures[name]["median"] == pytest.approx(data[f"median_{theirs}"], abs=0.01)
        assert figures[name]["mean"] == pytest.approx(data[f"mean_{theirs}"], abs=0.01)
        assert figures[name]["p90"] is None
    assert figures["peak_in_flight"] == 4
    # The client's own figure is four times the cap that it was given.
    assert data["max_concurrent_requests"] == 16


def closed_loop(waves: int = 10, concurrency: int = 4) -> dict[str, t.Any]:
    """Waves of 10 tokens at 10 ms; the first wave has 0.3 s to its first token, the others 0.1 s."""
    n = waves * concurrency
    ttfts = [0.3] * concurrency + [0.1] * (n - concurrency)
    starts = [0.0] * concurrency + [0.39 + 0.19 * w for w in range(waves - 1) for _stream in range(concurrency)]
    return raw(n, ttfts=ttfts, latencies=[x + 0.09 for x in ttfts], start_times=starts)


@pytest.mark.case("first-wave-burst", "ramp-in-stats-locust")
def test_the_steady_state_stands_beside_the_total_and_leaves_out_the_first_wave() -> None:
    figures = metrics.compute(read_requests(closed_loop(), 40), 0, 4)
    assert figures["ttft_ms"]["max"] == pytest.approx(300)
    assert figures["ttft_ms"]["n"] == 40
    steady = figures["steady"]
    assert steady["requests"] == 36
    assert steady["ttft_ms"]["max"] == pytest.approx(100)
    assert steady["e2e_ms"]["median"] == pytest.approx(190)
    assert steady["window_s"] == pytest.approx(9 * 0.19)
    assert steady["share"] == pytest.approx(9 * 0.19 / (0.39 + 9 * 0.19))
    # 40 tokens each 0.19 s, and not the 190.5 of the whole run with its slower first wave. The last tokens of that wave
    # come at the moment at which the window begins.
    assert figures["steady_output_tokens_per_s"] == pytest.approx(360 / (9 * 0.19), rel=0.012)
    assert figures["output_tokens_per_s"] == pytest.approx(400 / 2.1)


@pytest.mark.case("rust-steady-state-ignores-failures")
def test_there_is_no_steady_state_beside_failures() -> None:
    requests = read_requests(closed_loop(), 40)
    figures = metrics.compute(requests[::2], 20, 4)
    assert (figures["steady"], figures["steady_output_tokens_per_s"]) == (None, None)
    assert metrics.compute(requests, 0, 4)["steady_output_tokens_per_s"] > 0


def test_the_steady_state_of_an_open_loop_is_between_the_first_end_and_the_last_start() -> None:
    data = raw(11, start_times=[0.1 * i for i in range(11)])
    figures = metrics.compute(read_requests(data, 11), 0, None)
    assert figures["steady"]["window_s"] == pytest.approx(0.81)
    assert figures["arrivals_per_s"] == pytest.approx(10)
    assert figures["output_tokens_per_s_per_user"] is None
    assert figures["decode_tokens_per_s_per_user"] == pytest.approx(100)


def test_goodput_counts_what_kept_every_bound() -> None:
    data = raw(4, ttfts=[0.1, 0.1, 0.2, 0.1], latencies=[0.19, 0.28, 0.29, 0.19])
    requests = read_requests(data, 4)
    figures = metrics.compute(requests[:3], 1, 1, slo={"ttft_ms": 150.0, "tpot_ms": 15.0})
    # The second is too slow for each token (20 ms), the third to its first; the fourth failed.
    assert figures["goodput"]["share"] == 0.25
    assert figures["goodput"]["requests_per_s"] == pytest.approx(1 / figures["duration_s"])
    assert figures["goodput"]["output_tokens_per_s"] == pytest.approx(10 / figures["duration_s"])
    assert metrics.compute(requests, 0, 1, slo={"e2e_ms": 280.5})["goodput"]["share"] == 0.75
    assert metrics.compute(requests, 0, 1)["goodput"] is None


def test_goodput_goes_with_the_times_that_it_rests_on() -> None:
    requests = read_requests(raw(4), 4)
    by_token = metrics.compute(requests, 0, 1, slo={"ttft_ms": 150.0})
    assert metrics.without_token_times(by_token)["goodput"]["requests_per_s"] is None
    whole = metrics.compute(requests, 0, 1, slo={"e2e_ms": 200.0})
    assert metrics.without_token_times(whole)["goodput"] == whole["goodput"]


@pytest.mark.case("first-chunk-bundles-tokens")
def test_a_first_event_of_several_tokens_is_between_two_figures() -> None:
    # Four tokens at once, then one each 10 ms: a true TPOT of 10 ms, which the usage alone does not tell.
    data = raw(1, output_lens=[20], itls=[[0.01] * 16], ttfts=[0.1], latencies=[0.26])
    figures = metrics.compute(read_requests(data, 1), 0, 1)
    assert figures["tpot_ms"]["median"] == pytest.approx(160 / 19)
    assert figures["event_gap_ms"]["median"] == pytest.approx(10)
    # The rate over the whole answer rests on no event at all.
    assert figures["e2e_tokens_per_s_per_user"] == pytest.approx(20 / 0.26)


@pytest.mark.case("definition-tpot", "per-gpu-total-tokens")
def test_every_rate_and_latency_is_defined_where_it_is_stored() -> None:
    figures = metrics.compute(read_requests(raw(), 2), 0, 1, gpus=4)
    assert set(metrics.DEFINITIONS) <= set(figures)
    named = {name for name in figures if name.endswith(("_ms", "_per_gpu", "_per_user"))}
    assert named - set(metrics.DEFINITIONS) == {"client_queue_ms"}
    # Three rates that others call the throughput of a GPU or the speed of a user.
    assert figures["output_tokens_per_s_per_gpu"] == pytest.approx(20 / 0.39 / 4)
    assert figures["total_tokens_per_s_per_gpu"] == pytest.approx(36 / 0.39 / 4)
    assert figures["decode_tokens_per_s_per_user"] == pytest.approx(100)
    assert figures["output_tokens_per_s_per_user"] == pytest.approx(20 / 0.39)


@pytest.mark.case("empty-text-error")
def test_tokens_are_counted_by_usage_and_not_by_their_text() -> None:
    figures = metrics.compute(read_requests(raw(generated_texts=["", ""]), 2), 0, 1)
    assert verdicts(raw(generated_texts=["", ""])) == []
    assert figures["output_tokens"] == 20


@pytest.mark.case("client-queue-excluded")
def test_waiting_at_the_client_is_told_for_open_loops() -> None:
    data = raw(4, queue_times=[0.0, 0.5, 1.0, 1.5])
    assert metrics.compute(read_requests(data, 4), 0, None)["client_queue_ms"]["median"] == pytest.approx(750)
    # With a concurrency all requests wait for their stream from the start.
    assert metrics.compute(read_requests(data, 4), 0, 2)["client_queue_ms"]["n"] == 0
    # The client leaves out those of failed requests: then nobody knows whose they are.
    data["queue_times"] = [0.5]
    assert metrics.compute(read_requests(data, 4), 0, None)["client_queue_ms"]["n"] == 0

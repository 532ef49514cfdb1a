# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The figures of a point, computed again from its good requests. Pure."""

from __future__ import annotations

import math
import statistics
import typing as t

from .answers import Request
from .stats import summary

# What the names of the figures mean, stored beside every run: other tools give the same names to other things.
DEFINITIONS: t.Final[dict[str, str]] = {
    "ttft_ms": "from sending a request to its first token, the time in the server's queue included",
    "ttfo_ms": "from sending a chat to its first token of output, which is no reasoning; none for completions",
    "tpot_ms": "(end - first token) / (output tokens - 1) of one request; called TPOT by vLLM, ITL by aiperf and "
    "guidellm, whose own TPOT is the whole latency / output tokens",
    "event_gap_ms": "(end - first event) / (events - 1) of one request; equals tpot_ms when each event has one token",
    "e2e_ms": "from sending a request to its last token",
    "output_tokens_per_s": "output tokens of all good requests / time from the first start to the last end",
    "total_tokens_per_s": "input and output tokens / the same time",
    "output_tokens_per_s_per_gpu": "output_tokens_per_s / GPUs of the instance, idle ones included",
    "total_tokens_per_s_per_gpu": "total_tokens_per_s / GPUs; what InferenceX calls tput_per_gpu",
    "output_tokens_per_s_per_user": "output_tokens_per_s / concurrency; the user axis of vLLM's plot_pareto",
    "decode_tokens_per_s_per_user": "1000 / median tpot_ms; called interactivity by InferenceX",
    "e2e_tokens_per_s_per_user": "median of output tokens / end-to-end latency, prefill and queueing included",
    "steady": "requests after the first wave and before the drain; null when a request failed",
    "steady_output_tokens_per_s": "output tokens / time from the end of the first wave to the begin of the drain",
    "goodput": "good requests that kept every given bound / the time of output_tokens_per_s",
}

# The figures that a bound can be given for, and the field of a request that it bounds.
SLO_NAMES: t.Final = ("ttft_ms", "tpot_ms", "e2e_ms")

# Share of the asked concurrency that must be in flight for a moment to belong to the steady state.
STEADY_SHARE: t.Final = 0.95


def measured_part(requests: t.Sequence[Request], concurrency: int | None) -> list[Request]:
    """The requests that enter the figures: all of them, without the first one of a single stream.

    The first request of a single stream pays for the client's connection; with more streams one of many does.
    """
    return list(requests[1:]) if concurrency == 1 and len(requests) > 1 else list(requests)


def compute(
    requests: t.Sequence[Request],
    failed: int,
    concurrency: int | None,
    *,
    gpus: int | None = None,
    client_duration_s: float | None = None,
    slo: t.Mapping[str, float] | None = None,
) -> dict[str, t.Any]:
    """All figures of a point from its good ``requests``.

    ``failed`` is the number of requests that do not count, ``client_duration_s`` the client's own duration, used only
    when it wrote no start times (vLLM before 0.16). Rates are per second, latencies in milliseconds (``*_ms``).
    ``*_per_gpu`` are None without ``gpus``, what belongs to one of ``concurrency`` users without one. ``slo`` has
    bounds in ms for some of :data:`SLO_NAMES`. The figures are defined in :data:`DEFINITIONS`.
    """
    tokens_in = sum(r.input_len for r in requests)
    tokens_out = sum(r.output_len for r in requests)
    duration, source = _duration(requests, client_duration_s)
    tpot = _summary_ms(r.tpot_s for r in requests)
    events = sum(r.events for r in requests)
    output_rate = tokens_out / duration if duration else None
    total_rate = (tokens_in + tokens_out) / duration if duration else None
    return {
        "requests": len(requests),
        "failed": failed,
        "error_rate": failed / (len(requests) + failed) if requests or failed else None,
        "duration_s": duration,
        "duration_source": source,
        "input_tokens": tokens_in,
        "output_tokens": tokens_out,
        "requests_per_s": len(requests) / duration if duration else None,
        "output_tokens_per_s": output_rate,
        "total_tokens_per_s": total_rate,
        "output_tokens_per_s_per_gpu": output_rate / gpus if gpus and output_rate else None,
        "total_tokens_per_s_per_gpu": total_rate / gpus if gpus and total_rate else None,
        "output_tokens_per_s_per_user": output_rate / concurrency if output_rate and concurrency else None,
        "decode_tokens_per_s_per_user": 1000 / tpot["median"] if tpot["median"] else None,
        "e2e_tokens_per_s_per_user": statistics.median(r.output_len / r.latency_s for r in requests)
        if requests
        else None,
        "steady_output_tokens_per_s": None if failed else steady_rate(requests, concurrency),
        "steady": None if failed else steady_part(requests, concurrency, duration),
        "arrivals_per_s": arrival_rate(requests),
        "goodput": goodput(requests, failed, duration, slo) if slo else None,
        "ttft_ms": summary([r.ttft_s for r in requests], 1000),
        "ttfo_ms": _summary_ms(r.ttfo_s for r in requests),
        "tpot_ms": tpot,
        "e2e_ms": summary([r.latency_s for r in requests], 1000),
        "event_gap_ms": _summary_ms(r.event_gap_s for r in requests),
        # With a concurrency all requests exist from the start and wait for their stream on purpose.
        "client_queue_ms": _summary_ms(None if concurrency else r.client_queue_s for r in requests),
        "input_len": _spread([r.input_len for r in requests]),
        "output_len": _spread([r.output_len for r in requests]),
        "tokens_per_event": tokens_out / events if events else None,
        "late_first_reads": sum(r.first_read_late for r in requests) / len(requests) if requests else None,
        "peak_in_flight": peak_in_flight(requests),
    }


def _summary_ms(seconds: t.Iterable[float | None]) -> dict[str, float | None]:
    return summary([value for value in seconds if value is not None], 1000)


def without_token_times(figures: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The figures without those that rest on the time of the first token; throughput and end-to-end times stay."""
    none = summary([])
    steady, good = figures.get("steady"), figures.get("goodput")
    if good and not set(good["slo"]) <= {"e2e_ms"}:
        good = {**dict.fromkeys(good), "slo": good["slo"]}
    return {
        **figures,
        "ttft_ms": none,
        "ttfo_ms": none,
        "tpot_ms": none,
        "event_gap_ms": none,
        "decode_tokens_per_s_per_user": None,
        "steady": steady and {**steady, "ttft_ms": none, "tpot_ms": none},
        "goodput": good,
    }


def goodput(
    requests: t.Sequence[Request], failed: int, duration: float | None, slo: t.Mapping[str, float]
) -> dict[str, t.Any]:
    """How much of the load kept every bound of ``slo`` (ms). A failed request kept none."""
    kept = [r for r in requests if _keeps(r, slo)]
    total = len(requests) + failed
    return {
        "slo": dict(slo),
        "share": len(kept) / total if total else None,
        "requests_per_s": len(kept) / duration if duration else None,
        "output_tokens_per_s": sum(r.output_len for r in kept) / duration if duration else None,
    }


def _keeps(request: Request, slo: t.Mapping[str, float]) -> bool:
    seconds = {"ttft_ms": request.ttft_s, "tpot_ms": request.tpot_s, "e2e_ms": request.latency_s}
    return all(1000 * (seconds[name] or 0.0) <= bound for name, bound in slo.items())


def arrival_rate(requests: t.Iterable[Request]) -> float | None:
    """Requests a second between the first and the last start; None without start times."""
    starts = sorted(r.start_s for r in requests if r.start_s is not None)
    return (len(starts) - 1) / (starts[-1] - starts[0]) if len(starts) > 1 and starts[-1] > starts[0] else None


def _duration(requests: t.Sequence[Request], client_duration_s: float | None) -> tuple[float | None, str]:
    starts = [r.start_s for r in requests if r.start_s is not None]
    if starts and len(starts) == len(requests):
        ends = [r.start_s + r.latency_s for r in requests if r.start_s is not None]
        return max(ends) - min(starts), "requests"
    return (client_duration_s or None), "client"


def _spread(values: t.Sequence[int]) -> dict[str, float | None]:
    if not values:
        return {"min": None, "mean": None, "max": None}
    return {"min": min(values), "mean": statistics.fmean(values), "max": max(values)}


def _in_flight_steps(requests: t.Iterable[Request]) -> list[tuple[float, int]]:
    """(time, requests in flight from then on), in order of time; ends come before starts of the same moment."""
    changes = [(r.start_s, 1) for r in requests if r.start_s is not None]
    changes += [(r.start_s + r.latency_s, -1) for r in requests if r.start_s is not None]
    level = 0
    steps = []
    for moment, change in sorted(changes):
        level += change
        steps.append((moment, level))
    return steps


def peak_in_flight(requests: t.Iterable[Request]) -> int | None:
    """The most requests that were under way at one moment; None without start times.

    The client's own ``max_concurrent_requests`` counts whole seconds and exceeds its own limit on short requests.
    """
    return max((level for _moment, level in _in_flight_steps(requests)), default=None)


def steady_window(requests: t.Sequence[Request], concurrency: int | None) -> tuple[float, float] | None:
    """Begin and end of the steady state on the client's clock; None without start times, or when it is empty.

    Of a closed loop it begins when the first wave, whose prefills all come at once, is answered, and ends at the last
    moment with at least 95 % of the concurrency in flight: this leaves out the drain. Of an open loop it lies between
    the first end and the last start.
    """
    timed = sorted((r.start_s, r.start_s + r.latency_s) for r in requests if r.start_s is not None)
    if not timed:
        return None
    if concurrency:
        steps = _in_flight_steps(requests)
        wanted = math.ceil(STEADY_SHARE * concurrency)
        busy = [i for i, (_moment, level) in enumerate(steps) if level >= wanted]
        if not busy:
            return None
        begin = max(done for _start, done in timed[:concurrency])
        # The level of the last busy step holds until the next step.
        end = steps[min(busy[-1] + 1, len(steps) - 1)][0]
    else:
        begin, end = min(done for _start, done in timed), timed[-1][0]
    return (begin, end) if end > begin else None


def steady_part(
    requests: t.Sequence[Request], concurrency: int | None, duration: float | None
) -> dict[str, t.Any] | None:
    """Latencies without the first wave, whose prefills all come at once, and without the drain.

    ``share`` is that of the window in the ``duration`` of the run.
    """
    window = steady_window(requests, concurrency)
    if not window:
        return None
    begin, end = window
    ordered = sorted((r for r in requests if r.start_s is not None), key=lambda r: r.start_s or 0.0)
    # Streams of a closed loop send their second request while others wait for the end of their first one.
    later = ordered[concurrency:] if concurrency else [r for r in ordered if (r.start_s or 0.0) >= begin]
    inside = [r for r in later if (r.start_s or 0.0) + r.latency_s <= end]
    return {
        "window_s": end - begin,
        "share": (end - begin) / duration if duration else None,
        "requests": len(inside),
        "ttft_ms": _summary_ms(r.ttft_s for r in inside),
        "tpot_ms": _summary_ms(r.tpot_s for r in inside),
        "e2e_ms": _summary_ms(r.latency_s for r in inside),
    }


def steady_rate(requests: t.Sequence[Request], concurrency: int | None) -> float | None:
    """Output tokens/s in the steady state, so without the first wave. Tokens of one event count at its time."""
    window = steady_window(requests, concurrency)
    if not window:
        return None
    begin, end = window
    tokens = 0.0
    for request in requests:
        moment = (request.start_s or 0.0) + request.ttft_s
        for gap in (0.0, *request.itls_s):
            moment += gap
            if begin < moment <= end:
                tokens += request.tokens_per_event
    return tokens / (end - begin)

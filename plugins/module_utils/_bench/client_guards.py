# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The traps on the client's side: a load that was not there, and a client that measures itself. Pure."""

from __future__ import annotations

import math
import statistics
import typing as t

from .._findings import Finding, error, warning
from .answers import Request
from .points import Point, auto_prompts
from .prometheus import Delta

# What findings call the engines that have limits of their own.
_NAMES: t.Final = {"python": "vLLM's Python client", "builtin": "The builtin client", "aiperf": "aiperf"}

# Engines that run on one core, and the share of it from which on their own delays are in the figures.
_ONE_CORE: t.Final = ("python", "builtin")
CLIENT_CPU_LIMIT: t.Final = 0.8

# From this concurrency on, by how many ms an engine read first tokens too late: median time to first token against a
# mock server that sent it after 50 ms, one or two cores, 2,000 to 40,000 tokens/s, vLLM 0.32 and aiperf 0.13; largest
# concurrency first. The Rust client and the builtin one stay below 3 ms (tests/bench/bench_client.py).
CLIENT_LATE_MS: t.Final[dict[str, dict[int, tuple[int, int]]]] = {
    "python": {512: (118, 540), 128: (17, 56)},
    "aiperf": {512: (32, 293), 128: (18, 86)},
}

_FASTER: t.Final = "Use a vLLM whose Rust client is there (engine auto takes it), the engine builtin, or another host."

# Share of requests whose first token was read together with the next ones: medians bear a few.
LATE_READS_LIMIT: t.Final = 0.1

# How far the client's means may be from the server's own before they are not the server's. The API server and the
# connection lie between the two, and the server's TPOT is measured inside the engine.
TPOT_APART_SHARE: t.Final = 0.25
TPOT_APART_MS: t.Final = 1.0
TTFT_APART_SHARE: t.Final = 0.2
TTFT_APART_MS: t.Final = 10.0

# Time at the client that is no longer the granularity of its event loop.
CLIENT_QUEUE_MS: t.Final = 10.0

# Open loops: how far the arrivals may be behind the asked rate, and from when on latencies grow.
RATE_SLACK: t.Final = 0.05
OVERLOAD_FACTOR: t.Final = 1.5
OVERLOAD_LEAST: t.Final = 10


def duration(figures: t.Mapping[str, t.Any]) -> list[Finding]:
    """A load of which nobody knows how long it took: nothing of it is a rate."""
    seconds = figures["duration_s"]
    if seconds is not None and math.isfinite(seconds) and seconds > 0:
        return []
    return [
        error(
            "duration-unknown",
            "The client wrote neither when its requests began nor how long they took in all, so there are no rates.",
            "Use vLLM 0.16 or newer as the client, and keep the raw file.",
        )
    ]


def few_prompts(point: Point) -> list[Finding]:
    """A run that is mostly its first wave and its drain."""
    least = auto_prompts(point.concurrency, point.rate)
    if point.num_prompts >= least:
        return []
    if point.rate:
        return [
            warning(
                "few-prompts",
                f"{point.num_prompts} requests at {point.rate:g} a second are too few (rule: {least}): a queue that "
                "grows is not seen to grow.",
                "Set num_prompts to 0 and let it be chosen.",
                num_prompts=point.num_prompts,
                rule=least,
            )
        ]
    return [
        warning(
            "few-prompts",
            f"{point.num_prompts} requests at concurrency {point.concurrency} are too few (rule: {least}): the first "
            "wave, where all prompts arrive together, weighs too much.",
            "Set num_prompts to 0 and let it be chosen.",
            num_prompts=point.num_prompts,
            rule=least,
        )
    ]


def client_load(engine: str, cpu_share: float | None) -> list[Finding]:
    """A client that measures itself."""
    if engine not in _ONE_CORE or cpu_share is None or cpu_share <= CLIENT_CPU_LIMIT:
        return []
    return [
        warning(
            "client-saturated",
            f"{_NAMES[engine]} used {cpu_share:.0%} of the one core that it can use: its own delays are in the time "
            "to first token, and the throughput may be its own limit.",
            _FASTER,
            cpu_share=cpu_share,
        )
    ]


def client_ceiling(engine: str, concurrency: int | None) -> list[Finding]:
    """A concurrency at which this engine is late to read the first token."""
    known = CLIENT_LATE_MS.get(engine, {})
    late = next((ms for least, ms in known.items() if (concurrency or 0) >= least), None)
    if late is None:
        return []
    return [
        warning(
            "client-ceiling",
            f"At concurrency {concurrency} {_NAMES[engine]} reads first tokens late (by {late[0]} to {late[1]} ms, "
            "measured against a paced server), so the time to first token is too high by about that.",
            _FASTER,
            concurrency=concurrency,
            late_ms=list(late),
        )
    ]


def token_times(figures: t.Mapping[str, t.Any], change: Delta | None) -> list[Finding]:
    """First tokens that the client read so late that TTFT and TPOT are its own and not the server's."""
    late, tpot = figures["late_first_reads"], figures["tpot_ms"]["mean"]
    server = change.tpot_ms_mean if change else None
    ttft, server_ttft = figures.get("ttft_ms", {}).get("mean"), change.ttft_ms_mean if change else None
    reasons = []
    if ttft is not None and server_ttft and server_ttft - ttft > max(TTFT_APART_SHARE * server_ttft, TTFT_APART_MS):
        reasons.append(
            f"the mean time to first token is {ttft:.1f} ms at the client and {server_ttft:.1f} ms at the server, so "
            "what the client took for the first token was none"
        )
    if figures.get("event_gap_ms", {}).get("n") == 0 and tpot is not None:
        reasons.append("each answer came as one stream event, so no time lies between its tokens")
    if late is not None and late > LATE_READS_LIMIT:
        reasons.append(f"{late:.0%} of the first tokens were read together with later ones")
    if server and tpot is not None and abs(tpot - server) > max(TPOT_APART_SHARE * server, TPOT_APART_MS):
        reasons.append(f"the mean TPOT is {tpot:.2f} ms at the client and {server:.2f} ms at the server")
    if not reasons:
        return []
    return [
        warning(
            "token-times-withheld",
            f"TTFT and TPOT are not given: {'; '.join(reasons)}. Throughput and end-to-end latency hold.",
            "Free the host from other work, measure from another host, or use vLLM's Rust client.",
            late_first_reads=late,
            tpot_ms=tpot,
            server_tpot_ms=server,
        )
    ]


def late_client(figures: t.Mapping[str, t.Any], change: Delta | None) -> list[Finding]:
    """A time to first token that is longer than the server's own by more than a little."""
    ttft = figures["ttft_ms"]["mean"]
    server = change.ttft_ms_mean if change else None
    if ttft is None or not server or ttft - server <= max(TTFT_APART_SHARE * server, TTFT_APART_MS):
        return []
    return [
        warning(
            "first-tokens-late",
            f"The mean time to first token is {ttft:.1f} ms at the client and {server:.1f} ms at the server: the "
            "difference is the client's, the network's, or the API server's.",
            "Free the host from other work, or use vLLM's Rust client.",
            ttft_ms=ttft,
            server_ttft_ms=server,
        )
    ]


def reached(point: Point, peak_in_flight: int | None, change: Delta | None) -> list[Finding]:
    """A load that never was as high as asked."""
    if point.concurrency is None:
        return []
    found = []
    if peak_in_flight is not None and peak_in_flight < min(point.concurrency, point.num_prompts):
        found.append(
            warning(
                "concurrency-not-reached",
                f"At most {peak_in_flight} requests were under way at a time instead of {point.concurrency}.",
                "Use longer outputs or more prompts; the client could not keep up.",
                peak=peak_in_flight,
                concurrency=point.concurrency,
            )
        )
    at_server = (change.peak_running or 0) + (change.peak_waiting or 0) if change else 0
    if change and change.peak_running is not None and at_server > point.concurrency:
        found.append(
            warning(
                "other-requests-seen",
                f"The server had {at_server} requests at a time, more than the {point.concurrency} of this benchmark.",
                "Keep other users away while the benchmark runs.",
                at_server=at_server,
                concurrency=point.concurrency,
            )
        )
    return found


def client_queue(figures: t.Mapping[str, t.Any]) -> list[Finding]:
    """Requests that waited at the client although their time had come: no latency shows this."""
    waited = figures["client_queue_ms"]["median"]
    if waited is None or waited <= CLIENT_QUEUE_MS:
        return []
    return [
        warning(
            "client-queue",
            f"Requests waited {waited:.0f} ms (median) at the client before they were sent; no latency holds this.",
            "The client could not keep the rate: use vLLM's Rust client, or a lower rate.",
            client_queue_ms=waited,
        )
    ]


def open_loop(requests: t.Sequence[Request], point: Point, arrivals: float | None) -> list[Finding]:
    """A rate that the client did not offer, or that the server did not keep up with."""
    if not point.rate or not requests:
        return []
    found = []
    # Arrivals at random moments have a rate of their own: its standard error is 1/sqrt(n), and three of them are told.
    slack = max(RATE_SLACK, 3 / math.sqrt(len(requests)))
    if arrivals is not None and arrivals < (1 - slack) * point.rate:
        found.append(
            warning(
                "rate-not-reached",
                f"Requests were sent at {arrivals:.2f} a second instead of {point.rate:g}.",
                "The client could not keep the rate: use vLLM's Rust client, or a lower rate.",
                arrivals_per_s=arrivals,
                rate=point.rate,
            )
        )
    third = len(requests) // 3
    ordered = sorted(requests, key=lambda r: r.start_s or 0.0)
    if third >= OVERLOAD_LEAST and requests[0].start_s is not None:
        early = statistics.median(r.latency_s for r in ordered[:third])
        late = statistics.median(r.latency_s for r in ordered[-third:])
        if late > OVERLOAD_FACTOR * early:
            found.append(
                warning(
                    "overload",
                    f"The last third of the requests took {1000 * late:.0f} ms, the first third {1000 * early:.0f} ms "
                    f"(medians): at {point.rate:g} requests a second the queue grows, and the latencies depend on how "
                    "long the run lasts.",
                    "Lower the rate; compare latencies only at rates that the server keeps up with.",
                    rate=point.rate,
                    early_ms=1000 * early,
                    late_ms=1000 * late,
                )
            )
    return found

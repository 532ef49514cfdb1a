# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The traps that make a benchmark lie: one rule, one function, one finding. Pure."""

from __future__ import annotations

import collections
import typing as t

from .._findings import Finding, error, info, warning
from .metrics import Failure, Request
from .points import Point, auto_prompts
from .prometheus import Delta

# Share of a point's prompt tokens that may come out of the prefix cache: random prompts of a small vocabulary share
# some beginnings by chance. Above the second value the time to first token is no longer that of the asked prompt.
CACHE_HITS_NOTED: t.Final = 0.01
CACHE_HITS_LIMIT: t.Final = 0.05

# Share of foreign tokens (health checks, a user) that a point survives.
FOREIGN_LIMIT: t.Final = 0.01

# The Python client runs on one core; from here on its own delays are in the figures.
CLIENT_CPU_LIMIT: t.Final = 0.8

# From this concurrency on, by how many ms the Python client of 0.32 read first tokens too late: median time to first
# token against a mock server that sent it after 50 ms, 2 cores, 2,000 to 40,000 tokens/s; largest concurrency first.
PYTHON_CLIENT_LATE_MS: t.Final[dict[int, tuple[int, int]]] = {512: (160, 540), 128: (17, 56)}

# Share of requests whose first token was read together with the next ones: medians bear a few.
LATE_READS_LIMIT: t.Final = 0.1

# How far the client's means may be from the server's own before they are not the server's. The API server and the
# connection lie between the two, and the server's TPOT is measured inside the engine.
TPOT_APART_SHARE: t.Final = 0.25
TPOT_APART_MS: t.Final = 1.0
TTFT_APART_SHARE: t.Final = 0.2
TTFT_APART_MS: t.Final = 10.0

# vLLM merges the tokens of one stream when its consumer lags; then gaps between events are not gaps between tokens.
TOKENS_PER_EVENT_NOTED: t.Final = 1.02

# Mean time in the server's queue, as a share of the mean time to first token.
QUEUE_SHARE_NOTED: t.Final = 0.1

# How far the realised prompt length may be from the asked one before shapes are called different.
INPUT_DRIFT_NOTED: t.Final = 0.05

# A stream that carries this many times the tokens an event of a healthy one may have been cut and counted by the
# tokenizer. A loaded host merges events, too (32 tokens in 6 events were seen), so this rule is only for runs that the
# server's counters do not confirm.
CUT_FACTOR: t.Final = 2.0


def failures(failed: t.Sequence[Failure], total: int, budget: int) -> list[Finding]:
    """Requests that do not count: an error above the budget, else a warning; one finding with all kinds."""
    if not failed:
        return []
    kinds = dict(collections.Counter(f.kind for f in failed))
    first = failed[0]
    told = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    make = error if len(failed) > budget else warning
    return [
        make(
            "requests-failed",
            f"{len(failed)} of {total} requests do not count ({told}); the budget is {budget}. "
            f"First, request {first.index}: {first.detail}.",
            "Look at the server's log; a point with failed requests is not compared.",
            failed=len(failed),
            requests=total,
            budget=budget,
            kinds=kinds,
        )
    ]


def counters(change: Delta | None, requests: int, tokens: int, failed: int) -> list[Finding]:
    """Whether the server itself confirms the requests and tokens that the client counted, and nothing else ran."""
    if change is None or change.finished is None or change.generation_tokens is None:
        return [
            warning(
                "server-counters-missing",
                "The server shows no counters of vLLM at /metrics, so cache hits, other traffic and the token count "
                "are not checked.",
                "Measure the vLLM server directly, not a proxy or a router in front of it.",
            )
        ]
    if change.still and requests:
        return [
            warning(
                "server-counters-still",
                f"The counters at /metrics did not move while {requests} requests were answered: they are not the "
                "counters of the server that answers.",
                "Measure the vLLM server directly.",
                requests=requests,
            )
        ]
    if failed:
        # Requests that failed may or may not be in the counters; the point is judged by them already.
        return []
    numbers = {
        "requests": requests,
        "server_requests": change.finished,
        "tokens": tokens,
        "server_tokens": change.generation_tokens,
    }
    if change.finished < requests or change.generation_tokens < tokens:
        return [
            error(
                "tokens-not-confirmed",
                f"The client counts {requests} requests and {tokens} tokens, the server only {change.finished} and "
                f"{change.generation_tokens}.",
                "Measure the server directly; the client counted what the server did not generate.",
                **numbers,
            )
        ]
    foreign = change.generation_tokens - tokens
    if change.finished == requests and foreign == 0:
        return []
    make = error if foreign > FOREIGN_LIMIT * tokens else warning
    return [
        make(
            "other-traffic",
            f"The server finished {change.finished - requests} requests with {foreign} tokens that are not of this "
            "benchmark.",
            "Keep other users and load balancers away while the benchmark runs.",
            **numbers,
        )
    ]


def confirmed(change: Delta | None, requests: t.Sequence[Request], output_len: int) -> bool:
    """True when the server finished by their length exactly as many requests as the client takes for whole.

    Requests that the client saw fail may have left tokens at the server; without any, the tokens must be equal, too.
    """
    whole = sum(not r.error and r.output_len == output_len for r in requests)
    if change is None or change.generation_tokens is None or change.finished_by_length != whole:
        return False
    surplus = change.generation_tokens - whole * output_len
    return surplus == 0 if whole == len(requests) else surplus >= 0


def prefix_cache(change: Delta | None) -> list[Finding]:
    """Prompts that the server knew already."""
    rate = change.prefix_hit_rate if change else None
    if rate is None or rate <= CACHE_HITS_NOTED:
        return []
    make = error if rate > CACHE_HITS_LIMIT else warning
    return [
        make(
            "prefix-cache-hits",
            f"{rate:.1%} of the prompt tokens came out of the prefix cache (limit {CACHE_HITS_LIMIT:.0%}): the time to "
            "first token is not that of a new prompt.",
            "Leave seed unset, so that each run has prompts of its own. A model with a tiny vocabulary repeats prompts "
            "by chance: serve it without prefix caching, or use prompts shorter than a cache block.",
            rate=rate,
            limit=CACHE_HITS_LIMIT,
        )
    ]


def preemptions(change: Delta | None) -> list[Finding]:
    """Requests that the server threw out of a full KV cache and computed again."""
    count = change.preemptions if change else None
    if not count:
        return []
    return [
        warning(
            "preemptions",
            f"The server preempted {count} requests: the KV cache is too small for this concurrency and length.",
            "Compare layouts with more KV cache, or lower the concurrency or max_num_seqs.",
            preemptions=count,
        )
    ]


def queueing(change: Delta | None, ttft_ms_mean: float | None, concurrency: int) -> list[Finding]:
    """Time to first token that is really time in the server's queue."""
    queue = change.queue_ms_mean if change else None
    if not queue or not ttft_ms_mean or queue <= QUEUE_SHARE_NOTED * ttft_ms_mean:
        return []
    return [
        warning(
            "ttft-includes-queue",
            f"Requests waited {queue:.1f} ms on average in the server's queue, {queue / ttft_ms_mean:.0%} of the mean "
            f"time to first token: fewer than {concurrency} sequences ran at a time.",
            "Raise max_num_seqs or lower the concurrency; layouts with different limits are not alike here.",
            queue_ms=queue,
            ttft_ms=ttft_ms_mean,
        )
    ]


def speculation(change: Delta | None) -> list[Finding]:
    """Speculative decoding with random prompts."""
    length = change.acceptance_length if change else None
    if length is None:
        return []
    return [
        warning(
            "speculation-on-random-prompts",
            f"The server decodes speculatively ({length:.2f} tokens a step here); on random tokens that is not what "
            "real text gives.",
            "Do not compare this point with one that has no speculation; measure with real prompts.",
            acceptance_length=length,
        )
    ]


def coalescing(tokens_per_event: float | None) -> list[Finding]:
    """Several tokens in one stream event."""
    if not tokens_per_event or tokens_per_event <= TOKENS_PER_EVENT_NOTED:
        return []
    return [
        info(
            "tokens-merged",
            f"A stream event carried {tokens_per_event:.2f} tokens on average, so gaps between events are not gaps "
            "between tokens. TPOT is computed from the token count and holds; a first event with several tokens makes "
            "it slightly too small.",
            tokens_per_event=tokens_per_event,
        )
    ]


def shape(requests: t.Sequence[Request], point: Point) -> list[Finding]:
    """Prompts that are not as long as asked."""
    if not requests:
        return []
    mean = sum(r.input_len for r in requests) / len(requests)
    if abs(mean - point.input_len) <= INPUT_DRIFT_NOTED * point.input_len:
        return []
    return [
        warning(
            "input-length-drift",
            f"The prompts have {mean:.1f} tokens on average instead of {point.input_len}: decoded and encoded again, "
            "random tokens do not keep their number.",
            "Compare only points with the same realised length.",
            asked=point.input_len,
            mean=mean,
        )
    ]


def few_prompts(point: Point) -> list[Finding]:
    """A run that is mostly its first wave and its drain."""
    least = auto_prompts(point.concurrency)
    if point.num_prompts >= least:
        return []
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
    if engine != "python" or cpu_share is None or cpu_share <= CLIENT_CPU_LIMIT:
        return []
    return [
        warning(
            "client-saturated",
            f"The Python client used {cpu_share:.0%} of the one core that it can use: its own delays are in the time "
            "to first token, and the throughput may be its own limit.",
            "Use a vLLM whose Rust client is there (engine auto takes it), or measure from another host.",
            cpu_share=cpu_share,
        )
    ]


def client_ceiling(engine: str, concurrency: int) -> list[Finding]:
    """A concurrency at which the Python client is late to read the first token."""
    late = next((ms for least, ms in PYTHON_CLIENT_LATE_MS.items() if concurrency >= least), None)
    if engine != "python" or late is None:
        return []
    return [
        warning(
            "client-ceiling",
            f"At concurrency {concurrency} vLLM's Python client reads first tokens late (by {late[0]} to {late[1]} ms, "
            "measured against a paced server), so the time to first token is too high by about that.",
            "Use a vLLM whose Rust client is there (engine auto takes it).",
            concurrency=concurrency,
            late_ms=list(late),
        )
    ]


def token_times(figures: t.Mapping[str, t.Any], change: Delta | None) -> list[Finding]:
    """First tokens that the client read so late that TTFT and TPOT are its own and not the server's."""
    late, tpot = figures["late_first_reads"], figures["tpot_ms"]["mean"]
    server = change.tpot_ms_mean if change else None
    reasons = []
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

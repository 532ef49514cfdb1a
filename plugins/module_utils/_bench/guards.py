# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The traps that make a benchmark lie: one rule, one function, one finding. Pure."""

from __future__ import annotations

import collections
import re
import typing as t

from .._findings import Finding, error, info, warning
from .answers import Failure, Request
from .points import Point
from .prometheus import Delta, Sample

# Share of a point's prompt tokens that may come out of the prefix cache: random prompts of a small vocabulary share
# some beginnings by chance. Above the second value the time to first token is no longer that of the asked prompt.
CACHE_HITS_NOTED: t.Final = 0.01
CACHE_HITS_LIMIT: t.Final = 0.05
# The server's setting without which there are none.
_CACHING: t.Final = "enable_prefix_caching"

# Share of foreign tokens (health checks, a user) that a point survives.
FOREIGN_LIMIT: t.Final = 0.01

# Prompt tokens that the server may count beside a client that counts with its own tokenizer (vLLM's Rust client): a
# share of all, since random tokens that are decoded and encoded again do not keep their number, and special tokens of
# each request.
PROMPT_DRIFT: t.Final = 0.05
SPECIAL_TOKENS: t.Final = 4

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


# Tokens an event, and share of the answer before the first one, from which hidden reasoning is the likely cause.
HIDDEN_TOKENS: t.Final = 2.0
HIDDEN_TTFT_SHARE: t.Final = 0.5

_DUMMY_FORMAT = re.compile(r"--load[-_]format[= ]+dummy\b")


def failures(failed: t.Sequence[Failure], total: int, budget: int) -> list[Finding]:
    """Requests that do not count: an error above the budget, else a warning; one finding with all kinds."""
    if not failed:
        return []
    kinds = dict(collections.Counter(f.kind for f in failed))
    first = failed[0]
    told = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    make, remedy = (
        (error, "Look at the server's log; a point with more failed requests than max_failures is not compared.")
        if len(failed) > budget
        else (warning, "Look at the server's log; the figures are those of the other requests.")
    )
    return [
        make(
            "requests-failed",
            f"{len(failed)} of {total} requests do not count ({told}); the budget is {budget}. "
            f"First, request {first.index}: {first.detail}.",
            remedy,
            failed=len(failed),
            requests=total,
            budget=budget,
            kinds=kinds,
        )
    ]


def most_prompt_tokens(good: t.Sequence[Request], total: int) -> int | None:
    """The most prompt tokens that a server may count for ``total`` requests, of which these are ``good``.

    What a failed one had is often not known, so it counts as the longest one. None without a good one.
    """
    if not good:
        return None
    known = sum(r.input_len for r in good) + (total - len(good)) * max(r.input_len for r in good)
    return int(known * (1 + PROMPT_DRIFT)) + SPECIAL_TOKENS * total


def counters(
    change: Delta | None, requests: int, failed: int, output_len: int, most_prompts: int | None = None
) -> list[Finding]:
    """Whether the server itself confirms the requests and tokens that the client counted, and nothing else ran.

    ``failed`` of the ``requests`` do not count. Each of them may have left anything up to ``output_len`` tokens at the
    server, and a finished request or none. ``most_prompts`` is what :func:`most_prompt_tokens` says of them.

    Foreign load is judged by its tokens, not by its requests: a probe of one token costs nothing, a long prompt with
    one token of output delays all others.
    """
    if change is None or change.finished is None or change.generation_tokens is None:
        return [
            warning(
                "server-counters-missing",
                "The server shows no counters of vLLM at /metrics, so cache hits, other traffic and the token count "
                "are not checked.",
                "Measure the vLLM server directly, not a proxy in front of it; name the replicas behind a router in "
                "metrics_urls.",
            )
        ]
    good = requests - failed
    if change.still and good:
        return [
            warning(
                "server-counters-still",
                f"The counters at /metrics did not move while {good} requests were answered: they are not the "
                "counters of the server that answers.",
                "Measure the vLLM server directly, or correct metrics_urls.",
                requests=good,
            )
        ]
    tokens, most = good * output_len, requests * output_len
    numbers = {
        "requests": good,
        "failed": failed,
        "server_requests": change.finished,
        "tokens": tokens,
        "server_tokens": change.generation_tokens,
    }
    if change.finished < good or change.generation_tokens < tokens:
        return [
            error(
                "tokens-not-confirmed",
                f"The client counts {good} requests and {tokens} tokens, the server only {change.finished} and "
                f"{change.generation_tokens}.",
                "Measure the server directly, or name all replicas of the router in metrics_urls; the client counted "
                "what the server did not generate.",
                **numbers,
            )
        ]
    foreign_requests, foreign = max(0, change.finished - requests), max(0, change.generation_tokens - most)
    read = 0 if most_prompts is None else max(0, (change.prompt_tokens or 0) - most_prompts)
    if not foreign_requests and not foreign and not read:
        return []
    make = error if foreign > FOREIGN_LIMIT * most or read else warning
    prompts = f", and read {read} prompt tokens" if read else ""
    return [
        make(
            "other-traffic",
            f"The server finished {foreign_requests} requests with {foreign} tokens{prompts} that are not of this "
            "benchmark.",
            "Keep other users and load balancers away while the benchmark runs.",
            **numbers,
            prompt_tokens=most_prompts,
            server_prompt_tokens=change.prompt_tokens,
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


def prefix_cache(change: Delta | None, before: Sample | None = None) -> list[Finding]:
    """Prompts that the server knew already; ``before`` is a sample of its page, which may not count them."""
    rate = change.prefix_hit_rate if change else None
    if change and before and before.prefix_queries is None and before.settings.get(_CACHING) != "False":
        return [
            info(
                "prefix-cache-unknown",
                "The server does not count the hits of its prefix cache, so nobody knows whether it knew the prompts.",
                "Leave seed unset, or serve without prefix caching.",
            )
        ]
    if rate is None or rate <= CACHE_HITS_NOTED:
        return []
    make = error if rate > CACHE_HITS_LIMIT else warning
    return [
        make(
            "prefix-cache-hits",
            f"{rate:.1%} of the prompt tokens came out of the prefix cache (limit {CACHE_HITS_LIMIT:.0%}): the time to "
            "first token is not that of a new prompt.",
            "Leave seed unset, so that each run has prompts of its own. What a dataset_file holds comes out of the "
            "cache again when vLLM's clients sent it before: use the engine builtin or aiperf, which salt it, or "
            "restart the server; a common beginning is cached all the same. A model with a tiny vocabulary repeats "
            "prompts by chance: serve it without prefix caching, or use prompts shorter than a cache block.",
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


def queueing(change: Delta | None, ttft_ms_mean: float | None) -> list[Finding]:
    """Time to first token that is really time in the server's queue."""
    queue = change.queue_ms_mean if change else None
    if not queue or not ttft_ms_mean or queue <= QUEUE_SHARE_NOTED * ttft_ms_mean:
        return []
    return [
        warning(
            "ttft-includes-queue",
            f"Requests waited {queue:.1f} ms on average in the server's queue, {queue / ttft_ms_mean:.0%} of the mean "
            "time to first token: fewer sequences ran at a time than were sent.",
            "Raise max_num_seqs or lower the load; layouts with different limits are not alike here.",
            queue_ms=queue,
            ttft_ms=ttft_ms_mean,
        )
    ]


def speculation(change: Delta | None, random_prompts: bool = True) -> list[Finding]:
    """Speculative decoding with random prompts."""
    length = change.acceptance_length if change else None
    if length is None or not random_prompts:
        return []
    return [
        warning(
            "speculation-on-random-prompts",
            f"The server decodes speculatively ({length:.2f} tokens a step here); on random tokens that is not what "
            "real text gives.",
            "Do not compare this point with one that has no speculation; measure with dataset text or file.",
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
    if not requests or point.input_len is None:
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


def hidden_tokens(figures: t.Mapping[str, t.Any], change: Delta | None) -> list[Finding]:
    """Answers whose first visible text comes late and brings many tokens: reasoning that the server does not show."""
    tokens, ttft, e2e = figures["tokens_per_event"], figures["ttft_ms"]["median"], figures["e2e_ms"]["median"]
    speculates = change is not None and change.acceptance_length is not None
    if speculates or not tokens or tokens < HIDDEN_TOKENS or not ttft or not e2e or ttft < HIDDEN_TTFT_SHARE * e2e:
        return []
    return [
        warning(
            "tokens-hidden",
            f"The first text comes after {ttft / e2e:.0%} of the answer's time, and an event stands for {tokens:.1f} "
            "tokens: the server generates tokens that it does not send, so TTFT is the end of its reasoning.",
            "Let the server send the reasoning, or turn thinking off for the benchmark.",
            tokens_per_event=tokens,
            ttft_share=ttft / e2e,
        )
    ]


def dummy_weights(given: t.Mapping[str, t.Any]) -> list[Finding]:
    """Weights that were never loaded; ``given`` is the user's part of the identity."""
    if not has_dummy_weights(given):
        return []
    return [
        warning(
            "dummy-weights",
            "The server runs with load_format dummy: experts, acceptance and outputs are not those of the model.",
            "Use real weights before layouts are compared or figures are published.",
        )
    ]


def has_dummy_weights(given: t.Mapping[str, t.Any]) -> bool:
    """True when the server's arguments, in any of the forms that people write them in, ask for dummy weights."""
    return any(_dummy(given.get(name)) for name in ("vllm_args", "args"))


def _dummy(arguments: t.Any) -> bool:
    if isinstance(arguments, t.Mapping):
        return "dummy" in (arguments.get("load_format"), arguments.get("load-format"))
    line = " ".join(map(str, arguments)) if isinstance(arguments, (list, tuple)) else str(arguments or "")
    return bool(_DUMMY_FORMAT.search(line))

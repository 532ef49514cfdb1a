# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""From what the client and the server's counters say to one judged record. Pure."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, error, has_errors
from . import client_guards, guards, prometheus
from .answers import judge, read_requests
from .metrics import compute, measured_part, without_token_times
from .points import Point
from .prometheus import Delta, Sample

# Engines whose streams were read by our own rules: what they call whole has its usage, its end and [DONE].
STRICT: t.Final = ("builtin", "aiperf")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a measurement is worth. ``metrics`` is None when not one request counts; figures of an invalid
    measurement are kept for the search for the cause, and never compared."""

    metrics: dict[str, t.Any] | None
    server: dict[str, t.Any] | None
    findings: list[Finding]

    @property
    def valid(self) -> bool:
        return self.metrics is not None and not has_errors(self.findings)


def evaluate(
    raw: t.Mapping[str, t.Any],
    point: Point,
    *,
    before: Sample | None = None,
    after: Sample | None = None,
    between: t.Sequence[Sample] = (),
    warmup_tokens_per_event: float = 1.0,
    engine: str = "python",
    cpu_share: float | None = None,
    gpus: int | None = None,
    max_failures: int = 0,
    slo: t.Mapping[str, float] | None = None,
    random_prompts: bool = True,
    chat: bool = False,
) -> Verdict:
    """Judge one run of the client.

    ``warmup_tokens_per_event`` is the most that a strictly checked stream of this server carried just before. ``slo``
    are bounds in ms for the goodput. ``random_prompts`` is False for text. In a ``chat`` the server's
    template adds tokens to each prompt, which the client does not count.
    """
    try:
        requests = read_requests(raw, point.num_prompts)
    except ModelopsError as e:
        return Verdict(None, None, [error("result-unreadable", e.message, e.remedy)])
    change, server_findings = _server_side(before, after, between)
    proven = guards.confirmed(change, requests, point.output_len)
    limit = None if proven or engine in STRICT else guards.CUT_FACTOR * max(1.0, warmup_tokens_per_event)
    failed = judge(requests, point.output_len, limit)
    bad = {f.index for f in failed}
    good = [r for r in measured_part(requests, point.concurrency) if r.index not in bad]
    metrics = None
    if good:
        duration = raw.get("duration")
        seconds = float(duration) if isinstance(duration, (int, float)) and 0 < duration < math.inf else None
        metrics = compute(good, len(failed), point.concurrency, gpus=gpus, client_duration_s=seconds, slo=slo)
    whole = [r for r in requests if r.index not in bad]
    most_prompts = None if chat else guards.most_prompt_tokens(whole, len(requests))
    findings = [
        *guards.failures(failed, len(requests), max_failures),
        *server_findings,
        *(
            # Of the whole run, before anything is dropped: the counters know nothing of our reasons to drop.
            guards.counters(change, len(requests), len(failed), point.output_len, most_prompts)
            if change or not server_findings
            else []
        ),
        *guards.prefix_cache(change, before),
        *guards.preemptions(change),
        *guards.speculation(change, random_prompts),
        *guards.shape(good, point),
        *client_guards.few_prompts(point),
        *client_guards.client_load(engine, cpu_share),
        *client_guards.client_ceiling(
            engine, metrics["peak_in_flight"] if metrics and point.rate else point.concurrency
        ),
    ]
    if metrics:
        withheld = client_guards.token_times(metrics, change)
        metrics = without_token_times(metrics) if withheld else metrics
        findings += [
            *client_guards.duration(metrics),
            *withheld,
            *client_guards.late_client(metrics, change),
            # Where the client's own is withheld, the server's says as much about the queue.
            *guards.queueing(change, metrics["ttft_ms"]["mean"] or (change.ttft_ms_mean if change else None)),
            *guards.coalescing(metrics["tokens_per_event"]),
            *guards.hidden_tokens(metrics, change),
            *client_guards.client_queue(metrics),
            *client_guards.open_loop(good, point, metrics["arrivals_per_s"]),
            *client_guards.reached(point, metrics["peak_in_flight"], change),
        ]
    return Verdict(metrics, dataclasses.asdict(change) if change else None, findings)


def _server_side(
    before: Sample | None, after: Sample | None, between: t.Sequence[Sample]
) -> tuple[Delta | None, list[Finding]]:
    if before is None:
        return None, []
    if after is None:
        return None, [
            error(
                "server-gone",
                "The server showed its counters before the load and does not any more.",
                "Look at the server's log: it crashed or was stopped.",
            )
        ]
    if prometheus.restarted(before, *between, after):
        return None, [
            error(
                "server-restarted",
                "The server restarted while it was measured: its counters went back or its process is another one.",
                "Look at the server's log for the cause, then measure again.",
            )
        ]
    return prometheus.delta(before, after, between), []

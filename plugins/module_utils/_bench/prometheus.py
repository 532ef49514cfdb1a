# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The server's own counters, read from ``/metrics`` before and after a point. Pure."""

from __future__ import annotations

import itertools
import math
import re
import typing as t
from dataclasses import dataclass, field

# name{labels} value [timestamp]; label values may hold any escaped character.
_LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\d+)?$")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')

# Field of Sample -> the metric of vLLM (seen in 0.32.0; the names hold since 0.12). Values of all engines are added up.
_SUMS: t.Final[dict[str, str]] = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "prefix_queries": "vllm:prefix_cache_queries_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
    "queue_seconds": "vllm:request_queue_time_seconds_sum",
    "queue_count": "vllm:request_queue_time_seconds_count",
    "ttft_seconds": "vllm:time_to_first_token_seconds_sum",
    "ttft_count": "vllm:time_to_first_token_seconds_count",
    "tpot_seconds": "vllm:request_time_per_output_token_seconds_sum",
    "tpot_count": "vllm:request_time_per_output_token_seconds_count",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "drafts": "vllm:spec_decode_num_drafts_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
}
_FIELDS: t.Final = {metric: name for name, metric in _SUMS.items()}
# Those that only grow while a process lives.
_GROWING: t.Final = tuple(name for name, metric in _SUMS.items() if metric.endswith(("_total", "_sum", "_count")))
_FINISHED: t.Final = "vllm:request_success_total"
_KV_USAGE: t.Final = "vllm:kv_cache_usage_perc"
_START_TIME: t.Final = "process_start_time_seconds"
_CACHE_CONFIG: t.Final = "vllm:cache_config_info"

# Settings of the server that decide whether two results may be compared.
CACHE_SETTINGS: t.Final = ("enable_prefix_caching", "block_size", "cache_dtype", "kv_cache_size_tokens")


@dataclass(frozen=True)
class Sample:
    """Counters and gauges at one moment; None for what the page does not have.

    Token counts, seconds, requests; ``kv_usage`` is the fullest engine's, 0..1; ``finished`` counts by reason.
    """

    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    preemptions: float | None = None
    queue_seconds: float | None = None
    queue_count: float | None = None
    ttft_seconds: float | None = None
    ttft_count: float | None = None
    tpot_seconds: float | None = None
    tpot_count: float | None = None
    running: float | None = None
    waiting: float | None = None
    drafts: float | None = None
    accepted_tokens: float | None = None
    kv_usage: float | None = None
    start_time: float | None = None
    finished: t.Mapping[str, float] | None = None
    settings: t.Mapping[str, str] = field(default_factory=dict)

    @property
    def busy(self) -> int:
        """Requests that the server has now, running or waiting."""
        return int((self.running or 0) + (self.waiting or 0))


def parse(text: str) -> Sample | None:
    """The sample in a Prometheus text page; None when the page has no metric of vLLM.

    NaN and infinity are legal values of the format, and no figures: a sum with one of them is not known.
    """
    values: dict[str, float] = {}
    finished: dict[str, float] = {}
    settings: dict[str, str] = {}
    seen = False
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.match(line.strip())
        value = _number(match.group(3)) if match else None
        if not match or value is None:
            continue
        name, labels = match.group(1), match.group(2) or ""
        seen = seen or name.startswith("vllm:")
        if name in _FIELDS:
            values[_FIELDS[name]] = values.get(_FIELDS[name], 0.0) + value
        elif name == _FINISHED:
            reason = dict(_LABEL.findall(labels)).get("finished_reason", "")
            finished[reason] = finished.get(reason, 0.0) + value
        elif name == _KV_USAGE:
            values["kv_usage"] = max(values.get("kv_usage", 0.0), value)
        elif name == _START_TIME:
            values["start_time"] = value
        elif name == _CACHE_CONFIG:
            settings = {k: v for k, v in _LABEL.findall(labels) if k in CACHE_SETTINGS}
    known = {name: value for name, value in values.items() if math.isfinite(value)}
    whole = bool(finished) and all(map(math.isfinite, finished.values()))
    return Sample(**known, finished=finished if whole else None, settings=settings) if seen else None


def total(samples: t.Sequence[Sample | None]) -> Sample | None:
    """The sample of several servers behind one address, such as replicas behind a router; None when one is missing.

    Their counters and gauges are added up, but for the fullest cache. The sum of the start times is another one as soon
    as any process is, since times only grow. A setting that differs is the list of what the servers have.
    """
    known = [sample for sample in samples if sample is not None]
    if not known or len(known) < len(samples):
        return None
    values: dict[str, t.Any] = {}
    for name in (*_SUMS, "start_time"):
        parts = [getattr(sample, name) for sample in known]
        values[name] = None if None in parts else sum(parts)
    values["kv_usage"] = _peak(sample.kv_usage for sample in known)
    reasons = sorted({reason for sample in known for reason in sample.finished or {}})
    finished = {reason: sum((sample.finished or {}).get(reason, 0.0) for sample in known) for reason in reasons}
    keys = sorted({key for sample in known for key in sample.settings})
    settings = {key: ", ".join(sorted({s.settings[key] for s in known if key in s.settings})) for key in keys}
    whole = all(sample.finished is not None for sample in known)
    return Sample(**values, finished=finished if whole else None, settings=settings)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def restarted(*samples: Sample) -> bool:
    """True when among these, in order of time, the server process is another one than before, or a counter went back.

    Without the start time only those in between can tell: after it the counters soon pass what they were before.
    """
    return any(_went_back(earlier, later) for earlier, later in itertools.pairwise(samples))


def _went_back(before: Sample, after: Sample) -> bool:
    if None not in (before.start_time, after.start_time) and before.start_time != after.start_time:
        return True
    steps = [_minus(getattr(after, name), getattr(before, name)) for name in _GROWING]
    if before.finished is not None and after.finished is not None:
        steps.append(sum(after.finished.values()) - sum(before.finished.values()))
    return any(step is not None and step < 0 for step in steps)


@dataclass(frozen=True)
class Delta:
    """What the server did between two samples of the same process, and the gauges' peaks in between.

    None for what its page does not tell. ``prefix_hit_rate`` is the share of the prompt tokens that came out of the
    prefix cache; ``acceptance_length`` the tokens a speculative step; ``ttft_ms_mean`` and ``tpot_ms_mean`` the
    server's own view of its latencies; ``samples`` the number of looks in between.
    """

    finished: int | None
    finished_by_length: int | None
    generation_tokens: int | None
    prompt_tokens: int | None
    prefix_hit_rate: float | None
    preemptions: int | None
    queue_ms_mean: float | None
    ttft_ms_mean: float | None
    tpot_ms_mean: float | None
    acceptance_length: float | None
    peak_running: int | None
    peak_waiting: int | None
    peak_kv_usage: float | None
    samples: int

    @property
    def still(self) -> bool:
        """True when the counters of finished requests and generated tokens are there and did not move."""
        return self.finished == 0 and self.generation_tokens == 0


def _minus(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _peak(values: t.Iterable[float | None]) -> float | None:
    return max((v for v in values if v is not None), default=None)


def delta(before: Sample, after: Sample, between: t.Sequence[Sample] = ()) -> Delta:
    """The difference of two samples of one process, with the gauges' peaks among ``between``."""

    def step(name: str) -> float | None:
        return _minus(getattr(after, name), getattr(before, name))

    by_reason: dict[str, float] | None = None
    if after.finished is not None:
        start = before.finished or {}
        by_reason = {reason: count - start.get(reason, 0.0) for reason, count in after.finished.items()}

    def mean_ms(name: str) -> float | None:
        seconds = _ratio(step(f"{name}_seconds"), step(f"{name}_count"))
        return None if seconds is None else 1000 * seconds

    accepted = _ratio(step("accepted_tokens"), step("drafts"))
    return Delta(
        finished=None if by_reason is None else int(sum(by_reason.values())),
        finished_by_length=None if by_reason is None else int(by_reason.get("length", 0)),
        generation_tokens=_whole(step("generation_tokens")),
        prompt_tokens=_whole(step("prompt_tokens")),
        prefix_hit_rate=_ratio(step("prefix_hits"), step("prefix_queries")),
        preemptions=_whole(step("preemptions")),
        queue_ms_mean=mean_ms("queue"),
        ttft_ms_mean=mean_ms("ttft"),
        tpot_ms_mean=mean_ms("tpot"),
        # One token a step comes from the target model itself.
        acceptance_length=None if accepted is None else 1 + accepted,
        peak_running=_whole(_peak(s.running for s in between)),
        peak_waiting=_whole(_peak(s.waiting for s in between)),
        peak_kv_usage=_peak(s.kv_usage for s in between),
        samples=len(between),
    )

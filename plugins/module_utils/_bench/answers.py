# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a benchmark client measured, read request by request, and judged. Pure.

The exit status, ``failed`` and the summary figures of ``vllm bench serve`` are not used: the client exits 0 when every
request failed, and counts a stream that broke off as a success. The arrays that ``--save-detailed`` writes are.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError

# The arrays that every engine and version since vLLM 0.12 writes. Times are seconds.
REQUIRED_ARRAYS: t.Final = ("input_lens", "output_lens", "ttfts", "itls", "errors")
# start_times came with vLLM 0.16, latencies and queue_times with 0.30. The last two only our own readers write.
OPTIONAL_ARRAYS: t.Final = ("start_times", "latencies", "queue_times", "ttfos", "kinds")

# Events that are closer together were read at once: a decode step takes longer, a client needs microseconds for one.
ONE_READ_S: t.Final = 0.0001


@dataclass(frozen=True)
class Request:
    """One request as the client saw it. Times in seconds; ``start_s`` on the client's own clock, if it wrote one."""

    index: int
    start_s: float | None
    ttft_s: float
    latency_s: float
    itls_s: tuple[float, ...]
    input_len: int
    output_len: int
    error: str
    client_queue_s: float | None = None
    # To the first token that is no reasoning, and the rule that an engine saw broken, where it tells them.
    ttfo_s: float | None = None
    kind: str = ""

    @property
    def tpot_s(self) -> float | None:
        """Seconds an output token after the first one."""
        return (self.latency_s - self.ttft_s) / (self.output_len - 1) if self.output_len > 1 else None

    @property
    def event_gap_s(self) -> float | None:
        """Mean seconds between two stream events."""
        return (self.latency_s - self.ttft_s) / (self.events - 1) if self.events > 1 else None

    @property
    def events(self) -> int:
        """Stream events that carried tokens: the first one and one for each gap."""
        return len(self.itls_s) + 1

    @property
    def first_read_late(self) -> bool:
        """True when the first event was read together with the next one: it had waited, and its time is too late."""
        return bool(self.itls_s) and self.itls_s[0] < ONE_READ_S

    @property
    def tokens_per_event(self) -> float:
        """1.0 when each event carried one token."""
        return self.output_len / self.events


@dataclass(frozen=True)
class Failure:
    """Why one request does not count. ``kind`` is stable, ``detail`` is for people."""

    index: int
    kind: str
    detail: str


def read_requests(raw: t.Mapping[str, t.Any], num_prompts: int) -> list[Request]:
    """The requests of a result file written with ``--save-detailed``, in the order in which they were sent.

    Raises ModelopsError when an array is missing, has another length than ``num_prompts``, or holds what is no number,
    or no count where one belongs. What stands beside an error is not looked at: a request that failed has no figures.
    """
    missing = [name for name in REQUIRED_ARRAYS if not isinstance(raw.get(name), list)]
    if missing:
        raise ModelopsError(
            f"The client's result has no list {', '.join(missing)}; requests cannot be validated without it.",
            "Use vLLM 0.12 or newer as the client.",
        )
    columns = {name: raw.get(name) or [None] * num_prompts for name in OPTIONAL_ARRAYS}
    scalars = [name for name, column in columns.items() if not isinstance(column, list)]
    if scalars:
        raise ModelopsError(
            f"The client's result has no list in {', '.join(scalars)}.", "Keep the raw file and report it."
        )
    # The client leaves the waiting times of failed requests out: without a place for each, they belong to nobody.
    if len(columns["queue_times"]) != num_prompts:
        columns["queue_times"] = [None] * num_prompts
    lengths = {name: len(column) for name, column in ({name: raw[name] for name in REQUIRED_ARRAYS} | columns).items()}
    wrong = {name: n for name, n in lengths.items() if n != num_prompts}
    if wrong:
        raise ModelopsError(
            f"The client's result must hold {num_prompts} requests, but has {wrong}.",
            "The client and this collection disagree about the number of prompts; keep the raw file and report it.",
        )
    try:
        requests = [_request(raw, i, {name: column[i] for name, column in columns.items()}) for i in range(num_prompts)]
    except (TypeError, ValueError) as e:
        raise ModelopsError(f"The client's result is not readable: {e}.", "Keep the raw file and report it.") from e
    return sorted(requests, key=lambda r: (_known(r.start_s), r.index))


def _known(moment: float | None) -> float:
    return moment if moment is not None and math.isfinite(moment) else 0.0


def _request(raw: t.Mapping[str, t.Any], index: int, extra: t.Mapping[str, t.Any]) -> Request:
    """One request; ``extra`` are its values of the arrays that not every client writes."""
    error, kind = str(raw["errors"][index] or ""), str(extra["kinds"] or "")
    start = None if extra["start_times"] is None else float(extra["start_times"])
    if error:
        return Request(index, start, 0.0, 0.0, (), 0, 0, error, kind=kind)
    latency, queue, ttfo = (
        None if extra[name] is None else float(extra[name]) for name in ("latencies", "queue_times", "ttfos")
    )
    gaps = tuple(float(gap) for gap in raw["itls"][index])
    ttft = float(raw["ttfts"][index])
    return Request(
        index=index,
        start_s=start,
        ttft_s=ttft,
        latency_s=ttft + sum(gaps) if latency is None else latency,
        itls_s=gaps,
        input_len=_count(raw["input_lens"][index]),
        output_len=_count(raw["output_lens"][index]),
        error="",
        client_queue_s=queue,
        ttfo_s=ttfo,
        kind=kind,
    )


def _count(value: t.Any) -> int:
    """A number of tokens. Raises ValueError for a part of one and for infinity."""
    number = float(value)
    if not number.is_integer():
        raise ValueError(f"{value!r} is no count")
    return int(number)


def judge(requests: t.Iterable[Request], output_len: int, max_tokens_per_event: float | None = None) -> list[Failure]:
    """The requests that do not count, and why; an empty list when all do.

    ``output_len`` is what every request asked for with ignore_eos. ``max_tokens_per_event`` is for runs that the server
    does not confirm: a client that got no usage, because the stream broke off, counts the text with the tokenizer. That
    can give the asked number by chance, but the events are too few for it.
    """
    failures = []
    for request in requests:
        verdict = _judge_one(request, output_len, max_tokens_per_event)
        if verdict:
            failures.append(Failure(request.index, *verdict))
    return failures


def _judge_one(request: Request, output_len: int, max_tokens_per_event: float | None) -> tuple[str, str] | None:
    if request.error:
        # Tracebacks end with the line that says what happened.
        lines = request.error.strip().splitlines() or ["the client gives no reason"]
        return request.kind or "request-error", lines[-1][:300]
    return _judge_lengths(request, output_len) or _judge_times(request) or _judge_events(request, max_tokens_per_event)


def _judge_lengths(request: Request, output_len: int) -> tuple[str, str] | None:
    if request.input_len <= 0:
        return "input-length", f"a prompt of {request.input_len} tokens"
    if request.output_len != output_len:
        return "output-length", f"{request.output_len} tokens instead of {output_len}"
    return None


def _judge_times(request: Request) -> tuple[str, str] | None:
    spans = (request.ttft_s, request.latency_s, *request.itls_s)
    # On a clock of the client's own, or before the request: of any size and sign, but a time.
    others = (request.start_s or 0.0, request.client_queue_s or 0.0, request.ttfo_s or 0.0)
    finite = all(map(math.isfinite, (*spans, *others)))
    if not finite or min(spans) < 0 or request.ttft_s <= 0 or request.latency_s < request.ttft_s:
        begun = "" if finite else f", begun at {request.start_s}, not all of them times"
        return "impossible-times", f"first token after {request.ttft_s} s, end after {request.latency_s} s{begun}"
    return None


def _judge_events(request: Request, max_tokens_per_event: float | None) -> tuple[str, str] | None:
    if request.events > request.output_len:
        return "too-many-events", f"{request.events} stream events for {request.output_len} tokens"
    if max_tokens_per_event is not None and request.tokens_per_event > max_tokens_per_event:
        return (
            "stream-cut",
            f"{request.events} stream events for {request.output_len} tokens, more than {max_tokens_per_event:.1f} in "
            "one, and the server's counters do not confirm them",
        )
    return None

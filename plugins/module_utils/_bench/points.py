# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The points of a run: loads, seeds and bounds, decided before anything is sent. Pure."""

from __future__ import annotations

import hashlib
import math
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError

# Ten waves, so that the first one (all prefills at once) and the drain at the end weigh little; 64 give a p90.
WAVES: t.Final = 10
MIN_PROMPTS: t.Final = 64
# A single stream has no waves. The first request is dropped (client connection), ten remain.
SINGLE_STREAM_PROMPTS: t.Final = 11

# An open loop runs for a minute of arrivals, so that a queue that grows is seen to grow.
RATE_SECONDS: t.Final = 60
# Its warm-up has no concurrency to take over: a second of arrivals at once, within reason.
RATE_WARMUP_LIMIT: t.Final = 32

# Seeds that fit every client: numpy takes 32 bits.
_SEED_BITS: t.Final = 31


@dataclass(frozen=True)
class Point:
    """One load: ``num_prompts`` requests of ``input_len`` tokens, ``output_len`` each.

    Either ``concurrency`` streams, each of which sends its next request when the last one is answered (closed loop), or
    ``rate`` requests a second at random moments, whatever the server does (open loop). Never both: a limit of streams
    hides the time that requests wait at the client, and releases them in lumps. ``input_len`` is None for prompts of a
    file, which have the lengths that they have.
    """

    concurrency: int | None
    input_len: int | None
    output_len: int
    num_prompts: int
    rate: float | None = None

    @property
    def id(self) -> str:
        """Names the load in files, findings and reports."""
        load = f"q{_short(self.rate)}" if self.rate else f"c{self.concurrency}"
        prompt = "" if self.input_len is None else f"-i{self.input_len}"
        return f"{load}{prompt}-o{self.output_len}-n{self.num_prompts}"

    @property
    def streams(self) -> int:
        """The most requests that can be under way at a time."""
        return self.concurrency or self.num_prompts

    @property
    def warmup_streams(self) -> int:
        """Requests of the wave before the load."""
        return self.concurrency or max(1, min(RATE_WARMUP_LIMIT, round(self.rate or 1)))

    def as_dict(self) -> dict[str, t.Any]:
        """The form that modules return."""
        return {
            "id": self.id,
            "concurrency": self.concurrency,
            "rate": self.rate,
            "input_len": self.input_len,
            "output_len": self.output_len,
            "num_prompts": self.num_prompts,
        }


def _short(rate: float) -> str:
    """Six digits where they say it all, else as many as tell it from every other rate."""
    short = f"{rate:g}"
    return short if float(short) == rate else repr(rate)


@dataclass(frozen=True)
class Measurement:
    """One repeat of a point, with its own seed."""

    point: Point
    repeat: int
    seed: int

    @property
    def name(self) -> str:
        """The stem of its files."""
        return f"{self.point.id}-r{self.repeat}"


def auto_prompts(concurrency: int | None, rate: float | None = None) -> int:
    """How many requests a point gets when the user does not say."""
    if rate:
        return max(MIN_PROMPTS, math.ceil(RATE_SECONDS * rate))
    return SINGLE_STREAM_PROMPTS if concurrency == 1 else max(MIN_PROMPTS, WAVES * (concurrency or 1))


def make_points(
    raw_points: t.Iterable[t.Mapping[str, t.Any]], defaults: t.Mapping[str, int], *, fixed_input: bool = True
) -> list[Point]:
    """The points in ascending order of lengths and load, each complete.

    A point may leave out all but ``concurrency`` or ``rate``; ``defaults`` has input_len, output_len and num_prompts,
    where num_prompts 0 means :func:`auto_prompts`. Without ``fixed_input`` the prompts come from a file and have no
    common length. Raises ModelopsError for numbers that make no load and for duplicates.
    """
    points = []
    for raw in raw_points:
        given = {**defaults, **{key: value for key, value in raw.items() if value is not None}}
        concurrency, rate = given.get("concurrency"), given.get("rate")
        _check(given, concurrency, rate)
        points.append(
            Point(
                concurrency=concurrency,
                input_len=given["input_len"] if fixed_input else None,
                output_len=given["output_len"],
                num_prompts=given["num_prompts"] or auto_prompts(concurrency, rate),
                rate=rate,
            )
        )
    if not points:
        raise ModelopsError(
            "There is no point to measure: points, concurrency and rates are empty.", "Give at least one."
        )
    twice = sorted({p.id for p in points if points.count(p) > 1})
    if twice:
        raise ModelopsError(f"The point {', '.join(twice)} is asked for twice.", "Use repeats to measure it again.")
    return sorted(points, key=lambda p: order(p.as_dict()))


def order(point: t.Mapping[str, t.Any]) -> tuple[float, ...]:
    """Sorts points as dictionaries: by lengths, then closed loops by concurrency, then open loops by rate."""
    names = ("input_len", "output_len", "rate", "concurrency", "num_prompts")
    return tuple(point.get(name) or 0 for name in names)


def _check(given: t.Mapping[str, t.Any], concurrency: int | None, rate: float | None) -> None:
    if (concurrency is None) == (rate is None):
        fault = "has neither concurrency nor rate" if rate is None else "has both concurrency and rate"
        raise ModelopsError(
            f"The point {dict(given)} {fault}.",
            "Give concurrency for a closed loop, or rate for an open one: with both, requests wait at the client, "
            "where no latency shows it.",
        )
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise ModelopsError(f"rate is {rate}, but must be a number of requests a second above 0.", "Correct rate.")
    # TPOT needs a second token: with one there is a first token and nothing to divide.
    least = {"concurrency": 1, "input_len": 1, "output_len": 2, "num_prompts": 0}
    for key, low in least.items():
        if key in given and given[key] < low:
            raise ModelopsError(f"{key} is {given[key]}, but must be at least {low}.", f"Correct {key} of the point.")
    if concurrency and given["num_prompts"] and given["num_prompts"] < concurrency:
        raise ModelopsError(
            f"num_prompts is {given['num_prompts']}, fewer than the {concurrency} concurrent streams: "
            "the load would never be reached.",
            f"Use 0 to let it be chosen ({auto_prompts(concurrency)}), or at least {concurrency}.",
        )


def derive_seed(base: int, *parts: t.Any) -> int:
    """A seed of its own for each use: 31 bits of SHA-256 over the run's ``base`` and what it is for.

    Prompts that come twice are answered out of the prefix cache and look fast, so no two uses share a seed.
    """
    text = "\0".join(str(part) for part in (base, *parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> (32 - _SEED_BITS)


def schedule(points: t.Iterable[Point], repeats: int, base_seed: int) -> list[Measurement]:
    """All measurements in order: the whole list once for each repeat, so that drift shows up between repeats."""
    if repeats < 1:
        raise ModelopsError(f"repeats is {repeats}, but must be at least 1.", "Use 3, or 5 for a regression gate.")
    ordered = list(points)
    return [
        Measurement(point, repeat, derive_seed(base_seed, point.id, repeat))
        for repeat in range(1, repeats + 1)
        for point in ordered
    ]


def context_excess(point: Point, max_model_len: int | None) -> int:
    """By how many tokens the point is longer than the server's ``max_model_len``; 0 when it fits or none is known."""
    return max(0, (point.input_len or 0) + point.output_len - max_model_len) if max_model_len else 0

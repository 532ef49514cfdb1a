# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The points of a run: loads, seeds and bounds, decided before anything is sent. Pure."""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError

# Ten waves, so that the first one (all prefills at once) and the drain at the end weigh little; 64 give a p90.
WAVES: t.Final = 10
MIN_PROMPTS: t.Final = 64
# A single stream has no waves. The first request is dropped (client connection), ten remain.
SINGLE_STREAM_PROMPTS: t.Final = 11

# Seeds that fit every client: numpy takes 32 bits.
_SEED_BITS: t.Final = 31


@dataclass(frozen=True)
class Point:
    """One load: ``concurrency`` streams, ``num_prompts`` requests of ``input_len`` tokens, ``output_len`` each."""

    concurrency: int
    input_len: int
    output_len: int
    num_prompts: int

    @property
    def id(self) -> str:
        """Names the load in files, findings and reports."""
        return f"c{self.concurrency}-i{self.input_len}-o{self.output_len}-n{self.num_prompts}"

    def as_dict(self) -> dict[str, t.Any]:
        """The form that modules return."""
        return {
            "id": self.id,
            "concurrency": self.concurrency,
            "input_len": self.input_len,
            "output_len": self.output_len,
            "num_prompts": self.num_prompts,
        }


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


def auto_prompts(concurrency: int) -> int:
    """How many requests a point gets when the user does not say."""
    return SINGLE_STREAM_PROMPTS if concurrency == 1 else max(MIN_PROMPTS, WAVES * concurrency)


def make_points(raw_points: t.Iterable[t.Mapping[str, t.Any]], defaults: t.Mapping[str, int]) -> list[Point]:
    """The points in ascending order of concurrency, each complete.

    A point may leave out all but ``concurrency``; ``defaults`` has input_len, output_len and num_prompts, where
    num_prompts 0 means :func:`auto_prompts`. Raises ModelopsError for numbers that make no load and for duplicates.
    """
    points = []
    for raw in raw_points:
        given = {**defaults, **{key: value for key, value in raw.items() if value is not None}}
        _check(given)
        points.append(
            Point(
                concurrency=given["concurrency"],
                input_len=given["input_len"],
                output_len=given["output_len"],
                num_prompts=given["num_prompts"] or auto_prompts(given["concurrency"]),
            )
        )
    if not points:
        raise ModelopsError("There is no point to measure: points and concurrency are empty.", "Give at least one.")
    twice = sorted({p.id for p in points if points.count(p) > 1})
    if twice:
        raise ModelopsError(f"The point {', '.join(twice)} is asked for twice.", "Use repeats to measure it again.")
    return sorted(points, key=lambda p: (p.input_len, p.output_len, p.concurrency, p.num_prompts))


def _check(given: t.Mapping[str, t.Any]) -> None:
    # TPOT needs a second token: with one there is a first token and nothing to divide.
    least = {"concurrency": 1, "input_len": 1, "output_len": 2, "num_prompts": 0}
    for key, low in least.items():
        if key not in given:
            raise ModelopsError(f"The point {dict(given)} has no {key}.", f"Add {key}.")
        if given[key] < low:
            raise ModelopsError(f"{key} is {given[key]}, but must be at least {low}.", f"Correct {key} of the point.")
    if given["num_prompts"] and given["num_prompts"] < given["concurrency"]:
        raise ModelopsError(
            f"num_prompts is {given['num_prompts']}, fewer than the {given['concurrency']} concurrent streams: "
            "the load would never be reached.",
            f"Use 0 to let it be chosen ({auto_prompts(given['concurrency'])}), or at least {given['concurrency']}.",
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
    return max(0, point.input_len + point.output_len - max_model_len) if max_model_len else 0

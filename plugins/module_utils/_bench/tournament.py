# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""A tournament of candidates: what is to do next, who wins by which figure, and why each other one lost. Pure.

Every candidate is deployed and measured once; the leaders are then deployed and measured again in turns, because
repeats of one start of a server do not show what changes between starts. A session is one start with its points.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .candidates import Candidate, Field
from .compare import PointResult, Record, group
from .document import number

SCHEMA_VERSION: t.Final = 1
KIND: t.Final = "tournament"
State = dict[str, t.Any]
Entry = dict[str, t.Any]


@dataclass(frozen=True)
class Objective:
    """What is wanted: the figure of a point that counts, and which points have it."""

    name: str
    unit: str
    path: tuple[str, ...]
    part: str = "metrics"
    concurrency: int | None = None


OBJECTIVES: t.Final[dict[str, Objective]] = {
    "single_stream": Objective(
        "speed of a single stream, end to end", "tok/s", ("output_tokens_per_s",), concurrency=1
    ),
    "throughput": Objective("throughput", "tok/s", ("output_tokens_per_s",)),
    "tokens_per_joule": Objective("output of a joule", "tok/J", ("output_tokens_per_s_per_w",), part="energy"),
}


@dataclass(frozen=True)
class Rules:
    """How a winner is found.

    ``bounds`` are the medians in ms (ttft_ms, tpot_ms, e2e_ms) that a point must keep to count. The first ``leaders``
    within ``margin`` (a share) of the best are measured in ``sessions`` starts each.
    """

    objective: str
    bounds: dict[str, float]
    sessions: int
    leaders: int
    margin: float

    def check(self, concurrency: t.Collection[int]) -> None:
        """Raises ModelopsError for rules by which nobody can win; ``concurrency`` is what will be measured."""
        for name, value, least in (
            ("sessions", self.sessions, 1),
            ("leaders", self.leaders, 1),
            ("margin", self.margin, 0),
        ):
            if not value >= least:
                raise ModelopsError(f"{name} is {value}, but must be at least {least}.", f"Correct {name}.")
        wrong = {name: bound for name, bound in self.bounds.items() if not (math.isfinite(bound) and bound > 0)}
        if wrong:
            raise ModelopsError(f"bounds has {wrong}, but a bound is above 0 ms.", "Correct bounds.")
        if OBJECTIVES[self.objective].concurrency not in (None, *concurrency):
            raise ModelopsError(
                f"The objective {self.objective} is judged at concurrency 1, but {sorted(concurrency)} are measured.",
                "Add 1 to the concurrencies, or choose another objective.",
            )


@dataclass(frozen=True)
class Score:
    """The best point of a session by the objective; ``value`` is None with a ``reason`` when no point counts."""

    value: float | None
    point: str = ""
    reason: str = ""


def start(key: str, field: Field, rules: Rules, identity: t.Mapping[str, t.Any], now: float) -> State:
    """The state of a tournament in which nothing has been tried."""
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "key": key,
        "created_unix": now,
        "rules": {**rules.__dict__},
        "identity": dict(identity),
        "candidates": [{**candidate.as_dict(), "sessions": [], "lost": None} for candidate in field.candidates],
        "excluded": [{"id": excluded.id, "reason": excluded.reason} for excluded in field.excluded],
        "leaders": [],
    }


def rules_of(state: State) -> Rules:
    """The rules that a state was started with."""
    return Rules(**state["rules"])


def entry_of(state: State, candidate: str) -> Entry:
    """The entry of a candidate; raises ModelopsError when it does not take part."""
    for entry in state["candidates"]:
        if entry["id"] == candidate:
            return t.cast(Entry, entry)
    raise ModelopsError(
        f"{candidate!r} does not take part in the tournament {state['key']}.",
        f"It has {', '.join(entry['id'] for entry in state['candidates'])}.",
    )


def candidate_of(entry: Entry) -> Candidate:
    """The candidate of an entry."""
    return Candidate(entry["layout"], entry["args"], entry["env"], entry["gpus"])


def lose(state: State, candidate: str, phase: str, message: str, cause: t.Mapping[str, t.Any] | None) -> None:
    """Note that a candidate is out: it was not deployed, or could not be measured (``phase``)."""
    entry_of(state, candidate)["lost"] = {"phase": phase, "message": message, "cause": dict(cause) if cause else None}
    _lead(state)


def add_session(state: State, candidate: str, records: list[Record]) -> None:
    """Add the records of one start; the same run again replaces itself."""
    entry = entry_of(state, candidate)
    run = records[0]["run"]
    entry["sessions"] = [one for one in entry["sessions"] if one["run"] != run] + [{"run": run, "records": records}]
    state["last"] = candidate
    _lead(state)


def _lead(state: State) -> None:
    """Decide who is measured again, once, when every candidate has been tried."""
    if state["leaders"] or _untried(state):
        return
    rules = rules_of(state)
    first = {entry["id"]: _first(entry, rules) for entry in state["candidates"] if not entry["lost"]}
    scored = {name: value for name, value in first.items() if value is not None}
    ranked = sorted(scored, key=lambda name: -scored[name])
    near = [name for name in ranked if scored[name] >= (1 - rules.margin) * scored[ranked[0]]]
    state["leaders"] = near[: rules.leaders]


def _first(entry: Entry, rules: Rules) -> float | None:
    return score(entry["sessions"][0]["records"], rules).value if entry["sessions"] else None


def _untried(state: State) -> list[Entry]:
    return [entry for entry in state["candidates"] if not entry["lost"] and not entry["sessions"]]


def steps(state: State) -> list[tuple[str, int]]:
    """What is to deploy and measure next, as (candidate, number of the session): a round, or nothing when it is over.

    Leaders take turns, beginning with one that was not measured last: a session is to be a start of its own, and what
    is deployed already is not started again.
    """
    untried = _untried(state)
    if untried:
        return [(entry["id"], 1) for entry in untried]
    counts = {entry["id"]: len(entry["sessions"]) for entry in state["candidates"] if not entry["lost"]}
    leaders = [name for name in state["leaders"] if name in counts]
    last, turns, wanted = state.get("last"), [], rules_of(state).sessions
    while len(leaders) > 1 and (waiting := [name for name in leaders if counts[name] < wanted]):
        last = min(waiting, key=lambda name: (name == last, counts[name], leaders.index(name)))
        counts[last] += 1
        turns.append((last, counts[last]))
    return turns


def score(records: list[Record], rules: Rules) -> Score:
    """The best point of one session. Points with an invalid repeat do not count, nor those beyond a bound."""
    objective = OBJECTIVES[rules.objective]
    best, missed = Score(None), []
    for result in group(records):
        reason = _unusable(result, objective, rules)
        value = result.median(*objective.path, part=objective.part)
        if reason or value is None:
            missed.append(f"{result.point['id']} {reason or 'has no such figure'}")
        elif best.value is None or value > best.value:
            best = Score(value, result.point["id"])
    return best if best.value is not None else Score(None, reason="; ".join(missed))


def _unusable(result: PointResult, objective: Objective, rules: Rules) -> str:
    if len(result.valid) < len(result.records):
        return f"is invalid ({', '.join(result.problems) or 'no figures'})"
    if objective.concurrency not in (None, result.point.get("concurrency")):
        return f"is not at concurrency {objective.concurrency}"
    for name, bound in rules.bounds.items():
        value = result.median(name, "median")
        if value is None:
            return f"has no {name} to compare with its bound"
        if value > bound:
            return f"has a median {name} of {number(value)}, above {number(bound)}"
    return ""

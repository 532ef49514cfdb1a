# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""A tournament of candidates: what is to do next, who wins by which figure, and why each other one lost. Pure.

Every candidate is deployed and measured once; the leaders are then deployed and measured again in turns, because
repeats of one start of a server do not show what changes between starts. A session is one start with its points. One
with a point that could not be measured is repeated, a bounded number of times. A candidate whose server died is out.
"""

from __future__ import annotations

import math
import time
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .candidates import Candidate, Field
from .compare import PointResult, Record, group
from .document import number

SCHEMA_VERSION: t.Final = 1
KIND: t.Final = "tournament"
# Starts of a candidate before it is given up, and of a leader beside those that are asked for, when a start leaves a
# point without valid figures: that may be the fault of the moment.
FIRST_STARTS: t.Final = 2
SPARE_STARTS: t.Final = 2
# What a measurement says of a server that died under it. One that dies under a load is never the best choice for it.
_DEATHS: t.Final = ("server-gone", "server-restarted")
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

    def check(self, concurrency: t.Collection[int], *, energy: bool = True) -> None:
        """Raises ModelopsError for rules by which nobody can win.

        ``concurrency`` is what will be measured; without ``energy`` the node has no GPUs to read it from.
        """
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
        if OBJECTIVES[self.objective].part == "energy" and not energy:
            raise ModelopsError(
                f"The objective {self.objective} needs the energy of the node's GPUs, but the node shows none.",
                "Choose another objective, or a node with NVIDIA GPUs and their driver.",
            )


@dataclass(frozen=True)
class Score:
    """The best point of a session by the objective; ``value`` is None with a ``reason`` when no point counts.

    ``whole`` is False when a point that counts for the objective has no valid figures: another start may have them.
    """

    value: float | None
    point: str = ""
    reason: str = ""
    whole: bool = True


def start(
    key: str,
    field: Field,
    rules: Rules,
    identity: t.Mapping[str, t.Any],
    now: float,
    *,
    points: t.Iterable[t.Mapping[str, t.Any]] = (),
) -> State:
    """The state of a tournament in which nothing has been tried; each session is to have all of the ``points``."""
    begun = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    entries = [{**candidate.as_dict(), "sessions": [], "given_up": 0, "lost": None} for candidate in field.candidates]
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "key": key,
        "created_unix": now,
        # Begun anew, it takes up nothing that was measured before.
        "begun": f"{begun}-{round(now * 1000) % 1000:03d}",
        "rules": {**rules.__dict__},
        "points": [{"id": point["id"], "concurrency": point.get("concurrency")} for point in points],
        "identity": dict(identity),
        "candidates": entries,
        "excluded": [{"id": excluded.id, "reason": excluded.reason} for excluded in field.excluded],
        "leaders": [],
        # The releases that served before the first step, until the node is back at them or serves the winner.
        "before": None,
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


def try_again(state: State, candidate: str) -> bool:
    """Have a candidate that failed tried anew, with none of its sessions; False when it did not fail."""
    entry = entry_of(state, candidate)
    if not entry["lost"] and (not entry["sessions"] or values(scores(state, entry))):
        return False
    entry["given_up"] += len(entry["sessions"]) + 1
    entry.update(sessions=[], lost=None)
    state["leaders"] = []
    return True


def add_session(state: State, candidate: str, records: list[Record]) -> None:
    """Add the records of one start; the same run again replaces itself. A server that died under them is out."""
    entry = entry_of(state, candidate)
    run = records[0]["run"]
    entry["sessions"] = [one for one in entry["sessions"] if one["run"] != run] + [{"run": run, "records": records}]
    state["last"] = candidate
    found = _death(records)
    if found:
        message, cause = found
        lose(state, candidate, "died", message, cause)
    else:
        _lead(state)


def _death(records: t.Iterable[Record]) -> tuple[str, Entry] | None:
    """What says that the server died, as message and cause; None when it lived."""
    for record in records:
        for one in record["findings"]:
            mute = one["id"] == "warm-up-failed" and one["numbers"].get("kind") == "no-answer"
            if one["severity"] == "error" and (mute or one["id"] in _DEATHS):
                message = f"{record['point']['id']}, repeat {record['repeat']}: {one['message']}"
                return message, {"id": one["id"], "line": "", "remedy": one["remedy"]}
    return None


def scores(state: State, entry: Entry) -> list[Score]:
    """The score of each session of a candidate."""
    rules = rules_of(state)
    return [score(session["records"], rules, state["points"]) for session in entry["sessions"]]


def values(found: t.Sequence[Score]) -> list[float]:
    """The figures that a candidate is judged by: those of whole sessions, or of the others when there is none."""
    whole = [one for one in found if one.whole] or found
    return [one.value for one in whole if one.value is not None]


def _lead(state: State) -> None:
    """Decide who is measured again when every candidate has been tried, and anew when one of these is out."""
    if _untried(state):
        return
    found = {entry["id"]: values(scores(state, entry)) for entry in state["candidates"] if not entry["lost"]}
    first = {name: figures[0] for name, figures in found.items() if figures}
    if state["leaders"] and set(state["leaders"]) <= set(first):
        return
    rules = rules_of(state)
    ranked = sorted(first, key=lambda name: -first[name])
    near = [name for name in ranked if first[name] >= (1 - rules.margin) * first[ranked[0]]]
    state["leaders"] = near[: rules.leaders]


def _untried(state: State) -> list[Entry]:
    """Who has no whole session yet and may still get one; whoever was measured last goes last."""
    waiting = [
        entry
        for entry in state["candidates"]
        if not entry["lost"]
        and len(entry["sessions"]) < FIRST_STARTS
        and not any(one.whole for one in scores(state, entry))
    ]
    return sorted(waiting, key=lambda entry: (len(entry["sessions"]), entry["id"] == state.get("last")))


def steps(state: State) -> list[tuple[str, int]]:
    """What is to deploy and measure next, as (candidate, number of the session): a round, or nothing when it is over.

    Leaders take turns, beginning with one that was not measured last: a session is to be a start of its own, and what
    is deployed already is not started again.
    """
    started = {entry["id"]: entry["given_up"] + len(entry["sessions"]) for entry in state["candidates"]}
    untried = _untried(state)
    if untried:
        return [(entry["id"], started[entry["id"]] + 1) for entry in untried]
    wanted = rules_of(state).sessions
    entries = {entry["id"]: entry for entry in state["candidates"] if not entry["lost"]}
    leaders = [name for name in state["leaders"] if name in entries]
    counts = {name: sum(one.whole for one in scores(state, entries[name])) for name in leaders}
    starts = {name: len(entries[name]["sessions"]) for name in leaders}
    last, turns = state.get("last"), []
    while len(leaders) > 1 and (
        waiting := [name for name in leaders if counts[name] < wanted and starts[name] < wanted + SPARE_STARTS]
    ):
        last = min(waiting, key=lambda name: (name == last, counts[name], leaders.index(name)))
        counts[last] += 1
        starts[last] += 1
        started[last] += 1
        turns.append((last, started[last]))
    return turns


def score(records: list[Record], rules: Rules, points: t.Iterable[t.Mapping[str, t.Any]] = ()) -> Score:
    """The best point of one session. Points with an invalid repeat do not count, nor those beyond a bound.

    A session that lacks one of the ``points`` has no score: what was not measured may have been its best one.
    """
    objective = OBJECTIVES[rules.objective]
    results = [r for r in group(records) if objective.concurrency in (None, r.point.get("concurrency"))]
    measured = {result.point["id"] for result in results}
    wanted = [point["id"] for point in points if objective.concurrency in (None, point["concurrency"])]
    lacking = [name for name in wanted if name not in measured]
    if lacking:
        return Score(None, reason="; ".join(f"{name} was not measured" for name in lacking), whole=False)
    whole = all(len(result.valid) == len(result.records) for result in results)
    best, missed = Score(None, whole=whole), []
    for result in results:
        reason = _unusable(result, rules)
        value = result.median(*objective.path, part=objective.part)
        if reason or value is None:
            missed.append(f"{result.point['id']} {reason or 'has no such figure'}")
        elif best.value is None or value > best.value:
            best = Score(value, result.point["id"], whole=whole)
    return best if best.value is not None else Score(None, reason="; ".join(missed), whole=whole)


def _unusable(result: PointResult, rules: Rules) -> str:
    if len(result.valid) < len(result.records):
        return f"is invalid ({', '.join(result.problems) or 'no figures'})"
    for name, bound in rules.bounds.items():
        value = result.median(name, "median")
        if value is None:
            return f"has no {name} to compare with its bound"
        if value > bound:
            return f"has a median {name} of {number(value)}, above {number(bound)}"
    return ""

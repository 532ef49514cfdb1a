# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The report on a tournament: every candidate, who won, and why each other one did not. Pure."""

from __future__ import annotations

import json
import typing as t

from .._table import aligned
from . import figures
from .candidates import MANAGED
from .compare import Record, flatten, group
from .document import Bar, Bars, Bullets, Chart, Charts, Code, Document, Notes, Section, Table, number
from .figures import Series
from .report import by_severity, findings, plain, rows, utc
from .standings import Place, standings
from .tournament import OBJECTIVES, Entry, Rules, State, entry_of, rules_of, scores, steps

_OUTCOMES: t.Final[dict[str, str]] = {"winner": "better", "failed": "worse", "lost": "same", "open": "same"}


_KEEP: t.Final = "To keep the winner, add to the inventory"


def records_of(state: State) -> list[Record]:
    """All records of all candidates."""
    return [record for entry in state["candidates"] for session in entry["sessions"] for record in session["records"]]


def findings_of(state: State) -> list[dict[str, t.Any]]:
    """The findings of all candidates, each with whose it is; errors first."""
    found = [
        {**one, "where": f"{entry['id']}: {one['where']}"}
        for entry in state["candidates"]
        for one in findings([record for session in entry["sessions"] for record in session["records"]])
    ]
    return by_severity(found)


def verdict(state: State) -> str:
    """``winner``, ``no_winner``, or ``open`` while there is something to do."""
    if steps(state):
        return "open"
    return "winner" if any(place.outcome == "winner" for place in standings(state)) else "no_winner"


def headline(state: State) -> str:
    """The outcome as a sentence."""
    first, *others = standings(state)
    objective = OBJECTIVES[rules_of(state).objective]
    if first.outcome == "winner":
        won = f"wins of {len(others) + 1} candidates" if others else "is the only candidate,"
        return f"{first.candidate} {won} by {objective.name}: {number(first.value)} {objective.unit}."
    left = steps(state)
    if left:
        return f"The tournament is not over: {len(left)} measurements are left in this round."
    measured = [e for e in state["candidates"] if not e["lost"] and any(one.whole for one in scores(state, e))]
    if measured:
        within = f" within the bounds ({_bounds(rules_of(state))})" if rules_of(state).bounds else ""
        return (
            f"None of the {len(measured)} candidates that were measured has a point that counts for {objective.name}"
            f"{within}. What each lacks is named: loosen tournament_bounds, or choose another tournament_objective."
        )
    return (
        "No candidate could be deployed and measured. Mend what is named, and name in tournament_retry what to try "
        "again, or begin anew: tournament_resume=false."
    )


def document(state: State) -> Document:
    """The report, in the order in which it is read."""
    places = standings(state)
    series = series_of(state)
    pictures: list[Chart | Bars] = [*_scores(state, places), *figures.charts(series)]
    excluded = [[one["id"], one["reason"]] for one in state["excluded"]]
    identity = [[key, plain(value)] for key, value in flatten(state["identity"]).items() if key]
    sections = [
        Section("Candidates", _places(state, places)),
        *([Section(_KEEP, Code(_settings(state, places[0])))] if _won(places) else []),
        *([Section("Diagrams", Charts(pictures))] if pictures else []),
        *([Section("Points", rows(series))] if series else []),
        *([Section("Not tried", Table(["layout", "why"], excluded, kind="words"))] if excluded else []),
        Section("Findings", Notes(findings_of(state))),
        Section("The same for all", Table(["what", "value"], identity, kind="words")),
        Section("What is not claimed", Bullets(_not_claimed(state))),
    ]
    return Document(_title(state), verdict(state), headline(state), _facts(state), sections)


def _title(state: State) -> str:
    return f"Tournament of {state['identity'].get('model') or 'layouts'}"


def _won(places: list[Place]) -> bool:
    return places[0].outcome == "winner"


def _bounds(rules: Rules) -> str:
    return ", ".join(f"median {name} up to {bound:g}" for name, bound in sorted(rules.bounds.items()))


def _facts(state: State) -> list[tuple[str, str]]:
    rules, records = rules_of(state), records_of(state)
    ended = max((record["ended_unix"] for record in records), default=state["created_unix"])
    return [
        ("Objective", OBJECTIVES[rules.objective].name),
        ("Bounds", _bounds(rules) or "none"),
        (
            "Measured",
            f"every candidate once; up to {rules.leaders} leaders {rules.sessions} times, in turns",
        ),
        ("Time", f"{utc(state['created_unix'])} to {utc(ended)}"),
    ]


def _places(state: State, places: list[Place]) -> Table:
    unit = OBJECTIVES[rules_of(state).objective].unit
    headings = ["candidate", "GPUs", f"score ({unit})", "at", "starts", "outcome", "why"]
    body = []
    for place in places:
        entry = entry_of(state, place.candidate)
        gpus = str(entry["gpus"] or "-")
        spread = f" ({number(min(place.values))} to {number(max(place.values))})" if len(place.values) > 1 else ""
        score = number(place.value) + spread
        starts = str(len(entry["sessions"]))
        body.append([place.candidate, gpus, score, place.point or "-", starts, place.outcome, place.why])
    return Table(headings, body, marks=[_OUTCOMES[place.outcome] for place in places])


def series_of(state: State) -> list[Series]:
    """The points of each candidate that was measured, over all of its sessions."""
    return [
        Series(entry["id"], group([record for session in entry["sessions"] for record in session["records"]]))
        for entry in state["candidates"]
        if entry["sessions"]
    ]


def _scores(state: State, places: list[Place]) -> list[Bars]:
    objective = OBJECTIVES[rules_of(state).objective]
    bars = [
        Bar(place.candidate, place.value, number(place.value), mark="better" if place.outcome == "winner" else "same")
        for place in places
        if place.value is not None
    ]
    caption = "The median over the starts of each candidate, the best point of each."
    return [Bars("scores", "Scores", f"{objective.name} ({objective.unit})", bars, caption)] if len(bars) > 1 else []


def _settings(state: State, place: Place) -> str:
    """The winner as variables of the serve role, beside what the inventory has. JSON is YAML."""
    entry: Entry = entry_of(state, place.candidate)
    lines = {"serve_layout": entry["layout"]}
    lines |= {f"serve_{MANAGED[name]}": value for name, value in entry["args"].items() if name in MANAGED}
    args = {name: value for name, value in entry["args"].items() if name not in MANAGED}
    lines |= {name: value for name, value in (("serve_args", args), ("serve_env", entry["env"])) if value}
    return "\n".join(f"{name}: {json.dumps(value)}" for name, value in lines.items())


def _not_claimed(state: State) -> list[str]:
    rules = rules_of(state)
    claims = ["The order holds for these loads on this node, with this vLLM; another load may have another winner."]
    if rules.sessions == 1:
        claims.append("Each candidate was started once: what changes between two starts of one is not known.")
    claims.append("Candidates that were measured once and lost by less than the noise between starts might tie.")
    if any("replicas" in one["reason"] for one in state["excluded"]):
        claims.append("Layouts with several replicas were not tried; their output adds up behind a router.")
    return claims


def text_table(state: State) -> str:
    """The summary for a terminal."""
    table = [["candidate", "GPUs", "score", "starts", "outcome"]]
    places = standings(state)
    for place in places:
        entry = entry_of(state, place.candidate)
        table.append(
            [
                place.candidate,
                str(entry["gpus"] or "-"),
                number(place.value),
                str(len(entry["sessions"])),
                place.outcome,
            ]
        )
    lines = aligned(table, {0})
    whys = [f"{place.candidate}: {place.why}" for place in places]
    keep = [f"{_KEEP}:", *_settings(state, places[0]).splitlines()] if _won(places) else []
    return "\n".join([f"{_title(state)}: {headline(state)}", *lines, *whys, *keep])

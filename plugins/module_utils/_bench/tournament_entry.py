# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The argument specification of ``bench_tournament``, and the way from its parameters to its result."""

from __future__ import annotations

import hashlib
import json
import os
import time
import typing as t

from .._errors import ModelopsError, NotBuiltError
from . import storage, tournament, tournament_report
from .candidates import MANAGED, Field, applied, choose
from .identity import scrub
from .standings import standings
from .tournament import Rules, State

STATE_FILE: t.Final = "tournament.json"

# Causes (module_utils/_serve) that are faults of the node or of the moment: whatever was tried would have failed.
NODE_FAULTS: t.Final = (
    "container-gpu-missing",
    "container-image-missing",
    "container-mount-missing",
    "disk-full",
    "fabric-manager",
    "gpu-hardware",
    "gpu-memory-occupied",
    "gpu-not-free",
    "port-in-use",
    "stop-failed",
    "stopped",
    "switch-error",
)

TOURNAMENT_SPEC: t.Final[dict[str, t.Any]] = {
    "dir": {"type": "path"},
    "candidates": {"type": "list", "elements": "raw", "default": []},
    "layouts": {"type": "list", "elements": "dict", "default": []},
    "preferred": {"type": "list", "elements": "str", "default": []},
    "axes": {
        "type": "dict",
        "default": {},
        "options": {"args": {"type": "dict", "default": {}}, "env": {"type": "dict", "default": {}}},
    },
    "limit": {"type": "int", "default": 4},
    "objective": {"type": "str", "choices": list(tournament.OBJECTIVES), "default": "throughput"},
    "bounds": {
        "type": "dict",
        "default": {},
        "options": {name: {"type": "float"} for name in ("ttft_ms", "tpot_ms", "e2e_ms")},
    },
    "sessions": {"type": "int", "default": 3},
    "leaders": {"type": "int", "default": 2},
    "margin": {"type": "float", "default": 0.1},
    "concurrency": {"type": "list", "elements": "int", "default": []},
    "energy": {"type": "bool", "default": True},
    "points": {"type": "list", "elements": "dict", "default": []},
    "identity": {"type": "dict", "default": {}},
    "base": {
        "type": "dict",
        "default": {},
        "options": {
            "args": {"type": "dict", "default": {}},
            "env": {"type": "dict", "default": {}},
            **{name: {"type": "str", "default": ""} for name in MANAGED.values()},
        },
    },
    "resume": {"type": "bool", "default": True},
    "retry": {"type": "list", "elements": "str", "default": []},
    "before": {
        "type": "list",
        "elements": "dict",
        "options": {name: {"type": "str", "required": True} for name in ("instance", "release")},
    },
    "state_file": {"type": "path"},
    "outcome": {
        "type": "dict",
        "options": {
            "candidate": {"type": "str", "required": True},
            "results": {"type": "path"},
            "phase": {"type": "str", "choices": ["checked", "deployed", "measured"], "default": "deployed"},
            "reason": {"type": "str", "default": ""},
            "cause": {"type": "dict"},
        },
    },
    "settled": {"type": "bool", "default": False},
}


def run(params: t.Mapping[str, t.Any], *, write: bool) -> dict[str, t.Any]:
    """Declare a tournament, or look at one and note an outcome; returns what is next. Raises ModelopsError."""
    if params["dir"]:
        return _declared(params, write=write)
    path, outcome = params["state_file"], params["outcome"]
    state = read(path)
    changed = bool(outcome) or (params["settled"] and state["before"] is not None)
    if outcome:
        _note(state, outcome)
    if params["settled"]:
        state["before"] = None
    if changed and write:
        _write(path, state)
    return {"changed": changed, **_told(state, path, params["base"])}


def _note(state: State, outcome: t.Mapping[str, t.Any]) -> None:
    if outcome["results"]:
        tournament.add_session(state, outcome["candidate"], storage.latest(storage.read_records(outcome["results"])))
    else:
        message, cause = outcome["reason"] or "no reason was given", outcome["cause"]
        _refuse_faults(outcome["candidate"], outcome["phase"], message, cause)
        tournament.lose(state, outcome["candidate"], outcome["phase"], message, cause)


def _refuse_faults(candidate: str, phase: str, message: str, cause: t.Mapping[str, t.Any] | None) -> None:
    """Raises ModelopsError for a failure that is not the candidate's own: it has neither lost nor been measured."""
    known = (cause or {}).get("id")
    if phase == "checked" or (known and known not in NODE_FAULTS):
        return
    what = f"a fault of the node ({known})" if known else "no failure of the engine that it starts"
    raise ModelopsError(
        f"{candidate} could not be tried, and has not lost, since this is {what}: {message.rstrip('.')}.",
        " ".join(
            [str((cause or {}).get("remedy") or "Mend it."), "Run the playbook again: the tournament goes on here."]
        ),
    )


def _declared(params: t.Mapping[str, t.Any], *, write: bool) -> dict[str, t.Any]:
    if params["limit"] < 1:
        raise ModelopsError(f"limit is {params['limit']}, but must be at least 1.", "Correct limit.")
    bounds = {name: bound for name, bound in (params["bounds"] or {}).items() if bound is not None}
    rules = Rules(params["objective"], bounds, params["sessions"], params["leaders"], params["margin"])
    rules.check(params["concurrency"], energy=params["energy"])
    field = choose(
        params["candidates"],
        params["layouts"],
        preferred=params["preferred"],
        axes=params["axes"],
        limit=params["limit"],
    )
    identity = scrub({**params["identity"], "concurrency": params["concurrency"], "base": params["base"]})
    key = _key(field, rules, identity)
    path = os.path.join(params["dir"], key, STATE_FILE)
    state = read(path) if params["resume"] and os.path.isfile(path) else None
    changed = state is None
    if state is None:
        state = tournament.start(key, field, rules, identity, round(time.time(), 3), points=params["points"])
    for candidate in params["retry"]:
        changed |= tournament.try_again(state, candidate)
    if params["before"] is not None and state["before"] is None and tournament.steps(state):
        state["before"], changed = params["before"], True
    if changed and write:
        _write(path, state)
    return {"changed": changed, **_told(state, path, params["base"])}


def _key(field: Field, rules: Rules, identity: t.Mapping[str, t.Any]) -> str:
    """Names the tournament by all that makes it one: whoever asks for the same again continues it."""
    said = {
        "candidates": [candidate.as_dict() for candidate in field.candidates],
        "rules": rules.__dict__,
        "identity": identity,
    }
    return hashlib.sha256(json.dumps(_as_text(said), sort_keys=True).encode()).hexdigest()[:12]


def _as_text(value: t.Any) -> t.Any:
    """The same value whoever templated it: ansible-core 2.17 and AWX make texts of numbers and booleans."""
    if isinstance(value, t.Mapping):
        return {str(name): _as_text(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_text(one) for one in value]
    return "" if value is None else str(value)


def _step(state: State, path: str, name: str, session: int, base: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    candidate = tournament.candidate_of(tournament.entry_of(state, name))
    return {
        "candidate": name,
        "session": session,
        # One for each session: a measurement that was cut off is continued, and never one of an earlier start.
        "results_dir": os.path.join(os.path.dirname(path), state["begun"], candidate.folder, f"s{session}"),
        **applied(candidate, base),
    }


def _told(state: State, path: str, base: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    places = standings(state)
    winner = next((place.candidate for place in places if place.outcome == "winner"), "")
    step = applied(tournament.candidate_of(tournament.entry_of(state, winner)), base) if winner else {}
    return {
        "state_file": path,
        "todo": [_step(state, path, name, session, base) for name, session in tournament.steps(state)],
        "verdict": tournament_report.verdict(state),
        "headline": tournament_report.headline(state),
        "winner": {"candidate": winner, **step} if winner else {},
        "standings": [place.__dict__ for place in places],
        "excluded": state["excluded"],
        "before": state["before"],
        "table": tournament_report.text_table(state),
    }


def find(path: str) -> str:
    """The state file that ``path`` is or, as a directory, holds; empty when it is something else."""
    found = os.path.join(path, STATE_FILE) if os.path.isdir(path) else path
    return found if os.path.basename(found) == STATE_FILE and os.path.isfile(found) else ""


def read(path: str) -> State:
    """The state of a tournament. Raises ModelopsError for a file that is none."""
    try:
        with open(path, encoding="utf-8") as f:
            state = json.load(f)
        kind, version = state["kind"], state["schema_version"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise ModelopsError(
            f"{path} is no tournament: {e!r}.", "Give the tournament.json that bench_tournament wrote."
        ) from e
    if kind != tournament.KIND or version != tournament.SCHEMA_VERSION:
        raise NotBuiltError(
            f"Reading a {kind} of schema version {version!r} ({path})",
            "Use the version of the collection that wrote it.",
        )
    return t.cast(State, state)


def _write(path: str, state: State) -> None:
    storage.write_text(path, json.dumps(state, sort_keys=True, allow_nan=False) + "\n")

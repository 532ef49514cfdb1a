# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Candidates of a tournament: layouts, and the settings in which they may differ. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import re
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from .identity import is_secret, scrub

Value = t.Any
Layout = t.Mapping[str, t.Any]

# What the serve role takes as variables of its own, by the flag that says it to vLLM.
MANAGED: t.Final[dict[str, str]] = {
    "max-model-len": "max_model_len",
    "max-num-seqs": "max_num_seqs",
    "gpu-memory-utilization": "gpu_memory_utilization",
    "kv-cache-dtype": "kv_cache_dtype",
}
_REPLICAS: t.Final = re.compile(r"-r(\d+)\b")
# What a GPU is needed for each of: the ranks of context parallelism and of experts are those of the others.
_RANKS: t.Final = re.compile(r"\b(?:tp|pp|dp)(\d+)")
_UNSAFE: t.Final = re.compile(r"[^A-Za-z0-9._=-]+")
_KEYS: t.Final = ("layout", "args", "env")


@dataclass(frozen=True)
class Candidate:
    """A layout with the flags and the environment in which it differs from the user's own. ``gpus`` may be unknown."""

    layout: str
    args: dict[str, Value] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    gpus: int | None = None

    @property
    def id(self) -> str:
        """Names it for people: the layout, then what is different."""
        return " ".join(
            [self.layout, *(f"{name}={value}" for name, value in sorted({**self.args, **self.env}.items()))]
        )

    @property
    def folder(self) -> str:
        """The same as the name of a directory; what cannot stand there is told apart by a digest."""
        if not _UNSAFE.search(self.id):
            return self.id
        return f"{_UNSAFE.sub('-', self.id)}-{hashlib.sha256(self.id.encode()).hexdigest()[:6]}"

    def as_dict(self) -> dict[str, t.Any]:
        """The form that is stored and returned."""
        return {"id": self.id, **dataclasses.asdict(self)}

    def simplicity(self) -> tuple[int, int, int, int]:
        """Smaller is simpler: fewer GPUs, fewer settings, fewer kinds of parallelism, fewer ranks to wait for."""
        sizes = [int(size) for size in _RANKS.findall(self.layout)]
        return self.gpus or math.prod(sizes), len(self.args) + len(self.env), self.layout.count("-"), sum(sizes)


@dataclass(frozen=True)
class Excluded:
    """What is not tried, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Field:
    """Who takes part, in the order of trying, and who does not."""

    candidates: list[Candidate]
    excluded: list[Excluded]


def choose(
    given: t.Sequence[t.Any],
    layouts: t.Sequence[Layout],
    *,
    preferred: t.Sequence[str] = (),
    axes: t.Mapping[str, t.Any] | None = None,
    limit: int = 4,
) -> Field:
    """The candidates that are ``given`` (layout ids, or mappings with layout, args and env), else those of the planner.

    ``layouts`` is what ``layout_info`` says. Of the planner's valid ones ``limit`` are taken: the ``preferred`` first,
    then those without pipelines and without idle GPUs. Each is combined with all values of ``axes`` (args and env:
    names with lists of values, where null is the setting as it is). Raises ModelopsError for what is no candidate, for
    a candidate that is there twice, and when nobody is left.
    """
    known = {str(layout["id"]): layout for layout in layouts}
    if given:
        bases, excluded = [_given(one, known) for one in given], list[Excluded]()
    else:
        bases, excluded = _planned(layouts, preferred, limit)
    candidates = []
    for base, settings in itertools.product(bases, _settings(axes or {})):
        candidates.append(dataclasses.replace(base, args={**base.args, **settings[0]}, env={**base.env, **settings[1]}))
    _refuse_secrets(candidates)
    kept, judged = _judge(candidates, known)
    twice = sorted({c.id for c in kept if [other.id for other in kept].count(c.id) > 1})
    if twice:
        raise ModelopsError(f"The candidate {', '.join(twice)} is there twice.", "Name each once.")
    if not kept:
        raise ModelopsError(
            "There is no candidate: "
            + ("; ".join(f"{e.id}: {e.reason}" for e in [*judged, *excluded]) or "no layout."),
            "Give candidates that are valid on this node, or see what layout_info says about its layouts.",
        )
    return Field(kept, [*judged, *excluded])


def _given(one: object, known: t.Mapping[str, Layout]) -> Candidate:
    raw: object = {"layout": one} if isinstance(one, str) else one
    if not isinstance(raw, t.Mapping) or not raw.get("layout") or set(raw) - set(_KEYS):
        raise ModelopsError(
            f"{scrub(one)!r} is no candidate: it must have a layout, and may have {', '.join(_KEYS[1:])} and nothing "
            "else.",
            "Give the id of a layout, or layout with args (flags of vLLM) and env.",
        )
    layout = str(raw["layout"])
    env = {str(name): str(value) for name, value in (raw.get("env") or {}).items()}
    return Candidate(layout, dict(raw.get("args") or {}), env, known.get(layout, {}).get("gpus"))


def _refuse_secrets(candidates: t.Iterable[Candidate]) -> None:
    """Raises ModelopsError for a setting whose value is a secret: it would be in the candidate's name, which is in
    reports, logs and paths."""
    settings = [(name, str(value)) for one in candidates for name, value in [*one.args.items(), *one.env.items()]]
    found = sorted({name for name, value in settings if is_secret(name, value)})
    if found:
        raise ModelopsError(
            f"Candidates differ in {', '.join(found)}, whose value is a secret and would be in their names.",
            "Set it for all of them, in serve_env or the variable of its own.",
        )


def _planned(
    layouts: t.Sequence[Layout], preferred: t.Sequence[str], limit: int
) -> tuple[list[Candidate], list[Excluded]]:
    valid = [layout for layout in layouts if layout["valid"] and layout["replicas"] == 1]
    others = [Excluded(str(layout["id"]), _why_not(layout)) for layout in layouts if layout not in valid]

    def rank(layout: Layout) -> tuple[int, bool, int, int]:
        place = preferred.index(layout["id"]) if layout["id"] in preferred else len(preferred)
        return place, layout["pp"] > 1, layout["idle_gpus"], str(layout["id"]).count("-")

    ranked = sorted(valid, key=rank)
    late = [
        Excluded(str(layout["id"]), f"valid, but not among the first {limit}: list it as a candidate to try it")
        for layout in ranked[limit:]
    ]
    return [Candidate(str(layout["id"]), gpus=layout["gpus"]) for layout in ranked[:limit]], [*late, *others]


def _why_not(layout: Layout) -> str:
    errors = [f["message"] for f in layout["findings"] if f["severity"] == "error"]
    if layout["valid"]:
        return "several replicas: one engine is measured, replicas add up behind a router"
    return " ".join(errors) or "invalid"


def _judge(candidates: t.Iterable[Candidate], known: t.Mapping[str, Layout]) -> tuple[list[Candidate], list[Excluded]]:
    """Without those that the planner has judged and refused; what it has not judged is tried."""
    kept, excluded = [], []
    for candidate in candidates:
        layout = known.get(candidate.layout)
        if _REPLICAS.search(candidate.layout) or (layout and not layout["valid"]):
            excluded.append(Excluded(candidate.id, _why_not(layout or {"valid": True, "findings": []})))
        else:
            kept.append(candidate)
    return kept, excluded


def _settings(axes: t.Mapping[str, t.Any]) -> list[tuple[dict[str, Value], dict[str, str]]]:
    """All combinations of the axes, as (args, env)."""
    unknown = sorted(set(axes) - {"args", "env"})
    if unknown:
        raise ModelopsError(f"axes has {', '.join(unknown)}.", "Its keys are args and env.")
    names, values = [], []
    for part in ("args", "env"):
        for name, choices in (axes.get(part) or {}).items():
            if not isinstance(choices, list) or not choices:
                raise ModelopsError(f"axes.{part}.{name} is {choices!r}.", "Give a list of values, null for as it is.")
            names.append((part, str(name)))
            values.append(choices)
    settings = []
    for combination in itertools.product(*values):
        chosen = [
            (part, name, value) for (part, name), value in zip(names, combination, strict=True) if value is not None
        ]
        args = {name: value for part, name, value in chosen if part == "args"}
        settings.append((args, {name: str(value) for part, name, value in chosen if part == "env"}))
    return settings


def applied(candidate: Candidate, base: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The variables of the serve role for a candidate: ``base`` (the user's args, env and managed values) with its own.

    Keys: layout, args, env, and a text for each of ``MANAGED``.
    """
    managed = {MANAGED[name]: str(value) for name, value in candidate.args.items() if name in MANAGED}
    others = {name: value for name, value in candidate.args.items() if name not in MANAGED}
    return {
        "layout": candidate.layout,
        "args": {**(base.get("args") or {}), **others},
        "env": {**(base.get("env") or {}), **candidate.env},
        **{name: managed.get(name, str(base.get(name) or "")) for name in MANAGED.values()},
    }

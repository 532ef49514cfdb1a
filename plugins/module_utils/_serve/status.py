# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What is known about the instances of a node, put together and judged. Pure: status_node asks for the facts."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from .._bench.prometheus import Sample, delta, restarted
from .._findings import Finding, error, info, warning
from .._planner.layout import Layout
from .journal import Entry

Kind: t.TypeAlias = t.Literal["engine", "router"]
State: t.TypeAlias = t.Literal[
    "serving", "running", "unhealthy", "starting", "restarting", "stopping", "stopped", "failed", "missing"
]
_HTTP_OK: t.Final = 200
UNIT_PROPERTIES: t.Final = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "NRestarts",
    "MainPID",
    "UnitFileState",
    "WantedBy",
    "ActiveEnterTimestampMonotonic",
    "StateChangeTimestampMonotonic",
)


@dataclass(frozen=True)
class UnitFacts:
    """What systemd says about a unit. The times are microseconds since the boot, 0 for never."""

    load: str = "not-found"
    active: str = "inactive"
    sub: str = "dead"
    result: str = ""
    restarts: int = 0
    pid: int = 0
    enabled: bool | None = None
    active_since_us: int = 0
    changed_us: int = 0


def parse_units(text: str) -> dict[str, UnitFacts]:
    """The units of ``systemctl show --property=...``, which separates them by empty lines, by their ids."""
    found = {}
    for block in text.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if "Id" in values:
            found[values["Id"]] = UnitFacts(
                load=values.get("LoadState", ""),
                active=values.get("ActiveState", ""),
                sub=values.get("SubState", ""),
                result=values.get("Result", ""),
                restarts=_integer(values.get("NRestarts")),
                pid=_integer(values.get("MainPID")),
                enabled=_enabled(values.get("UnitFileState", ""), values.get("WantedBy", "")),
                active_since_us=_integer(values.get("ActiveEnterTimestampMonotonic")),
                changed_us=_integer(values.get("StateChangeTimestampMonotonic")),
            )
    return found


def _enabled(state: str, wanted_by: str) -> bool | None:
    """Whether it starts at boot. A unit that Quadlet made is never enabled: what wants it decides."""
    if not state:
        return None
    return bool(wanted_by) if state == "generated" else state.startswith("enabled")


def _integer(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def parse_args(text: str) -> dict[str, t.Any]:
    """The flags of an args file of this collection: one ``name: JSON`` a line."""
    flags = {}
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        if colon and not line.startswith(("#", " ")):
            try:
                flags[name] = json.loads(value)
            except ValueError:
                continue
    return flags


def facts_of_args(flags: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What the args tell of a release, for one whose record does not: that of modelops.vllm 1.0.0 has none."""
    if not flags:
        return {}
    names = flags.get("served-model-name")
    tp, pp, dp = (_integer(str(flags.get(f"{kind}-parallel-size", 1))) for kind in ("tensor", "pipeline", "data"))
    layout = Layout(tp=tp, pp=pp, dp=dp, ep=flags.get("enable-expert-parallel") is True)
    return {
        "model": names[0] if isinstance(names, list) and names else names,
        "model_dir": flags.get("model"),
        "host": flags.get("host"),
        "port": flags.get("port"),
        "layout": layout.id,
    }


@dataclass(frozen=True)
class Known:
    """An instance as the state directory has it. Instances of one ``service`` (replicas, their router) belong together.

    ``release`` has the facts of the release that is current (else last good); ``url`` is None for one that listens
    nowhere, such as the second node of an engine. ``api_key`` never leaves this object by a result.
    """

    name: str
    unit: str
    service: str
    kind: Kind = "engine"
    release: t.Mapping[str, t.Any] = field(default_factory=dict)
    current: str | None = None
    last_good: str | None = None
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Answers:
    """What a server said: the HTTP status of /health (None: no answer), its served names, two looks at its counters.

    ``seconds`` lie between the two.
    """

    health: int | None = None
    detail: str = ""
    served_names: tuple[str, ...] = ()
    first: Sample | None = None
    second: Sample | None = None
    seconds: float = 0.0


def state_of(unit: UnitFacts, answers: Answers | None) -> State:
    """One word for systemd's state and the answer of the server; ``answers`` is None when there is none to ask."""
    if unit.active == "active":
        if answers is None:
            return "running"
        # A vLLM that loads has bound its port without listening yet.
        return "starting" if answers.health is None else "serving" if answers.health == _HTTP_OK else "unhealthy"
    if unit.sub == "auto-restart":
        return "restarting"
    if unit.load == "not-found":
        return "missing"
    words: dict[str, State] = {"failed": "failed", "activating": "starting", "deactivating": "stopping"}
    return words.get(unit.active, "stopped")


def figures(answers: Answers | None) -> dict[str, t.Any]:
    """The load of an instance: rates in tokens/s over the time between the looks, None when the counters restarted."""
    first = answers.first if answers else None
    last = (answers.second or first) if answers else None
    rates: dict[str, float | None] = {"tokens_per_second": None, "prompt_tokens_per_second": None}
    if answers and first and answers.second and answers.seconds > 0 and not restarted(first, answers.second):
        step = delta(first, answers.second)
        for key, tokens in (
            ("tokens_per_second", step.generation_tokens),
            ("prompt_tokens_per_second", step.prompt_tokens),
        ):
            rates[key] = None if tokens is None else round(tokens / answers.seconds, 1)
    return {
        "requests_running": _whole(last.running) if last else None,
        "requests_waiting": _whole(last.waiting) if last else None,
        "kv_cache_usage": last.kv_usage if last else None,
        "preemptions": _whole(last.preemptions) if last else None,
        **rates,
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def vram_of(unit: str, processes: t.Sequence[t.Mapping[str, t.Any]]) -> int | None:
    """MiB that the processes of a unit hold, None when nvidia-smi does not say it of one of them."""
    held = [p["used_memory_mib"] for p in processes if p["unit"] == unit]
    return None if None in held else sum(held)


def describe(
    known: Known,
    unit: UnitFacts,
    answers: Answers | None,
    processes: t.Sequence[t.Mapping[str, t.Any]] | None,
    *,
    now_us: int,
    now: float,
) -> dict[str, t.Any]:
    """One instance of RV(instances). ``processes`` is None on a node without GPUs.

    ``now_us`` is the time since the boot in microseconds, ``now`` the same moment in seconds since the epoch.
    """
    active = unit.active == "active"
    since_us = unit.active_since_us if active else unit.changed_us
    keys = ("model", "model_dir", "repo_id", "commit", "layout", "vllm_version", "devices", "host", "port")
    return {
        "instance": known.name,
        "unit": known.unit,
        "service": known.service,
        "kind": known.kind,
        "state": state_of(unit, answers),
        "active_state": unit.active,
        "sub_state": unit.sub,
        "result": unit.result,
        "enabled": unit.enabled,
        "since": int(now - (now_us - since_us) / 1e6) if since_us else None,
        "uptime_seconds": int((now_us - since_us) / 1e6) if active and since_us else None,
        "restarts": unit.restarts,
        "pid": unit.pid or None,
        "current": known.current,
        "last_good": known.last_good,
        "proven": known.last_good is not None and known.current in (None, known.last_good),
        **{key: known.release.get(key) for key in keys},
        "url": known.url,
        "health": answers.health if answers else None,
        "served_names": list(answers.served_names) if answers else [],
        **figures(answers),
        "vram_mib": None if processes is None else vram_of(known.unit, processes),
    }


# --------------------------------------------------------------------------------------------------- findings


def judge(row: t.Mapping[str, t.Any], detail: str) -> list[Finding]:
    """What is wrong with one instance of :func:`describe`. ``detail`` is what /health said when it was not healthy."""
    name, unit, state = row["instance"], row["unit"], row["state"]
    found = []
    if row["enabled"] and state in ("failed", "stopped", "missing"):
        found.append(
            error(
                "instance-down",
                f"The instance {name} shall run and is {state} ({unit}: {row['active_state']}/{row['sub_state']}).",
                f"journalctl -u {unit} says why; deploy again, or go back with the playbook rollback.",
                instance=name,
            )
        )
    if state == "unhealthy":
        found.append(
            error(
                "instance-unhealthy",
                f"The instance {name} answers /health with {row['health']}: its engine is dead. {detail}".strip(),
                f"journalctl -u {unit} says why; systemd starts it again.",
                instance=name,
                status=row["health"],
            )
        )
    if state in ("serving", "running", "unhealthy", "starting", "restarting") and row["enabled"] is False:
        found.append(
            warning(
                "instance-not-enabled",
                f"The instance {name} runs and would not start at boot ({unit} is not enabled).",
                "Deploy it again: a release that has proven itself is enabled.",
                instance=name,
            )
        )
    if row["restarts"]:
        found.append(
            warning(
                "instance-restarted",
                f"systemd has started the instance {name} again {row['restarts']} times by itself.",
                f"journalctl -u {unit} says what ended it.",
                instance=name,
                restarts=row["restarts"],
            )
        )
    if state == "serving" and row["model"] and row["served_names"] and row["model"] not in row["served_names"]:
        found.append(
            error(
                "served-name",
                f"The instance {name} shall serve {row['model']} and serves {', '.join(row['served_names'])}.",
                "The unit was started by hand, or another server has its port: deploy it again.",
                instance=name,
            )
        )
    if not row["proven"]:
        release = f"Release {row['current']} of" if row["current"] else "What there is of"
        good = f"the last good one is {row['last_good']}" if row["last_good"] else "there is no last good one"
        found.append(
            warning(
                "release-unproven",
                f"{release} the instance {name} has never proven that it answers; {good}.",
                "Deploy again, which proves it or goes back to the last good one.",
                instance=name,
            )
        )
    return found


def judge_switch(entry: Entry | None, busy: bool) -> list[Finding]:
    """A switch that goes on, or one that was cut off. ``busy``: its lock is held."""
    if entry is None or entry.ended:
        return []
    targets = ", ".join(f"{instance} to release {release}" for instance, release in sorted(entry.targets.items()))
    numbers = {"phase": entry.phase, "started": entry.started, "targets": dict(entry.targets)}
    if busy:
        text = f"A switch is going on since {entry.started}: {targets or 'a stop'} ({entry.phase})."
        return [info("switch-running", text, "", **numbers)]
    how = "failed, and nothing came back" if entry.phase == "failed" else f"was cut off while {entry.phase}"
    return [
        warning(
            "switch-unfinished",
            f"A switch that began {entry.started} {how}: {targets or 'a stop'}.",
            "Run the playbook again: it knows what served before and ends the switch.",
            **numbers,
        )
    ]


def judge_gpus(
    rows: t.Sequence[t.Mapping[str, t.Any]], processes: t.Sequence[t.Mapping[str, t.Any]], ours: t.Collection[str]
) -> list[Finding]:
    """Processes of others on the GPUs of ``rows``: one finding a unit, or a process that has none.

    ``ours`` are the units of all instances of the node, also of those that were not asked for.
    """
    units = {row["unit"]: row["instance"] for row in rows}
    used: dict[int, str] = {}
    for row in rows:
        used |= {int(d): row["instance"] for d in row["devices"] or [] if str(d).isdigit()}
    used |= {p["gpu_index"]: units[p["unit"]] for p in processes if p["unit"] in units and p["gpu_index"] is not None}
    strangers: dict[str, list[t.Mapping[str, t.Any]]] = {}
    for process in processes:
        # Graphics alone is the display of the node.
        if process["unit"] not in ours and process["gpu_index"] in used and process["kind"] != "G":
            strangers.setdefault(process["unit"] or f"process {process['pid']}", []).append(process)
    return [_stranger(who, held, used) for who, held in sorted(strangers.items())]


def _stranger(who: str, held: t.Sequence[t.Mapping[str, t.Any]], used: t.Mapping[int, str]) -> Finding:
    first = held[0]
    gpus = sorted({p["gpu_index"] for p in held})
    mib = None if None in [p["used_memory_mib"] for p in held] else sum(p["used_memory_mib"] for p in held)
    looks = "vllm" in f"{who} {first['name'] or ''}".lower()
    what = "another vLLM" if looks else first["name"] or "a process that cannot be seen from here"
    return warning(
        "gpu-shared",
        f"{who} ({what}, owner {first['owner'] or 'unknown'}) holds {'unknown' if mib is None else mib} MiB on GPU"
        f" {', '.join(map(str, gpus))}, which {' and '.join(sorted({used[g] for g in gpus}))} uses.",
        "Stop it yourself if it may go: this collection ends no process of others.",
        unit=first["unit"],
        pids=sorted({p["pid"] for p in held}),
        gpus=gpus,
        used_memory_mib=mib,
        vllm=looks,
    )

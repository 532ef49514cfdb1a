# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Asks a node about its instances: the state directory, systemd, the servers, nvidia-smi. Reads only."""

from __future__ import annotations

import contextlib
import json
import os
import time
import typing as t

from .._bench import prometheus
from .._errors import ModelopsError
from .._findings import Finding, as_dicts, error
from .._gpu.collect import collect
from .._gpu.host import Runner, read_text
from .._weights import manifest
from . import journal, render, status
from .probe import Request, requester
from .release import Release, Store
from .status import Answers, Known, UnitFacts
from .systemd import Run

# What modelops.vllm 1.0.0 kept of the last good release: a directory, where later versions have a link.
_OLD: t.Final = "last_good"
_ARGS: t.Final = "args.yaml"
# The flag of every node of an engine but the first: it has no server.
_HEADLESS: t.Final = "--headless"
_NO_GPUS: t.Final = "no_nvidia_smi"
_HTTP_OK: t.Final = 200


def look(
    state_dir: str,
    wanted: t.Sequence[str],
    run: Run,
    nvidia_smi: Runner,
    *,
    sample_seconds: float,
    timeout: float,
) -> dict[str, t.Any]:
    """The result of vllm_status_info for the instances or services ``wanted``, all when empty.

    ``timeout`` bounds each request to a server. Raises ModelopsError when systemd cannot be asked.
    """
    every = known_instances(state_dir)
    chosen = [known for known in every if not wanted or known.name in wanted or known.service in wanted]
    units = _units(run, [known.unit for known in chosen])
    answers = _ask(chosen, units, sample_seconds, timeout)
    gpus: dict[str, t.Any] = collect(nvidia_smi) if chosen else {"status": "", "processes": [], "findings": []}
    has_gpus = gpus["status"] == "ok"
    now, now_us = time.time(), int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    rows: list[dict[str, t.Any]] = []
    findings = _absent(wanted, every, state_dir)
    findings += status.judge_switch(journal.Journal(state_dir).read(), journal.busy(state_dir))
    for known in chosen:
        reply = answers.get(known.name)
        unit = units.get(known.unit, UnitFacts())
        row = status.describe(known, unit, reply, gpus["processes"] if has_gpus else None, now_us=now_us, now=now)
        rows.append(row)
        findings += status.judge(row, reply.detail if reply else "")
    findings += status.judge_gpus(rows, gpus["processes"], {known.unit for known in every})
    broken = [f for f in gpus["findings"] if f["severity"] == "error" and gpus["status"] != _NO_GPUS]
    return {"instances": rows, "gpu_status": gpus["status"], "findings": as_dicts(findings) + broken}


def _absent(wanted: t.Sequence[str], every: t.Sequence[Known], state_dir: str) -> list[Finding]:
    names = [known.name for known in every]
    known_names = {*names, *(known.service for known in every)}
    return [
        error(
            "instance-unknown",
            f"There is no instance {name} in {state_dir}; there are: {', '.join(names) or 'none'}.",
            "Correct instances, or deploy it.",
            instance=name,
        )
        for name in wanted
        if name not in known_names
    ]


# ---------------------------------------------------------------------------------------------------- the disk


def known_instances(state_dir: str) -> list[Known]:
    """The instances below a state directory, sorted by name; none when it is not there."""
    store = Store(state_dir)
    try:
        names = sorted(os.listdir(os.path.join(state_dir, "instances")))
    except FileNotFoundError:
        return []
    except OSError as e:
        raise ModelopsError(f"{state_dir}/instances cannot be read: {e.strerror}.", "Run as root.") from e
    found = []
    for name in names:
        old = os.path.join(state_dir, "instances", name, _OLD)
        if os.path.isdir(old) and not os.path.islink(old):
            found.append(_old_instance(name, old))
            continue
        with contextlib.suppress(ModelopsError):  # a name that no instance can have
            known = _instance(store, name)
            found += [known] if known else []
    return found


def _instance(store: Store, name: str) -> Known | None:
    current, good = store.linked(name, "current"), store.linked(name, "last_good")
    release = current or good
    if release is None:
        return None
    facts = _with_args(dict(release.record), read_text(os.path.join(release.path, _ARGS)))
    names = [f["name"] for f in release.files]
    unit_text = "".join(read_text(os.path.join(release.path, n)) for n in names if n.startswith("unit."))
    return Known(
        name=name,
        unit=release.unit,
        service=release.service,
        # Each vLLM has an args file; vllm-router takes none.
        kind="engine" if _ARGS in names else "router",
        release=facts,
        current=current.id if current else None,
        last_good=good.id if good else None,
        url=None if _HEADLESS in unit_text else release.question.get("url") or None,
        api_key=_key(release),
    )


def _key(release: Release) -> str | None:
    try:
        return release.api_key()
    except OSError:
        return None


def _old_instance(name: str, folder: str) -> Known:
    """An instance that modelops.vllm 1.0.0 left: files of what proved itself last, without a record."""
    try:
        question = json.loads(read_text(os.path.join(folder, "question.json")))
    except ValueError:
        question = {}
    facts = _with_args({}, read_text(os.path.join(folder, _ARGS)))
    secrets = render.read_env_file(read_text(os.path.join(folder, "secrets.env")))
    return Known(
        name=name,
        unit=f"vllm-{name}.service",
        service=name,
        release=facts,
        last_good=_OLD if facts else None,
        url=question.get("url") or None,
        api_key=secrets.get("VLLM_API_KEY"),
    )


def _with_args(record: dict[str, t.Any], args: str) -> dict[str, t.Any]:
    """The record with what it lacks from the args and from the manifest of the weights."""
    facts = {**status.facts_of_args(status.parse_args(args)), **{k: v for k, v in record.items() if v is not None}}
    if facts.get("model_dir") and not facts.get("commit"):
        with contextlib.suppress(ModelopsError):
            proof = manifest.load(facts["model_dir"])
            facts |= {"repo_id": proof.repo, "commit": proof.commit} if proof else {}
    return facts


# -------------------------------------------------------------------------------------- systemd and the servers


def _units(run: Run, names: t.Sequence[str]) -> dict[str, UnitFacts]:
    if not names:
        return {}
    properties = [f"--property={name}" for name in status.UNIT_PROPERTIES]
    rc, out, err = run(["systemctl", "show", "--no-pager", *properties, "--", *names])
    if rc != 0:
        raise ModelopsError(
            f"systemctl show {' '.join(names)} failed with status {rc}: {err.strip()}", "Run on a node with systemd."
        )
    return status.parse_units(out)


def _ask(
    chosen: t.Sequence[Known], units: t.Mapping[str, UnitFacts], sample_seconds: float, timeout: float
) -> dict[str, Answers]:
    """The answers by instance. All are looked at before the wait between the two looks, and after it."""
    asked: dict[str, tuple[Request, Answers, float]] = {}
    for known in chosen:
        if known.url is not None and units.get(known.unit, UnitFacts()).active == "active":
            request = requester(known.url, known.api_key)
            first = _first_look(request, timeout)
            asked[known.name] = (request, first, time.monotonic())
    if sample_seconds > 0 and any(first.first for _request, first, _when in asked.values()):
        time.sleep(sample_seconds)
        for name, (request, first, when) in asked.items():
            if first.first is not None:
                second = prometheus.parse(request("/metrics", None, timeout).body)
                seconds = time.monotonic() - when
                full = Answers(first.health, first.detail, first.served_names, first.first, second, seconds)
                asked[name] = (request, full, when)
    return {name: answers for name, (_request, answers, _when) in asked.items()}


def _first_look(request: Request, timeout: float) -> Answers:
    health = request("/health", None, timeout)
    if health.status != _HTTP_OK:
        return Answers(health=health.status or None, detail=health.body[:200])
    models = request("/v1/models", None, timeout).json().get("data")
    names = tuple(str(m.get("id")) for m in models if isinstance(m, dict)) if isinstance(models, list) else ()
    page = request("/metrics", None, timeout)
    return Answers(health.status, "", names, prometheus.parse(page.body) if page.status == _HTTP_OK else None)

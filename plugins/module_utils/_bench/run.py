# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One benchmark run against a server that is up: readiness, then each measurement, and the file."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import secrets
import time
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .._findings import Finding, as_dicts, error, has_errors, warning
from . import api, ceiling, dataset, energy, engine, guards, nvml, points, storage
from .compare import alike
from .identity import build as build_identity
from .identity import scrub
from .measure import Facts, Job, Options, Power, measure, take_sample
from .metrics import DEFINITIONS
from .points import Measurement

# The readiness completion: long enough to learn how many characters make a token, short enough for any context.
_PROBE_CHARACTERS: t.Final = 64
_PROBE_VERSES: t.Final = 512
_PROBE_TOKENS: t.Final = 8
_READY_TIMEOUT_S: t.Final = 120.0


@dataclass
class Outcome:
    """The whole run, in the form that the module returns."""

    points: list[dict[str, t.Any]]
    findings: list[dict[str, t.Any]]
    results_file: str
    engine: str
    vllm_version: str
    complete: bool
    valid: bool
    resumed: bool


def run(options: Options) -> Outcome:
    """Measure every point as often as asked. Raises ModelopsError when nothing can be measured at all.

    A point that cannot be measured, or whose figures are wrong, becomes a record with ``valid`` false and the reason;
    the others are measured all the same.
    """
    clock = _Clock(options.max_seconds)
    if not os.path.isdir(options.target.tokenizer):
        raise ModelopsError(
            f"tokenizer {options.target.tokenizer!r} is no directory on this host.",
            "Give the model's directory, where tokenizer.json lies; the client makes prompts of exact length with it.",
        )
    prompts = dataset.read_file(options.dataset_file) if options.dataset_file else dataset.Dataset(options.dataset)
    dataset.check_size(prompts, points.schedule(options.points, options.repeats, 0))
    client = engine.find_client(options.vllm, options.engine, options.target)
    if prompts.name != "random" and not client.reads_files:
        raise ModelopsError(
            f"dataset is {prompts.name}, but vLLM's Python client reads prompts with pandas, which is not installed "
            f"beside {client.executable}.",
            "Install pandas there, use a vLLM whose Rust client is there (engine auto takes it), or dataset random.",
        )
    facts, findings = _ask_server(options)
    findings += guards.dummy_weights(options.identity)
    if options.client_check_rate:
        most = max(point.concurrency or point.warmup_streams for point in options.points)
        findings += ceiling.check(client, options.target, most, options.client_check_rate)
    power, host_gpus, driver = _power(options)
    base_seed = options.seed if options.seed is not None else secrets.randbits(31)
    sample = take_sample(options.server)
    identity = build_identity(
        options.identity,
        [options.server.api_key],
        model=options.target.model,
        server_version=facts.version,
        max_model_len=facts.max_model_len,
        sample=sample,
        engine=client.engine,
        client_version=client.version,
        loopback=options.server.loopback,
        gpus=options.gpus,
        dataset=prompts.label,
        host_gpus=host_gpus,
        driver=driver,
    )
    findings += _versions(facts.version, client.version)
    schedule = points.schedule(options.points, options.repeats, base_seed)
    names = [measurement.name for measurement in schedule]
    earlier = None
    if options.resume:
        earlier = storage.find_unfinished(options.results_dir, lambda other: alike(identity, other), names)
    run_dir, records = earlier or (storage.create_run_dir(options.results_dir), {})
    if not records:
        storage.write_text(os.path.join(run_dir, storage.DEFINITIONS_FILE), json.dumps(DEFINITIONS, indent=2) + "\n")
    first = next(iter(records.values()), None)
    order_seed = first["base_seed"] if first else base_seed
    job = Job(options, client, facts, run_dir, prompts, schedule, order_seed, power)
    unmeasured = []
    for measurement in schedule:
        if measurement.name in records:
            continue
        if clock.over(measurement.point.id):
            unmeasured.append(measurement)
            continue
        with clock.timed(measurement.point.id):
            record = measure(job, measurement)
        record.update(
            schema_version=storage.SCHEMA_VERSION,
            run=os.path.basename(run_dir),
            base_seed=base_seed,
            identity=identity,
            run_findings=as_dicts(findings),
        )
        # Errors of the server and of other libraries may quote anything.
        record = scrub(record, [options.server.api_key])
        storage.append_record(run_dir, record)
        records[measurement.name] = record
    ordered = [records[name] for name in names if name in records]
    if not ordered:
        raise ModelopsError(
            f"max_seconds is {options.max_seconds:.0f}, which did not last for one measurement.",
            "Raise it; the readiness of the server and of the client counts, too.",
        )
    findings += _unmeasured(unmeasured, {r["point"]["id"] for r in ordered}, options.max_seconds)
    return Outcome(
        points=ordered,
        findings=as_dicts(findings) + _collect(ordered),
        results_file=os.path.join(run_dir, storage.POINTS_FILE),
        engine=client.engine,
        vllm_version=client.version,
        complete=not unmeasured,
        valid=not has_errors(findings) and bool(ordered) and all(record["valid"] for record in ordered),
        resumed=earlier is not None,
    )


class _Clock:
    """The time that a run may take: no measurement starts that would not be over in time."""

    def __init__(self, max_seconds: float) -> None:
        self._deadline = time.monotonic() + max_seconds if max_seconds else math.inf
        self._took: dict[str, float] = {}

    def over(self, point: str) -> bool:
        """True when the time does not last for one more measurement of this point, as far as one is known."""
        return time.monotonic() + self._took.get(point, 0.0) >= self._deadline

    @contextlib.contextmanager
    def timed(self, point: str) -> t.Iterator[None]:
        """Learn how long a measurement of this point takes."""
        begin = time.monotonic()
        yield
        self._took[point] = time.monotonic() - begin


def _unmeasured(left: t.Sequence[Measurement], measured: t.Container[str], max_seconds: float) -> list[Finding]:
    """What the time did not last for: an error when a point was not measured at all."""
    if not left:
        return []
    never = sorted({m.point.id for m in left if m.point.id not in measured})
    make = error if never else warning
    what = f"; never: {', '.join(never)}" if never else ""
    return [
        make(
            "time-bound-reached",
            f"{len(left)} measurements were not made, since the run may take {max_seconds:.0f} s{what}.",
            "Raise max_seconds, or run again with resume to measure the rest.",
            unmeasured=len(left),
            max_seconds=max_seconds,
            points=never,
        )
    ]


def _power(options: Options) -> tuple[Power, list[energy.Gpu], str]:
    """What measures energy, and the GPUs and driver of this host when the server is on it."""
    if not options.server.loopback:
        return Power(reason="the server is not on the client's host"), [], ""
    library = nvml.open_nvml()
    if library is None:
        return Power(reason="there is no NVIDIA driver on the client's host"), [], ""
    uuids, reason = energy.choose(library.gpus, options.gpu_uuids, options.gpus)
    return Power(library, uuids, reason), library.gpus, library.driver


def _collect(records: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The findings of all records, each with its point and repeat among the numbers."""
    return [
        {**found, "numbers": {**found["numbers"], "point": record["point"]["id"], "repeat": record["repeat"]}}
        for record in records
        for found in record["findings"]
    ]


def _versions(server: str | None, client: str) -> list[Finding]:
    if not server or server.partition("+")[0] == client.partition("+")[0]:
        return []
    return [
        warning(
            "client-version-differs",
            f"The server runs vLLM {server}, the client is of {client}.",
            "Point the option vllm at the deployed one, unless this is on purpose.",
            server=server,
            client=client,
        )
    ]


def _ask_server(options: Options) -> tuple[Facts, list[Finding]]:
    """The model list, the version, and one real completion."""
    server, model = options.server, options.target.model
    findings = []
    status, document = api.get_json(server, "/v1/models")
    max_model_len = None
    if status == 404:
        findings.append(
            warning(
                "model-list-missing",
                f"{server.url}/v1/models answers 404, so the context length is not checked.",
                "Measure the vLLM server directly.",
            )
        )
    else:
        max_model_len = _model_length(server, model, status, document)
    _status, version = api.get_json(server, "/version")
    # Verses have other tokens than random letters, and an example of theirs must be long enough to tell how long.
    text = options.dataset == "text"
    characters = _PROBE_VERSES if text else _PROBE_CHARACTERS
    prompt = (dataset.verses if text else dataset.random_text)(random.Random(secrets.randbits(64)), characters)
    answer = api.complete(server, model, prompt, _PROBE_TOKENS, min(options.timeout, _READY_TIMEOUT_S))
    if answer.kind:
        raise ModelopsError(
            f"The server at {server.url} did not answer a completion of {model!r} as it must: {answer.problem}.",
            "Look at the server's log; nothing was measured.",
        )
    facts = Facts(
        max_model_len=max_model_len,
        version=str(version["version"]) if isinstance(version, dict) and version.get("version") else None,
        characters_per_token=characters / (answer.prompt_tokens or characters),
        tokens_per_event=answer.tokens_per_event,
    )
    return facts, findings


def _model_length(server: api.Server, model: str, status: int, document: t.Any) -> int | None:
    """``max_model_len`` of the served model; raises ModelopsError when the server does not serve it."""
    if status == 0:
        raise ModelopsError(f"No server answers at {server.url}.", "Start it, or correct url.")
    if status in (401, 403):
        raise ModelopsError(f"The server at {server.url} refuses the key (HTTP {status}).", "Set api_key to its key.")
    if status != 200 or not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise ModelopsError(
            f"{server.url}/v1/models answers HTTP {status} and no list of models.", "Point url at a vLLM server."
        )
    entries = {str(entry.get("id")): entry for entry in document["data"] if isinstance(entry, dict)}
    if model not in entries:
        raise ModelopsError(
            f"The server at {server.url} does not serve {model!r} but {', '.join(sorted(entries)) or 'nothing'}.",
            "Set model to a served name.",
        )
    length = entries[model].get("max_model_len")
    return int(length) if isinstance(length, (int, float)) else None

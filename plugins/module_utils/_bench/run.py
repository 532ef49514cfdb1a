# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One benchmark run against a server that is up: readiness, warm-up, load, verdict, file; for each measurement."""

from __future__ import annotations

import os
import random
import secrets
import string
import tempfile
import threading
import time
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from .._findings import Finding, as_dicts, error, has_errors, warning
from . import api, command, engine, points, prometheus, storage
from .evaluate import evaluate
from .identity import build as build_identity
from .identity import redact, scrub
from .points import Measurement, Point

# The readiness completion: long enough to learn how many characters make a token, short enough for any context.
_PROBE_CHARACTERS: t.Final = 64
_PROBE_TOKENS: t.Final = 8
_READY_TIMEOUT_S: t.Final = 120.0

# A warm-up needs its prompt's length and a few decode steps, not the whole output.
_WARMUP_TOKENS: t.Final = 128

# How long the server may take to finish what it has before a point, and to count what it finished after it.
_IDLE_TIMEOUT_S: t.Final = 15.0

_LOG_TAIL: t.Final = 15


@dataclass(frozen=True)
class Options:
    """What the user asked for, checked by :func:`plan` before anything is sent."""

    server: api.Server
    target: command.Target
    points: list[Point]
    repeats: int
    vllm: str
    engine: str
    results_dir: str
    timeout: float
    max_failures: int = 0
    gpus: int | None = None
    seed: int | None = None
    identity: t.Mapping[str, t.Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """What the server said about itself, and what its first answer taught."""

    max_model_len: int | None
    version: str | None
    characters_per_token: float
    tokens_per_event: float


@dataclass(frozen=True)
class _Job:
    """What all measurements of a run share."""

    options: Options
    client: engine.Client
    facts: Facts
    run_dir: str


@dataclass
class Outcome:
    """The whole run, in the form that the module returns."""

    points: list[dict[str, t.Any]]
    findings: list[dict[str, t.Any]]
    results_file: str
    engine: str
    vllm_version: str

    @property
    def valid(self) -> bool:
        return bool(self.points) and all(p["valid"] for p in self.points)


def run(options: Options) -> Outcome:
    """Measure every point as often as asked. Raises ModelopsError when nothing can be measured at all.

    A point that cannot be measured, or whose figures are wrong, becomes a record with ``valid`` false and the reason;
    the others are measured all the same.
    """
    if not os.path.isdir(options.target.tokenizer):
        raise ModelopsError(
            f"tokenizer {options.target.tokenizer!r} is no directory on this host.",
            "Give the model's directory, where tokenizer.json lies; the client makes prompts of exact length with it.",
        )
    client = engine.find_client(options.vllm, options.engine, options.target)
    facts, findings = _ask_server(options)
    base_seed = options.seed if options.seed is not None else secrets.randbits(31)
    sample = _sample(options.server)
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
    )
    findings += _versions(facts.version, client.version)
    run_dir = storage.create_run_dir(options.results_dir)
    job = _Job(options, client, facts, run_dir)
    records = []
    for measurement in points.schedule(options.points, options.repeats, base_seed):
        record = _measure(job, measurement)
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
        records.append(record)
    return Outcome(
        points=records,
        findings=as_dicts(findings) + _collect(records),
        results_file=os.path.join(run_dir, storage.POINTS_FILE),
        engine=client.engine,
        vllm_version=client.version,
    )


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
    prompt = _text(random.Random(secrets.randbits(64)), _PROBE_CHARACTERS)
    answer = api.complete(server, model, prompt, _PROBE_TOKENS, min(options.timeout, _READY_TIMEOUT_S))
    if answer.kind:
        raise ModelopsError(
            f"The server at {server.url} did not answer a completion of {model!r} as it must: {answer.problem}.",
            "Look at the server's log; nothing was measured.",
        )
    facts = Facts(
        max_model_len=max_model_len,
        version=str(version["version"]) if isinstance(version, dict) and version.get("version") else None,
        characters_per_token=_PROBE_CHARACTERS / (answer.prompt_tokens or _PROBE_CHARACTERS),
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


def _text(rng: random.Random, characters: int) -> str:
    """Random letters: nobody has sent them before, and each token takes at least one of them."""
    return "".join(rng.choices(string.ascii_letters, k=max(1, characters)))


def _sample(server: api.Server) -> prometheus.Sample | None:
    status, text = api.get(server, "/metrics")
    return prometheus.parse(text) if status == 200 else None


def _settle(server: api.Server) -> prometheus.Sample | None:
    """The counters once the server has nothing to do, or after a while all the same; None when it has none."""
    deadline = time.monotonic() + _IDLE_TIMEOUT_S
    sample = _sample(server)
    while sample is not None and sample.busy and time.monotonic() < deadline:
        time.sleep(0.25)
        sample = _sample(server)
    return sample


def _measure(job: _Job, measurement: Measurement) -> dict[str, t.Any]:
    """One record, without what is the same for the whole run."""
    point = measurement.point
    record: dict[str, t.Any] = {
        "point": point.as_dict(),
        "repeat": measurement.repeat,
        "seed": measurement.seed,
        "started_unix": round(time.time(), 3),
        "metrics": None,
        "server": None,
        "client": None,
        "raw": None,
    }
    findings = _fits(point, job.facts)
    if not findings:
        findings, tokens_per_event = _warm_up(job, measurement)
    if not findings:
        before = _settle(job.options.server)
        findings = _idle(before) or _load(job, measurement, before, tokens_per_event, record)
    record.update(
        ended_unix=round(time.time(), 3),
        findings=as_dicts(findings),
        valid=record["metrics"] is not None and not has_errors(findings),
    )
    return record


def _fits(point: Point, facts: Facts) -> list[Finding]:
    """Refuse a load that the server or this host cannot take."""
    excess = points.context_excess(point, facts.max_model_len)
    if excess:
        return [
            error(
                "context-too-long",
                f"{point.input_len} input and {point.output_len} output tokens are {excess} more than the server's "
                f"max_model_len of {facts.max_model_len}.",
                "Use shorter lengths, or serve with a larger max_model_len.",
                input_len=point.input_len,
                output_len=point.output_len,
                max_model_len=facts.max_model_len,
            )
        ]
    try:
        engine.raise_file_limit(point.concurrency)
    except ModelopsError as e:
        return [error("open-files-limit", e.message, e.remedy, concurrency=point.concurrency)]
    return []


def _idle(before: prometheus.Sample | None) -> list[Finding]:
    if before is None or not before.busy:
        return []
    return [
        error(
            "server-busy",
            f"The server still had {before.busy} requests of somebody else after {_IDLE_TIMEOUT_S:.0f} s.",
            "Keep other users away while the benchmark runs; the point was not measured.",
            busy=before.busy,
        )
    ]


def _warm_up(job: _Job, measurement: Measurement) -> tuple[list[Finding], float]:
    """One wave of the point's concurrency and prompt length, with prompts of its own, each stream strictly checked.

    Sent by this process: the client's own warm-up sends the run's first prompt, and a second client would cost
    another start. Returns what was wrong and the most tokens an event that a stream carried.
    """
    options, point = job.options, measurement.point
    rng = random.Random(points.derive_seed(measurement.seed, "warm-up"))
    characters = int(point.input_len * job.facts.characters_per_token)
    prompts = [_text(rng, characters) for _stream in range(point.concurrency)]
    tokens = min(point.output_len, _WARMUP_TOKENS)
    streams: list[api.Stream] = []

    def send(prompt: str) -> None:
        streams.append(api.complete(options.server, options.target.model, prompt, tokens, options.timeout))

    threads = [threading.Thread(target=send, args=(prompt,), daemon=True) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bad = [s for s in streams if s.kind]
    if bad:
        return [
            error(
                "warm-up-failed",
                f"{len(bad)} of {len(streams)} warm-up requests failed ({bad[0].kind}): {bad[0].problem}.",
                "Look at the server's log; the point was not measured.",
                failed=len(bad),
                requests=len(streams),
                kind=bad[0].kind,
            )
        ], 0.0
    return [], max(job.facts.tokens_per_event, *(s.tokens_per_event for s in streams))


def _load(
    job: _Job,
    measurement: Measurement,
    before: prometheus.Sample | None,
    tokens_per_event: float,
    record: dict[str, t.Any],
) -> list[Finding]:
    """Run the client, enter what came of it into ``record``, and return the findings."""
    options, client, run_dir = job.options, job.client, job.run_dir
    environment = command.bench_environment(os.environ, options.server.host, options.server.api_key)
    sample = (lambda: _sample(options.server)) if before is not None else None
    with tempfile.TemporaryDirectory(prefix="vllm-bench-") as work_dir:
        ran = engine.run_client(
            client,
            options.target,
            measurement,
            work_dir,
            environment=environment,
            timeout=options.timeout,
            sample=sample,
        )
        arguments = command.bench_arguments(options.target, measurement, "RESULT_DIR", client.engine)
    log = redact(ran.log, [options.server.api_key])
    tail = " | ".join(log.splitlines()[-_LOG_TAIL:])[-1500:]
    record["client"] = {
        "engine": client.engine,
        "vllm_version": client.version,
        "arguments": arguments,
        "rc": ran.rc,
        "wall_s": round(ran.wall_s, 3),
        "load_wall_s": ran.load_wall_s,
        "cpu_share": ran.cpu_share,
        "log": storage.store_log(run_dir, measurement.name, log),
    }
    if ran.raw is None:
        what = f"was ended after {options.timeout:.0f} s" if ran.timed_out else f"ended with status {ran.rc}"
        return [
            error(
                "client-timeout" if ran.timed_out else "client-failed",
                f"The benchmark client {what} and left no result. Its last lines: {tail}",
                "Raise timeout or send fewer prompts."
                if ran.timed_out
                else "Read the client's log beside the results.",
                rc=ran.rc,
                wall_s=round(ran.wall_s, 3),
            )
        ]
    raw = {**ran.raw, "errors": scrub(ran.raw.get("errors"), [options.server.api_key])}
    record["raw"] = storage.store_raw(run_dir, measurement.name, raw)
    verdict = evaluate(
        raw,
        measurement.point,
        before=before,
        after=_settle(options.server) if before is not None else None,
        between=ran.samples,
        warmup_tokens_per_event=tokens_per_event,
        engine=client.engine,
        cpu_share=ran.cpu_share,
        gpus=options.gpus,
        max_failures=options.max_failures,
    )
    record["metrics"], record["server"] = verdict.metrics, verdict.server
    return verdict.findings

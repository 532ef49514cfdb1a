# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One measurement against a server that is up: warm-up, load, verdict; the result is one record."""

from __future__ import annotations

import math
import os
import tempfile
import threading
import time
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from .._findings import Finding, as_dicts, error, has_errors
from . import api, command, dataset, energy, engine, points, process, prometheus, storage
from .evaluate import evaluate
from .identity import redact, scrub
from .nvml import Nvml
from .points import Measurement, Point
from .streams import Stream

# A warm-up needs its prompt's length and a few decode steps, not the whole output.
_WARMUP_TOKENS: t.Final = 128

# How long the server may take to finish what it has before a point, and to count what it finished after it.
_IDLE_TIMEOUT_S: t.Final = 15.0

# No socket takes a timeout of nothing.
_LEAST_TIMEOUT_S: t.Final = 0.1

_LOG_TAIL: t.Final = 15


@dataclass(frozen=True)
class Options:
    """What the user asked for, checked before anything is sent."""

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
    slo: t.Mapping[str, float] = field(default_factory=dict)
    dataset: dataset.Name = "random"
    dataset_file: str | None = None
    gpu_uuids: t.Sequence[str] = ()
    gpu_hour_price: float | None = None
    currency: str = "USD"
    resume: bool = False
    max_seconds: float = 0.0
    client_check_rate: float = 0.0
    aiperf: str = "aiperf"
    # The servers whose counters are added up, when that at the URL is a router.
    replicas: t.Sequence[api.Server] = ()


@dataclass(frozen=True)
class Facts:
    """What the server said about itself, and what its first answer taught."""

    max_model_len: int | None
    version: str | None
    lengths: dataset.Lengths
    tokens_per_event: float


@dataclass(frozen=True)
class Job:
    """What all measurements of a run share.

    ``order_seed`` shuffles a file of prompts, ``tell`` says what is done, and ``deadline`` is the moment of the
    monotonic clock at which the run must be over.
    """

    options: Options
    client: engine.Client
    facts: Facts
    run_dir: str
    dataset: dataset.Dataset
    schedule: t.Sequence[Measurement]
    order_seed: int
    power: Power
    tell: t.Callable[[str], None]
    deadline: float = math.inf

    def seconds(self) -> float:
        """How long the next step may take: the option timeout, or what is left of the run."""
        return max(_LEAST_TIMEOUT_S, min(self.options.timeout, self.deadline - time.monotonic()))


@dataclass(frozen=True)
class Power:
    """The GPUs whose energy is measured; without any the reason."""

    nvml: Nvml | None = None
    uuids: t.Sequence[str] = ()
    reason: str = ""

    def read(self) -> energy.Reading | None:
        """The counters now; None when no energy is measured."""
        return self.nvml.read(self.uuids) if self.nvml and self.uuids else None


@dataclass(frozen=True)
class _Look:
    """What is seen at one moment of the load."""

    server: prometheus.Sample | None
    power: energy.Reading | None


def take_sample(options: Options) -> prometheus.Sample | None:
    """The counters of the server, or of all its replicas, now; None when it, or one of them, shows none."""
    return prometheus.total([_sample(server) for server in options.replicas or (options.server,)])


def _sample(server: api.Server) -> prometheus.Sample | None:
    status, text = api.get(server, "/metrics")
    return prometheus.parse(text) if status == 200 else None


def _settle(options: Options) -> prometheus.Sample | None:
    """The counters once the server has nothing to do, or after a while all the same; None when it has none."""
    deadline = time.monotonic() + _IDLE_TIMEOUT_S
    sample = take_sample(options)
    while sample is not None and sample.busy and time.monotonic() < deadline:
        time.sleep(0.25)
        sample = take_sample(options)
    return sample


def measure(job: Job, measurement: Measurement) -> dict[str, t.Any]:
    """One record, without what is the same for the whole run."""
    point = measurement.point
    record: dict[str, t.Any] = {
        "point": point.as_dict(),
        "repeat": measurement.repeat,
        "seed": measurement.seed,
        "started_unix": round(time.time(), 3),
        "metrics": None,
        "energy": None,
        "cost": None,
        "server": None,
        "client": None,
        "raw": None,
    }
    findings = _fits(point, job.facts)
    if not findings:
        findings, tokens_per_event = _warm_up(job, measurement)
    if not findings:
        before = _settle(job.options)
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
        process.raise_file_limit(point.streams)
    except ModelopsError as e:
        return [error("open-files-limit", e.message, e.remedy, streams=point.streams)]
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


def _warm_up(job: Job, measurement: Measurement) -> tuple[list[Finding], float]:
    """One wave of the point's concurrency and prompt length, with prompts of its own, each stream strictly checked.

    Sent by this process: the client's own warm-up sends the run's first prompt, and a second client would cost
    another start. Returns what was wrong and the most tokens an event that a stream carried.
    """
    options, point = job.options, measurement.point
    tokens, timeout = min(point.output_len, _WARMUP_TOKENS), job.seconds()
    room = job.facts.max_model_len - tokens if job.facts.max_model_len else None
    prompts = dataset.warmup_prompts(job.dataset, point, measurement.seed, job.facts.lengths, room)
    job.tell("warm-up")
    streams: list[Stream] = []

    def send(prompt: str) -> None:
        target = options.target
        try:
            stream = api.complete(options.server, target.model, prompt, tokens, timeout, endpoint=target.endpoint)
        except Exception as e:
            # A thread that dies tells nobody, and its request would be missing among those that failed.
            stream = Stream().fail("client-error", f"{type(e).__name__}: {e}")
        streams.append(stream)

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
    job: Job,
    measurement: Measurement,
    before: prometheus.Sample | None,
    tokens_per_event: float,
    record: dict[str, t.Any],
) -> list[Finding]:
    """Run the client, enter what came of it into ``record``, and return the findings."""
    options, client, run_dir = job.options, job.client, job.run_dir
    prompts = None
    if job.dataset.name != "random" or not client.is_vllm:
        prompts = dataset.make_prompts(job.dataset, job.schedule, measurement, job.order_seed, job.facts.lengths)
    job.tell("the client starts")
    environment = command.bench_environment(os.environ, options.server.host, options.server.api_key)

    def look() -> _Look:
        power = job.power.read()
        seen = take_sample(options) if before is not None else None
        job.tell(_answered(before, seen, measurement.point.num_prompts))
        return _Look(seen, power)

    timeout = job.seconds()
    with tempfile.TemporaryDirectory(prefix="vllm-bench-") as work_dir:
        ran = engine.run_client(
            client,
            options.target,
            measurement,
            work_dir,
            environment=environment,
            timeout=timeout,
            sample=look,
            prompts=prompts,
            # What a file holds, an earlier run may have sent: the server finds only what has the same salt.
            cache_salt=f"modelops-{measurement.seed}" if job.dataset.name == "file" else "",
        )
    log = redact(ran.log, [options.server.api_key])
    tail = " | ".join(log.splitlines()[-_LOG_TAIL:])[-1500:]
    record["client"] = {
        "engine": client.engine,
        **client.version_field,
        "arguments": ran.arguments,
        "rc": ran.rc,
        "wall_s": round(ran.wall_s, 3),
        "load_begin_unix": ran.load_begin_unix,
        "load_wall_s": ran.load_wall_s,
        "cpu_share": ran.cpu_share,
        "log": storage.store_log(run_dir, measurement.name, log),
    }
    if ran.raw is None:
        what = f"was ended after {timeout:.0f} s" if ran.timed_out else f"ended with status {ran.rc}"
        return [
            error(
                "client-timeout" if ran.timed_out else "client-failed",
                f"The benchmark client {what} and left no result. Its last lines: {tail}",
                "Raise timeout (and max_seconds, where it is set) or send fewer prompts."
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
        after=_settle(options) if before is not None else None,
        between=[seen.server for seen in ran.samples if seen.server is not None],
        warmup_tokens_per_event=tokens_per_event,
        engine=client.engine,
        cpu_share=ran.cpu_share,
        gpus=options.gpus,
        max_failures=options.max_failures,
        slo=options.slo,
        random_prompts=job.dataset.name == "random",
        chat=options.target.endpoint == "chat",
    )
    record["metrics"], record["server"] = verdict.metrics, verdict.server
    if verdict.metrics:
        record["energy"] = _energy(job.power, ran.samples, verdict.metrics)
        record["cost"] = energy.cost(verdict.metrics, options.gpus, options.gpu_hour_price, options.currency)
    return verdict.findings


def _answered(before: prometheus.Sample | None, now: prometheus.Sample | None, asked: int) -> str:
    """How far the load is, as the server counts it."""
    if not before or not now or now.finished is None:
        return "load"
    count = sum(now.finished.values()) - sum((before.finished or {}).values())
    return f"{count:.0f} of {asked} requests answered"


def _energy(power: Power, samples: t.Iterable[_Look], figures: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    if not power.uuids:
        return {"valid": False, "reason": power.reason}
    return energy.measure([seen.power for seen in samples if seen.power is not None], power.uuids, figures)

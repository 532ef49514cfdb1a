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
from .._findings import Finding, as_dicts, error, has_errors, info, warning
from . import api, ceiling, dataset, energy, engine, guards, host, nvml, points, server, storage
from .compare import alike
from .identity import build as build_identity
from .identity import scrub
from .measure import Job, Options, Power, measure, take_sample
from .metrics import DEFINITIONS
from .points import Measurement
from .streams import PATHS

# A server that lives answers a few tokens in this time also while it has other work.
_ANSWER_TIMEOUT_S: t.Final = 60.0
_PROBE_CHARACTERS: t.Final = 64
_PROBE_TOKENS: t.Final = 2


@dataclass
class Outcome:
    """The whole run, in the form that the module returns."""

    points: list[dict[str, t.Any]]
    findings: list[dict[str, t.Any]]
    results_file: str
    engine: str
    vllm_version: str
    engine_version: str
    complete: bool
    valid: bool
    resumed: bool


def run(options: Options, tell: t.Callable[[str], None] = lambda _line: None) -> Outcome:
    """Measure every point as often as asked. Raises ModelopsError when nothing can be measured at all.

    A point that cannot be measured, or whose figures are wrong, becomes a record with ``valid`` false and the reason;
    the others are measured all the same. ``tell`` is called with a line for people about what is being done.
    """
    clock = _Clock(options.max_seconds)
    if options.target.tokenizer and not os.path.isdir(options.target.tokenizer):
        raise ModelopsError(
            f"tokenizer {options.target.tokenizer!r} is no directory on this host.",
            "Give the model's directory, where tokenizer.json lies; the client makes prompts of exact length with it.",
        )
    prompts = dataset.read_file(options.dataset_file) if options.dataset_file else dataset.Dataset(options.dataset)
    dataset.check_size(prompts, points.schedule(options.points, options.repeats, 0))
    tell("looking for the client, and asking the server")
    client = engine.find_client(options.vllm, options.engine, options.target, aiperf_path=options.aiperf)
    _check_reader(client, prompts)
    facts, findings = server.ask(options)
    findings += guards.dummy_weights(options.identity) + _fallback(client)
    if options.client_check_rate:
        tell("checking the client against a paced server")
        most = max(point.concurrency or point.warmup_streams for point in options.points)
        findings += ceiling.check(client, options.target, most, options.client_check_rate)
    place = options.server.place()
    library = nvml.open_nvml() if place != "remote" else None
    power = _power(options, place, library)
    base_seed = options.seed if options.seed is not None else secrets.randbits(31)
    sample = take_sample(options)
    identity = build_identity(
        options.identity,
        [options.server.api_key],
        model=options.target.model,
        server_version=facts.version,
        max_model_len=facts.max_model_len,
        sample=sample,
        client={"engine": client.engine, **client.version_field, "place": place},
        api=PATHS[options.target.endpoint],
        gpus=options.gpus,
        dataset=prompts.label,
        max_failures=options.max_failures,
        host=_host(options, place, library, client),
    )
    settings = _settings(options)
    findings += _versions(facts.version, client)
    schedule = points.schedule(options.points, options.repeats, base_seed)
    names = [measurement.name for measurement in schedule]
    earlier = None
    if options.resume:
        earlier = storage.find_unfinished(
            options.results_dir,
            lambda other: alike(identity, other["identity"]) and other.get("settings") == settings,
            names,
        )
    run_dir, records = earlier or (storage.create_run_dir(options.results_dir), {})
    if not records:
        storage.write_text(os.path.join(run_dir, storage.DEFINITIONS_FILE), json.dumps(DEFINITIONS, indent=2) + "\n")
    first = next(iter(records.values()), None)
    order_seed = first["base_seed"] if first else base_seed
    progress = _Progress(tell, len(schedule), options.repeats)
    job = Job(options, client, facts, run_dir, prompts, schedule, order_seed, power, progress.step, clock.deadline)

    def keep(measurement: Measurement, record: dict[str, t.Any]) -> None:
        record.update(
            schema_version=storage.SCHEMA_VERSION,
            run=os.path.basename(run_dir),
            base_seed=base_seed,
            identity=identity,
            settings=settings,
            run_findings=as_dicts(findings),
        )
        # Errors of the server and of other libraries may quote anything.
        records[measurement.name] = scrub(record, [options.server.api_key])
        storage.append_record(run_dir, records[measurement.name])

    wanted = [measurement for measurement in schedule if measurement.name not in records]
    unmeasured, gone = _measure_all(job, wanted, clock, progress, keep)
    ordered = [records[name] for name in names if name in records]
    findings += _unmeasured(unmeasured, {r["point"]["id"] for r in ordered}, options.max_seconds, gone)
    return Outcome(
        points=ordered,
        findings=as_dicts(findings) + _collect(ordered),
        results_file=os.path.join(run_dir, storage.POINTS_FILE),
        engine=client.engine,
        vllm_version=client.version if client.is_vllm else "",
        engine_version=client.version,
        complete=not unmeasured,
        valid=not has_errors(findings) and bool(ordered) and all(record["valid"] for record in ordered),
        resumed=earlier is not None,
    )


def _settings(options: Options) -> dict[str, t.Any]:
    """What the figures of a run are computed with, beside what is measured: one run has one of each."""
    return {
        "slo": dict(options.slo),
        "gpu_uuids": sorted(set(options.gpu_uuids)),
        "gpu_hour_price": options.gpu_hour_price,
        "currency": options.currency,
    }


def _measure_all(
    job: Job,
    wanted: t.Sequence[Measurement],
    clock: _Clock,
    progress: _Progress,
    keep: t.Callable[[Measurement, dict[str, t.Any]], None],
) -> tuple[list[Measurement], str]:
    """Make the ``wanted`` measurements and ``keep`` each one.

    Returns those that were not made, and the name of the one after which the server did not answer any more.
    """
    left = []
    for number, measurement in enumerate(wanted, len(job.schedule) - len(wanted) + 1):
        if clock.over(measurement.point.id):
            left.append(measurement)
            continue
        progress.begin(number, measurement)
        with clock.timed(measurement.point.id):
            record = measure(job, measurement)
        progress.end(record)
        if clock.cut(record):
            left.append(measurement)
            continue
        keep(measurement, record)
        doubted = _timed_out(record) or any(found["id"] == "server-gone" for found in record["findings"])
        if doubted and not _answers(job.options, job.seconds()):
            return [*left, *wanted[wanted.index(measurement) + 1 :]], measurement.name
    return left, ""


class _Clock:
    """The time that a run may take: no measurement starts that would not be over in time, as far as that is known, and
    one that is not over is ended."""

    def __init__(self, max_seconds: float) -> None:
        self.deadline = time.monotonic() + max_seconds if max_seconds else math.inf
        self._took: dict[str, float] = {}

    def over(self, point: str) -> bool:
        """True when the time does not last for one more measurement of this point, as far as one is known."""
        return time.monotonic() + self._took.get(point, 0.0) >= self.deadline

    def cut(self, record: t.Mapping[str, t.Any]) -> bool:
        """True when a measurement was ended by this clock: then it says nothing about the server."""
        return time.monotonic() >= self.deadline and _timed_out(record)

    @contextlib.contextmanager
    def timed(self, point: str) -> t.Iterator[None]:
        """Learn how long a measurement of this point takes."""
        begin = time.monotonic()
        yield
        self._took[point] = time.monotonic() - begin


class _Progress:
    """Lines such as ``point 3 of 12: c8-i512-o128-n80, repeat 1 of 3: load, 40 s; before: 1057.8 output tokens/s``."""

    def __init__(self, tell: t.Callable[[str], None], total: int, repeats: int) -> None:
        self._tell, self._total, self._repeats = tell, total, repeats
        self._head = self._last = ""
        self._since = time.monotonic()

    def begin(self, number: int, measurement: Measurement) -> None:
        """The next measurement begins."""
        self._since = time.monotonic()
        self._head = (
            f"measurement {number} of {self._total}: {measurement.point.id}, repeat {measurement.repeat} of "
            f"{self._repeats}"
        )

    def step(self, what: str) -> None:
        """Say what of it is done now."""
        self._tell(f"{self._head}: {what}, {time.monotonic() - self._since:.0f} s{self._last}")

    def end(self, record: t.Mapping[str, t.Any]) -> None:
        """It is over; its figure is told with the next one."""
        rate = (record["metrics"] or {}).get("output_tokens_per_s")
        told = f"{rate:.1f} output tokens/s" if rate else "no figures"
        self._last = f"; before: {record['point']['id']}, {told}{'' if record['valid'] else ' (invalid)'}"
        self.step("judged")


def _timed_out(record: t.Mapping[str, t.Any]) -> bool:
    """True when there was no answer, or none in time, to the warm-up or the load of a measurement."""
    return any(
        found["id"] == "client-timeout" or found["numbers"].get("kind") == "no-answer" for found in record["findings"]
    )


def _answers(options: Options, seconds: float) -> bool:
    """Whether the server answers a short completion, with whatever."""
    prompt = dataset.random_text(random.Random(secrets.randbits(64)), _PROBE_CHARACTERS)
    timeout, target = min(seconds, _ANSWER_TIMEOUT_S), options.target
    answer = api.complete(options.server, target.model, prompt, _PROBE_TOKENS, timeout, endpoint=target.endpoint)
    return answer.kind != "no-answer"


def _check_reader(client: engine.Client, prompts: dataset.Dataset) -> None:
    if prompts.name != "random" and not client.reads_files:
        raise ModelopsError(
            f"dataset is {prompts.name}, but vLLM's Python client reads prompts with pandas, which is not installed "
            f"beside {client.executable}.",
            "Install pandas there, use a vLLM whose Rust client is there (engine auto takes it), the engine builtin, "
            "or dataset random.",
        )


def _unmeasured(
    left: t.Sequence[Measurement], measured: t.Collection[str], max_seconds: float, gone: str
) -> list[Finding]:
    """What was left out because the time did not last, or because the server was ``gone`` after that measurement.

    An error when a point was not measured at all, or the server does not answer. Raises ModelopsError when no point was
    measured.
    """
    if not measured:
        raise ModelopsError(
            f"max_seconds is {max_seconds:.0f}, which did not last for one measurement.",
            "Raise it; the readiness of the server and of the client counts, too.",
        )
    if not left:
        return []
    never = sorted({m.point.id for m in left if m.point.id not in measured})
    make = error if never else warning
    what = f"; never: {', '.join(never)}" if never else ""
    if gone:
        return [
            error(
                "server-gone",
                f"The server does not answer any more since {gone}, so {len(left)} measurements were not made{what}.",
                "Look at the server's log: it hangs, crashed or was stopped.",
                unmeasured=len(left),
                points=never,
            )
        ]
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


def _power(options: Options, place: api.Place, library: nvml.Nvml | None) -> Power:
    """What measures energy, when the server is on this host."""
    if place == "remote":
        return Power(reason="the server is not on the client's host")
    if library is None:
        return Power(reason="there is no NVIDIA driver on the client's host")
    return Power(library, *energy.choose(library.gpus, options.gpu_uuids, options.gpus))


def _host(
    options: Options, place: api.Place, library: nvml.Nvml | None, client: engine.Client
) -> dict[str, t.Any] | None:
    if place == "remote":
        return None
    gpus, driver = (library.gpus, library.driver) if library else ([], "")
    return host.describe(gpus, driver, client.software, options.server.port, [options.server.api_key])


def _fallback(client: engine.Client) -> list[Finding]:
    if not client.fallback:
        return []
    return [
        info(
            "engine-builtin",
            f"The builtin client measures with aiohttp {client.version}: {client.fallback}.",
            "Nothing, unless vLLM's own client is wanted: then set vllm and tokenizer, and measure completions.",
        )
    ]


def _collect(records: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The findings of all records, each with its point and repeat among the numbers."""
    return [
        {**found, "numbers": {**found["numbers"], "point": record["point"]["id"], "repeat": record["repeat"]}}
        for record in records
        for found in record["findings"]
    ]


def _versions(server: str | None, client: engine.Client) -> list[Finding]:
    if not client.is_vllm or not server or server.partition("+")[0] == client.version.partition("+")[0]:
        return []
    return [
        warning(
            "client-version-differs",
            f"The server runs vLLM {server}, the client is of {client.version}.",
            "Point the option vllm at the deployed one, unless this is on purpose.",
            server=server,
            client=client.version,
        )
    ]

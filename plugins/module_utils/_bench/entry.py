# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The argument specification of ``vllm_bench``, and the way from its parameters to its result."""

from __future__ import annotations

import math
import typing as t

from .. import _key
from .._errors import ModelopsError
from . import api, engine, points, run
from .command import Target
from .identity import redact
from .measure import Options
from .metrics import SLO_NAMES

BENCH_SPEC: t.Final[dict[str, t.Any]] = {
    "url": {"type": "str", "required": True},
    "metrics_urls": {"type": "list", "elements": "str", "default": []},
    "model": {"type": "str", "required": True},
    "tokenizer": {"type": "path"},
    "trust_remote_code": {"type": "bool", "default": False},
    "api_key": {"type": "str", "no_log": True},
    "vllm": {"type": "path", "default": "vllm"},
    "engine": {"type": "str", "choices": ["auto", "python", "rust", "aiperf", "builtin"], "default": "auto"},
    "aiperf": {"type": "path", "default": "aiperf"},
    "endpoint": {"type": "str", "choices": ["completions", "chat"], "default": "completions"},
    "points": {
        "type": "list",
        "elements": "dict",
        "options": {
            "concurrency": {"type": "int"},
            "rate": {"type": "float"},
            "input_len": {"type": "int"},
            "output_len": {"type": "int"},
            "num_prompts": {"type": "int"},
        },
    },
    "concurrency": {"type": "list", "elements": "int", "default": [1, 8]},
    "rates": {"type": "list", "elements": "float", "default": []},
    "input_len": {"type": "int", "default": 512},
    "output_len": {"type": "int", "default": 128},
    "num_prompts": {"type": "int", "default": 0},
    "repeats": {"type": "int", "default": 3},
    "seed": {"type": "int"},
    "results_dir": {"type": "path", "required": True},
    "gpus": {"type": "int"},
    "identity": {"type": "dict", "default": {}},
    "max_failures": {"type": "int", "default": 0},
    "timeout": {"type": "int", "default": 1800},
    "slo": {"type": "dict", "options": {name: {"type": "float"} for name in SLO_NAMES}},
    "dataset": {"type": "str", "choices": ["random", "text", "file"], "default": "random"},
    "dataset_file": {"type": "path"},
    "gpu_uuids": {"type": "list", "elements": "str", "default": []},
    "gpu_hour_price": {"type": "float"},
    "currency": {"type": "str", "default": "USD"},
    "resume": {"type": "bool", "default": False},
    "max_seconds": {"type": "int", "default": 0},
    "client_check_rate": {"type": "int", "default": 0},
    "progress_interval": {"type": "int", "default": 30},
}


def redactor(api_key: str | None) -> t.Callable[[str], str]:
    """A function that removes the key from a text, also where it stands without the white space at its ends."""
    return lambda text: redact(text, [api_key, (api_key or "").strip()])


def bench_options(params: t.Mapping[str, t.Any]) -> Options:
    """The parameters of ``vllm_bench``, checked as far as that goes without a server. Raises ModelopsError."""
    for name, least in {
        "repeats": 1,
        "max_failures": 0,
        "timeout": 1,
        "gpus": 1,
        "max_seconds": 0,
        "client_check_rate": 0,
        "progress_interval": 0,
    }.items():
        if params[name] is not None and params[name] < least:
            raise ModelopsError(f"{name} is {params[name]}, but must be at least {least}.", f"Correct {name}.")
    if not params["model"]:
        raise ModelopsError("model is empty.", "Set model to the served name.")
    _check_related(params)
    url = api.normalise_url(params["url"])
    target = Target(url, params["model"], params["tokenizer"] or "", params["trust_remote_code"], params["endpoint"])
    engine.check(params["engine"], target)
    short = [{"concurrency": c} for c in params["concurrency"]] + [{"rate": rate} for rate in params["rates"]]
    loads = params["points"] if params["points"] is not None else short
    return Options(
        server=api.Server(url, _key.clean(params["api_key"])),
        target=Target(url, params["model"], params["tokenizer"] or "", params["trust_remote_code"], params["endpoint"]),
        points=points.make_points(
            loads,
            {key: params[key] for key in ("input_len", "output_len", "num_prompts")},
            fixed_input=params["dataset"] != "file",
        ),
        repeats=params["repeats"],
        vllm=params["vllm"],
        engine=params["engine"],
        results_dir=params["results_dir"],
        timeout=params["timeout"],
        max_failures=params["max_failures"],
        gpus=params["gpus"],
        seed=params["seed"],
        identity=params["identity"] or {},
        slo={name: bound for name, bound in (params["slo"] or {}).items() if bound is not None},
        dataset=params["dataset"],
        dataset_file=params["dataset_file"],
        gpu_uuids=params["gpu_uuids"],
        gpu_hour_price=params["gpu_hour_price"],
        currency=params["currency"],
        resume=params["resume"],
        max_seconds=params["max_seconds"],
        client_check_rate=params["client_check_rate"],
        aiperf=params["aiperf"],
        replicas=_replicas(params),
    )


def _replicas(params: t.Mapping[str, t.Any]) -> list[api.Server]:
    """The servers whose counters are added up. Raises ModelopsError for one that is named twice."""
    urls = [api.normalise_url(url, "metrics_urls") for url in params["metrics_urls"]]
    twice = sorted({url for url in urls if urls.count(url) > 1})
    if twice:
        raise ModelopsError(
            f"metrics_urls has {', '.join(twice)} twice, whose counters would be counted twice.",
            "Name each server once.",
        )
    return [api.Server(url, _key.clean(params["api_key"])) for url in urls]


def _check_related(params: t.Mapping[str, t.Any]) -> None:
    for name, bound in (params["slo"] or {}).items():
        if bound is not None and not (math.isfinite(bound) and bound > 0):
            raise ModelopsError(f"slo.{name} is {bound}, but must be above 0 ms.", f"Correct slo.{name}.")
    if (params["dataset"] == "file") != bool(params["dataset_file"]):
        raise ModelopsError(
            f"dataset is {params['dataset']} and dataset_file is {params['dataset_file'] or 'not set'}: a file is "
            "read with dataset file only.",
            "Set both, or neither.",
        )
    price = params["gpu_hour_price"]
    if price is not None and not (math.isfinite(price) and price > 0 and params["gpus"]):
        raise ModelopsError(
            f"gpu_hour_price is {price} and gpus is {params['gpus']}, but a cost needs a price above 0 and the number "
            "of GPUs that are paid.",
            "Set both, or leave gpu_hour_price out.",
        )


def planned(options: Options) -> dict[str, t.Any]:
    """What check mode returns: the points, and nothing that only a measurement can tell."""
    schedule = points.schedule(options.points, options.repeats, options.seed or 0)
    plan = [{"point": m.point.as_dict(), "repeat": m.repeat} for m in schedule]
    empty = {"results_file": "", "engine": "", "vllm_version": "", "engine_version": ""}
    return {"points": plan, "valid": True, "complete": False, "resumed": False, "findings": [], **empty}


def measured(options: Options, tell: t.Callable[[str], None]) -> dict[str, t.Any]:
    """Run the benchmark and return its outcome; ``tell`` gets lines about what is being done."""
    outcome = run.run(options, tell)
    return {
        "points": outcome.points,
        "valid": outcome.valid,
        "findings": outcome.findings,
        "results_file": outcome.results_file,
        "engine": outcome.engine,
        "vllm_version": outcome.vllm_version,
        "engine_version": outcome.engine_version,
        "complete": outcome.complete,
        "resumed": outcome.resumed,
    }

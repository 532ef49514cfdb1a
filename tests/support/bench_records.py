"""Benchmark records for tests of reports and comparisons: invented figures in the form that vllm_bench writes."""

from __future__ import annotations

import copy
import typing as t

_SPREAD: dict[str, t.Any] = {
    "n": 80,
    "mean": 1.0,
    "min": 1.0,
    "median": 1.0,
    "p90": 2.0,
    "p95": None,
    "p99": None,
    "max": 3.0,
}

IDENTITY: dict[str, t.Any] = {
    "model": "minimax-m2.5",
    "gpus": 8,
    "server": {"vllm_version": "0.32.0", "max_model_len": 4096, "enable_prefix_caching": "True"},
    "client": {"engine": "python", "vllm_version": "0.32.0", "place": "loopback"},
    "load": {"dataset": "random tokens"},
    "given": {"layout": "tp8-ep", "model_commit": "abc123"},
}


def record(
    concurrency: int = 8, repeat: int = 1, rate: float = 1000.0, ttft_ms: float = 50.0, **changes: t.Any
) -> dict[str, t.Any]:
    """One record; ``changes`` replace its top-level keys."""
    prompts = 10 * concurrency
    point = {
        "id": f"c{concurrency}-i512-o128-n{prompts}",
        "concurrency": concurrency,
        "input_len": 512,
        "output_len": 128,
        "num_prompts": prompts,
    }
    figures = {
        "requests": prompts,
        "failed": 0,
        "output_tokens_per_s": rate,
        "output_tokens_per_s_per_gpu": rate / 8,
        "steady_output_tokens_per_s": rate * 1.02,
        "decode_tokens_per_s_per_user": rate / concurrency,
        "ttft_ms": {**_SPREAD, "median": ttft_ms, "p90": 2 * ttft_ms, "max": 3 * ttft_ms},
        "tpot_ms": {**_SPREAD, "median": 1000 * concurrency / rate},
        "e2e_ms": {**_SPREAD, "median": 1500.0},
        "input_len": {"min": 512, "mean": 512.0, "max": 512},
    }
    return {
        "schema_version": 1,
        "run": "20260314T150926Z-8f0a1c",
        "run_findings": [],
        "point": point,
        "repeat": repeat,
        "valid": True,
        "findings": [],
        "metrics": figures,
        "server": {"acceptance_length": None},
        "identity": copy.deepcopy(IDENTITY),
        "started_unix": 1773500966.0,
        "ended_unix": 1773501000.0,
        **changes,
    }


def repeats(rates: t.Iterable[float], **changes: t.Any) -> list[dict[str, t.Any]]:
    """One record for each output rate."""
    return [record(repeat=n, rate=rate, **changes) for n, rate in enumerate(rates, 1)]


def as_baseline(records: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The records as those of an earlier run."""
    return [{**item, "run": "20260301T000000Z-ba5e11"} for item in records]


def failed(**changes: t.Any) -> dict[str, t.Any]:
    """A record of a point in which requests failed."""
    found = {
        "id": "requests-failed",
        "severity": "error",
        "message": "6 of 80 requests do not count (6 stream-cut); the budget is 0.",
        "numbers": {"failed": 6},
        "remedy": "Look at the server's log.",
    }
    return record(**{"valid": False, "findings": [found], **changes})

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Measures the client itself, before it measures a server: what it says about a server whose pace is known."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, info, warning
from . import command, engine, process
from .answers import read_requests
from .command import Target
from .metrics import compute
from .paced import PacedServer
from .points import Measurement, Point

# The paced server sends this many times the expected rate.
HEADROOM: t.Final = 2
# Errors of the client from which its figures are told to be its own.
RATE_ERROR: t.Final = 0.05
TTFT_ERROR_MS: t.Final = 10.0

_FIRST_TOKEN_S: t.Final = 0.05
_WAVES: t.Final = 2
_WAVE_S: t.Final = 1.5
_TOKENS: t.Final = (16, 512)
_PROMPT_TOKENS: t.Final = 16
_TIMEOUT_S: t.Final = 300.0


def pace(concurrency: int, tokens_per_s: float) -> tuple[Point, float]:
    """The load of the check, and the seconds between two tokens of a stream that give the rate with headroom."""
    token_s = concurrency / (HEADROOM * tokens_per_s)
    tokens = round(min(max(_WAVE_S / token_s, _TOKENS[0]), _TOKENS[1]))
    return Point(concurrency, _PROMPT_TOKENS, tokens, _WAVES * concurrency), token_s


def check(client: engine.Client, target: Target, concurrency: int, tokens_per_s: float) -> list[Finding]:
    """Run the client against the paced server at this concurrency and twice this rate; one finding with both views."""
    point, token_s = pace(concurrency, tokens_per_s)
    try:
        process.raise_file_limit(2 * concurrency)
        with PacedServer(_FIRST_TOKEN_S, token_s) as server, tempfile.TemporaryDirectory(prefix="vllm-bench-") as work:
            ran = engine.run_client(
                client,
                dataclasses.replace(target, url=server.url),
                Measurement(point, 1, 1),
                work,
                environment=command.bench_environment(os.environ, "127.0.0.1", None),
                timeout=_TIMEOUT_S,
                prompts=None if client.is_vllm else ["word " * _PROMPT_TOKENS] * point.num_prompts,
            )
        if ran.raw is None:
            last = " | ".join(ran.log.splitlines()[-3:])[-400:]
            raise ModelopsError(f"the client ended with status {ran.rc}: {last}")
        answered = [request for request in read_requests(ran.raw, point.num_prompts) if not request.error]
        figures = compute(answered, 0, concurrency)
    except ModelopsError as e:
        return [warning("client-check-failed", f"The client could not be checked: {e.message}", e.remedy)]
    truth = server.truth()
    if truth is None:
        return [warning("client-check-failed", "The client could not be checked: it sent no request.")]
    return judge(
        concurrency,
        rate=figures["output_tokens_per_s"] or 0.0,
        true_rate=truth.tokens_per_s,
        ttft_ms=figures["ttft_ms"]["median"] or 0.0,
        true_ttft_ms=truth.ttft_ms,
        cpu_share=ran.cpu_share,
    )


def judge(
    concurrency: int, *, rate: float, true_rate: float, ttft_ms: float, true_ttft_ms: float, cpu_share: float | None
) -> list[Finding]:
    """What the client said beside what the server did."""
    rate_error, ttft_error = rate / true_rate - 1, ttft_ms - true_ttft_ms
    seen = (
        f"Against a paced server at concurrency {concurrency} the client counts {rate:.0f} of {true_rate:.0f} tokens/s "
        f"({rate_error:+.1%}) and a median time to first token of {ttft_ms:.1f} instead of {true_ttft_ms:.1f} ms"
    )
    numbers: dict[str, t.Any] = {
        "concurrency": concurrency,
        "tokens_per_s": rate,
        "true_tokens_per_s": true_rate,
        "ttft_ms": ttft_ms,
        "true_ttft_ms": true_ttft_ms,
        "cpu_share": cpu_share,
    }
    if abs(rate_error) <= RATE_ERROR and abs(ttft_error) <= TTFT_ERROR_MS:
        return [info("client-checked", f"{seen}.", **numbers)]
    return [
        warning(
            "client-too-slow",
            f"{seen}: its own delays are in the figures.",
            "Use a vLLM whose Rust client is there (engine auto takes it), free the host, or measure from another one.",
            **numbers,
        )
    ]

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Compares what an engine said about itself with what was planned for it. A deviation is a warning, never a failure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._findings import Finding, warning


@dataclass(frozen=True)
class Tolerance:
    """How far a figure may be from the plan, as parts of the planned value, before it is worth a warning."""

    figure: str
    """Key of the plan and of the engine's figures."""
    id: str
    name: str
    unit: str
    below: float
    above: float
    remedy: str
    implied_by: str = ""
    """A figure that this one follows: it says nothing more once that one was reported."""


TOLERANCES: t.Final = (
    # The planner adds up the tensors: 53.72 GiB for MiniMax-M2.5 FP8 on TP4, where vLLM logs 53.75. Shards that are
    # padded to a block and vision towers are within 5 %; a lost EP, an unquantized load or a draft model are not.
    Tolerance(
        "weights_gib",
        "plan-weights-differ",
        "Weights on a GPU",
        "GiB",
        0.05,
        0.05,
        "Check the quantization, the layout in the args of the instance (tensor, pipeline and expert parallel), and"
        " whether a draft model is loaded as well.",
    ),
    # The plan sets 8 GiB aside for activations and graphs, the most that was seen; the least is 4 GiB. So the engine
    # may well have half as much again, and should hardly ever have less.
    Tolerance(
        "kv_tokens",
        "plan-kv-tokens-differ",
        "Tokens that the KV cache of one engine holds",
        "tokens",
        0.10,
        0.60,
        "Check gpu-memory-utilization, kv-cache-dtype and max-num-batched-tokens of the instance, and what else uses"
        " the GPUs.",
    ),
    Tolerance(
        "max_concurrency",
        "plan-concurrency-differs",
        "Requests of the full length that fit at once",
        "requests",
        0.10,
        0.60,
        "Check max-model-len and kv-cache-dtype of the instance.",
        implied_by="kv_tokens",
    ),
    # vLLM takes the length that it is told, or ends; only max-model-len auto shrinks it.
    Tolerance(
        "max_model_len",
        "plan-max-model-len-differs",
        "Longest request",
        "tokens",
        0.0,
        0.0,
        "Set serve_max_model_len; with auto vLLM shortens it to what fits.",
    ),
)


def compare(plan: t.Mapping[str, t.Any], engine: t.Mapping[str, t.Any]) -> list[Finding]:
    """A finding for each figure of ``engine`` (``enginelog.figures``) that is far from the one of ``plan``.

    The plan has the figures of layout_info for one engine and data parallel rank, and for its fullest GPU. What one of
    the two does not have is not compared. Numbers may be texts, which the templates of ansible-core 2.17 make of them.
    """
    findings: dict[str, Finding] = {}
    for rule in TOLERANCES:
        planned, real = _number(plan.get(rule.figure)), _number(engine.get(rule.figure))
        if not planned or real is None or rule.implied_by in findings:
            continue
        if not planned * (1 - rule.below) <= real <= planned * (1 + rule.above):
            findings[rule.figure] = warning(
                rule.id,
                f"{rule.name}: {real:,} {rule.unit}, and {planned:,} {rule.unit} were planned.",
                rule.remedy,
                planned=planned,
                real=real,
                share=round(real / planned, 3),
            )
    return list(findings.values())


def _number(value: t.Any) -> int | float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() else number

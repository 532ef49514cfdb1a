# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The plan: every layout judged, sized and explained, and the one to take."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, replace

from .._errors import ModelopsError
from .._findings import Finding, as_dicts, error, warning
from . import memory
from .backends import attention_backends, moe_backends, tuned_moe_config
from .case import Case
from .gpus import GIB
from .kernel_rules import padded_experts
from .layout import Layout, enumerate_layouts
from .memory import Parts
from .recommend import Choice, recommend
from .remarks import on_options, on_plan
from .request import Request, Verdict
from .rules import judge
from .shape import ModelShape


@dataclass(frozen=True)
class Plan:
    """All verdicts in the order asked for, and the choice."""

    request: Request
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    choice: Choice

    def as_dict(self) -> dict[str, t.Any]:
        """The form that layout_info returns."""
        request = self.request
        source = "headers" if request.measured else "config" if request.parts else None
        return {
            "layouts": [v.as_dict() for v in self.verdicts],
            "recommended": self.choice.id,
            "recommendation": self.choice.as_dict(request.objective),
            "first_valid": next((v.layout.id for v in self.verdicts if v.valid), None),
            "weights_source": source,
            "findings": as_dicts(self.findings),
        }


def make_plan(request: Request, layouts: t.Sequence[Layout] | None = None) -> Plan:
    """Judge ``layouts``, or all that make sense for the GPUs.

    :raises ModelopsError: when there is neither a layout nor a number of GPUs.
    """
    if not layouts and request.gpus is None:
        raise ModelopsError("Neither layouts nor gpus is given.", "Give the GPUs, or the layouts to judge.")
    count = request.gpus.count if request.gpus else max(x.gpus for x in layouts or ())
    every = {x: _verdict(request, x) for x in enumerate_layouts(count, request.nodes, request.shape.is_moe)}
    asked = list(dict.fromkeys(layouts)) if layouts else list(every)
    verdicts = [every.get(x) or _verdict(request, x) for x in asked]
    good = [v for v in every.values() if v.valid]
    explained = tuple(v if v.valid else _with_neighbours(v, good) for v in verdicts)
    choice = recommend(request, [v for v in explained if v.valid])
    return Plan(request, explained, tuple(on_plan(request, choice, explained)), choice)


def _verdict(request: Request, layout: Layout) -> Verdict:
    shape, gpus, parts = request.shape, request.gpus, request.parts
    case = Case(shape, layout, gpus, request.nodes, request.version, request.flags)
    findings = judge(case)
    findings += on_options(request)
    verdict = Verdict(
        layout,
        (),
        idle=None if gpus is None else max(0, gpus.count * request.nodes - layout.gpus),
        attention=attention_backends(case),
        moe=moe_backends(case),
        tuned_moe=tuned_moe_config(case),
    )
    if shape.layers and layout.pp > shape.layers:
        return replace(verdict, findings=tuple(findings))
    verdict = replace(
        verdict,
        weights=_weights(case, parts) if parts else None,
        kv_per_token=memory.kv_bytes_per_token(
            shape, layout, memory.resolve_kv_dtype(shape, gpus, request.flags.kv_cache_dtype)
        ),
        context=request.max_model_len or shape.max_position,
    )
    usable = gpus.usable_bytes if gpus else None
    if gpus is None or usable is None or verdict.weights is None:
        return replace(verdict, findings=tuple(findings))
    overhead = memory.overhead_bytes(shape, layout, gpus, request.max_num_seqs)
    least, most = memory.overhead_range(shape, layout, gpus, overhead)
    free = usable * request.share - verdict.weights
    room = free - overhead
    tokens = None if verdict.kv_per_token is None else max(0, math.floor(room / verdict.kv_per_token))
    verdict = replace(
        verdict,
        overhead=overhead,
        overheads=(least, most),
        room=(free - most, free - least),
        kv_tokens=tokens,
        fits_len=_fit(shape, tokens),
    )
    findings += _fits(request, verdict, room, usable)
    return replace(verdict, findings=tuple(findings))


def _weights(case: Case, parts: Parts) -> float:
    return memory.weight_bytes(
        case.shape,
        case.layout,
        parts,
        redundant_experts=case.flags.redundant_experts,
        padding=padded_experts(case) if case.flags.moe_backend else 1.0,
        whole_vision=case.flags.mm_encoder_tp_mode == "data",
    )


def _fit(shape: ModelShape, tokens: int | None) -> int | None:
    if tokens is None:
        return None
    return min(tokens, shape.max_position) if shape.max_position else tokens


def _fits(request: Request, verdict: Verdict, room: float, usable: int) -> t.Iterator[Finding]:
    """Weights, overhead and one request at full length must fit (v1/core/kv_cache_utils.py)."""
    share = request.share
    numbers = {
        "usable_gib": round(usable / GIB, 2),
        "utilization": share,
        "weights_gib": round((verdict.weights or 0) / GIB, 2),
        "overhead_gib": round((verdict.overhead or 0) / GIB, 2),
        "room_gib": round(room / GIB, 2),
    }
    if room <= 0:
        yield error(
            "memory",
            f"Does not fit: {numbers['weights_gib']} GiB of weights and {numbers['overhead_gib']} GiB of overhead "
            f"per GPU, {numbers['usable_gib']} GiB x {share:g} = {usable * share / GIB:.2f} GiB to use.",
            "Use more GPUs for one engine, a smaller quantization, or GPUs with more memory.",
            **numbers,
        )
        return
    tokens, context = verdict.kv_tokens, verdict.context
    if tokens is None or context is None or tokens >= context:
        return
    fact = f"The KV cache holds {tokens} tokens, one request of {context} tokens does not fit."
    numbers.update(kv_tokens=tokens, max_model_len=context)
    # For layers with a window the linear estimate is too high, so it must not block (A19).
    strict = request.max_model_len is not None and not request.shape.hybrid
    yield (error if strict else warning)(
        "kv-room" if strict else "kv-below-context",
        fact,
        f"Set max_model_len to at most {verdict.fits_len}, use kv_cache_dtype fp8 or more GPUs for one engine.",
        **numbers,
    )


def _with_neighbours(verdict: Verdict, good: t.Sequence[Verdict]) -> Verdict:
    """An invalid verdict whose errors name the nearest valid layouts."""
    mine = verdict.layout
    near = sorted(
        good,
        key=lambda v: (abs(v.layout.tp - mine.tp), v.layout.pp > 1, v.idle or 0, len(v.findings), v.layout),
    )
    if not near:
        return verdict
    texts = [v.layout.id + (f" ({v.idle} GPU idle)" if v.idle else "") for v in near[:6]]
    ids = [v.layout.id for v in near]

    def told(finding: Finding) -> Finding:
        if finding.severity != "error":
            return finding
        return replace(
            finding,
            remedy=f"{finding.remedy} Nearest valid layouts: {', '.join(texts)}.".strip(),
            numbers={**finding.numbers, "valid_layouts": ids},
        )

    return replace(verdict, findings=tuple(told(f) for f in verdict.findings))

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
from .._findings import Finding, as_dicts, error, has_errors, info, warning
from . import memory
from .case import Case
from .cost import BANDWIDTH_GB_S, LOAD_SEQUENCES, OBJECTIVES, TIE, Sized, score
from .gpus import GIB, Gpus
from .layout import Layout, enumerate_layouts
from .rules import judge
from .shape import ModelShape
from .values import Version, version_text

# Above this vLLM may pass its own check and then run out of memory in CUDA graph capture (A20, vllm#57475).
UTILIZATION_WARN = 0.95

# Warnings that make a layout second choice: it works, another works better.
_SECOND_CHOICE = frozenset({"fp8-block-moe", "experts-uneven", "tp-across-nodes", "dp-dense", "pp-support-unknown"})


@dataclass(frozen=True)
class Request:
    """What is asked. ``utilization`` and ``max_model_len`` are None for vLLM's own defaults."""

    shape: ModelShape
    gpus: Gpus | None = None
    nodes: int = 1
    version: Version | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    kv_cache_dtype: str = "auto"
    utilization: float | None = None
    objective: str = "throughput"

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ModelopsError(f"objective is {self.objective!r}.", f"Use one of {', '.join(OBJECTIVES)}.")
        if self.utilization is not None and not 0 < self.utilization <= 1:
            raise ModelopsError(
                f"gpu_memory_utilization is {self.utilization:g}, it is a part of the memory of a GPU.",
                "Give a number above 0 and up to 1, for example 0.92.",
            )
        known = {"auto", *memory.KV_DTYPES, *memory.MLA_ENTRIES}
        if self.kv_cache_dtype not in known:
            raise ModelopsError(
                f"kv_cache_dtype is {self.kv_cache_dtype!r}, whose size this version does not know.",
                f"Use one of {', '.join(sorted(known))}.",
            )


@dataclass(frozen=True)
class Verdict:
    """One layout, judged and sized. Sizes are None where the config or the GPUs do not tell."""

    layout: Layout
    findings: tuple[Finding, ...]
    weights: float | None = None
    overhead: float | None = None
    kv_per_token: int | None = None
    kv_tokens: int | None = None
    fits_len: int | None = None
    context: int | None = None
    idle: int | None = None

    @property
    def valid(self) -> bool:
        """True when nothing speaks against it."""
        return not has_errors(self.findings)

    def as_dict(self) -> dict[str, t.Any]:
        """The form that layout_info returns."""
        engines = self.layout.dp * self.layout.replicas
        per_engine = round(self.kv_tokens / self.context, 2) if self.kv_tokens is not None and self.context else None
        return {
            "id": self.layout.id,
            "tp": self.layout.tp,
            "pp": self.layout.pp,
            "dp": self.layout.dp,
            "ep": self.layout.ep,
            "replicas": self.layout.replicas,
            "gpus": self.layout.gpus,
            "idle_gpus": self.idle,
            "valid": self.valid,
            "findings": as_dicts(self.findings),
            "weights_gib_per_gpu": None if self.weights is None else round(self.weights / GIB, 2),
            "overhead_gib_per_gpu": None if self.overhead is None else round(self.overhead / GIB, 2),
            "kv_bytes_per_token": self.kv_per_token,
            "kv_tokens": self.kv_tokens,
            "kv_tokens_total": None if self.kv_tokens is None else self.kv_tokens * engines,
            "max_concurrency": per_engine,
            "max_concurrency_total": None if per_engine is None else round(per_engine * engines, 2),
            "max_model_len_fit": self.fits_len,
        }


@dataclass(frozen=True)
class Plan:
    """All verdicts in the order asked for, and the choice."""

    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    recommended: str | None
    objective: str
    ties: tuple[str, ...] = ()
    reason: str = ""
    first_valid: str | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """The form that layout_info returns."""
        return {
            "layouts": [v.as_dict() for v in self.verdicts],
            "recommended": self.recommended,
            "recommendation": {"objective": self.objective, "ties": list(self.ties), "reason": self.reason},
            "first_valid": self.first_valid,
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
    best, ties, reason = _recommend(request, [v for v in explained if v.valid])
    return Plan(
        verdicts=explained,
        findings=tuple(_general(request, bool(best), ties, explained)),
        recommended=best,
        objective=request.objective,
        ties=ties,
        reason=reason,
        first_valid=next((v.layout.id for v in explained if v.valid), None),
    )


def _verdict(request: Request, layout: Layout) -> Verdict:
    shape, gpus = request.shape, request.gpus
    findings = judge(Case(shape, layout, gpus, request.nodes, request.version))
    findings += _options(request)
    idle = None if gpus is None else max(0, gpus.count * request.nodes - layout.gpus)
    if shape.layers and layout.pp > shape.layers:
        return Verdict(layout, tuple(findings), idle=idle)
    parts = memory.parts(shape)
    dtype = memory.resolve_kv_dtype(shape, gpus, request.kv_cache_dtype)
    kv = memory.kv_bytes_per_token(shape, layout, dtype)
    weights = memory.weight_bytes(shape, layout, parts) if parts else None
    context = request.max_model_len or shape.max_position
    verdict = Verdict(layout, (), weights, None, kv, idle=idle, context=context)
    usable = gpus.usable_bytes if gpus else None
    if gpus is None or usable is None or weights is None:
        return replace(verdict, findings=tuple(findings))
    overhead = memory.overhead_bytes(shape, layout, gpus, request.max_num_seqs)
    room = usable * _utilization(request) - weights - overhead
    tokens = None if kv is None else max(0, math.floor(room / kv))
    verdict = replace(verdict, overhead=overhead, kv_tokens=tokens, fits_len=_fit(shape, tokens))
    findings += _fits(request, verdict, room, usable)
    return replace(verdict, findings=tuple(findings))


def _fit(shape: ModelShape, tokens: int | None) -> int | None:
    if tokens is None:
        return None
    return min(tokens, shape.max_position) if shape.max_position else tokens


def _utilization(request: Request) -> float:
    return request.utilization or memory.default_utilization(request.version)


def _options(request: Request) -> t.Iterator[Finding]:
    """Options that are wrong with every layout."""
    longest, wanted = request.shape.max_position, request.max_model_len
    if longest and wanted and wanted > longest:
        yield error(
            "max-model-len",
            f"max_model_len {wanted} is greater than the {longest} positions of the model.",
            f"Use at most {longest}.",
            max_model_len=wanted,
            max_position=longest,
        )
    if request.utilization and request.utilization > UTILIZATION_WARN:
        yield warning(
            "gpu-memory-utilization",
            f"gpu_memory_utilization {request.utilization:g} is above {UTILIZATION_WARN}: CUDA graph capture may run "
            "out of memory after the KV cache was sized.",
            "Lower it, lower max_num_seqs, or serve with --enforce-eager.",
            utilization=request.utilization,
        )


def _fits(request: Request, verdict: Verdict, room: float, usable: int) -> t.Iterator[Finding]:
    """Weights, overhead and one request at full length must fit (v1/core/kv_cache_utils.py)."""
    share = _utilization(request)
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


def _recommend(request: Request, good: t.Sequence[Verdict]) -> tuple[str | None, tuple[str, ...], str]:
    """(id, other ids as good, why). Second choices and idle GPUs only where there is nothing else."""
    if not good:
        return None, (), "No layout is valid."
    parts, gpus = memory.parts(request.shape), request.gpus

    def rank(v: Verdict) -> tuple[int, int, bool, bool]:
        # Pipeline stages inside a node leave GPUs waiting for each other; across nodes they are the way to go (D06).
        stages = v.layout.pp > 1 and (gpus is None or v.layout.world <= gpus.count)
        ids = {f.id for f in v.findings}
        return len(ids & _SECOND_CHOICE), v.idle or 0, stages, "kv-below-context" in ids

    least = min(map(rank, good))
    pool = [v for v in good if rank(v) == least]
    scores: dict[Layout, float] = {}
    for v in pool:
        if parts and gpus and v.weights is not None and v.kv_per_token and v.kv_tokens is not None:
            sized = Sized(v.layout, v.weights, v.kv_per_token, v.kv_tokens)
            scores[v.layout] = score(request.shape, parts, gpus, sized, request.objective)
    if len(scores) < len(pool):
        plain = min(pool, key=lambda v: (v.layout.pp, v.layout.replicas, v.layout.dp, -v.layout.tp))
        return plain.layout.id, (), "Sizes are not known, so the simplest valid layout is named."
    top = max(scores.values())
    near = [v for v in pool if scores[v.layout] >= top * (1 - TIE)]
    # What the model cannot tell apart is decided by the room for KV cache.
    best = max(near, key=lambda v: ((v.kv_tokens or 0) * v.layout.dp * v.layout.replicas, scores[v.layout]))
    ties = tuple(v.layout.id for v in near if v is not best)
    what = {
        "latency": "shortest estimated decode step of one request",
        "throughput": f"most estimated tokens per second with {LOAD_SEQUENCES} requests",
        "capacity": "most KV cache tokens",
    }[request.objective]
    return best.layout.id, ties, f"{what} among {len(pool)} of {len(good)} valid layouts"


def _general(
    request: Request, chosen: bool, ties: tuple[str, ...], verdicts: t.Sequence[Verdict]
) -> t.Iterator[Finding]:
    """What holds for the whole plan."""
    shape, gpus = request.shape, request.gpus
    names = ("layers", "hidden", "heads", "kv_heads", "experts", "vocab", "max_position")
    unknown = [n for n in names if getattr(shape, n) is None and not (n == "kv_heads" and shape.mla)]
    if unknown:
        yield info(
            "config-partial",
            f"Not in the config: {', '.join(unknown)}. The rules that need it are not judged.",
            "Give the whole config.json.",
            unknown=unknown,
        )
    if shape.unsized:
        yield warning("model-unsized", f"Memory is not computed for this model: {shape.unsized}.", "Measure it.")
    elif memory.parts(shape) is None and not unknown:
        yield warning("model-unsized", "Memory is not computed: the config lacks sizes or the quantization is unknown.")
    if shape.hybrid:
        yield info(
            "kv-estimate",
            f"{shape.full_layers} of {shape.layers} layers keep the whole context, the others a window of "
            f"{shape.sliding_window}: KV tokens are a low estimate.",
            "vLLM's log line `GPU KV cache size` has the number.",
            full_layers=shape.full_layers,
        )
    if gpus is None:
        yield info("gpus-not-given", "No GPUs were given: memory and GPU rules are not judged.", "Give gpus.")
    if request.version is None:
        yield info("version-not-given", "vllm_version was not given: the strictest version of each rule was used.")
    elif request.version > (0, 33, 0):
        yield warning(
            "version-new",
            f"vLLM {version_text(request.version)} is newer than the newest that the rules were read from (0.33.0).",
        )
    if not any(v.valid for v in verdicts):
        yield error("no-valid-layout", "None of the layouts is valid.", "Read the findings of the layouts.")
    if chosen and ties:
        yield info(
            "recommendation-tie",
            f"Within {TIE:.0%} of the recommended layout by the cost model: {', '.join(ties)}.",
            "Measure them on the node.",
            ties=list(ties),
        )
    if chosen and gpus and not gpus.is_cpu:
        known = any(gpus.name.startswith(name) for name, _rate in BANDWIDTH_GB_S)
        missing = ([] if known else ["memory bandwidth"]) + ([] if gpus.link else ["link"])
        if missing:
            yield info(
                "recommendation-confidence",
                f"The recommendation assumes a usual {' and '.join(missing)}: the GPU is not in the table or its link "
                "is not given.",
                "Give name and link of the GPUs.",
                assumed=missing,
            )

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Which of the valid layouts to take, how sure that is, and what comes next."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .cost import BANDWIDTH_GB_S, LOAD_SEQUENCES, TIE, Sized, score
from .gpus import GIB
from .memory import LOGGED_DATA_PARALLEL
from .request import Request, Verdict

# Warnings that make a layout second choice: it works, another works better.
SECOND_CHOICE = frozenset({"fp8-block-moe", "experts-uneven", "tp-across-nodes", "dp-dense", "pp-support-unknown"})

_WHAT = {
    "latency": "shortest estimated decode step of one request",
    "throughput": f"most estimated tokens per second with {LOAD_SEQUENCES} requests",
    "capacity": "most KV cache tokens",
}


@dataclass(frozen=True)
class Choice:
    """The recommended id with the ids that are as good, and all candidates with their part of the best score.

    ``assumed`` says what the cost model had to assume about this machine or model.
    """

    id: str | None
    reason: str
    ties: tuple[str, ...] = ()
    ranking: tuple[tuple[str, float], ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def confidence(self) -> str:
        """none (nothing is valid), low (something was assumed), tie (measure them) or clear."""
        if self.id is None:
            return "none"
        return "low" if self.assumed else "tie" if self.ties else "clear"

    def as_dict(self, objective: str) -> dict[str, t.Any]:
        """The form that layout_info returns."""
        return {
            "objective": objective,
            "reason": self.reason,
            "ties": list(self.ties),
            "confidence": self.confidence,
            "ranking": [{"id": id_, "score": score_} for id_, score_ in self.ranking],
        }


def recommend(request: Request, good: t.Sequence[Verdict]) -> Choice:
    """Choose among the valid layouts. Second choices and idle GPUs only where there is nothing else."""
    if not good:
        return Choice(None, "no layout is valid")
    least = min(_rank(request, v) for v in good)
    pool = [v for v in good if _rank(request, v) == least]
    scores = _scores(request, pool)
    if scores is None:
        plain = min(pool, key=lambda v: (v.layout.pp, v.layout.replicas, v.layout.dp, -v.layout.tp))
        reason = "the simplest valid layout, since sizes are not known"
        return Choice(plain.layout.id, reason, assumed=("that all valid layouts fit and are equally fast",))
    top = max(scores.values())
    near = [v for v in pool if scores[v.layout.id] >= top * (1 - TIE)]
    # What the model cannot tell apart is decided by the room for KV cache.
    best = max(near, key=lambda v: ((v.kv_tokens or 0) * v.layout.dp * v.layout.replicas, scores[v.layout.id]))
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    return Choice(
        best.layout.id,
        f"{_WHAT[request.objective]} among {len(pool)} of {len(good)} valid layouts",
        ties=tuple(v.layout.id for v in near if v is not best),
        ranking=tuple((id_, round(value / top, 3) if top else 0.0) for id_, value in ranked),
        assumed=tuple(_assumed(request, best)),
    )


def _rank(request: Request, v: Verdict) -> tuple[int, int, bool, bool]:
    """Less is better, before any score."""
    # Pipeline stages inside a node leave GPUs waiting for each other; across nodes they are the way to go (D06).
    stages = v.layout.pp > 1 and (request.gpus is None or v.layout.world <= request.gpus.count)
    ids = {f.id for f in v.findings}
    return len(ids & SECOND_CHOICE), v.idle or 0, stages, "kv-below-context" in ids


def _scores(request: Request, pool: t.Sequence[Verdict]) -> dict[str, float] | None:
    parts, gpus = request.parts, request.gpus
    scores: dict[str, float] = {}
    for v in pool:
        if parts is None or gpus is None or v.weights is None or not v.kv_per_token or v.kv_tokens is None:
            return None
        sized = Sized(v.layout, v.weights, v.kv_per_token, v.kv_tokens)
        scores[v.layout.id] = score(request.shape, parts, gpus, sized, request.objective)
    return scores


def _assumed(request: Request, best: Verdict) -> t.Iterator[str]:
    gpus = request.gpus
    if gpus is None or gpus.is_cpu:
        return
    if not any(gpus.name.startswith(name) for name, _rate in BANDWIDTH_GB_S):
        yield "a usual memory bandwidth"
    if gpus.link is None and gpus.count > 1:
        yield "a usual link"
    if request.shape.experts and best.layout.dp > LOGGED_DATA_PARALLEL and best.overhead and best.overheads:
        yield (
            f"an overhead of {best.overhead / GIB:.1f} GiB, which was logged for {LOGGED_DATA_PARALLEL} data parallel "
            f"ranks and not for {best.layout.dp} (up to {best.overheads[1] / GIB:.1f} GiB)"
        )
    if request.shape.hybrid:
        yield "a KV cache that every layer keeps whole"

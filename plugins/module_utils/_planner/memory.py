# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Bytes: the weights of one GPU, the KV cache of one token, and what is left over.

All sizes are bytes unless a name says GiB (2**30). Weights that are computed from the config leave out norms, biases
and MTP layers (below 1 % of the models that this was checked with); headers.py measures those of a snapshot.
Calibration: MiniMax-M2.5 FP8 at TP4 computes to 53.72 GiB, vLLM logs 53.75; at TP2 107.28 is logged, at DP2 with EP
109.69.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from .compat import FLOAT32_ROUTER
from .gpus import GIB, Gpus
from .layout import Layout
from .shape import ModelShape
from .values import Version

# --gpu-memory-utilization became 0.92 in 0.20 (serving facts 2b; config/cache.py).
UTILIZATION_CHANGED: Version = (0, 20, 0)

# GiB a GPU for activations, CUDA graphs, NCCL and the context. Logged by others: 8.1 (M2.5 at TP4 on
# RTX PRO 6000, 1024 sequences), 4-6 (Kimi-K2.5 at TP8), 2.5 (M2.5 at TP2 on H200, 256 sequences).
OVERHEAD_PLAN_GIB = 8.0
OVERHEAD_LEAST_GIB = 2.5
OVERHEAD_CPU_GIB = 1.0
# How far the logs behind the estimate reach: two of the three had this many sequences, none more data parallel ranks.
LOGGED_SEQUENCES = 256
LOGGED_DATA_PARALLEL = 2

# Bytes of one value in the KV cache. fp8_ds_mla and nvfp4_ds_mla are whole entries, see kv_bytes_per_token.
KV_DTYPES: t.Mapping[str, float] = {
    "bfloat16": 2,
    "bf16": 2,
    "float16": 2,
    "half": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
# Bytes a token and layer (vLLM v1/attention/backends/mla; DSA keys: 128 FP8 values and one float32 scale).
MLA_ENTRIES: t.Mapping[str, int] = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
_INDEXER_SCALE_BYTES = 4


@dataclass(frozen=True)
class Parts:
    """Weight bytes of a model by how they spread: what the formulas of :func:`weight_bytes` cut."""

    experts: float  # all routed experts of one MoE layer
    moe_rest_tp: float  # shared experts of one MoE layer, cut over TP
    dense_mlp: float  # the MLP of one dense layer, cut over TP
    attention_tp: float  # attention of one layer, cut over TP
    kv_projection: float  # K and V projections of one layer, cut over min(TP, KV heads)
    replicated: float  # router, MLA down-projections and indexer of one layer: whole on each rank
    router: float  # the router alone, absent in dense layers
    embedding: float  # embed_tokens, cut over TP; lm_head is as large
    head: float
    vision: float = 0.0  # vision tower and projector, cut over TP or whole on each rank


def parts(shape: ModelShape) -> Parts | None:
    """The bytes of each part, None when the config is too thin or the formulas do not hold."""
    hidden, layers, vocab = shape.hidden, shape.layers, shape.vocab
    if shape.unsized or shape.quant.scheme == "unknown" or not (hidden and layers and vocab and shape.heads):
        return None
    needs = [shape.moe_intermediate] if shape.experts else [shape.dense_intermediate]
    needs += [shape.dense_intermediate] if shape.dense_layers else []
    if shape.experts is None or None in needs:
        return None
    quant = shape.quant

    def size(part: str, weights: float) -> float:
        return weights * (quant.bytes_per_weight if quant.covers(part) else 2.0)

    attention = _attention(shape)
    if attention is None:
        return None
    cut, kv, whole = attention
    indexer = _indexer(shape)
    router = (4.0 if shape.architecture in FLOAT32_ROUTER else 2.0) * hidden * shape.experts
    return Parts(
        experts=size("experts", 3.0 * hidden * (shape.moe_intermediate or 0) * shape.experts),
        moe_rest_tp=size("shared", 3.0 * hidden * (shape.shared_intermediate or 0)),
        dense_mlp=size("dense", 3.0 * hidden * (shape.dense_intermediate or 0)),
        attention_tp=size("attention", cut),
        kv_projection=size("attention", kv),
        replicated=size("attention", whole + indexer),
        router=router,
        embedding=2.0 * vocab * hidden,
        head=0.0 if shape.tied_embeddings else 2.0 * vocab * hidden,
        vision=2.0 * (shape.vision_weights or 0),
    )


def _attention(shape: ModelShape) -> tuple[float, float, float] | None:
    """Weights of one attention layer: (cut over TP, K and V projections, whole on each rank)."""
    hidden, heads = float(shape.hidden or 0), float(shape.heads or 0)
    mla = shape.mla
    if mla is None:
        if not (shape.head_dim and shape.kv_heads):
            return None
        return 2 * hidden * heads * shape.head_dim, 2 * hidden * shape.kv_heads * shape.head_dim, 0.0
    if mla.qk_rope_head_dim is None or mla.qk_nope_head_dim is None or mla.v_head_dim is None:
        return None
    query = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    up = mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim) + heads * mla.v_head_dim * hidden
    down = hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    if mla.q_lora_rank:
        return up + mla.q_lora_rank * query, 0.0, down + hidden * mla.q_lora_rank
    return up + hidden * query, 0.0, down


def _indexer(shape: ModelShape) -> float:
    dsa, mla = shape.dsa, shape.mla
    if dsa is None or not (dsa.heads and dsa.head_dim):
        return 0.0
    rank = (mla.q_lora_rank if mla else None) or shape.hidden or 0
    return rank * dsa.heads * dsa.head_dim + (shape.hidden or 0) * (dsa.head_dim + dsa.heads)


def split_layers(layers: int, pp: int) -> list[int]:
    """Layers of each pipeline stage as vLLM 0.32 splits them (distributed/utils.py get_pp_indices).

    The remainder goes to the stages before the last one.
    """
    stages = [layers // pp] * pp
    for i in range(2, layers % pp + 2):
        stages[-i] += 1
    return stages


def weight_bytes(
    shape: ModelShape,
    layout: Layout,
    sized: Parts,
    *,
    redundant_experts: int = 0,
    padding: float = 1.0,
    whole_vision: bool = False,
) -> float:
    """Weight bytes on the fullest GPU. DP replicates everything but the experts (EP) or cuts them too (no EP).

    :param padding: how many times its share of the experts a rank holds (kernel_rules.padded_experts).
    :param whole_vision: each rank holds the whole vision tower (--mm-encoder-tp-mode data).
    """
    stages = split_layers(shape.layers or 0, layout.pp)
    moe = 1.0 if shape.experts else 0.0
    share = padding * _expert_share(shape.experts or 0, redundant_experts, layout)
    attention = (
        sized.attention_tp / layout.tp
        + sized.kv_projection / min(layout.tp, shape.kv_heads or layout.tp)
        + sized.replicated
    )
    moe_layer = attention + moe * (sized.experts * share + sized.moe_rest_tp / layout.tp + sized.router)
    dense_layer = attention + sized.dense_mlp / layout.tp
    vision = sized.vision if whole_vision else sized.vision / layout.tp
    worst, first = 0.0, 0
    for i, count in enumerate(stages):
        dense = count if not moe else max(0, min(shape.dense_layers - first, count))
        ends = (sized.embedding if i == 0 else 0.0) + (sized.head if i == len(stages) - 1 else 0.0)
        held = dense * dense_layer + (count - dense) * moe_layer + ends / layout.tp
        worst = max(worst, held + (vision if i == 0 else 0.0))
        first += count
    return worst


def _expert_share(experts: int, redundant: int, layout: Layout) -> float:
    """The part of all expert bytes that the fullest rank holds."""
    if not experts:
        return 0.0
    return math.ceil((experts + redundant) / layout.ep_size) / experts if layout.ep else 1 / layout.moe_tp


def resolve_kv_dtype(shape: ModelShape, gpus: Gpus | None, wanted: str) -> str:
    """What ``auto`` becomes: FP8 where the checkpoint says so, the packed entry where sparse MLA needs it."""
    if wanted not in ("", "auto"):
        return wanted
    if shape.dsa and gpus and gpus.compute_cap and gpus.compute_cap[0] == 12:
        return "fp8_ds_mla"  # FLASHINFER_MLA_SPARSE_SM120 takes nothing else
    return "fp8" if shape.quant.kv_cache_fp8 else "bfloat16"


def kv_bytes_per_token(shape: ModelShape, layout: Layout, dtype: str) -> int | None:
    """KV cache bytes of one token on one GPU, of the pipeline stage with the most layers. Ranks of decode context
    parallelism hold every so many tokens, which counts as that part of each.

    Layers with a window count as whole ones: their share depends on the length of the requests.
    """
    if shape.unsized or not shape.layers:
        return None
    layers = max(split_layers(shape.layers, layout.pp))
    if shape.mla is None:
        if not (shape.kv_heads and shape.head_dim) or dtype not in KV_DTYPES:
            return None
        per_token = layers * 2 * max(1, shape.kv_heads // layout.tp) * shape.head_dim * KV_DTYPES[dtype]
        return math.ceil(per_token / layout.dcp)
    if shape.mla.qk_rope_head_dim is None:
        return None
    if dtype in MLA_ENTRIES or (shape.dsa and KV_DTYPES.get(dtype) == 1):
        entry: float = MLA_ENTRIES.get(dtype, MLA_ENTRIES["fp8_ds_mla"])
    else:
        entry = (shape.mla.kv_lora_rank + shape.mla.qk_rope_head_dim) * KV_DTYPES[dtype]
    if shape.dsa:
        entry += (shape.dsa.head_dim or 128) + _INDEXER_SCALE_BYTES
    return math.ceil(layers * entry / layout.dcp)


def default_utilization(version: Version | None) -> float:
    """The default of --gpu-memory-utilization; without a version that of current ones."""
    return 0.90 if version is not None and version < UTILIZATION_CHANGED else 0.92


def overhead_range(shape: ModelShape, layout: Layout, gpus: Gpus, plan: float) -> tuple[float, float]:
    """(least, most) bytes around the plan value: what was logged at the ends, or more where the estimate says so."""
    if gpus.is_cpu:
        return plan, plan
    estimate = overhead_bytes(shape, layout, gpus, LOGGED_SEQUENCES)
    return min(plan, OVERHEAD_LEAST_GIB * GIB), max(plan, estimate, OVERHEAD_PLAN_GIB * GIB)


def overhead_bytes(shape: ModelShape, layout: Layout, gpus: Gpus, max_num_seqs: int | None) -> float:
    """Bytes of a GPU that are neither weights nor KV cache: the plan value.

    Without ``max_num_seqs`` the upper value that was logged. With it a model through the three logged points
    (M2.5: TP4 with 1024 sequences 8.1 GiB, TP2 with 256 2.5 GiB, DP2 with EP and 256 4.8 GiB): the expert
    activations of one batch of 8192 tokens of all DP ranks, and ten float32 rows of logits for each sequence
    above 256, which the sampler sorts. Three points and three constants: a fit, not a proof, and with more DP ranks
    than LOGGED_DATA_PARALLEL an extrapolation.
    """
    if gpus.is_cpu:
        return OVERHEAD_CPU_GIB * GIB
    if max_num_seqs is None or not (shape.hidden and shape.vocab):
        return OVERHEAD_PLAN_GIB * GIB
    activations = 0.0
    if shape.experts and shape.moe_intermediate:
        tokens = 8192 * (layout.dp if layout.ep else 1)
        width = shape.hidden + 2 * shape.moe_intermediate / layout.moe_tp
        activations = 2.5 * tokens * (shape.experts_per_token or 8) * width * 2
    logits = 10 * 4 * shape.vocab * max(0, max_num_seqs - LOGGED_SEQUENCES)
    return max(OVERHEAD_LEAST_GIB * GIB, 1.1 * GIB + activations + logits)

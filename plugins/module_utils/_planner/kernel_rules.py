# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Rules on quantized weights and kernels: what a cut leaves of blocks and groups, and what a GPU can compute.

Sources are files of vLLM 0.32.0 unless a rule names another.
"""

from __future__ import annotations

import math
import typing as t

from .._findings import Finding, error, info, warning
from . import compat
from .backends import WHOLE_BLOCK_MOE
from .case import Case, Findings
from .shape import ModelShape


def fp8_block_moe(case: Case) -> Findings:
    """FP8 blocks must survive the cut of each expert over TP x DP (no EP).

    To 0.28 vLLM refuses (fp8_utils.validate_fp8_block_shape_moe); from 0.29 it loads with refined blocks that
    only Triton kernels take (compat.FP8_REFINES). The maintainers closed the patches that padded TP8 of
    MiniMax-M2.x (vllm#39046, vllm#48173), so the rule speaks for every version: as an error where vLLM refuses or
    no version is given, as a warning where it loads. A forced MoE backend that takes whole blocks only refuses them in
    0.29 and 0.30, and from 0.31 pads each shard to whole blocks (compat.FP8_PADS).
    """
    shape, layout = case.shape, case.layout
    block = shape.quant.block
    if block is None or shape.is_moe is False or not shape.quant.covers("experts"):
        return
    width, cut = shape.moe_intermediate, layout.moe_tp
    if width is None:
        yield info("fp8-block-moe-unknown", "The width of the experts is not in the config: FP8 blocks are not judged.")
        return
    if width % cut == 0 and (width // cut) % block[0] == 0 and (cut == 1 or (width // cut) % block[1] == 0):
        return
    shard = _quotient(width, cut)
    sharded = "TP" if layout.dp == 1 else "TP x DP"
    fact = f"FP8 blocks of {block[0]} do not fit the experts: {width}/{cut} = {shard:g} per rank ({sharded} without EP)"
    numbers = {
        "moe_intermediate": width,
        "moe_tp": cut,
        "shard": shard,
        "block": block[0],
        "remainder": shard % block[0],
    }
    whole = width // cut if width % cut == 0 else 0
    refined = math.gcd(*block, whole, shape.hidden or 0)
    remedy = "Use expert parallelism, which leaves experts whole, or a smaller tensor parallel size."
    forced = case.flags.moe_backend
    if case.version and case.version >= compat.FP8_REFINES and forced in WHOLE_BLOCK_MOE:
        yield _forced_whole_blocks(case, fact, remedy, numbers)
        return
    if case.version and case.version >= compat.FP8_REFINES and whole and refined >= compat.FP8_LEAST_BLOCK:
        yield warning(
            "fp8-block-moe",
            f"{fact}, {whole} % {block[0]} = {whole % block[0]}. {case.vllm} loads it with blocks refined to "
            f"{refined}, which only Triton kernels take.",
            remedy,
            **numbers,
            refined_block=refined,
        )
        return
    why = f"{case.vllm} refuses it" if case.version else "vLLM up to 0.28 refuses it, later ones need Triton kernels"
    yield error("fp8-block-moe", f"{fact}, {shard:g} % {block[0]} = {shard % block[0]:g}. {why}.", remedy, **numbers)


def _forced_whole_blocks(case: Case, fact: str, remedy: str, numbers: dict[str, t.Any]) -> Finding:
    """What a forced backend that knows no refined blocks makes of it."""
    forced, block = case.flags.moe_backend, numbers["block"]
    numbers = {**numbers, "moe_backend": forced}
    padded = math.ceil(numbers["shard"] / block) * block
    pads = case.version and case.version >= compat.FP8_PADS
    if pads and numbers["moe_intermediate"] % block == 0 and (case.shape.hidden or 0) % block == 0:
        more = padded / numbers["shard"] - 1
        return warning(
            "fp8-block-moe",
            f"{fact}. {case.vllm} pads them to {padded} for moe_backend {forced}: the experts take {more:.0%} more.",
            remedy,
            **numbers,
            padded=padded,
        )
    return error(
        "fp8-block-moe",
        f"{fact}, and moe_backend {forced} takes whole blocks only: {case.vllm} refuses it.",
        f"{remedy} Without moe_backend vLLM takes Triton.",
        **numbers,
    )


def padded_experts(case: Case) -> float:
    """How many times its share of the experts a rank holds: more than 1 where shards are padded to whole blocks."""
    for finding in fp8_block_moe(case):
        if "padded" in finding.numbers:
            return float(finding.numbers["padded"] / finding.numbers["shard"])
    return 1.0


def fp8_block_linear(case: Case) -> Findings:
    """FP8 blocks of linear layers, which TP always cuts, EP or not (fp8_utils.validate_fp8_block_shape).

    A06: the shared expert of DeepSeek-V4 at TP16 is 3072/16 = 192.
    """
    shape, tp = case.shape, case.layout.tp
    block = shape.quant.block
    if block is None:
        return
    for part, what, width, least in _linear_widths(shape, tp):
        if not width or not shape.quant.covers(part):
            continue
        shard = _quotient(width, tp) if least is None else max(_quotient(width, tp), least)
        bad = [b for b in dict.fromkeys(block) if shard % b]
        if bad and (tp > 1 or part != "attention"):
            yield error(
                "fp8-block-linear",
                f"FP8 blocks of {bad[0]} do not fit {what}: {width}/{tp} = {shard:g} per rank, "
                f"{shard:g} % {bad[0]} = {shard % bad[0]:g}. Tensor parallelism cuts it with and without EP.",
                "Use a smaller tensor parallel size, with data or pipeline parallelism for the other GPUs.",
                part=what,
                width=width,
                tp=tp,
                shard=shard,
                block=bad[0],
            )


def _quotient(width: int, ranks: int) -> float:
    """width / ranks, as an int where it is one."""
    return width // ranks if width % ranks == 0 else width / ranks


def _linear_widths(shape: ModelShape, tp: int) -> t.Iterator[tuple[str, str, int | None, int | None]]:
    """(part, name, width that TP cuts, least width a rank) of the linear layers of a model."""
    yield "shared", "the shared experts", shape.shared_intermediate, None
    if shape.experts == 0 or shape.dense_layers:
        yield "dense", "the dense MLP", shape.dense_intermediate, None
    heads, mla = shape.heads, shape.mla
    if heads and heads % tp:
        return  # the head rule has spoken
    if mla is None:
        if heads and shape.head_dim:
            yield "attention", "the attention output", heads * shape.head_dim, None
            kv = shape.kv_heads
            if kv and (kv % tp == 0 or tp % kv == 0):
                yield "attention", "the KV projection", kv * shape.head_dim, shape.head_dim
        return
    if heads and mla.v_head_dim:
        yield "attention", "the attention output", heads * mla.v_head_dim, None
    if heads and mla.qk_nope_head_dim and mla.qk_rope_head_dim:
        yield "attention", "the query projection", heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim), None


def quant_groups(case: Case) -> Findings:
    """A rank must hold whole groups of the values that share a scale, along the input of row parallel layers.

    quantization/modelopt.py (NVFP4: 16, MXFP8: 32), quantization/utils/marlin_utils.py (INT4 groups). vLLM pads MXFP4.
    """
    shape, layout = case.shape, case.layout
    group = shape.quant.group
    if group is None or shape.quant.scheme not in ("nvfp4", "mxfp8", "group"):
        return
    rows = [("experts", "the experts", shape.moe_intermediate if shape.experts else None, layout.moe_tp)]
    rows += [
        (part, what, width, layout.tp) for part, what, width, least in _linear_widths(shape, layout.tp) if least is None
    ]
    for part, what, width, cut in rows:
        if width and shape.quant.covers(part) and (width / cut) % group:
            yield error(
                "quant-group",
                f"Groups of {group} values ({shape.quant.scheme}) do not fit {what}: {width}/{cut} = {width / cut:g} "
                "per rank.",
                "Use a smaller tensor parallel size, or expert parallelism if it is the experts.",
                part=what,
                width=width,
                ranks=cut,
                shard=_quotient(width, cut),
                group=group,
            )


def quant_capability(case: Case) -> Findings:
    """Quantized weights need kernels for the GPU (compat.QUANT_SUPPORT; A13 is FP8 on A100)."""
    quant, gpus = case.shape.quant, case.gpus
    if quant.scheme == "unknown":
        yield warning(
            "quantization-unknown",
            "The quantization of this checkpoint is not known: its rules and sizes are not judged.",
            "Compare with the model card.",
        )
        return
    support = compat.QUANT_SUPPORT.get(quant.scheme)
    if support is None or gpus is None or gpus.compute_cap is None:
        return
    cap = case.capability
    if gpus.compute_cap < support.loads:
        yield error(
            "quantization-capability",
            f"{quant.scheme} weights need compute capability {'.'.join(map(str, support.loads))}, this GPU has {cap}.",
            "Use another checkpoint or newer GPUs.",
            scheme=quant.scheme,
            compute_cap=cap,
        )
    elif gpus.compute_cap < support.native:
        yield warning(
            "quantization-not-native",
            f"Compute capability {cap} does not compute {quant.scheme}: vLLM falls back to {support.below_native}.",
            f"Native from {'.'.join(map(str, support.native))}.",
            scheme=quant.scheme,
            compute_cap=cap,
        )

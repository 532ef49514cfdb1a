# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The rules: one function for each, with its source; each says everything it has to say as findings.

Sources are files of vLLM 0.32.0 unless a rule names another; "serving facts" is the table 2a of the project.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from .._findings import Finding, error, info, warning
from . import compat
from .gpus import Gpus
from .layout import Layout
from .memory import split_layers
from .shape import ModelShape
from .values import Version, version_text

Findings = t.Iterator[Finding]


@dataclass(frozen=True)
class Case:
    """One layout to judge: of which model, on which GPUs, for which vLLM (None is "not known")."""

    shape: ModelShape
    layout: Layout
    gpus: Gpus | None = None
    nodes: int = 1
    version: Version | None = None

    @property
    def vllm(self) -> str:
        """The version in a sentence."""
        return f"vLLM {version_text(self.version)}" if self.version else "vLLM (version not given)"


def attention_heads(case: Case) -> Findings:
    """Every rank gets as many heads as the others (config/model.py verify_with_parallel_config)."""
    heads, tp = case.shape.heads, case.layout.tp
    if heads and heads % tp:
        sizes = [n for n in range(1, heads + 1) if heads % n == 0]
        yield error(
            "attention-heads",
            f"{heads} attention heads cannot be split over tensor parallel size {tp}: {heads} % {tp} = {heads % tp}.",
            f"Tensor parallel sizes that divide {heads}: {', '.join(map(str, sizes))}.",
            heads=heads,
            tp=tp,
            remainder=heads % tp,
            valid_tp=sizes,
        )


def kv_heads(case: Case) -> Findings:
    """KV heads are split, or each is held by a whole number of ranks (model_executor/models, for example
    minimax_m2.py); an assertion without a text in vLLM."""
    kv, tp = case.shape.kv_heads, case.layout.tp
    if not kv or case.shape.mla:
        return
    if kv % tp and tp % kv:
        yield error(
            "kv-heads",
            f"{kv} KV heads and tensor parallel size {tp} do not divide each other.",
            "Use a size that divides the KV heads or is a multiple of them.",
            kv_heads=kv,
            tp=tp,
        )
    elif tp > kv:
        yield info(
            "kv-heads-replicated",
            f"{kv} KV heads on {tp} ranks: each is held {tp // kv} times, and so is the KV cache.",
            kv_heads=kv,
            tp=tp,
            copies=tp // kv,
        )


def mla_replicated(case: Case) -> Findings:
    """The latent KV vector of MLA is not cut (serving facts 2a)."""
    if case.shape.mla and case.layout.tp > 1:
        yield info(
            "mla-kv-replicated",
            f"Multi-head latent attention: every one of the {case.layout.tp} tensor parallel ranks holds the whole "
            "KV cache.",
            "Data parallel attention with expert parallelism holds it once for each rank's own requests.",
            tp=case.layout.tp,
        )


def vision_heads(case: Case) -> Findings:
    """The vision tower is cut over TP as well (A11: GLM-4.5V has 12 heads there)."""
    heads, tp = case.shape.vision_heads, case.layout.tp
    if heads and heads % tp:
        yield error(
            "vision-heads",
            f"{heads} heads of the vision tower cannot be split over tensor parallel size {tp}: "
            f"{heads} % {tp} = {heads % tp}.",
            "Use a smaller size with pipeline parallelism or replicas, or serve with --mm-encoder-tp-mode data "
            "(vLLM 0.10.2 and later), which this plan does not assume.",
            vision_heads=heads,
            tp=tp,
            remainder=heads % tp,
        )


def experts(case: Case) -> Findings:
    """Experts must exist for EP, be no fewer than the ranks, and better be spread evenly.

    config/model.py (EP needs experts), models/minimax_m2.py (experts >= TP), layers/fused_moe/layer.py (an
    uneven map is built; EPLB refuses it), compat.EVEN_EXPERTS.
    """
    count, layout = case.shape.experts, case.layout
    if count is None:
        if layout.ep:
            yield info("experts-unknown", "The config names no experts: expert parallelism is not judged.")
        return
    if count == 0:
        if layout.ep:
            yield error(
                "ep-dense",
                "Expert parallelism needs a mixture-of-experts model, this one has 0 experts.",
                "Leave out -ep.",
                experts=0,
            )
        return
    if layout.tp > count or layout.ep_size > count:
        ranks = max(layout.tp, layout.ep_size)
        yield error(
            "experts-fewer-than-ranks",
            f"{count} experts are fewer than {ranks} ranks.",
            f"Use at most {count} ranks.",
            experts=count,
            ranks=ranks,
        )
    elif layout.ep and count % layout.ep_size:
        rest = count % layout.ep_size
        strict = case.shape.architecture in compat.EVEN_EXPERTS
        yield (error if strict else warning)(
            "experts-uneven",
            f"{count} experts over {layout.ep_size} expert parallel ranks are uneven: {count} % {layout.ep_size} = "
            f"{rest}" + (f", which {case.shape.architecture} refuses." if strict else
                         ". The fullest ranks set the pace; EPLB and some model classes refuse it."),
            f"Use a number of ranks that divides {count}.",
            experts=count,
            ep_size=layout.ep_size,
            remainder=rest,
        )  # fmt: skip


def fp8_block_moe(case: Case) -> Findings:
    """FP8 blocks must survive the cut of each expert over TP x DP (no EP).

    To 0.28 vLLM refuses (fp8_utils.validate_fp8_block_shape_moe); from 0.29 it loads with refined blocks that
    only Triton kernels take (compat.FP8_REFINES). The maintainers closed the patches that padded TP8 of
    MiniMax-M2.x (vllm#39046, vllm#48173), so the rule speaks for every version: as an error where vLLM refuses or
    no version is given, as a warning where it loads.
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

    quantization/modelopt.py (NVFP4: 16), quantization/utils/marlin_utils.py (INT4 groups). vLLM pads MXFP4.
    """
    shape, layout = case.shape, case.layout
    group = shape.quant.group
    if group is None or shape.quant.scheme not in ("nvfp4", "group"):
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


def vocabulary(case: Case) -> Findings:
    """The vocabulary is padded to 64 and then cut (layers/vocab_parallel_embedding.py)."""
    vocab, tp = case.shape.vocab, case.layout.tp
    if vocab is None:
        return
    padded = -(-vocab // 64) * 64
    if padded % tp:
        yield error(
            "vocabulary",
            f"A vocabulary of {vocab}, padded to {padded}, cannot be split over tensor parallel size {tp}: "
            f"{padded} % {tp} = {padded % tp}.",
            "Powers of two up to 64 always fit.",
            vocab=vocab,
            padded=padded,
            tp=tp,
        )


def pipeline(case: Case) -> Findings:
    """PP needs the SupportsPP interface and a layer for each stage (config/model.py, distributed/utils.py)."""
    shape, pp = case.shape, case.layout.pp
    if pp == 1:
        return
    arch = shape.architecture
    refusal = compat.NO_PIPELINE.get(arch)
    if refusal and (refusal.until is None or case.version is None or case.version < refusal.until):
        later = f" It is known to work from {version_text(refusal.until)}." if refusal.until else ""
        yield error(
            "pp-unsupported",
            f"{arch} does not support pipeline parallelism in {case.vllm} ({refusal.source}).{later}",
            "Use tensor parallelism in the node, and data plus expert parallelism across nodes.",
            architecture=arch,
            pp=pp,
        )
    elif not refusal and arch not in compat.PIPELINE:
        yield warning(
            "pp-support-unknown",
            f"Whether {arch or 'this architecture'} supports pipeline parallelism is not in the tables.",
            "vLLM says so at start; a layout without -pp avoids the question.",
            architecture=arch,
            pp=pp,
        )
    elif arch in compat.MTP_WITHOUT_PIPELINE:
        yield warning(
            "pp-without-mtp",
            f"{arch} takes pipeline parallelism, its MTP draft does not: with a speculative config of method mtp vLLM "
            "refuses the start.",
            "Serve without MTP, or without -pp.",
            architecture=arch,
            pp=pp,
        )
    if not shape.layers:
        return
    stages = split_layers(shape.layers, pp)
    if 0 in stages:
        yield error(
            "pp-layers",
            f"{shape.layers} layers are fewer than {pp} pipeline stages.",
            f"Use at most {shape.layers}.",
            layers=shape.layers,
            pp=pp,
        )
    elif shape.layers % pp:
        yield info(
            "pp-uneven",
            f"{shape.layers} layers over {pp} stages are uneven: {stages}.",
            "VLLM_PP_LAYER_PARTITION sets another split.",
            layers=shape.layers,
            stages=stages,
        )


def enough_gpus(case: Case) -> Findings:
    """The ranks must fit the node, or the nodes with the native multi-node backend (config/parallel.py)."""
    gpus, layout, nodes = case.gpus, case.layout, case.nodes
    if gpus is None:
        return
    total = gpus.count * nodes
    where = f"{gpus.count} GPUs" if nodes == 1 else f"{nodes} nodes of {gpus.count} GPUs"
    if layout.gpus > total:
        yield error(
            "gpus-too-few",
            f"{layout.id} needs {layout.gpus} GPUs ({layout.tp} x {layout.pp} x {layout.dp} x {layout.replicas}), "
            f"there are {where}.",
            "Use fewer ranks or replicas; more nodes need nodes and the native multi-node backend (--nnodes, "
            "--node-rank, --master-addr).",
            needed=layout.gpus,
            available=total,
        )
    elif layout.world <= gpus.count and -(-layout.replicas // (gpus.count // layout.world)) > nodes:
        yield error(
            "replicas-split",
            f"{layout.replicas} replicas of {layout.world} GPUs do not fit {where} without cutting one in two.",
            f"Use at most {gpus.count // layout.world * nodes} replicas.",
            replicas=layout.replicas,
            fit=gpus.count // layout.world * nodes,
        )
    elif layout.world > gpus.count:
        yield from _across_nodes(case, gpus)


def _across_nodes(case: Case, gpus: Gpus) -> Findings:
    layout = case.layout
    used = -(-layout.world // gpus.count)
    if layout.world % used or (layout.tp * layout.pp) % max(1, min(gpus.count, layout.tp * layout.pp)):
        yield error(
            "nodes-uneven",
            f"{layout.world} ranks do not spread evenly over {used} nodes of {gpus.count} GPUs.",
            "Use a multiple of the GPUs of a node.",
            ranks=layout.world,
            nodes=used,
        )
    if case.version and case.version < compat.NATIVE_MULTI_NODE:
        yield error(
            "multi-node-version",
            f"{case.vllm} has no --nnodes, which one engine on {used} nodes needs.",
            f"Use vLLM {version_text(compat.NATIVE_MULTI_NODE)} or later.",
            nodes=used,
        )
    if layout.tp > gpus.count:
        yield warning(
            "tp-across-nodes",
            f"Tensor parallel size {layout.tp} crosses nodes of {gpus.count} GPUs: each layer waits for the network.",
            "Keep tensor parallelism in the node, with pipeline or data plus expert parallelism across nodes.",
            tp=layout.tp,
            gpus=gpus.count,
        )
    else:
        yield info(
            "multi-node",
            f"One engine spans {used} nodes: it needs --nnodes, --node-rank and --master-addr with the mp backend.",
            nodes=used,
        )


def dp_dense(case: Case) -> Findings:
    """DP of a dense model is replicas behind one door (engine/arg_utils.py, config/parallel.py)."""
    if case.shape.experts == 0 and case.layout.dp > 1:
        yield warning(
            "dp-dense",
            f"Data parallel size {case.layout.dp} on a dense model does nothing that replicas do not; vLLM refuses it "
            "offline and with an external load balancer.",
            f"Use tp{case.layout.tp}-r{case.layout.dp}.",
            dp=case.layout.dp,
        )


def sparse_mla(case: Case) -> Findings:
    """Sparse MLA has kernels for some GPU families only (compat.SPARSE_MLA)."""
    dsa, gpus, version = case.shape.dsa, case.gpus, case.version
    if dsa is None or gpus is None or gpus.compute_cap is None:
        return
    family = gpus.compute_cap[0]
    cap = ".".join(map(str, gpus.compute_cap))
    first = compat.SPARSE_MLA.get(family)
    numbers = {"compute_cap": cap, "index_topk": dsa.topk}
    if first is None:
        yield error(
            "sparse-mla",
            f"No attention backend of vLLM serves sparse MLA (index_topk {dsa.topk}) on compute capability {cap}.",
            "Use GPUs of compute capability 9.0, 10.x or 12.x. Switching the index off gives wrong answers.",
            **numbers,
        )
    elif version and version < first:
        yield error(
            "sparse-mla",
            f"{case.vllm} has no sparse MLA backend for compute capability {cap}.",
            f"Use vLLM {version_text(first)} or later.",
            **numbers,
        )
    elif version is None:
        yield warning(
            "sparse-mla",
            f"Sparse MLA on compute capability {cap} needs vLLM {version_text(first)} or later.",
            "Give vllm_version.",
            **numbers,
        )
    if family == 12 and dsa.topk != compat.SPARSE_MLA_SM120_TOPK:
        yield error(
            "sparse-mla-topk",
            f"Sparse MLA on compute capability {cap} needs index_topk {compat.SPARSE_MLA_SM120_TOPK}, not {dsa.topk}.",
            "Use GPUs of compute capability 9.0 or 10.x.",
            **numbers,
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
    cap = ".".join(map(str, gpus.compute_cap))
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


def architecture_version(case: Case) -> Findings:
    """The class must exist in this vLLM (compat.FIRST_VERSION)."""
    first = compat.FIRST_VERSION.get(case.shape.architecture)
    if first and case.version and case.version < first:
        yield error(
            "architecture-version",
            f"{case.vllm} does not know {case.shape.architecture}.",
            f"Use vLLM {version_text(first)} or later.",
            first=version_text(first),
        )


def partial_gpus(case: Case) -> Findings:
    """MIG and vGPU slices cannot talk to each other (E10)."""
    gpus = case.gpus
    if gpus and gpus.partial and case.layout.world > 1:
        yield error(
            "gpus-partial",
            f"GPU {', '.join(gpus.partial)} is cut by MIG or vGPU; slices cannot form one engine of "
            f"{case.layout.world} ranks.",
            "Turn MIG off, or use tp1.",
            gpus=list(gpus.partial),
        )


RULES: tuple[t.Callable[[Case], Findings], ...] = (
    enough_gpus, partial_gpus, architecture_version, attention_heads, kv_heads, mla_replicated, vision_heads,
    experts, fp8_block_moe, fp8_block_linear, quant_groups, vocabulary, pipeline, dp_dense, sparse_mla,
    quant_capability,
)  # fmt: skip


def judge(case: Case) -> list[Finding]:
    """What all rules say about one layout, in their order."""
    return [finding for rule in RULES for finding in rule(case)]

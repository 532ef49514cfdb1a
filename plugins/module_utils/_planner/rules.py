# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The rules: one function for each, with its source; each says everything it has to say as findings.

Those on quantized weights are in kernel_rules.py, on kernels in backends.py, on arguments of vLLM in flag_rules.py.

Sources are files of vLLM 0.32.0 unless a rule names another; "serving facts" is the table 2a of the project.
"""

from __future__ import annotations

import typing as t

from .._findings import Finding, error, info, warning
from . import architectures, compat
from .backends import attention_backend, moe_config, sparse_mla
from .case import Case, Findings
from .flag_rules import (
    data_parallel_backend,
    decode_context,
    kv_cache_capability,
    load_balancer,
    remote_code,
)
from .gpus import Gpus
from .kernel_rules import fp8_block_linear, fp8_block_moe, quant_capability, quant_groups
from .memory import split_layers
from .values import version_text


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
    if case.shape.mla and case.layout.tp > case.layout.dcp:
        yield info(
            "mla-kv-replicated",
            f"Multi-head latent attention: every one of the {case.layout.tp} tensor parallel ranks holds the whole "
            "KV cache.",
            "Data parallel attention with expert parallelism holds it once for each rank's own requests, decode "
            f"context parallelism (tp{case.layout.tp}-dcp{case.layout.tp}) spreads it over the ranks.",
            tp=case.layout.tp,
        )


def vision_heads(case: Case) -> Findings:
    """The vision tower is cut over TP as well (A11: GLM-4.5V has 12 heads there), unless each rank holds all of it."""
    heads, tp = case.shape.vision_heads, case.layout.tp
    if heads and heads % tp and case.flags.mm_encoder_tp_mode == "weights":
        yield error(
            "vision-heads",
            f"{heads} heads of the vision tower cannot be split over tensor parallel size {tp}: "
            f"{heads} % {tp} = {heads % tp}.",
            "Use a smaller size with pipeline parallelism or replicas, or --mm-encoder-tp-mode data (vLLM 0.10.2 and "
            "later): each rank then holds the whole tower.",
            vision_heads=heads,
            tp=tp,
            remainder=heads % tp,
        )


def experts(case: Case) -> Findings:
    """Experts must exist for EP, be no fewer than the ranks, and better be spread evenly.

    config/model.py (EP needs experts), models/minimax_m2.py (experts >= TP), layers/fused_moe/layer.py (an
    uneven map is built; what EPLB wants is in flag_rules.load_balancer), compat.EVEN_EXPERTS.
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
    elif layout.ep and not case.flags.eplb and count % layout.ep_size:
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
    since = architectures.PIPELINE_SINCE.get(arch)
    if arch in architectures.PIPELINE_NEVER or (since and (case.version is None or case.version < since)):
        later = f" {version_text(since)} takes it." if since else ""
        yield error(
            "pp-unsupported",
            f"{arch} does not support pipeline parallelism in {case.vllm}.{later}",
            "Use tensor parallelism in the node, and data plus expert parallelism across nodes.",
            architecture=arch,
            pp=pp,
        )
    elif arch not in architectures.FIRST_READ:
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
    inner = layout.tp * layout.pp
    if inner <= gpus.count:  # data parallel ranks stay whole in their node
        used, even = -(-layout.dp // (gpus.count // inner)), True
    else:
        used, even = -(-inner // gpus.count) * layout.dp, inner % -(-inner // gpus.count) == 0
    if used > case.nodes or not even:
        yield error(
            "nodes-uneven",
            f"{layout.dp} x {inner} ranks do not spread evenly over {case.nodes} nodes of {gpus.count} GPUs.",
            "Use sizes that divide the GPUs of a node, or are a multiple of them.",
            ranks=layout.world,
            nodes=case.nodes,
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


def architecture_version(case: Case) -> Findings:
    """The class must exist in this vLLM (architectures.py)."""
    arch, version = case.shape.architecture, case.version
    reported, lacking = architectures.FIRST_REPORTED.get(arch), architectures.last_without(arch)
    absent = version is not None and (version < reported if reported else lacking is not None and version <= lacking)
    first = reported or architectures.FIRST_READ.get(arch)
    if absent and first:
        yield error(
            "architecture-version",
            f"{case.vllm} does not know {arch}.",
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
    enough_gpus, partial_gpus, architecture_version, remote_code, attention_heads, kv_heads, mla_replicated,
    decode_context, vision_heads, experts, load_balancer, fp8_block_moe, fp8_block_linear, quant_groups, vocabulary,
    pipeline, dp_dense, data_parallel_backend, sparse_mla, attention_backend, moe_config, quant_capability,
    kv_cache_capability,
)  # fmt: skip


def judge(case: Case) -> list[Finding]:
    """What all rules say about one layout, in their order."""
    return [finding for rule in RULES for finding in rule(case)]

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Rules on arguments of ``vllm serve`` that are not part of a layout but decide whether it starts.

Sources are files of vLLM 0.32.0 unless a rule names another.
"""

from __future__ import annotations

from .._findings import error, warning
from . import compat
from .case import Case, Findings
from .memory import resolve_kv_dtype
from .values import version_text


def decode_context(case: Case) -> Findings:
    """DCP spreads the KV cache of a request over ranks that would hold copies (config/parallel.py, config/model.py)."""
    shape, tp, dcp = case.shape, case.layout.tp, case.layout.dcp
    if dcp == 1:
        return
    numbers = {"tp": tp, "dcp": dcp}
    if case.version and case.version < compat.DECODE_CONTEXT_PARALLEL:
        yield error(
            "dcp-version",
            f"{case.vllm} has no decode context parallelism.",
            f"Use vLLM {version_text(compat.DECODE_CONTEXT_PARALLEL)} or later.",
            **numbers,
        )
    if tp % dcp:
        yield error(
            "dcp-tp",
            f"Decode context parallel size {dcp} does not divide tensor parallel size {tp}: {tp} % {dcp} = {tp % dcp}.",
            "It reuses the tensor parallel ranks, so use a divisor of them.",
            **numbers,
        )
    if shape.dsa and case.family == 12:
        yield error(
            "dcp-sparse-mla",
            "FLASHINFER_MLA_SPARSE_SM120 has no decode context parallelism.",
            "Leave out -dcp; data parallel attention with expert parallelism holds the KV cache once as well.",
            **numbers,
        )
    if shape.mla or not shape.kv_heads:
        return
    copies = tp // shape.kv_heads
    if tp <= shape.kv_heads or dcp > copies:
        yield error(
            "dcp-kv-heads",
            f"{shape.kv_heads} KV heads on {tp} ranks are held {max(1, copies)} times: decode context parallel size "
            f"{dcp} has no copies to spread over.",
            f"Use at most {copies}." if copies > 1 else "Leave out -dcp.",
            kv_heads=shape.kv_heads,
            **numbers,
        )
    elif shape.heads and (shape.heads // shape.kv_heads) % dcp:
        yield error(
            "dcp-kv-heads",
            f"{shape.heads // shape.kv_heads} query heads for each KV head cannot be split over decode context "
            f"parallel size {dcp}.",
            "Use a divisor of them.",
            kv_heads=shape.kv_heads,
            **numbers,
        )


def load_balancer(case: Case) -> Findings:
    """EPLB needs expert parallelism on several equal ranks (config/parallel.py, layers/fused_moe/layer.py)."""
    flags, layout, count = case.flags, case.layout, case.shape.experts
    if flags.redundant_experts and not flags.eplb:
        yield error(
            "eplb-redundant",
            f"{flags.redundant_experts} redundant experts need the expert load balancer.",
            "Set eplb, or leave them out.",
            redundant_experts=flags.redundant_experts,
        )
    if not flags.eplb:
        return
    if layout.ep_size == 1:
        yield error(
            "eplb-without-ep",
            f"The expert load balancer needs expert parallelism on several ranks, {layout.id} has "
            + ("one rank." if layout.ep else "none."),
            "Use a layout with -ep, or leave the load balancer out.",
            ep_size=layout.ep_size,
        )
    elif count and (count + flags.redundant_experts) % layout.ep_size:
        total = count + flags.redundant_experts
        short = -total % layout.ep_size
        yield error(
            "eplb-uneven",
            f"The expert load balancer wants the same number of experts on each rank: {total} % {layout.ep_size} = "
            f"{total % layout.ep_size}.",
            f"Set redundant_experts to {flags.redundant_experts + short}, or use ranks that divide {total}.",
            experts=count,
            redundant_experts=flags.redundant_experts,
            ep_size=layout.ep_size,
        )


def data_parallel_backend(case: Case) -> Findings:
    """The native backend over several nodes goes with mp only (D04; config/parallel.py, nnodes)."""
    if case.nodes > 1 and case.flags.data_parallel_backend != "mp":
        yield error(
            "dp-backend",
            f"data_parallel_backend {case.flags.data_parallel_backend} does not go with --nnodes {case.nodes}.",
            "Use mp.",
            data_parallel_backend=case.flags.data_parallel_backend,
            nodes=case.nodes,
        )


def kv_cache_capability(case: Case) -> Findings:
    """An FP8 KV cache wants FP8 hardware (compat.FP8_KV_CAPABILITY), also when the checkpoint asks for it."""
    gpus, said = case.gpus, case.flags.kv_cache_dtype
    if gpus is None or gpus.compute_cap is None or gpus.compute_cap >= compat.FP8_KV_CAPABILITY:
        return
    dtype = resolve_kv_dtype(case.shape, gpus, said)
    if dtype.startswith("fp8"):
        by_checkpoint = " (the checkpoint asks for it)" if dtype != said else ""
        yield error(
            "kv-cache-capability",
            f"kv_cache_dtype {dtype}{by_checkpoint} needs compute capability "
            f"{'.'.join(map(str, compat.FP8_KV_CAPABILITY))}, this GPU has {case.capability}.",
            "Use bfloat16.",
            kv_cache_dtype=dtype,
            compute_cap=case.capability,
        )


def remote_code(case: Case) -> Findings:
    """A checkpoint whose classes are in its repository does not start without trust_remote_code (A24)."""
    shape = case.shape
    if not shape.auto_map or case.flags.trust_remote_code is None:
        return
    if case.flags.trust_remote_code:
        yield warning(
            "remote-code",
            "trust_remote_code runs code of the model's repository as the service user.",
            "Pin the revision to a commit.",
        )
    elif shape.architecture not in compat.NO_REMOTE_CODE_NEEDED:
        yield error(
            "remote-code",
            "config.json names code of the repository (auto_map) and trust_remote_code is off: the model does not "
            "start.",
            "Read that code, pin the revision to a commit, and set trust_remote_code; it is never set for you.",
        )

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Which kernels vLLM takes for a model on a GPU family: attention and MoE backends, as data, and the rules on them.

The families are the major numbers of the compute capability: SM100 (10) and SM120 (12) are both Blackwell and share
almost nothing here. Orders are those in which vLLM tries; the first one that is installed is taken.
"""

from __future__ import annotations

import typing as t

from .._findings import error, info, warning
from . import compat
from .case import Case, Findings
from .shape import ModelShape
from .tuned_moe import has_tuned_config
from .values import Version, version_of, version_text

# Kind of attention, then family: "BACKEND" or "BACKEND@first version". Sources: vLLM 0.32.0 platforms/cuda.py
# _get_backend_priorities, supports_compute_capability and supports_sink in v1/attention/backends (sinks need
# FlashAttention 3 or FlashInfer's own kernels), and the first wheel with each name. Sparse MLA on SM120: vllm#43477,
# failed before as vllm#31936; nothing serves it on 8.x: vllm#40851.
_ATTENTION: t.Mapping[str, t.Mapping[int, str]] = {
    "dense": {
        8: "FLASH_ATTN FLASHINFER TRITON_ATTN FLEX_ATTENTION",
        9: "FLASH_ATTN FLASHINFER TRITON_ATTN FLEX_ATTENTION",
        10: "FLASHINFER FLASH_ATTN TRITON_ATTN FLEX_ATTENTION",
        12: "FLASH_ATTN FLASHINFER TRITON_ATTN FLEX_ATTENTION",
    },
    "sinks": {
        8: "TRITON_ATTN",
        9: "FLASH_ATTN FLASHINFER@0.30.0 TRITON_ATTN",
        10: "FLASHINFER TRITON_ATTN",
        12: "FLASHINFER@0.28.0 TRITON_ATTN",
    },
    "mla": {
        8: "TRITON_MLA",
        9: "FLASH_ATTN_MLA@0.10.2 FLASHMLA TRITON_MLA",
        10: "FLASHINFER_MLA@0.10.2 CUTLASS_MLA@0.10.2 FLASHMLA TRITON_MLA",
        12: "TRITON_MLA",
    },
    "sparse-mla": {
        8: "",
        9: "FLASH_ATTN_MLA_SPARSE@0.25.1 FLASHMLA_SPARSE@0.11.0 FLASHINFER_MLA_SPARSE_SM90@0.30.0",
        10: "FLASHINFER_MLA_SPARSE@0.17.1 FLASHMLA_SPARSE@0.11.0",
        12: "FLASHINFER_MLA_SPARSE_SM120@0.24.0",
    },
}

# Kind of weights, then family. Sources: layers/fused_moe/oracle of vLLM 0.26.0 and 0.33.0 (which agree here) and what
# _supports_current_device and _supports_quant_scheme of their kernels leave. DEEPGEMM only where it is installed.
_MOE: t.Mapping[str, t.Mapping[int, str]] = {
    "none": {8: "TRITON", 9: "TRITON", 10: "FLASHINFER_TRTLLM TRITON", 12: "FLASHINFER_CUTLASS TRITON"},
    "fp8-block": {8: "TRITON MARLIN", 9: "TRITON", 10: "FLASHINFER_TRTLLM DEEPGEMM TRITON", 12: "DEEPGEMM TRITON"},
    "fp8-block-ep": {
        8: "TRITON MARLIN",
        9: "FLASHINFER_CUTLASS DEEPGEMM TRITON",
        10: "FLASHINFER_TRTLLM DEEPGEMM TRITON",
        12: "DEEPGEMM TRITON",
    },
    "fp8-channel": {8: "TRITON MARLIN", 9: "CUTLASS TRITON", 10: "CUTLASS TRITON", 12: "TRITON"},
    "nvfp4": {8: "MARLIN", 9: "MARLIN", 10: "FLASHINFER_TRTLLM CUTLASS", 12: "FLASHINFER_CUTLASS CUTLASS MARLIN"},
    "mxfp4": {8: "MARLIN", 9: "TRITON MARLIN", 10: "FLASHINFER_TRTLLM MARLIN", 12: "MARLIN TRITON"},
    "group": {8: "MARLIN", 9: "MARLIN", 10: "MARLIN", 12: "MARLIN"},
}
# Before, environment variables chose the MoE backend (VLLM_USE_FLASHINFER_MOE_*, gone in 0.24).
_MOE_CHOSEN_BY_FLAG: Version = (0, 24, 0)

# How vLLM's --moe-backend spells those that take whole FP8 blocks only (refine_fp8_moe_block_shape).
WHOLE_BLOCK_MOE: frozenset[str] = frozenset(
    {"deep_gemm", "cutlass", "flashinfer_trtllm", "flashinfer_cutlass", "marlin", "hpc"}
)

_KNOWN_ATTENTION = frozenset(
    entry.partition("@")[0] for row in _ATTENTION.values() for entries in row.values() for entry in entries.split()
)
_TUNED_KIND: t.Mapping[str, str] = {"none": "bf16", "fp8-channel": "fp8", "fp8-block": "fp8-128"}


def attention_kind(shape: ModelShape) -> str | None:
    """The row of the attention table, None when the config is too thin to tell."""
    if shape.dsa:
        return "sparse-mla"
    if shape.mla:
        return "mla"
    if shape.architecture in compat.ATTENTION_SINKS:
        return "sinks"
    return "dense" if shape.heads or shape.architecture else None


def _entries(kind: str, family: int) -> list[tuple[str, Version]]:
    """(backend, first version) in the order in which vLLM tries."""
    found = []
    for entry in _ATTENTION[kind].get(family, "").split():
        name, _at, since = entry.partition("@")
        found.append((name, version_of(since or "0.10.0")))
    return found


def attention_backends(case: Case) -> list[str] | None:
    """What vLLM tries for this model on these GPUs, None when it cannot be told.

    A version that is not given stands for the newest one.
    """
    kind, family = attention_kind(case.shape), case.family
    if kind is None or family is None or family not in _ATTENTION[kind]:
        return None
    return [n for n, since in _entries(kind, family) if case.version is None or case.version >= since]


def moe_backends(case: Case) -> list[str] | None:
    """What vLLM tries for the experts, None when there are none or it cannot be told."""
    shape, family = case.shape, case.family
    if not shape.experts or family is None or (case.version and case.version < _MOE_CHOSEN_BY_FLAG):
        return None
    scheme = shape.quant.scheme if shape.quant.covers("experts") else "none"
    if scheme == "fp8-block":
        if shape.moe_intermediate and (shape.moe_intermediate / case.layout.moe_tp) % (shape.quant.block or (1,))[0]:
            return ["TRITON"]  # refined blocks
        scheme += "-ep" if case.layout.ep_size > 1 else ""
    row = _MOE.get(scheme, {}).get(family)
    if row is None:
        return None
    names = row.split()
    native = compat.QUANT_SUPPORT.get(shape.quant.scheme)
    if names[:2] == ["TRITON", "MARLIN"] and family == 8 and native and case.gpus and case.gpus.compute_cap:
        return ["TRITON"] if case.gpus.compute_cap >= native.native else ["MARLIN"]
    return names


def tuned_moe_config(case: Case) -> bool | None:
    """Whether vLLM has a tuned configuration for a rank of this layout, None when Triton is not in question."""
    shape, layout, gpus, width = case.shape, case.layout, case.gpus, case.shape.moe_intermediate
    backends = moe_backends(case)
    if backends is None or "TRITON" not in backends[:2] or gpus is None or not width or width % layout.moe_tp:
        return None
    scheme = shape.quant.scheme if shape.quant.covers("experts") else "none"
    kind = _TUNED_KIND.get(scheme)
    if kind is None or (scheme == "fp8-block" and shape.quant.block != (128, 128)):
        return None
    return has_tuned_config(gpus.name, kind, local_experts(case), width // layout.moe_tp, case.version)


def local_experts(case: Case) -> int:
    """Experts of the fullest rank."""
    return -(-((case.shape.experts or 0) + case.flags.redundant_experts) // case.layout.ep_size)


def sparse_mla(case: Case) -> Findings:
    """Sparse MLA has kernels for some GPU families only (A14, A15)."""
    dsa, family = case.shape.dsa, case.family
    if dsa is None or family is None:
        return
    cap, numbers = case.capability, {"compute_cap": case.capability, "index_topk": dsa.topk}
    first = min((since for _name, since in _entries("sparse-mla", family)), default=None)
    if first is None:
        yield error(
            "sparse-mla",
            f"No attention backend of vLLM serves sparse MLA (index_topk {dsa.topk}) on compute capability {cap}.",
            "Use GPUs of compute capability 9.0, 10.x or 12.x. Switching the index off gives wrong answers.",
            **numbers,
        )
    elif case.version and case.version < first:
        yield error(
            "sparse-mla",
            f"{case.vllm} has no sparse MLA backend for compute capability {cap}.",
            f"Use vLLM {version_text(first)} or later.",
            **numbers,
        )
    elif case.version is None:
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


def attention_backend(case: Case) -> Findings:
    """A backend that is forced must be one that takes this kind of attention on these GPUs (A17)."""
    wanted, kind, family = case.flags.attention_backend, attention_kind(case.shape), case.family
    if not wanted or kind is None or family is None or family not in _ATTENTION[kind]:
        return
    entries = dict(_entries(kind, family))
    usable = [n for n, since in entries.items() if (case.version or (0, 10, 0)) >= since]
    numbers = {"attention_backend": wanted, "kind": kind, "compute_cap": case.capability, "usable": usable}
    if wanted not in _KNOWN_ATTENTION:
        yield warning(
            "attention-backend-unknown",
            f"attention_backend {wanted} is not in the tables: whether it takes {kind} attention is not judged.",
            "Leave it to vLLM.",
            **numbers,
        )
    elif wanted not in usable:
        since = entries.get(wanted)
        later = f" before vLLM {version_text(since)}" if since else ""
        yield error(
            "attention-backend",
            f"attention_backend {wanted} does not take {kind} attention on compute capability {case.capability}"
            f"{later}.",
            "Leave it to vLLM" + (f", or use one of {', '.join(usable)}." if usable else "."),
            **numbers,
        )


def moe_config(case: Case) -> Findings:
    """Triton's experts are slower with the default configuration (vllm#29240, vllm#44688)."""
    if tuned_moe_config(case) is False and case.gpus and case.shape.experts:
        width = (case.shape.moe_intermediate or 0) // case.layout.moe_tp
        local = local_experts(case)
        yield info(
            "moe-config-default",
            f"vLLM ships no tuned Triton configuration for {local} experts of width {width} on {case.gpus.name}: it "
            "runs the default one where Triton computes the experts.",
            "Measure, or tune it with vLLM's benchmark_moe.py and point VLLM_TUNED_CONFIG_FOLDER to the result.",
            experts=local,
            width=width,
            device=case.gpus.name,
        )

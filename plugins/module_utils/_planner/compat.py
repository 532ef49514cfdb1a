# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What works where: facts about architectures, quantizations and GPU families by vLLM version, as data.

"Source" names what was read: vLLM 0.32.0 (the installed build), the wheels of 0.10.0 to 0.33.0, or a report.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .values import Version

# The class that vLLM takes for a model_type whose config carries no "architectures"
# (config.json copies of these models).
ARCHITECTURE_OF: t.Mapping[str, str] = {
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "deepseek_v4": "DeepseekV4ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "glm4v_moe": "Glm4vMoeForConditionalGeneration",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "kimi_k2": "DeepseekV3ForCausalLM",
    "kimi_k25": "KimiK25ForConditionalGeneration",
    "llama": "LlamaForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
}

# Classes that take PP but whose MTP draft does not: vLLM then refuses with the same words, as if it were the
# model. Source: recipes#875; vllm#43477 (comment of 2026-06-05).
MTP_WITHOUT_PIPELINE: frozenset[str] = frozenset(
    {"DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"}
)

# Classes that assert an even spread of the experts, which vLLM itself does not ask for.
# Source: vllm#52435; vLLM 0.32.0 models/deepseek_v4/nvidia/model.py (n_physical_experts % ep_size).
EVEN_EXPERTS: frozenset[str] = frozenset({"DeepseekV4ForCausalLM"})

# Router weights in float32 on the GPU. Source: vLLM 0.32.0 model_executor/models/minimax_m2.py.
FLOAT32_ROUTER: frozenset[str] = frozenset({"MiniMaxM2ForCausalLM"})

# Extra all-reduces a layer under TP. Source: vLLM 0.32.0 layers/minimax_rms_norm/rms_norm_tp.py (QK norm).
EXTRA_ALL_REDUCES: t.Mapping[str, int] = {"MiniMaxM2ForCausalLM": 1}


@dataclass(frozen=True)
class QuantSupport:
    """The least compute capability that loads a scheme, and the least that computes in it."""

    loads: tuple[int, int]
    native: tuple[int, int]
    below_native: str


# Source: get_min_capability of vLLM 0.32.0 layers/quantization (fp8, modelopt, mxfp4, compressed_tensors);
# FP8 tensor cores start at 8.9, FP4 at 10.0. Before 8.0 Marlin is recent, so 8.0 is asked for.
QUANT_SUPPORT: t.Mapping[str, QuantSupport] = {
    "fp8-block": QuantSupport((8, 0), (8, 9), "weight-only FP8 through Marlin, which is slower"),
    "fp8-channel": QuantSupport((8, 0), (8, 9), "weight-only FP8 through Marlin, which is slower"),
    "mxfp8": QuantSupport((8, 0), (10, 0), "weight-only FP8 through Marlin, which is slower"),
    "nvfp4": QuantSupport((8, 0), (10, 0), "weight-only FP4 through Marlin, which is slower"),
    "mxfp4": QuantSupport((8, 0), (9, 0), "weight-only FP4 through Marlin, which is slower"),
    "group": QuantSupport((7, 5), (7, 5), ""),
}

# Classes whose attention adds a learned value to each softmax ("sinks"), which not every backend can.
# Source: vLLM 0.32.0 model_executor/models/gpt_oss.py.
ATTENTION_SINKS: frozenset[str] = frozenset({"GptOssForCausalLM"})

SPARSE_MLA_SM120_TOPK = 2048  # FLASHINFER_MLA_SPARSE_SM120 refuses any other index_topk

# FP8 blocks that do not divide: refused to 0.28; from 0.29 the block is refined to the greatest common
# divisor when that is at least 32, and only Triton kernels take it. Source: vLLM 0.32.0
# layers/fused_moe/oracle/fp8.py refine_fp8_moe_block_shape.
FP8_REFINES: Version = (0, 29, 0)
FP8_LEAST_BLOCK = 32

# From 0.31 an explicit --moe-backend that takes whole blocks only gets its shard padded to whole blocks instead.
# Source: the same file, pad_tp_shard_to_weight_blocks.
FP8_PADS: Version = (0, 31, 0)

# --decode-context-parallel-size. Source: wheels (absent in 0.10.0, there in 0.10.2).
DECODE_CONTEXT_PARALLEL: Version = (0, 10, 2)

# FP8 values in the KV cache need FP8 hardware in FlashAttention and Triton. Source: vLLM 0.32.0
# v1/attention/backends/triton_attn.py; a flag that only helps where it is native is refused below (A13).
FP8_KV_CAPABILITY = (8, 9)

# Classes whose checkpoints carry code (auto_map) that vLLM does not need, since it has config and model itself.
# Source: the molecule scenario deploy_minimax_cpu of this project serves a tiny one without --trust-remote-code.
NO_REMOTE_CODE_NEEDED: frozenset[str] = frozenset({"MiniMaxM2ForCausalLM"})

# --nnodes, --node-rank, --master-addr. Source: serving facts 2f.
NATIVE_MULTI_NODE: Version = (0, 11, 1)

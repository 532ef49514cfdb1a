# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a config.json the rules of the planner read, of models that several tests judge."""

from __future__ import annotations

BLOCK_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
MINIMAX = {
    "model_type": "minimax_m2",
    "hidden_size": 3072,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 1536,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "quantization_config": BLOCK_FP8,
}
QWEN = {
    "model_type": "qwen3_moe",
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 1536,
    "num_experts": 128,
    "quantization_config": BLOCK_FP8,
}

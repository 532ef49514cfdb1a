# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read from config.json and hf_quant_config.json."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._planner.shape import Dsa, Mla, ModelShape

FULL = {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16}


@pytest.mark.parametrize("key", ["num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts"])
def test_every_name_of_the_experts(key):
    shape = ModelShape.from_config({**FULL, key: 64, "moe_intermediate_size": 256})
    assert (shape.experts, shape.moe_intermediate, shape.is_moe) == (64, 256, True)


def test_the_experts_of_minimax_are_as_wide_as_its_intermediate_size():
    shape = ModelShape.from_config(
        {**FULL, "num_local_experts": 8, "intermediate_size": 1536, "num_key_value_heads": 2}
    )
    assert (shape.moe_intermediate, shape.dense_layers) == (1536, 0)


def test_a_whole_config_without_experts_is_dense_a_fragment_is_unknown():
    assert ModelShape.from_config(FULL).is_moe is False
    assert ModelShape.from_config({"num_attention_heads": 16}).is_moe is None


def test_heads_without_kv_heads():
    assert ModelShape.from_config(FULL).kv_heads == 16
    assert ModelShape.from_config({"num_attention_heads": 16}).kv_heads is None


def test_head_dim_is_read_before_it_is_computed():
    assert ModelShape.from_config({**FULL, "head_dim": 128}).head_dim == 128
    assert ModelShape.from_config(FULL).head_dim == 64
    # In a fragment it may only have been left out: Qwen3-235B has 128 where 4096/64 is 64.
    assert ModelShape.from_config({"hidden_size": 4096, "num_attention_heads": 64}).head_dim is None


def test_nested_text_and_vision():
    shape = ModelShape.from_config(
        {
            "model_type": "glm4v_moe",
            "text_config": {"num_attention_heads": 96, "num_key_value_heads": 8},
            "vision_config": {"num_heads": 12},
        }
    )
    assert (shape.heads, shape.kv_heads, shape.vision_heads) == (96, 8, 12)
    assert shape.architecture == "Glm4vMoeForConditionalGeneration"


def test_the_weights_of_a_vision_tower():
    # Kimi-K2.5 in the names of its config: 0.93 GB in bfloat16, 0.9 by the notes on the model.
    kimi = {"vt_hidden_size": 1152, "vt_num_hidden_layers": 27, "vt_intermediate_size": 4304, "text_hidden_size": 7168}
    shape = ModelShape.from_config({**FULL, "vision_config": {**kimi, "vt_num_attention_heads": 16}})
    assert shape.vision_heads == 16
    assert 2 * shape.vision_weights / 1e9 == pytest.approx(0.93, abs=0.01)
    assert ModelShape.from_config({**FULL, "vision_config": {"num_heads": 12}}).vision_weights is None
    assert ModelShape.from_config(FULL).vision_weights is None


def test_code_in_the_repository_is_seen():
    assert ModelShape.from_config({**FULL, "auto_map": {"AutoConfig": "x.Y"}}).auto_map is True
    assert ModelShape.from_config(FULL).auto_map is False


def test_latent_attention_has_one_kv_head_and_no_head_dim():
    # GLM-5 declares head_dim 64, which is the rope dimension.
    shape = ModelShape.from_config(
        {
            **FULL,
            "head_dim": 64,
            "num_key_value_heads": 16,
            "kv_lora_rank": 512,
            "q_lora_rank": 2048,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 192,
            "v_head_dim": 256,
            "index_topk": 2048,
            "index_n_heads": 32,
            "index_head_dim": 128,
        }
    )
    assert (shape.kv_heads, shape.head_dim) == (1, None)
    assert shape.mla == Mla(512, 64, 2048, 192, 256)
    assert shape.dsa == Dsa(2048, 32, 128)


def test_dense_layers_in_front_and_between():
    moe = {**FULL, "n_routed_experts": 8, "moe_intermediate_size": 256}
    assert ModelShape.from_config({**moe, "first_k_dense_replace": 3}).dense_layers == 3
    assert ModelShape.from_config({**moe, "mlp_only_layers": [1, 2]}).dense_layers == 2
    assert ModelShape.from_config({**moe, "decoder_sparse_step": 2}).dense_layers == 2


def test_shared_experts_are_counted_or_measured():
    moe = {**FULL, "n_routed_experts": 8, "moe_intermediate_size": 256}
    assert ModelShape.from_config({**moe, "n_shared_experts": 2}).shared_intermediate == 512
    assert ModelShape.from_config({**moe, "shared_expert_intermediate_size": 300}).shared_intermediate == 300
    assert ModelShape.from_config({**moe, "shared_intermediate_size": 0}).shared_intermediate is None


def test_windows():
    listed = ModelShape.from_config(
        {**FULL, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 2}
    )
    assert (listed.full_layers, listed.sliding_window, listed.hybrid) == (2, 128, True)
    gemma = ModelShape.from_config({**FULL, "sliding_window": 1024, "sliding_window_pattern": 2})
    assert (gemma.full_layers, gemma.sliding_window) == (2, 1024)
    off = ModelShape.from_config({**FULL, "sliding_window": 32768, "use_sliding_window": False})
    assert (off.full_layers, off.hybrid) == (4, False)


def test_what_cannot_be_sized_is_said():
    kinds = ["linear_attention", "full_attention"] * 2
    assert "linear attention" in ModelShape.from_config({**FULL, "layer_types": kinds}).unsized
    assert ModelShape.from_config(FULL).unsized == ""


def test_longest_context_with_rope_scaling():
    base = {**FULL, "max_position_embeddings": 4096}
    assert ModelShape.from_config({**base, "rope_scaling": {"type": "linear", "factor": 4.0}}).max_position == 16384
    # A yarn config states the long context itself.
    yarn = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
    assert (
        ModelShape.from_config({**base, "max_position_embeddings": 163840, "rope_scaling": yarn}).max_position == 163840
    )


@pytest.mark.parametrize(
    ("quant", "scheme", "size"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", 1 + 4 / 16384),
        ({"quant_method": "fp8"}, "fp8-channel", 1.0),
        ({"quant_method": "mxfp4"}, "mxfp4", 0.53125),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, "nvfp4", 0.5625),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "group", 0.5 + 2 / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "group", 0.5 + 2 / 64),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "group", 0.5),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
            },
            "group",
            0.5625,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}},
            },
            "fp8-channel",
            1.0,
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, "fp8-block", 1 + 4 / 16384),
        ({"quant_method": "modelopt", "quant_algo": "FP8_BLOCK_SCALES"}, "fp8-block", 1 + 4 / 16384),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, "fp8-channel", 1.0),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4", "group_size": 16}, "nvfp4", 0.5625),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, "mxfp8", 1.03125),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "unknown", 2.0),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 32}}},
            },
            "mxfp4",
            0.53125,
        ),
        ({"quant_method": "somethingnew"}, "unknown", 2.0),
    ],
)
def test_quantizations(quant, scheme, size):
    read = ModelShape.from_config({**FULL, "quantization_config": quant}).quant
    assert read.scheme == scheme
    assert read.bytes_per_weight == pytest.approx(size)


def test_block_fp8_of_modelopt_has_blocks_to_divide():
    quant = {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}
    assert ModelShape.from_config({**FULL, "quantization_config": quant}).quant.block == (128, 128)


def test_modelopt_may_stand_in_its_own_file_only():
    # GLM-5-NVFP4: config.json says nothing, hf_quant_config.json everything.
    hf_quant = {
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8",
            "group_size": 16,
            "exclude_modules": ["lm_head", "model.layers.*.self_attn*"],
        }
    }
    quant = ModelShape.from_config(FULL, hf_quant).quant
    assert (quant.scheme, quant.group, quant.kv_cache_fp8, quant.skipped) == ("nvfp4", 16, True, {"attention"})


@pytest.mark.parametrize(
    ("patterns", "skipped"),
    [
        # The router is called gate; gate_proj is not meant.
        (["gate", "e_score_correction_bias", "lm_head"], set()),
        (["re:.*self_attn.*", r"re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
         {"attention", "shared", "dense"}),
        (["model.layers.2.self_attn.o_proj", "model.layers.0.mlp.down_proj"], {"attention", "dense"}),
        (["model.layers.3.self_attn.o_proj"], set()),
        (["re:("], set()),
    ],
)  # fmt: skip
def test_parts_that_stay_as_they_are(patterns, skipped):
    quant = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": patterns}
    assert ModelShape.from_config({**FULL, "quantization_config": quant}).quant.skipped == skipped


@pytest.mark.parametrize(("config", "named"), [([1], "not a mapping"), ({"num_attention_heads": "many"}, "'many'")])
def test_a_wrong_config_is_named(config, named):
    with pytest.raises(ModelopsError) as e:
        ModelShape.from_config(config)
    assert named in str(e.value)

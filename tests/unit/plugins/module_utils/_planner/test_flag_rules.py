# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of vllm serve that decide whether a layout starts."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._planner.api import layout_info
from ansible_collections.modelops.vllm.plugins.module_utils._planner.case import Flags

MOE = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "hidden_size": 3072,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 1536,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "vocab_size": 200064,
    "max_position_embeddings": 196608,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
MLA = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 64,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "intermediate_size": 1024,
    "vocab_size": 32000,
    "max_position_embeddings": 65536,
}
H200 = {"count": 16, "name": "NVIDIA H200", "memory_mib": 143771, "compute_cap": "9.0", "link": "nvlink"}
RTX = {"count": 8, "name": "NVIDIA RTX PRO 6000", "memory_mib": 97887, "compute_cap": "12.0", "link": "pcie"}


def one(layout, config=None, gpus=None, vllm_version="0.32.0", **options):
    given = {
        "config": config or MOE,
        "gpus": gpus or H200,
        "layouts": [layout],
        "vllm_version": vllm_version,
        **options,
    }
    return layout_info(given)["layouts"][0]


def errors(layout):
    return {f["id"]: f for f in layout["findings"] if f["severity"] == "error"}


def test_dcp_spreads_the_latent_cache():
    whole, spread = one("tp8", MLA), one("tp8-dcp8", MLA)
    assert whole["kv_bytes_per_token"] == 4 * 576 * 2 == 8 * spread["kv_bytes_per_token"]
    assert (spread["valid"], spread["dcp"], spread["gpus"]) == (True, 8, 8)
    assert spread["kv_tokens"] == pytest.approx(8 * whole["kv_tokens"], rel=0.001)
    told = {f["id"]: f for f in whole["findings"]}
    assert "tp8-dcp8" in told["mla-kv-replicated"]["remedy"]
    assert "mla-kv-replicated" not in {f["id"] for f in spread["findings"]}


@pytest.mark.parametrize(
    ("layout", "config", "gpus", "version", "id_"),
    [
        ("tp8-dcp3", MLA, H200, "0.32.0", "dcp-tp"),
        ("tp8-dcp8", MLA, H200, "0.10.0", "dcp-version"),
        ("tp8-dcp2", MOE, H200, "0.32.0", "dcp-kv-heads"),
        ("tp16-dcp4", {**MOE, "quantization_config": None}, H200, "0.32.0", "dcp-kv-heads"),
        ("tp8-dcp4", {**MLA, "index_topk": 2048}, RTX, "0.32.0", "dcp-sparse-mla"),
    ],
)
def test_dcp_that_vllm_refuses(layout, config, gpus, version, id_):
    assert id_ in errors(one(layout, config, gpus, version))


def test_dcp_of_kv_heads_that_are_held_twice():
    half = {**MOE, "quantization_config": None}
    assert "dcp-kv-heads" not in errors(one("tp16-dcp2", half))
    # Three query heads for each KV head do not split in two.
    odd = {**half, "num_key_value_heads": 16}
    assert "dcp-kv-heads" in errors(one({"tp": 48, "dcp": 2}, odd, {**H200, "count": 48}))


@pytest.mark.parametrize("written", ["tp8-dcp4-ep-r2", {"tp": 8, "dcp": 4, "ep": True, "replicas": 2}])
def test_ids_with_dcp(written):
    assert one(written, MLA)["id"] == "tp8-dcp4-ep-r2"


@pytest.mark.parametrize(
    ("layout", "redundant", "id_"),
    [
        ("tp8-ep", 0, None),
        ("tp8", 0, "eplb-without-ep"),
        ("tp1-ep", 0, "eplb-without-ep"),
        ("tp6-ep", 0, "eplb-uneven"),
        ("tp6-ep", 2, None),
        ("tp8-ep", 4, "eplb-uneven"),
    ],
)
def test_the_expert_load_balancer(layout, redundant, id_):
    config = {**MOE, "num_key_value_heads": 24, "vocab_size": 192}
    found = errors(one(layout, config, eplb=True, redundant_experts=redundant))
    assert set(found) - {"memory", "fp8-block-moe"} == ({id_} if id_ else set())
    if id_ == "eplb-uneven" and not redundant:
        assert "redundant_experts to 2" in found[id_]["remedy"]


def test_redundant_experts_take_memory_and_need_the_balancer():
    assert "eplb-redundant" in errors(one("tp8-ep", redundant_experts=8))
    plain, doubled = one("tp8-ep", eplb=True), one("tp8-ep", eplb=True, redundant_experts=256)
    experts = 62 * 256 * 3 * 3072 * 1536 * (1 + 4 / 128**2) / 8 / 2**30
    assert doubled["weights_gib_per_gpu"] - plain["weights_gib_per_gpu"] == pytest.approx(experts, abs=0.02)


@pytest.mark.parametrize(
    ("version", "backend", "severity", "padded"),
    [
        ("0.28.0", "cutlass", "error", None),
        ("0.29.0", "cutlass", "error", None),
        ("0.30.0", "deep_gemm", "error", None),
        ("0.31.0", "cutlass", "warning", 256),
        ("0.32.0", "deep_gemm", "warning", 256),
        ("0.32.0", "triton", "warning", None),
        ("0.32.0", "auto", "warning", None),
    ],
)
def test_blocks_and_a_forced_moe_backend(version, backend, severity, padded):
    layout = one("tp8", vllm_version=version, moe_backend=backend)
    finding = next(f for f in layout["findings"] if f["id"] == "fp8-block-moe")
    assert (finding["severity"], finding["numbers"].get("padded")) == (severity, padded)


def test_padded_experts_take_a_third_more():
    plain, padded = one("tp8"), one("tp8", moe_backend="cutlass")
    experts = 62 * 256 * 3 * 3072 * 1536 * (1 + 4 / 128**2) / 8 / 2**30
    assert padded["weights_gib_per_gpu"] - plain["weights_gib_per_gpu"] == pytest.approx(experts / 3, abs=0.02)


VISION = {
    **MOE,
    "quantization_config": None,
    "vision_config": {"num_heads": 12, "hidden_size": 1152, "depth": 27, "intermediate_size": 4304},
}


def test_a_vision_tower_that_each_rank_holds_whole():
    assert "vision-heads" in errors(one("tp8", VISION))
    whole, cut = one("tp4", VISION, mm_encoder_tp_mode="data"), one("tp4", VISION)
    assert "vision-heads" not in errors(one("tp8", VISION, mm_encoder_tp_mode="data"))
    tower = 2 * (27 * (4 * 1152**2 + 2 * 1152 * 4304) + 4608**2 + 4608 * 3072) / 2**30
    assert whole["weights_gib_per_gpu"] - cut["weights_gib_per_gpu"] == pytest.approx(tower * 3 / 4, abs=0.02)


def test_blanks_of_awx_are_not_given():
    blank = dict.fromkeys(
        (
            "attention_backend",
            "moe_backend",
            "eplb",
            "redundant_experts",
            "mm_encoder_tp_mode",
            "data_parallel_backend",
        ),
        "",
    )
    assert Flags.parse({**blank, "trust_remote_code": "", "kv_cache_dtype": None}) == Flags()
    assert Flags.parse({"eplb": "true", "redundant_experts": "8"}) == Flags(eplb=True, redundant_experts=8)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mm_encoder_tp_mode": "rows"}, "'rows'"),
        ({"data_parallel_backend": "gloo"}, "'gloo'"),
        ({"redundant_experts": -1}, "redundant_experts is -1"),
        ({"eplb": "perhaps"}, "'perhaps'"),
        ({"trust_remote_code": "perhaps"}, "'perhaps'"),
    ],
)
def test_wrong_flags_are_named(options, named):
    with pytest.raises(ModelopsError) as e:
        one("tp8", **options)
    assert named in str(e.value)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules, one public report after the other."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._findings import has_errors
from ansible_collections.modelops.vllm.plugins.module_utils._planner.case import Case
from ansible_collections.modelops.vllm.plugins.module_utils._planner.gpus import Gpus
from ansible_collections.modelops.vllm.plugins.module_utils._planner.layout import Layout
from ansible_collections.modelops.vllm.plugins.module_utils._planner.rules import judge
from ansible_collections.modelops.vllm.plugins.module_utils._planner.shape import ModelShape
from ansible_collections.modelops.vllm.tests.support.model_configs import BLOCK_FP8, MINIMAX, QWEN

RTX = Gpus(8, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, (12, 0), "pcie")
H100 = Gpus(8, "NVIDIA H100 80GB HBM3", 81559, (9, 0), "nvlink")
A100 = Gpus(8, "NVIDIA A100-SXM4-80GB", 81920, (8, 0), "nvlink")


def findings(config, layout, gpus=RTX, version=None, nodes=1):
    return judge(Case(ModelShape.from_config(config), Layout.parse(layout), gpus, nodes, version))


def by_id(config, layout, *args, **kwargs):
    return {f.id: f for f in findings(config, layout, *args, **kwargs)}


def valid(*args, **kwargs):
    return not has_errors(findings(*args, **kwargs))


@pytest.mark.parametrize("version", [None, (0, 11, 2), (0, 26, 0), (0, 28, 0)])
def test_a01_minimax_at_tp8_breaks_its_fp8_blocks(version):
    finding = by_id(MINIMAX, "tp8", version=version)["fp8-block-moe"]
    assert finding.severity == "error"
    assert "1536/8 = 192" in finding.message
    assert "128" in finding.message
    assert finding.numbers == {"moe_intermediate": 1536, "moe_tp": 8, "shard": 192, "block": 128, "remainder": 64}
    for offer in ("tp4", "tp8-ep", "tp1-dp8-ep", "tp4-dp2-ep", "tp4-r2"):
        assert valid(MINIMAX, offer, version=version)


@pytest.mark.parametrize("version", [(0, 29, 0), (0, 32, 0), (0, 33, 0)])
def test_a01_newer_versions_load_it_and_the_rule_still_speaks(version):
    finding = by_id(MINIMAX, "tp8", version=version)["fp8-block-moe"]
    assert (finding.severity, finding.numbers["refined_block"]) == ("warning", 64)


def test_fp8_blocks_see_data_parallel_ranks_without_ep():
    # TP4 alone is 384 = 3 x 128; DP2 without EP cuts the experts by 8.
    assert "fp8-block-moe" not in by_id(MINIMAX, "tp4")
    assert by_id(MINIMAX, "tp4-dp2")["fp8-block-moe"].numbers["moe_tp"] == 8
    assert "TP x DP" in by_id(MINIMAX, "tp4-dp2")["fp8-block-moe"].message


def test_blocks_that_cannot_be_refined_are_refused_by_every_version():
    # 1536/96 = 16: below the 32 that Triton takes. Heads are dropped so that only this rule speaks.
    config = {k: v for k, v in MINIMAX.items() if "heads" not in k}
    assert by_id(config, "tp96", None, (0, 32, 0))["fp8-block-moe"].severity == "error"


def test_a03_qwen3_235b():
    invalid = by_id(QWEN, {"tp": 8, "ep": False}, H100)["fp8-block-moe"]
    assert (invalid.severity, invalid.numbers["shard"]) == ("error", 192)
    assert valid(QWEN, {"tp": 4, "dp": 2, "ep": True}, H100)
    assert valid(QWEN, {"tp": 4, "pp": 2}, H100)


def test_a06_the_shared_expert_is_cut_with_ep_too():
    config = {
        "model_type": "deepseek_v4",
        "moe_intermediate_size": 3072,
        "n_shared_experts": 1,
        "quantization_config": BLOCK_FP8,
    }
    gpus = Gpus(16, H100.name, H100.memory_mib, (9, 0), "nvlink")
    finding = by_id(config, {"tp": 16, "ep": True, "nnodes": 2}, gpus)["fp8-block-linear"]
    assert (finding.severity, finding.numbers["shard"], finding.numbers["width"]) == ("error", 192, 3072)
    assert valid(config, {"tp": 8, "ep": True}, gpus)


def test_a08_both_faults_at_once():
    found = by_id({"num_attention_heads": 64, "n_routed_experts": 256}, "tp3-ep", Gpus(3, RTX.name, 97887, (12, 0)))
    assert found["attention-heads"].severity == "error"
    assert found["attention-heads"].numbers["valid_tp"] == [1, 2, 4, 8, 16, 32, 64]
    assert found["experts-uneven"].numbers["remainder"] == 1


def test_a11_the_vision_tower_has_heads_of_its_own():
    config = {
        "model_type": "glm4v_moe",
        "text_config": {"num_attention_heads": 96, "num_key_value_heads": 8},
        "vision_config": {"num_heads": 12},
    }
    assert by_id(config, "tp8", None)["vision-heads"].numbers == {"vision_heads": 12, "tp": 8, "remainder": 4}
    assert valid(config, "tp4-pp2", None)
    assert valid(config, "tp4", None)


def test_a13_fp8_on_a100_is_slower_not_refused():
    finding = by_id(MINIMAX, "tp4", A100)["quantization-not-native"]
    assert finding.severity == "warning"
    assert "weight-only" in finding.message
    assert valid(MINIMAX, "tp4", A100)


def test_fp8_on_a_t4_is_refused():
    assert by_id(MINIMAX, "tp4", Gpus(8, "Tesla T4", 15360, (7, 5)))["quantization-capability"].severity == "error"


V32 = {"model_type": "deepseek_v32", "index_topk": 2048, "kv_lora_rank": 512}


@pytest.mark.parametrize(
    ("version", "severity"), [((0, 13, 0), "error"), ((0, 23, 0), "error"), (None, "warning"), ((0, 24, 0), None)]
)
def test_a14_sparse_mla_on_sm120_by_version(version, severity):
    found = by_id(V32, "tp8", RTX, version).get("sparse-mla")
    assert (found.severity if found else None) == severity


def test_a15_sparse_mla_on_a800_is_never_served():
    found = by_id({"model_type": "glm_moe_dsa", "index_topk": 2048}, "tp8", A100)["sparse-mla"]
    assert found.severity == "error"
    assert valid(MINIMAX, "tp8-ep", A100)


def test_sm120_takes_one_index_topk_only():
    assert "sparse-mla-topk" in by_id({**V32, "index_topk": 1024}, "tp8", RTX, (0, 26, 0))


def test_a16_an_architecture_without_pipeline_parallelism():
    config = {"architectures": ["MiniMaxM3SparseForConditionalGeneration"]}
    layout = {"tp": 1, "pp": 7, "ep": True}
    assert by_id(config, layout, None, (0, 22, 1))["pp-unsupported"].severity == "error"
    assert valid(config, layout, None, (0, 32, 0))
    assert valid(config, "tp4-ep", None, (0, 22, 1))


def test_a_draft_without_pipeline_parallelism_is_a_warning():
    assert by_id({"model_type": "glm_moe_dsa"}, "tp8-pp2", None, (0, 26, 0))["pp-without-mtp"].severity == "warning"


def test_an_unknown_architecture_is_not_guessed():
    found = by_id({"architectures": ["SomethingNew"]}, "tp1-pp2", None)
    assert found["pp-support-unknown"].severity == "warning"


def test_more_stages_than_layers():
    assert by_id({"model_type": "qwen3", "num_hidden_layers": 2}, "tp1-pp4", None)["pp-layers"].severity == "error"
    assert by_id({"model_type": "qwen3", "num_hidden_layers": 5}, "tp1-pp2", None)["pp-uneven"].numbers["stages"] == [
        3,
        2,
    ]


@pytest.mark.parametrize(("kv", "tp", "ok"), [(8, 4, True), (8, 16, True), (4, 8, True), (8, 6, False), (6, 4, False)])
def test_kv_heads_divide_or_are_divided(kv, tp, ok):
    config = {"num_attention_heads": 48, "num_key_value_heads": kv, "hidden_size": 6144, "num_hidden_layers": 2}
    assert ("kv-heads" not in by_id(config, f"tp{tp}", None)) is ok


def test_copies_of_kv_heads_are_told():
    assert by_id(QWEN, "tp8-ep", H100)["kv-heads-replicated"].numbers["copies"] == 2


def test_expert_parallelism_needs_experts():
    dense = {"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64}
    assert by_id(dense, "tp8-ep", H100)["ep-dense"].severity == "error"
    # A fragment of a config may only have left them out.
    assert by_id({"num_attention_heads": 64}, "tp8-ep", H100)["experts-unknown"].severity == "info"


def test_fewer_experts_than_ranks():
    config = {"num_attention_heads": 64, "num_experts": 4}
    assert by_id(config, "tp8", H100)["experts-fewer-than-ranks"].severity == "error"
    assert by_id(config, "tp1-dp8-ep", H100)["experts-fewer-than-ranks"].numbers == {"experts": 4, "ranks": 8}


def test_data_parallelism_of_a_dense_model():
    dense = {"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64}
    finding = by_id(dense, "tp4-dp2", H100)["dp-dense"]
    assert (finding.severity, finding.remedy) == ("warning", "Use tp4-r2.")


@pytest.mark.parametrize(("tp", "ok"), [(8, True), (64, True), (3, False), (6, False)])
def test_the_vocabulary_is_padded_before_it_is_cut(tp, ok):
    assert ("vocabulary" not in by_id({"vocab_size": 151552}, f"tp{tp}", None)) is ok


def test_nvfp4_groups_fit_where_blocks_do_not():
    quant = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
    assert valid({**MINIMAX, "quantization_config": quant}, "tp8", RTX)
    small = {**MINIMAX, "intermediate_size": 96, "quantization_config": quant}
    assert by_id(small, "tp4", RTX)["quant-group"].numbers["shard"] == 24


def test_int4_groups():
    quant = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    assert by_id({**MINIMAX, "quantization_config": quant}, "tp8", RTX)["quant-group"].numbers["group"] == 128
    assert valid({**MINIMAX, "quantization_config": quant}, "tp8-ep", RTX)


def test_attention_projections_keep_whole_blocks():
    # 64 heads of 64 at TP64: one head of 64 values is half a block.
    config = {**MINIMAX, "num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 64}
    assert by_id(config, "tp64-ep", None)["fp8-block-linear"].numbers["shard"] == 64
    kept = {**BLOCK_FP8, "modules_to_not_convert": ["self_attn"]}
    assert "fp8-block-linear" not in by_id({**config, "quantization_config": kept}, "tp64-ep", None)


def test_the_class_must_exist():
    assert by_id(MINIMAX, "tp4", RTX, (0, 11, 0))["architecture-version"].numbers == {"first": "0.11.1"}
    assert valid(MINIMAX, "tp4", RTX, (0, 11, 2))


@pytest.mark.parametrize("layout", ["tp16", "tp8-pp2", "tp8-r2", "tp8-dp2-ep"])
def test_d03_more_ranks_than_gpus(layout):
    finding = by_id(MINIMAX, layout, RTX)["gpus-too-few"]
    assert (finding.severity, finding.numbers) == ("error", {"needed": 16, "available": 8})
    assert "--nnodes" in finding.remedy


def test_d06_across_nodes_pipeline_is_plain_and_tensor_is_warned_of():
    assert "tp-across-nodes" not in by_id(MINIMAX, "tp8-pp2-ep", RTX, (0, 26, 0), nodes=2)
    assert by_id(MINIMAX, "tp8-pp2-ep", RTX, (0, 26, 0), nodes=2)["multi-node"].severity == "info"
    assert by_id(MINIMAX, "tp16-ep", RTX, (0, 26, 0), nodes=2)["tp-across-nodes"].severity == "warning"
    assert by_id(MINIMAX, "tp8-pp2-ep", RTX, (0, 10, 2), nodes=2)["multi-node-version"].severity == "error"


@pytest.mark.parametrize(
    ("layout", "even"), [("tp8-dp2-ep", True), ("tp6-pp2", True), ("tp4-dp4-ep", True), ("tp3-dp5-ep", False)]
)
def test_ranks_over_nodes(layout, even):
    # Five groups of three need three nodes of eight: two fit each.
    found = by_id({"num_attention_heads": 24, "num_experts": 240}, layout, RTX, (0, 26, 0), nodes=2)
    assert ("nodes-uneven" not in found) is even


def test_a_replica_is_not_cut_in_two():
    gpus = Gpus(4, RTX.name, 97887, (12, 0), "pcie")
    assert by_id({"num_attention_heads": 48}, "tp3-r2", gpus, None, nodes=2) == {}
    assert "gpus-too-few" in by_id({"num_attention_heads": 48}, "tp3-r3", gpus, None, nodes=2)
    gpus = Gpus(8, RTX.name, 97887, (12, 0), "pcie")
    assert by_id({"num_attention_heads": 45}, "tp5-r3", gpus, None, nodes=2)["replicas-split"].numbers["fit"] == 2


def test_e10_slices_form_no_engine():
    gpus = Gpus(2, RTX.name, 97887, (12, 0), "pcie", partial=("0",))
    assert by_id(MINIMAX, "tp2", gpus)["gpus-partial"].severity == "error"
    assert "gpus-partial" not in by_id(MINIMAX, "tp1", gpus)


def test_an_unknown_quantization_is_told():
    found = by_id({**MINIMAX, "quantization_config": {"quant_method": "new"}}, "tp8", RTX)
    assert found["quantization-unknown"].severity == "warning"

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports whose right answer is a plan: each by its id, through the interface that users call."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._planner.api import layout_info
from ansible_collections.modelops.vllm.tests.support.model_configs import BLOCK_FP8, MINIMAX, QWEN

V4 = {
    "model_type": "deepseek_v4",
    "moe_intermediate_size": 3072,
    "n_shared_experts": 1,
    "quantization_config": BLOCK_FP8,
}
GLM_V = {
    "model_type": "glm4v_moe",
    "text_config": {"num_attention_heads": 96, "num_key_value_heads": 8},
    "vision_config": {"num_heads": 12},
}
V32 = {"model_type": "deepseek_v32", "index_topk": 2048, "kv_lora_rank": 512}
M3 = {"architectures": ["MiniMaxM3SparseForConditionalGeneration"]}


def gpus(count, name, mib, cap, link=None):
    return {"count": count, "name": name, "memory_mib": mib, "compute_cap": cap, "link": link}


def rtx(count):
    return gpus(count, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "12.0", "pcie")


def h100(count):
    return gpus(count, "NVIDIA H100 80GB HBM3", 81559, "9.0", "nvlink")


A100 = gpus(4, "NVIDIA A100-SXM4-80GB", 81920, "8.0")
A800 = gpus(8, "NVIDIA A800-SXM4-80GB", 81920, "8.0")


def plan(config, machine, layouts=None, **options):
    return layout_info({"config": config, "gpus": machine, "layouts": layouts, **options})


def errors(result, index=0):
    return {f["id"]: f for f in result["layouts"][index]["findings"] if f["severity"] == "error"}


@pytest.mark.parametrize(
    ("config", "machine", "layouts", "valid"),
    [
        pytest.param(
            MINIMAX, rtx(8), ["tp8", "tp4", "tp8-ep", "dp8-ep", "tp4-dp2-ep"], [False, True, True, True, True], id="A01"
        ),
        pytest.param(
            QWEN,
            h100(8),
            [{"tp": 8, "ep": False}, {"tp": 4, "dp": 2, "ep": True}, {"tp": 4, "pp": 2}],
            [False, True, True],
            id="A03",
        ),
        pytest.param(
            V4, h100(16), [{"tp": 16, "ep": True, "nnodes": 2}, {"tp": 8, "ep": True}], [False, True], id="A06"
        ),
        pytest.param(
            {"num_attention_heads": 64, "n_routed_experts": 256}, rtx(3), [{"tp": 3, "ep": True}], [False], id="A08"
        ),
        pytest.param(GLM_V, None, [{"tp": 8}, {"tp": 4, "pp": 2}, {"tp": 4}], [False, True, True], id="A11"),
        pytest.param(MINIMAX, A100, ["tp4"], [True], id="A13"),
        pytest.param({"model_type": "glm_moe_dsa", "index_topk": 2048}, A800, ["tp8", "tp4"], [False, False], id="A15"),
    ],
)
def test_valid_or_not(config, machine, layouts, valid):
    result = plan(config, machine, layouts)
    assert [x["valid"] for x in result["layouts"]] == valid


def test_a03_the_message_has_the_numbers_and_the_neighbours():
    finding = errors(plan(QWEN, h100(8), ["tp8"]))["fp8-block-moe"]
    assert all(number in finding["message"] for number in ("1536/8", "192", "128"))
    assert "tp8-ep" in finding["remedy"]
    assert "tp4-dp2-ep" in finding["numbers"]["valid_layouts"]


def test_a08_both_faults_and_the_way_out():
    result = plan({"num_attention_heads": 64, "n_routed_experts": 256}, rtx(3), ["tp3-ep"])
    ids = {f["id"] for f in result["layouts"][0]["findings"]}
    assert {"attention-heads", "experts-uneven"} <= ids
    heads = errors(result)["attention-heads"]
    assert heads["numbers"]["valid_tp"] == [1, 2, 4, 8, 16, 32, 64]
    assert "tp2 (1 GPU idle)" in heads["remedy"]


@pytest.mark.parametrize("dtype", [pytest.param("fp8", id="A13-fp8"), pytest.param("fp8_e5m2", id="A13-fp8_e5m2")])
def test_what_needs_fp8_hardware_is_refused_without_it(dtype):
    assert "kv-cache-capability" in errors(plan(MINIMAX, A100, ["tp4"], kv_cache_dtype=dtype))
    assert "kv-cache-capability" not in errors(plan(MINIMAX, h100(4), ["tp4"], kv_cache_dtype=dtype))


def test_an_fp8_kv_cache_that_the_checkpoint_asks_for_is_refused_as_well():
    scheme = {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    config = {**MINIMAX, "quantization_config": {**MINIMAX["quantization_config"], **scheme}}
    (found,) = (f for f in plan(config, A100, ["tp4"])["layouts"][0]["findings"] if f["id"] == "kv-cache-capability")
    assert found["message"] == (
        "kv_cache_dtype fp8 (the checkpoint asks for it) needs compute capability 8.9, this GPU has 8.0."
    )
    assert found["remedy"] == "Use bfloat16."
    assert "kv-cache-capability" not in errors(plan(config, A100, ["tp4"], kv_cache_dtype="bfloat16"))
    assert "kv-cache-capability" not in errors(plan(config, h100(4), ["tp4"]))


def test_a13_is_a_warning_that_says_slower():
    (finding,) = (
        f for f in plan(MINIMAX, A100, ["tp4"])["layouts"][0]["findings"] if f["id"] == "quantization-not-native"
    )
    assert finding["severity"] == "warning"
    assert "slower" in finding["message"]
    assert plan(MINIMAX, A100, ["tp4"], vllm_version="0.32.0")["layouts"][0]["moe_backends"] == ["MARLIN"]


@pytest.mark.parametrize(
    ("version", "valid"),
    [pytest.param("0.13.0", False, id="A14-0.13.0"), pytest.param("0.24.0", True, id="A14-0.24.0")],
)
def test_sparse_attention_on_sm120_is_a_matter_of_the_version(version, valid):
    result = plan(V32, rtx(8), ["tp8"], vllm_version=version)
    assert result["layouts"][0]["valid"] is valid
    assert result["layouts"][0]["attention_backends"] == (["FLASHINFER_MLA_SPARSE_SM120"] if valid else [])


def test_a15_no_workaround_is_offered():
    finding = errors(plan({"model_type": "glm_moe_dsa", "index_topk": 2048}, A800, ["tp8"]))["sparse-mla"]
    assert "wrong answers" in finding["remedy"]


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        pytest.param("0.22.1", True, id="A16-0.22.1"),
        pytest.param("0.24.0", True, id="A16-0.24.0"),
        pytest.param("0.26.0", False, id="A16-0.26.0"),
        pytest.param(None, True, id="A16-no-version"),
    ],
)
def test_pipelines_of_an_architecture_that_got_them_late(version, refused):
    result = plan(M3, None, [{"tp": 1, "pp": 7, "ep": True}], vllm_version=version)
    assert ("pp-unsupported" in errors(result)) is refused
    if refused:
        assert "data plus expert parallelism across nodes" in errors(result)["pp-unsupported"]["remedy"]


@pytest.mark.parametrize(
    ("machine", "backend", "version", "taken"),
    [
        pytest.param(rtx(1), "FLASHINFER", None, False, id="A17-flashinfer-sm120"),
        pytest.param(rtx(1), "FLASHINFER", "0.26.0", False, id="A17-flashinfer-sm120-0.26"),
        pytest.param(rtx(1), "FLASHINFER", "0.28.0", True, id="A17-flashinfer-sm120-0.28"),
        pytest.param(rtx(1), "FLASH_ATTN", "0.33.0", False, id="A17-flash-attn-sm120"),
        pytest.param(rtx(1), "TRITON_ATTN", None, True, id="A17-triton"),
        pytest.param(rtx(1), "auto", None, True, id="A17-auto"),
        pytest.param(rtx(1), None, None, True, id="A17-none"),
        pytest.param(A100, "FLASH_ATTN", "0.33.0", False, id="A17-flash-attn-sm80"),
        pytest.param(h100(1), "FLASH_ATTN", "0.26.0", True, id="A17-flash-attn-sm90"),
    ],
)
def test_attention_sinks_and_a_forced_backend(machine, backend, version, taken):
    result = plan({"model_type": "gpt_oss"}, machine, ["tp1"], attention_backend=backend, vllm_version=version)
    assert result["layouts"][0]["valid"] is taken
    if not taken:
        assert "Leave it to vLLM" in errors(result)["attention-backend"]["remedy"]


UNIFORM = {  # 24576 bytes of KV a token: 24 GiB for a million
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 1048576,
}


def room_of(gib):
    """A CPU, whose overhead is fixed, with this room for KV beside the weights of UNIFORM."""
    empty = plan(UNIFORM, gpus(1, "cpu", 1 << 20, None), ["tp1"], gpu_memory_utilization=1.0)["layouts"][0]
    used = empty["weights_gib_per_gpu"] + empty["overhead_gib_per_gpu"]
    return gpus(1, "cpu", round((gib + used) * 1024), None)


@pytest.mark.case("A19")
def test_the_length_that_would_fit_is_told():
    result = plan(UNIFORM, room_of(9.97), ["tp1"], max_model_len=1048576, gpu_memory_utilization=1.0)
    layout = result["layouts"][0]
    assert layout["kv_bytes_per_token"] * 1048576 == 24 << 30
    assert layout["max_model_len_fit"] == pytest.approx(435_000, rel=0.005)
    assert str(layout["max_model_len_fit"]) in errors(result)["kv-room"]["remedy"]


@pytest.mark.case("A19")
def test_layers_with_a_window_make_it_an_estimate_that_does_not_block():
    windows = {**UNIFORM, "sliding_window": 4096, "layer_types": ["full_attention", "sliding_attention"] * 24}
    result = plan(windows, room_of(9.97), ["tp1"], max_model_len=1048576, gpu_memory_utilization=1.0)
    assert result["layouts"][0]["valid"] is True
    assert "kv-below-context" in {f["id"] for f in result["layouts"][0]["findings"]}
    assert "kv-estimate" in {f["id"] for f in result["findings"]}


@pytest.mark.parametrize(
    ("share", "warned"),
    [
        pytest.param(0.9, False, id="A20-0.90"),
        pytest.param(0.95, False, id="A20-0.95"),
        pytest.param(0.98, True, id="A20-0.98"),
    ],
)
def test_a_utilization_that_leaves_no_room_for_graphs(share, warned):
    card = gpus(1, "NVIDIA GeForce RTX 4090", 24564, "8.9")
    findings = plan(UNIFORM, card, ["tp1"], gpu_memory_utilization=share, max_model_len=4096)["layouts"][0]["findings"]
    assert ("gpu-memory-utilization" in {f["id"] for f in findings}) is warned


KIMI_K2 = {"model_type": "kimi_k2", "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"}}


@pytest.mark.parametrize(
    ("config", "trust", "severity"),
    [
        pytest.param(KIMI_K2, False, "error", id="A24-off"),
        pytest.param(KIMI_K2, "false", "error", id="A24-off-awx"),
        pytest.param(KIMI_K2, True, "warning", id="A24-on"),
        pytest.param(KIMI_K2, None, None, id="A24-not-said"),
        pytest.param({"model_type": "kimi_k2"}, False, None, id="A24-no-code"),
        pytest.param({**MINIMAX, "auto_map": KIMI_K2["auto_map"]}, False, None, id="A24-class-in-vllm"),
    ],
)
def test_code_of_the_repository(config, trust, severity):
    findings = plan(config, rtx(8), ["tp4"], trust_remote_code=trust)["layouts"][0]["findings"]
    assert next((f["severity"] for f in findings if f["id"] == "remote-code"), None) == severity


def test_a27_two_ranks_on_pcie_are_told_what_to_switch_off():
    (finding,) = (f for f in plan(MINIMAX, rtx(2), ["tp2"])["findings"] if f["id"] == "pcie-all-reduce")
    assert "NCCL_P2P_DISABLE=1 together with --disable-custom-all-reduce" in finding["remedy"]
    assert "pcie-all-reduce" not in {f["id"] for f in plan(MINIMAX, h100(2), ["tp2"])["findings"]}


@pytest.mark.parametrize(
    ("count", "nodes", "layout", "valid"),
    [
        pytest.param(1, 1, "tp2", False, id="D03-spark"),
        pytest.param(8, 1, "tp16", False, id="D03-tp16"),
        pytest.param(8, 1, "tp8-pp2", False, id="D03-pp"),
        pytest.param(1, 2, "tp2", True, id="D03-native"),
    ],
)
def test_more_ranks_than_the_node_has_need_the_native_backend(count, nodes, layout, valid):
    result = plan({"num_attention_heads": 64}, rtx(count), [layout], nodes=nodes)
    assert result["layouts"][0]["valid"] is valid
    if not valid:
        assert "--nnodes" in errors(result)["gpus-too-few"]["remedy"]


@pytest.mark.parametrize(
    ("backend", "nodes", "valid"),
    [
        pytest.param("ray", 2, False, id="D04-ray"),
        pytest.param("mp", 2, True, id="D04-mp"),
        pytest.param("ray", 1, True, id="D04-one-node"),
    ],
)
def test_the_data_parallel_backend_over_nodes(backend, nodes, valid):
    result = plan(MINIMAX, h100(8), ["tp4-dp2-ep"], nodes=nodes, data_parallel_backend=backend)
    assert result["layouts"][0]["valid"] is valid


TWO_NODE = {**UNIFORM, "architectures": ["Glm4MoeForCausalLM"], "n_routed_experts": 64, "moe_intermediate_size": 1024,
            "num_attention_heads": 16, "num_key_value_heads": 16}  # fmt: skip


@pytest.mark.parametrize(
    ("architecture", "layouts", "best"),
    [
        pytest.param("Glm4MoeForCausalLM", ["tp16-ep", "tp8-pp2-ep"], "tp8-pp2-ep", id="D06-pp"),
        pytest.param("MiniMaxM1ForCausalLM", ["tp16-ep", "tp8-pp2-ep", "tp8-dp2-ep"], "tp8-dp2-ep", id="D06-no-pp"),
        pytest.param("MiniMaxM1ForCausalLM", ["tp16-ep", "tp8-pp2-ep"], "tp16-ep", id="D06-tp16"),
    ],
)
def test_two_nodes(architecture, layouts, best):
    config = {**TWO_NODE, "architectures": [architecture]}
    result = plan(config, h100(8), layouts, nodes=2, vllm_version="0.22.1", max_model_len=4096)
    assert result["recommended"] == best
    wide = next(x for x in result["layouts"] if x["id"] == "tp16-ep")
    assert "tp-across-nodes" in {f["id"] for f in wide["findings"]}


def test_e01_a_machine_whose_gpu_shares_the_memory_of_the_host():
    gb10 = {
        "index": 0, "name": "NVIDIA GB10", "compute_cap": "12.1", "memory_mib": 124609, "memory_free_mib": 117187,
        "unified_memory": True, "memory_source": "/proc/meminfo", "mig": None, "virtual": False, "link": None,
    }  # fmt: skip
    result = plan(UNIFORM, [gb10], ["tp1"], max_model_len=4096)
    (finding,) = (f for f in result["findings"] if f["id"] == "memory-unified")
    assert finding["numbers"] == {
        "total_gib": 121.7,
        "takes_gib": 112.0,
        "utilization": 0.92,
        "free_gib": 114.4,
        "most_utilization": 0.94,
    }
    assert result["layouts"][0]["valid"] is True


@pytest.mark.parametrize(
    "part", [pytest.param({"mig": True}, id="E10-mig"), pytest.param({"virtual": True}, id="E04-vgpu")]
)
def test_slices_form_no_group(part):
    slices = [{**gpus(1, "NVIDIA H100L-2-24C", 24576, "9.0"), "index": i, **part} for i in range(2)]
    result = plan({"num_attention_heads": 64}, slices, ["tp2", "tp1-r2"])
    assert [x["valid"] for x in result["layouts"]] == [False, True]
    assert "gpus-partial" in errors(result)


@pytest.mark.parametrize("share", [pytest.param(s, id=f"E12-{s}") for s in (0.9, 0.92, 0.95)])
def test_a_plan_stays_within_what_torch_can_see(share):
    config = {**MINIMAX, "vocab_size": 200064, "max_position_embeddings": 196608}
    for layout in plan(config, rtx(8), None, gpu_memory_utilization=share)["layouts"]:
        if layout["valid"] and layout["kv_tokens"]:
            cache = layout["kv_tokens"] * layout["kv_bytes_per_token"] / 2**30
            assert layout["weights_gib_per_gpu"] + layout["overhead_gib_per_gpu"] + cache <= 94.97 * share

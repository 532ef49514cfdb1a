# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as layout_info returns it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._planner.api import layout_info

MODELS = {
    m["id"]: m
    for m in json.loads((Path(__file__).parents[3] / "fixtures" / "models.json").read_text(encoding="utf-8"))["models"]
}
M25 = MODELS["MiniMaxAI/MiniMax-M2.5"]
RTX = {"count": 8, "name": "NVIDIA RTX PRO 6000 Blackwell", "memory_mib": 97887, "compute_cap": "12.0", "link": "pcie"}
H200 = {"count": 8, "name": "NVIDIA H200", "memory_mib": 143771, "compute_cap": "9.0", "link": "nvlink"}


def plan(config=M25, gpus=None, vllm_version="0.26.0", **options):
    return layout_info({"config": config, "gpus": gpus or RTX, "vllm_version": vllm_version, **options})


def one(layout, **options):
    return plan(layouts=[layout], **options)["layouts"][0]


def ids(findings):
    return {f["id"] for f in findings}


def test_all_layouts_of_the_first_deployment():
    result = plan()
    by_id = {x["id"]: x for x in result["layouts"]}
    assert by_id["tp8"]["valid"] is False
    for id_ in ("tp8-ep", "tp4", "tp4-r2", "tp4-dp2-ep", "tp1-dp8-ep"):
        assert by_id[id_]["valid"] is True
    assert result["recommended"] in by_id
    assert by_id[result["recommended"]]["valid"]
    assert by_id[result["recommended"]]["idle_gpus"] == 0


def test_an_invalid_layout_names_its_neighbours():
    finding = one("tp8")["findings"][0]
    assert finding["remedy"].endswith(
        "Nearest valid layouts: tp8-ep, tp4-r2, tp4-ep-r2, tp4-dp2-ep, tp4 (4 GPU idle), tp4-ep (4 GPU idle)."
    )
    assert {"tp8-ep", "tp4", "tp4-dp2-ep", "tp1-dp8-ep"} <= set(finding["numbers"]["valid_layouts"])


def test_a08_the_neighbour_with_an_idle_gpu_is_named():
    result = plan(
        {"num_attention_heads": 64, "n_routed_experts": 256}, {**RTX, "count": 3}, "0.26.0", layouts=["tp3-ep"]
    )
    assert "tp2 (1 GPU idle)" in result["layouts"][0]["findings"][0]["remedy"]
    assert result["recommended"] is None


@pytest.mark.parametrize("name", ["tp4", "tp8_ep8", "tp4_dp2_ep8", "tp2_dp4_ep8", "dp8_ep8"])
def test_kv_tokens_of_the_table(name):
    row = M25["layouts"][name]
    got = one({"tp": row["tp"], "dp": row["dp"], "ep": row["enable_expert_parallel"]})
    tokens = row["rtx_pro_6000_util_0_92"]["kv_pool_tokens_est_all_dp_ranks"]["bf16"]
    assert got["kv_tokens_total"] == pytest.approx(tokens, rel=0.01)
    assert got["kv_tokens"] == got["kv_tokens_total"] // row["dp"]


@pytest.mark.parametrize("model", sorted(MODELS))
def test_what_fits_eight_rtx_pro_6000(model):
    for row in MODELS[model]["layouts"].values():
        verdict = row["rtx_pro_6000_util_0_92"]["fits"]
        if row["gpus"] > 8:
            continue
        layout = {"tp": row["tp"], "dp": row["dp"], "ep": row["enable_expert_parallel"]}
        got = one(layout, config=MODELS[model], kv_cache_dtype="bfloat16")
        assert ("memory" in ids(got["findings"])) is (verdict == "no"), (model, layout, verdict)


def test_sizes_of_one_layout():
    got = one("tp4-r2", max_model_len=131072)
    assert got["weights_gib_per_gpu"] == pytest.approx(53.72, abs=0.02)
    assert got["kv_bytes_per_token"] == 63488
    assert got["kv_tokens_total"] == 2 * got["kv_tokens"]
    assert got["max_concurrency"] == round(got["kv_tokens"] / 131072, 2)
    assert got["max_concurrency_total"] == round(2 * got["max_concurrency"], 2)
    assert (got["gpus"], got["idle_gpus"]) == (8, 0)


@pytest.mark.parametrize(
    ("layout", "gpus", "loaded_gib", "kv_tokens"),
    [
        ("tp2", {**H200, "count": 2}, 107.28, 159200),
        ("tp1-dp2-ep", {**H200, "count": 2}, 109.69, 59472),
        ("tp4", RTX, 53.75, None),
    ],
    ids=["tp2", "dp2-ep", "tp4"],
)
def test_what_vllm_logged(layout, gpus, loaded_gib, kv_tokens):
    # vLLM 0.26.0 on two H200; the last one is a published log of TP4 on RTX PRO 6000.
    got = one(layout, gpus=gpus, max_model_len=16384, max_num_seqs=256, gpu_memory_utilization=0.92)
    assert got["valid"] is True
    assert got["weights_gib_per_gpu"] == pytest.approx(loaded_gib, rel=0.01)
    if kv_tokens:
        assert got["kv_tokens"] == pytest.approx(kv_tokens, rel=0.05)
        low, high = got["kv_tokens_range"]
        assert low < kv_tokens < high * 1.05


def test_overhead_is_a_range_around_the_plan():
    got = one("tp4", max_num_seqs=256)
    assert got["overhead_gib_range"][0] == 2.5
    assert got["overhead_gib_range"][0] <= got["overhead_gib_per_gpu"] <= got["overhead_gib_range"][1] == 8.0
    low, high = got["kv_tokens_range"]
    assert low < got["kv_tokens"] <= high
    assert (high - low) * got["kv_bytes_per_token"] == pytest.approx(5.5 * 2**30, rel=1e-4)
    cpu = {"count": 1, "name": "cpu", "memory_mib": 524288}
    assert one("tp1", gpus=cpu)["overhead_gib_range"] == [1.0, 1.0]


def test_many_data_parallel_ranks_may_take_more_than_the_plan():
    # All ranks' tokens meet at the experts: 2.5 x 65536 tokens x 8 experts x 6144 values of two bytes, and 1.1 GiB.
    got = one("tp1-dp8-ep", gpus=H200)
    assert got["overhead_gib_per_gpu"] == 8.0
    assert got["overhead_gib_range"] == [2.5, 16.1]
    assert got["kv_tokens_range"][0] == pytest.approx(
        one("tp1-dp8-ep", gpus=H200, max_num_seqs=256)["kv_tokens"], rel=1e-4
    )
    told = next(f for f in plan(layouts=["tp1-dp8-ep"])["findings"] if f["id"] == "recommendation-confidence")
    assert "logged for 2 data parallel ranks and not for 8 (up to 16.1 GiB)" in told["message"]


def test_utilization_default_follows_the_version():
    old, new = (one("tp4", vllm_version=v)["kv_tokens"] for v in ("0.19.1", "0.26.0"))
    assert new - old == pytest.approx(0.02 * 94.97 * 2**30 / 63488, rel=0.01)


@pytest.mark.parametrize(("share", "warned"), [(0.9, False), (0.95, False), (0.98, True)])
def test_a20_a_high_utilization_is_warned_of(share, warned):
    finding = [f for f in one("tp4", gpu_memory_utilization=share)["findings"] if f["id"] == "gpu-memory-utilization"]
    assert bool(finding) is warned
    if warned:
        assert all(lever in finding[0]["remedy"] for lever in ("Lower it", "max_num_seqs", "--enforce-eager"))


def test_e12_a_plan_fits_what_torch_can_see():
    got = one("tp4")
    used = (
        got["weights_gib_per_gpu"] + got["overhead_gib_per_gpu"] + got["kv_tokens"] * got["kv_bytes_per_token"] / 2**30
    )
    assert used <= 94.97 * 0.92


def test_a19_a_context_that_does_not_fit_says_what_does():
    # DeepSeek-V3 at TP8 has room for some thousand tokens.
    got = one("tp8", config=MODELS["deepseek-ai/DeepSeek-V3"], max_model_len=65536)
    finding = next(f for f in got["findings"] if f["id"] == "kv-room")
    assert got["valid"] is False
    assert finding["numbers"]["kv_tokens"] == got["max_model_len_fit"] < 65536
    assert f"at most {got['max_model_len_fit']}" in finding["remedy"]
    # Not asked for, it is a warning: a shorter context makes the layout work.
    assert one("tp8", config=MODELS["deepseek-ai/DeepSeek-V3"])["valid"] is True


def test_a19_windows_do_not_block():
    small = {**RTX, "count": 1, "memory_mib": 78000}
    got = plan(MODELS["openai/gpt-oss-120b"], small, layouts=["tp1"], max_model_len=131072)
    assert "kv-below-context" in ids(got["layouts"][0]["findings"])
    assert got["layouts"][0]["valid"] is True
    assert "kv-estimate" in ids(got["findings"])


def test_longer_than_the_model_is_refused():
    assert "max-model-len" in ids(one("tp4", max_model_len=200000)["findings"])


def test_preferred_layouts_in_their_order():
    result = plan(layouts=["tp8", "tp4-r2", "tp8-ep"])
    assert [x["id"] for x in result["layouts"]] == ["tp8", "tp4-r2", "tp8-ep"]
    assert result["first_valid"] == "tp4-r2"


@pytest.mark.parametrize("objective", ["latency", "throughput", "capacity"])
def test_every_objective_takes_a_valid_layout_of_all_gpus(objective):
    result = plan(objective=objective)
    chosen = next(x for x in result["layouts"] if x["id"] == result["recommended"])
    assert (chosen["valid"], chosen["idle_gpus"]) == (True, 0)
    assert result["recommendation"]["objective"] == objective
    assert result["recommended"] not in result["recommendation"]["ties"]


def test_capacity_takes_the_most_kv_tokens():
    result = plan(objective="capacity")
    valid = [x for x in result["layouts"] if x["valid"] and x["pp"] == 1]
    assert result["recommended"] == max(valid, key=lambda x: x["kv_tokens_total"])["id"] == "tp8-ep"


def test_latency_on_pcie_keeps_the_ring_short():
    # The case of the project: TP4 answers a single stream faster than TP8 on PCIe.
    assert plan(objective="latency")["recommended"] == "tp4-r2"


def test_ties_are_said():
    result = plan(objective="capacity")
    tie = next(f for f in result["findings"] if f["id"] == "recommendation-tie")
    assert tie["numbers"]["ties"] == result["recommendation"]["ties"]


def test_the_ranking_is_a_part_of_the_best_score():
    choice = plan(objective="capacity")["recommendation"]
    scores = [entry["score"] for entry in choice["ranking"]]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    assert {e["id"] for e in choice["ranking"] if e["score"] >= 0.9} == {
        *choice["ties"],
        plan(objective="capacity")["recommended"],
    }


@pytest.mark.parametrize(
    ("options", "confidence"),
    [
        ({"objective": "capacity"}, "tie"),
        ({"layouts": ["tp8-ep"]}, "clear"),
        ({"layouts": ["tp8"]}, "none"),
        ({"layouts": ["tp4-dp2-ep"]}, "clear"),
        ({"layouts": ["tp1-dp8-ep"]}, "low"),
        ({"gpus": {**RTX, "name": "NVIDIA Something"}}, "low"),
        ({"gpus": {**RTX, "link": None}}, "low"),
        ({"config": MODELS["openai/gpt-oss-120b"]}, "low"),
        ({"config": {"num_attention_heads": 64}}, "low"),
    ],
)
def test_how_sure_the_recommendation_is(options, confidence):
    result = plan(**options)
    assert result["recommendation"]["confidence"] == confidence
    assert ("recommendation-confidence" in ids(result["findings"])) is (confidence == "low")


def test_a_single_gpu_needs_no_link():
    alone = {"count": 1, "name": "NVIDIA B200", "memory_mib": 183359, "compute_cap": "10.0", "link": None}
    assert plan(MODELS["nvidia/MiniMax-M2.5-NVFP4"], alone)["recommendation"]["confidence"] == "clear"


def test_a_class_that_is_in_no_release_is_told():
    assert "architecture-unknown" in ids(plan({**M25, "architecture": "MiniMaxM9ForCausalLM"})["findings"])
    assert "architecture-unknown" not in ids(plan()["findings"])


@pytest.mark.parametrize(("version", "new"), [("0.33.0", False), ("0.33.1", True), ("1.0", True)])
def test_a_version_beyond_the_tables_is_told(version, new):
    assert ("version-new" in ids(plan(vllm_version=version)["findings"])) is new


def test_a_refined_block_is_second_choice():
    result = plan(vllm_version="0.32.0", objective="capacity")
    assert next(x for x in result["layouts"] if x["id"] == "tp8")["valid"] is True
    assert result["recommended"] == "tp8-ep"


def test_d06_two_nodes_take_pipeline_between_them():
    # GLM-5-FP8 needs sixteen cards.
    result = plan(MODELS["zai-org/GLM-5-FP8"], RTX, "0.26.0", nodes=2, layouts=["tp16", "tp8-pp2"])
    assert [x["valid"] for x in result["layouts"]] == [True, True]
    assert result["recommended"] == "tp8-pp2"


def test_nothing_fits():
    result = plan(MODELS["zai-org/GLM-5-FP8"])
    assert result["recommended"] is None
    assert result["first_valid"] is None
    assert "no-valid-layout" in ids(result["findings"])


def test_a_cpu_node_is_planned():
    tiny = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "hidden_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "intermediate_size": 256,
        "moe_intermediate_size": 256,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 259,
        "max_position_embeddings": 4096,
    }
    cpu = {"count": 2, "name": "cpu", "memory_mib": 8192, "compute_cap": None, "link": None}
    result = plan(tiny, cpu, "0.32.0+cpu", layouts=["tp2-ep", "tp1", "tp4"], max_model_len=1024)
    assert [x["valid"] for x in result["layouts"]] == [True, True, False]
    assert "accelerator-cpu" in ids(result["findings"])
    assert result["layouts"][0]["kv_tokens"] > 1024


def test_a_partial_config_is_judged_as_far_as_it_goes():
    result = plan({"num_attention_heads": 64}, RTX, None, layouts=["tp8"])
    assert result["layouts"][0]["valid"] is True
    assert result["layouts"][0]["kv_tokens"] is None
    assert {"config-partial", "version-not-given"} <= ids(result["findings"])


def test_layouts_without_gpus():
    result = layout_info({"config": {"num_attention_heads": 96}, "layouts": ["tp7", "tp8"]})
    assert [x["valid"] for x in result["layouts"]] == [False, True]
    assert result["layouts"][0]["idle_gpus"] is None


def test_strings_of_awx():
    got = layout_info(
        {
            "config": {k: str(v) for k, v in {"num_attention_heads": 64, "num_hidden_layers": 2}.items()},
            "gpus": {"count": "8", "memory_mib": "97887", "compute_cap": "12.0"},
            "layouts": [{"tp": "8", "ep": "false"}],
            "max_model_len": "",
            "nodes": "1",
        }
    )
    assert got["layouts"][0]["valid"] is True


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"config": {}}, "config is empty"),
        ({"config": {"a": 1}}, "Neither layouts nor gpus"),
        ({"config": {"a": 1}, "gpus": RTX, "layouts": ["tp9x"]}, "'tp9x'"),
        ({"config": {"a": 1}, "gpus": RTX, "vllm_version": "new"}, "'new'"),
        ({"config": {"a": 1}, "gpus": RTX, "kv_cache_dtype": "int3"}, "'int3'"),
        ({"config": {"a": 1}, "gpus": RTX, "gpu_memory_utilization": 92.0}, "is 92"),
        ({"config": {"a": 1}, "gpus": RTX, "objective": "fun"}, "'fun'"),
        ({"config": {"a": 1}, "gpus": RTX, "max_model_len": -1}, "max_model_len is -1"),
    ],
)
def test_wrong_options_are_named(options, named):
    with pytest.raises(ModelopsError) as e:
        layout_info(options)
    assert named in str(e.value)


def test_a_snapshot_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 64}), encoding="utf-8")
    options = {"model_dir": str(tmp_path), "gpus": RTX, "layouts": ["tp3"]}
    assert layout_info(options)["layouts"][0]["valid"] is False
    (tmp_path / "config.json").write_text("[", encoding="utf-8")
    with pytest.raises(ModelopsError, match="cannot be read as JSON"):
        layout_info(options)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelopsError, match=r"has no config\.json"):
        layout_info(options)


@pytest.mark.parametrize("gpus", [RTX, H200, {**H200, "count": 2}], ids=["8 RTX", "8 H200", "2 H200"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_on_every_machine_has_a_layout_or_a_reason(model, gpus):
    result = plan(MODELS[model], gpus, "0.33.0")
    assert result["layouts"]
    for layout in result["layouts"]:
        assert layout["valid"] is not any(f["severity"] == "error" for f in layout["findings"]), layout["id"]
    valid = {x["id"] for x in result["layouts"] if x["valid"]}
    assert result["recommended"] in (valid or {None})
    assert ("no-valid-layout" in ids(result["findings"])) is not bool(valid)

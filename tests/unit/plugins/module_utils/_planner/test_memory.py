# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes against the table of 17 models and against what vLLM logged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._planner import memory
from ansible_collections.modelops.vllm.plugins.module_utils._planner.gpus import GIB, Gpus
from ansible_collections.modelops.vllm.plugins.module_utils._planner.layout import Layout
from ansible_collections.modelops.vllm.plugins.module_utils._planner.shape import ModelShape

MODELS = json.loads((Path(__file__).parents[3] / "fixtures" / "models.json").read_text(encoding="utf-8"))["models"]
ROWS = [(m, name, row) for m in MODELS for name, row in m["layouts"].items()]
H200 = Gpus(2, "NVIDIA H200", 143771, (9, 0), "nvlink")


def shape_of(name):
    return ModelShape.from_config(next(m for m in MODELS if m["id"] == name))


def layout_of(row):
    return Layout(row["tp"], 1, row["dp"], row["enable_expert_parallel"])


@pytest.mark.parametrize(("model", "name", "row"), ROWS, ids=[f"{m['id']}-{n}" for m, n, _row in ROWS])
def test_weights_and_kv_of_the_table(model, name, row):
    shape, layout = ModelShape.from_config(model), layout_of(row)
    weights = memory.weight_bytes(shape, layout, memory.parts(shape))
    assert weights / GIB == pytest.approx(row["weights_gib_per_gpu"], rel=0.01)
    for ours, theirs in (("bfloat16", "bf16"), ("fp8", "fp8")):
        assert memory.kv_bytes_per_token(shape, layout, ours) == row["kv_bytes_per_token_per_gpu"][theirs]


@pytest.mark.parametrize(
    ("layout", "loaded_gib", "kv_tokens"),
    [(Layout(2), 107.28, 159200), (Layout(1, dp=2, ep=True), 109.69, 59472)],
    ids=["tp2", "dp2-ep"],
)
def test_what_vllm_logged_on_two_h200(layout, loaded_gib, kv_tokens):
    # MiniMax-M2.5 FP8, vLLM 0.26.0, utilization 0.92, 256 sequences.
    shape = shape_of("MiniMaxAI/MiniMax-M2.5")
    weights = memory.weight_bytes(shape, layout, memory.parts(shape))
    assert weights / GIB == pytest.approx(loaded_gib, rel=0.01)
    room = H200.usable_bytes * 0.92 - weights - memory.overhead_bytes(shape, layout, H200, 256)
    assert room / memory.kv_bytes_per_token(shape, layout, "bfloat16") == pytest.approx(kv_tokens, rel=0.05)


def test_overhead_without_a_number_of_sequences_is_the_most_that_was_logged():
    shape = shape_of("MiniMaxAI/MiniMax-M2.5")
    assert memory.overhead_bytes(shape, Layout(4), H200, None) == 8 * GIB
    # The same machine as where it was logged: 8.1 GiB at TP4 with 1024 sequences.
    assert memory.overhead_bytes(shape, Layout(4), H200, 1024) / GIB == pytest.approx(8.1, rel=0.03)


def test_no_overhead_below_the_least_that_was_logged():
    shape = shape_of("meta-llama/Llama-3.3-70B-Instruct")
    assert memory.overhead_bytes(shape, Layout(8), H200, 16) == 2.5 * GIB


@pytest.mark.parametrize(
    ("layers", "pp", "stages"),
    [(62, 2, [31, 31]), (61, 2, [31, 30]), (61, 4, [15, 15, 16, 15]), (62, 4, [15, 16, 16, 15]), (10, 1, [10])],
)
def test_layers_of_the_stages(layers, pp, stages):
    assert memory.split_layers(layers, pp) == stages


def test_pipeline_stages_share_layers_and_kv():
    shape = shape_of("MiniMaxAI/MiniMax-M2.5")
    parts = memory.parts(shape)
    whole, staged = (memory.weight_bytes(shape, x, parts) for x in (Layout(4), Layout(4, pp=2)))
    assert staged == whole / 2  # half of the layers, and the embedding or the head, which are as large
    assert memory.kv_bytes_per_token(shape, Layout(4, pp=2), "fp8") * 2 == memory.kv_bytes_per_token(
        shape, Layout(4), "fp8"
    )


def test_uneven_experts_count_on_the_fullest_rank():
    shape = shape_of("MiniMaxAI/MiniMax-M2.5")
    parts = memory.parts(shape)
    even, uneven = (memory.weight_bytes(shape, Layout(1, dp=n, ep=True), parts) for n in (2, 3))
    # 256 experts on 3 ranks: 86 on the fullest, not 85.33.
    assert (even - uneven) == pytest.approx(62 * parts.experts * (128 - 86) / 256)


def test_kv_dtype_follows_checkpoint_and_gpu():
    sm120 = Gpus(8, compute_cap=(12, 0))
    assert memory.resolve_kv_dtype(shape_of("nvidia/MiniMax-M2.5-NVFP4"), sm120, "auto") == "fp8"
    assert memory.resolve_kv_dtype(shape_of("MiniMaxAI/MiniMax-M2.5"), sm120, "auto") == "bfloat16"
    assert memory.resolve_kv_dtype(shape_of("zai-org/GLM-5-FP8"), sm120, "auto") == "fp8_ds_mla"
    assert memory.resolve_kv_dtype(shape_of("zai-org/GLM-5-FP8"), H200, "auto") == "bfloat16"
    assert memory.resolve_kv_dtype(shape_of("MiniMaxAI/MiniMax-M2.5"), sm120, "fp8_e5m2") == "fp8_e5m2"


def test_packed_entries_are_for_latent_attention_only():
    assert memory.kv_bytes_per_token(shape_of("zai-org/GLM-5-FP8"), Layout(8), "fp8_ds_mla") == 78 * (656 + 132)
    assert memory.kv_bytes_per_token(shape_of("MiniMaxAI/MiniMax-M2.5"), Layout(8), "fp8_ds_mla") is None


@pytest.mark.parametrize(
    ("version", "share"), [((0, 19, 1), 0.90), ((0, 20, 0), 0.92), ((0, 32, 0), 0.92), (None, 0.92)]
)
def test_utilization_by_version(version, share):
    assert memory.default_utilization(version) == share


def test_a_thin_config_has_no_size():
    assert memory.parts(ModelShape.from_config({"num_attention_heads": 64, "n_routed_experts": 256})) is None

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The weights of a snapshot, measured from the headers of its shards."""

from __future__ import annotations

import json
import math
import struct

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._planner import memory
from ansible_collections.modelops.vllm.plugins.module_utils._planner.api import layout_info
from ansible_collections.modelops.vllm.plugins.module_utils._planner.headers import measure
from ansible_collections.modelops.vllm.plugins.module_utils._planner.layout import Layout
from ansible_collections.modelops.vllm.plugins.module_utils._planner.shape import ModelShape

CONFIG = {
    "architectures": ["Glm4MoeForCausalLM"],
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
}
SHAPE = ModelShape.from_config(CONFIG)


def tensors(layers=3, experts=4, prefix="model."):
    """Name to shape of a checkpoint of CONFIG, all bfloat16."""
    found = {f"{prefix}embed_tokens.weight": [1024, 256], "lm_head.weight": [1024, 256], f"{prefix}norm.weight": [256]}
    for i in range(layers):
        at = f"{prefix}layers.{i}."
        found |= {
            f"{at}input_layernorm.weight": [256],
            f"{at}self_attn.q_proj.weight": [256, 256],
            f"{at}self_attn.k_proj.weight": [128, 256],
            f"{at}self_attn.v_proj.weight": [128, 256],
            f"{at}self_attn.o_proj.weight": [256, 256],
        }
        mlp = {"gate_proj": [512, 256], "up_proj": [512, 256], "down_proj": [256, 512]}
        expert = {"gate_proj": [128, 256], "up_proj": [128, 256], "down_proj": [256, 128]}
        if i == 0:
            found |= {f"{at}mlp.{k}.weight": v for k, v in mlp.items()}
            continue
        found |= {f"{at}mlp.gate.weight": [experts, 256]}
        found |= {f"{at}mlp.shared_experts.{k}.weight": v for k, v in expert.items()}
        found |= {f"{at}mlp.experts.{e}.{k}.weight": v for e in range(experts) for k, v in expert.items()}
    return found


def write_shard(path, shapes):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + end)


def snapshot(folder, shapes, config=None, shards=2):
    (folder / "config.json").write_text(json.dumps(config or CONFIG), encoding="utf-8")
    names = list(shapes)
    files = [f"model-{i + 1:05d}-of-{shards:05d}.safetensors" for i in range(shards)]
    for i, file in enumerate(files):
        write_shard(folder / file, {n: shapes[n] for n in names[i::shards]})
    index = {"weight_map": {n: files[i % shards] for i, n in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def plan_of(folder, **options):
    return layout_info({"model_dir": str(folder), "gpus": {"count": 2, "memory_mib": 81559}, **options})


@pytest.mark.parametrize("layout", [Layout(1), Layout(2), Layout(8), Layout(1, dp=2, ep=True), Layout(2, pp=3)])
@pytest.mark.parametrize("prefix", ["model.", "language_model.model.", "model.language_model."])
def test_what_is_measured_is_what_is_computed(tmp_path, layout, prefix):
    measured, findings = measure(str(snapshot(tmp_path, tensors(prefix=prefix))), SHAPE)
    assert findings == []
    computed = memory.weight_bytes(SHAPE, layout, memory.parts(SHAPE))
    # Only norms are measured and not computed: three vectors, and the last one.
    norms = memory.weight_bytes(SHAPE, layout, measured.parts) - computed
    assert norms == pytest.approx(2 * 256 * 4 / 3 * max(memory.split_layers(3, layout.pp)))


def test_all_bytes_are_on_one_gpu(tmp_path):
    shapes = tensors()
    measured, _findings = measure(str(snapshot(tmp_path, shapes)), SHAPE)
    assert measured.total == sum(2 * math.prod(s) for s in shapes.values())
    assert memory.weight_bytes(SHAPE, Layout(), measured.parts) == pytest.approx(measured.total)


def test_the_plan_says_where_its_weights_come_from(tmp_path):
    assert plan_of(snapshot(tmp_path, tensors()))["weights_source"] == "headers"
    config_only = {"config": CONFIG, "gpus": {"count": 2, "memory_mib": 81559}}
    assert layout_info(config_only)["weights_source"] == "config"
    assert layout_info({**config_only, "config": {"num_attention_heads": 8}})["weights_source"] is None


def test_a_single_file_needs_no_index(tmp_path):
    write_shard(tmp_path / "model.safetensors", tensors())
    measured, _findings = measure(str(tmp_path), SHAPE)
    assert measured.experts == 4


def test_layers_that_are_not_loaded_do_not_count(tmp_path):
    with_mtp = {**tensors(layers=4), "mtp.fc.weight": [256, 512]}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours, theirs = (measure(str(snapshot(tmp_path / n, s)), SHAPE)[0] for n, s in (("a", with_mtp), ("b", tensors())))
    assert ours.parts == theirs.parts
    assert ours.total > theirs.total


def test_a_vision_tower_is_cut_or_held_whole(tmp_path):
    shapes = {
        **tensors(),
        "vision_tower.blocks.40.attn.q_proj.weight": [512, 512],
        "visual.merger.mlp.0.weight": [64, 64],
    }
    parts = measure(str(snapshot(tmp_path, shapes)), SHAPE)[0].parts
    assert parts.vision == 2 * (512 * 512 + 64 * 64)
    cut, whole = (memory.weight_bytes(SHAPE, Layout(2), parts, whole_vision=w) for w in (False, True))
    assert whole - cut == parts.vision / 2


def test_a_tied_head_is_not_held_twice(tmp_path):
    tied = ModelShape.from_config({**CONFIG, "tie_word_embeddings": True})
    assert measure(str(snapshot(tmp_path, tensors())), tied)[0].parts.head == 0


def test_latent_attention_is_partly_whole_on_each_rank(tmp_path):
    attention = {
        "q_a_proj": [64, 256],
        "q_b_proj": [512, 64],
        "kv_a_proj_with_mqa": [96, 256],
        "kv_b_proj": [512, 64],
        "o_proj": [256, 256],
        "indexer.wk": [32, 256],
    }
    shapes = {f"model.layers.{i}.self_attn.{k}.weight": v for k, v in attention.items() for i in range(3)}
    parts = measure(str(snapshot(tmp_path, shapes)), SHAPE)[0].parts
    assert parts.attention_tp == 2 * (512 * 64 + 512 * 64 + 256 * 256)
    assert parts.replicated == 2 * 256 * (64 + 96 + 32)


def test_the_router_of_minimax_is_float32(tmp_path):
    minimax = ModelShape.from_config({**CONFIG, "architectures": ["MiniMaxM2ForCausalLM"]})
    parts = measure(str(snapshot(tmp_path, tensors())), minimax)[0].parts
    assert parts.router == 4 * 4 * 256


@pytest.mark.parametrize(
    ("shapes", "numbers"),
    [
        (tensors(experts=3), {"experts": {"config": 4, "shards": 3}}),
        (tensors(layers=2), {"layers": {"config": 3, "shards": 2}}),
        (tensors(2, 8), {"layers": {"config": 3, "shards": 2}, "experts": {"config": 4, "shards": 8}}),
    ],
    ids=["experts", "layers", "both"],
)
def test_a_config_that_disagrees_is_told_and_planned_with(tmp_path, shapes, numbers):
    # vLLM allocates what the config says, and then misses the tensors.
    result = plan_of(snapshot(tmp_path, shapes))
    (finding,) = (f for f in result["findings"] if f["id"] == "config-disagrees")
    assert (finding["severity"], finding["numbers"]) == ("warning", numbers)
    assert result["weights_source"] == "config"


def truncate(path):
    with path.open("r+b") as f:
        f.truncate(path.stat().st_size - 1)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda p: p.unlink(), "model-00002-of-00002"),
        (truncate, "its header describes"),
        (lambda p: p.write_bytes(b"version https://git-lfs.github.com/spec/v1"), "no safetensors header"),
        (lambda p: p.write_bytes(b""), "no safetensors header"),
        (lambda p: p.write_bytes(struct.pack("<Q", 2) + b"[]"), "not a JSON object"),
        (lambda p: p.write_bytes(struct.pack("<Q", 9) + b'{"a": {}}'), "without shape or offsets"),
    ],
    ids=["missing", "truncated", "pointer", "empty", "list", "no offsets"],
)
def test_an_unfinished_snapshot_is_computed_and_told(tmp_path, damage, named):
    damage(snapshot(tmp_path, tensors()) / "model-00002-of-00002.safetensors")
    result = plan_of(tmp_path)
    assert result["weights_source"] == "config"
    (finding,) = (f for f in result["findings"] if f["id"] == "weights-not-measured")
    assert named in finding["message"]


def test_a_folder_with_a_config_alone_says_nothing_about_shards(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    result = plan_of(tmp_path)
    assert (result["weights_source"], "weights-not-measured" in {f["id"] for f in result["findings"]}) == (
        "config",
        False,
    )


def test_a_model_without_formulas_is_sized_by_its_headers(tmp_path):
    hybrid = {**CONFIG, "layer_types": ["linear_attention", "full_attention", "full_attention"]}
    layout = plan_of(snapshot(tmp_path, tensors(), hybrid), layouts=["tp1"])["layouts"][0]
    assert layout["weights_gib_per_gpu"] is not None
    assert layout["kv_tokens"] is None

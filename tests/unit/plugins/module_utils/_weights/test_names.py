# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._weights.names import (
    gguf_model,
    gguf_parts,
    is_gguf,
    is_index,
    is_nested_index,
    is_pickle,
    is_weight,
    unsafe_reason,
)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("m-00002-of-00003.gguf", [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]),
        ("q/m-00001-of-00002.gguf", ["q/m-00001-of-00002.gguf", "q/m-00002-of-00002.gguf"]),
        ("m.gguf.part2of2", ["m.gguf.part1of2", "m.gguf.part2of2"]),
        ("m.gguf", []),
        ("m-00001-of-00002.safetensors", []),
    ],
)
def test_a_part_of_a_split_gguf_file_names_all_of_them(name: str, parts: list[str]) -> None:
    assert gguf_parts(name) == parts
    assert {gguf_model(p) for p in parts} == ({gguf_model(name)} if parts else set())
    assert is_gguf(name) == ("gguf" in name)


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        ("m.safetensors", True),
        ("a/b.gguf", True),
        ("m.gguf.part1of2", True),
        ("pytorch_model.bin", True),
        ("tokenizer.json", False),
        ("m.safetensors.index.json", False),
        ("m.gguf.md", False),
    ],
)
def test_weights_are_known_by_their_format(name: str, weight: bool) -> None:
    assert is_weight(name) is weight


def test_an_index_of_the_root_is_not_one_of_a_component() -> None:
    root, nested = "model.safetensors.index.json", "unet/model.safetensors.index.json"
    assert (is_index(root), is_nested_index(root)) == (True, False)
    assert (is_index(nested), is_nested_index(nested)) == (False, True)


@pytest.mark.parametrize(
    "name",
    [
        "unet/diffusion_pytorch_model.bin",
        "sub/adapter_model.bin",
        "checkpoint-500/training_args.bin",
        "checkpoint-1/optimizer.bin",
        "pytorch_lora_weights.bin",
        "pytorch_model.BIN",
        "x.PT",
        "x.joblib",
        "x.dill",
        "x.pkl.gz",
        "x.t7",
        "x.npy",
        "x.pt2",
        "sub/x.ckpt",
    ],
)
def test_a_pickle_is_one_in_any_folder_and_in_any_case(name: str) -> None:
    assert is_pickle(name)
    assert is_weight(name)


@pytest.mark.parametrize("name", ["x.pkl.d/config.json", "pytorch_model.bin.index.json", "cabin", "npy.md", "x.ptx"])
def test_the_name_of_a_folder_or_a_part_of_a_word_makes_no_pickle(name: str) -> None:
    assert not is_pickle(name)


@pytest.mark.parametrize(
    "name", ["a\ud800b", "a\nb", "a\x1b[2Jb", "a\x7f", "x" * 256, "d/" + "\u00e9" * 128, "d" * 256 + "/x"]
)
def test_names_that_no_file_can_or_should_have_are_refused(name: str) -> None:
    assert unsafe_reason(name)


@pytest.mark.parametrize("name", ["x" * 255, "d/" + "\u00e9" * 127, "mod\u00e8le \u6a21.json", "a b/c"])
def test_names_that_a_file_can_have_are_not(name: str) -> None:
    assert unsafe_reason(name) == ""


def test_a_part_of_absurdly_many_is_no_part() -> None:
    assert gguf_parts("m.gguf.part1of99999999999") == []

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
    is_weight,
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

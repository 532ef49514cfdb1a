# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._weights.index import (
    MAX_INDEX,
    compare,
    main_indices,
    read_weight_map,
    weight_map,
)

NAME = "model.safetensors.index.json"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"weight_map": ["a"]}', '{"weight_map": {"t": 1}}', '{"weight_map": {"t": "../a.safetensors"}}'],
)
def test_an_index_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ModelopsError, match=NAME):
        weight_map(text, NAME)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"weight_map": {}}', '{"weight_map": {"t": "/a"}}'])
def test_an_unusable_index_is_the_publishers_fault(text: str) -> None:
    with pytest.raises(ModelopsError) as e:
        weight_map(text, NAME)
    assert e.value.result["findings"][0]["id"] == "upstream-inconsistent"


def test_shards_are_named_from_the_root_of_the_repository() -> None:
    assert weight_map('{"weight_map": {"t": "x/a.safetensors"}}', f"unet/{NAME}") == {"t": "unet/x/a.safetensors"}


def test_the_consolidated_form_counts_when_there_is_no_other() -> None:
    other = f"consolidated.{NAME}"
    assert main_indices([other, NAME, f"unet/{NAME}"]) == [NAME]
    assert main_indices([other]) == [other]
    assert main_indices([f"unet/{NAME}"]) == []


@pytest.mark.parametrize("metadata", [{}, {"total_size": 1}, {"total_size": 1.5e9}, None])
def test_the_metadata_of_an_index_decides_nothing(metadata: object) -> None:
    text = json.dumps({"metadata": metadata, "weight_map": {"t": "a.safetensors"}})
    assert weight_map(text, NAME) == {"t": "a.safetensors"}


def test_differences_between_index_and_shards_are_counted_by_shard() -> None:
    mapping = {"a": "1", "b": "1", "c": "2", "d": "3"}
    tensors = {"1": frozenset("a"), "2": frozenset("cxy"), "4": frozenset("z")}
    findings = [(f.id, f.severity, dict(f.numbers)) for f in compare(NAME, mapping, tensors)]
    assert findings == [
        ("upstream-inconsistent", "warning", {"file": "1", "tensors": 1}),
        ("upstream-inconsistent", "warning", {"file": "2", "tensors": 2}),
    ]


def test_agreement_needs_no_words() -> None:
    assert compare(NAME, {"a": "1"}, {"1": frozenset("a")}) == []


def test_an_index_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"weight_map": {"t": "a.safetensors"}}')
    assert read_weight_map(str(tmp_path / NAME), NAME) == {"t": "a.safetensors"}
    os.truncate(tmp_path / NAME, MAX_INDEX + 1)
    with pytest.raises(ModelopsError, match="256 MiB"):
        read_weight_map(str(tmp_path / NAME), NAME)


def test_who_has_no_proof_says_so() -> None:
    (found,) = compare(NAME, {"a": "1", "b": "1"}, {"1": frozenset("a")}, remedy="Prove it.")
    assert found.remedy == "Prove it."

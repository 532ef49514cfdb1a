# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The weights of a snapshot, measured: the headers of its shards name every tensor, its shape and its bytes.

Nothing but the headers is read. What vLLM loads is what is stored, except for layers it does not load (MTP), an lm_head
that is tied to the embedding, and routers that it keeps in float32.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import struct
import typing as t
from collections import defaultdict
from dataclasses import dataclass

from .._errors import ModelopsError
from .._findings import Finding, info, warning
from .._weights.index import read_weight_map
from .compat import FLOAT32_ROUTER
from .memory import Parts
from .shape import ModelShape

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_LONGEST_HEADER = 100_000_000  # the library's own limit

# The first pattern that is found in the name of a tensor decides where its bytes go.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("mtp", r"(^|\.)mtp\."),
        (
            "vision",
            r"(^|\.)(vision\w*|visual|mm_projector|multi_modal_projector|patch_merger|audio_tower|image_newline)\b",
        ),
        ("experts", r"\.experts\."),
        ("shared", r"\.shared_(expert|mlp)"),
        ("router", r"\.(gate|router)\.|e_score_correction_bias"),
        ("norm", r"norm\d*\.(weight|bias)$"),
        ("kv", r"\.[kv]_proj\."),
        ("whole", r"\.(q_a_proj|kv_a_proj\w*|fused_qkv_a_proj|indexer|wkv_a|wq_a)\b"),
        ("attention", r"\.(self_attn|attention|attn|linear_attn|mixer)\."),
        ("dense", r"\.(mlp|feed_forward)\."),
        ("embedding", r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|embed_in)\."),
        ("head", r"(^|\.)(lm_head|embed_out|output_layer)\."),
    )
)
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_NUMBER = re.compile(r"\d+")
_EXPERT = re.compile(r"\.experts\.(\d+)\.")


@dataclass(frozen=True)
class Measured:
    """What the headers say: ``parts`` in bytes, ``total`` bytes of all tensors, layers and experts counted by their
    names (0 where names have no numbers; layers beyond those of the config are MTP)."""

    parts: Parts
    total: int
    layers: int
    experts: int


def measure(model_dir: str, shape: ModelShape) -> tuple[Measured | None, list[Finding]]:
    """The weights of a snapshot, or None and the reason when shards are missing, broken or of another model."""
    try:
        shards = _shards(model_dir)
        tensors = [tensor for shard in shards for tensor in _tensors(os.path.join(model_dir, shard))]
    except (OSError, ValueError, ModelopsError) as e:
        return None, [
            info(
                "weights-not-measured",
                f"The weights of the snapshot were not measured, they are computed from config.json: {e}.",
                "Let the role weights complete the snapshot.",
            )
        ]
    if not tensors or not shape.layers:
        return None, []
    measured = _sum(tensors, shape)
    differ = _differences(measured, shape)
    if not differ:
        return measured, []
    text = " and ".join(f"{config} {what} while the shards hold {shards}" for what, config, shards in differ)
    return None, [
        warning(
            "config-disagrees",
            f"config.json says {text}: vLLM allocates what the config says, so the weights are computed from it.",
            "The checkpoint was pruned, or the config is of another model: ask its publisher.",
            **{what: {"config": config, "shards": shards} for what, config, shards in differ},
        )
    ]


def _differences(measured: Measured, shape: ModelShape) -> list[tuple[str, int, int]]:
    """(what, in the config, in the shards) of the counts that do not agree."""
    counts = (("layers", shape.layers, measured.layers), ("experts", shape.experts, measured.experts))
    return [(what, config, shards) for what, config, shards in counts if config and shards and config != shards]


def _shards(model_dir: str) -> list[str]:
    index = os.path.join(model_dir, _INDEX)
    if os.path.isfile(index):
        return sorted(set(read_weight_map(index, _INDEX).values()))
    return [_SINGLE] if os.path.isfile(os.path.join(model_dir, _SINGLE)) else []


def _tensors(path: str) -> t.Iterator[tuple[str, int, int]]:
    """(name, elements, bytes) of each tensor of a shard.

    :raises ValueError: when the file is not a whole safetensors file.
    """
    name, size = os.path.basename(path), os.path.getsize(path)
    with open(path, "rb") as f:
        start = f.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 0 < length <= min(_LONGEST_HEADER, size - 8):
            raise ValueError(f"{name} has no safetensors header")
        header = json.loads(f.read(length))
    if not isinstance(header, dict):
        raise ValueError(f"the header of {name} is not a JSON object")
    end = 0
    for tensor, entry in header.items():
        if tensor == "__metadata__":
            continue
        try:
            first, last = entry["data_offsets"]
            yield tensor, math.prod(entry["shape"]), last - first
        except (KeyError, TypeError, ValueError) as e:
            raise ValueError(f"the header of {name} describes {tensor} without shape or offsets") from e
        end = max(end, last)
    if 8 + length + end != size:
        raise ValueError(f"{name} has {size} bytes, its header describes {8 + length + end}")


@functools.cache
def _kind(name: str) -> str:
    """The kind of the tensors of a name whose numbers are taken out: some dozens stand for 200,000."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "norm")


def _sum(tensors: list[tuple[str, int, int]], shape: ModelShape) -> Measured:
    """The bytes of each kind, as means over the layers that have it."""
    layers = shape.layers or 1
    sums: dict[str, float] = defaultdict(float)
    with_experts: set[int] = set()
    with_dense: set[int] = set()
    seen: set[int] = set()
    experts = 0
    for name, elements, size in tensors:
        kind = _kind(_NUMBER.sub("0", name))
        layer = _LAYER.search(name)
        number = int(layer[1]) if layer else -1
        if kind == "mtp" or (kind != "vision" and number >= layers):
            continue  # vLLM loads MTP layers for speculative decoding only
        if kind != "vision" and number >= 0:
            seen.add(number)
        if kind == "experts":
            with_experts.add(number)
            expert = _EXPERT.search(name)
            experts = max(experts, int(expert[1]) + 1 if expert else 0)
        elif kind == "dense":
            with_dense.add(number)
        sums[kind] += elements * 4 if kind == "router" and shape.architecture in FLOAT32_ROUTER else size
    moe, dense = max(1, len(with_experts)), max(1, len(with_dense - with_experts))
    parts = Parts(
        experts=sums["experts"] / moe,
        moe_rest_tp=sums["shared"] / moe,
        dense_mlp=sums["dense"] / dense,
        attention_tp=sums["attention"] / layers,
        kv_projection=sums["kv"] / layers,
        replicated=(sums["whole"] + sums["norm"]) / layers,
        router=sums["router"] / moe,
        embedding=sums["embedding"],
        head=0.0 if shape.tied_embeddings else sums["head"],
        vision=sums["vision"],
    )
    return Measured(parts, sum(size for _name, _elements, size in tensors), len(seen), experts)

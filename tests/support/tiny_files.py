# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiny files in the formats of published checkpoints, as bytes: for tests that never load a model."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import typing as t

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1048576\n"
HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in to the network</title></head></html>\n"


def safetensors(tensors: t.Mapping[str, int], seed: int = 0) -> bytes:
    """A whole file with one-dimensional U8 tensors, name to bytes."""
    header, at = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + random.Random(f"{seed} {sorted(tensors)}").randbytes(at)


def index(shards: t.Mapping[str, t.Iterable[str]]) -> bytes:
    """An index file, shard to tensors."""
    where = {tensor: shard for shard, tensors in shards.items() for tensor in tensors}
    return json.dumps({"metadata": {}, "weight_map": where}).encode()


def shard_name(i: int, of: int) -> str:
    """The name of a shard, numbered from zero as MiniMax does."""
    return f"model-{i:05d}-of-{of:05d}.safetensors"


def model(shards: int = 4, size: int = 4000, seed: int = 0) -> dict[str, bytes]:
    """A repository: config, tokenizer, index, and shards of about ``size`` bytes with two tensors each."""
    names = [shard_name(i, shards) for i in range(shards)]
    tensors = {n: [f"layer.{i}.a", f"layer.{i}.b"] for i, n in enumerate(names)}
    return {
        "config.json": json.dumps({"model_type": "tiny", "seed": seed}).encode(),
        "tokenizer.json": b'{"version": "1.0"}',
        "model.safetensors.index.json": index(tensors),
        **{n: safetensors(dict.fromkeys(ts, size // 2), seed) for n, ts in tensors.items()},
    }


def sha256(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that somebody put into a destination are never replaced unless they are a part of the wanted download."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import RemoteFile, check_many
from ansible_collections.modelops.vllm.plugins.module_utils._weights.ownership import stranger
from ansible_collections.modelops.vllm.tests.support.tiny_files import HTML, POINTER, safetensors, sha256

COMMIT = "c" * 40
PICKLE = b"PK\3\4" + b"wanted" * 1000


def judge(dest: Path, wanted: t.Mapping[str, bytes], here: t.Mapping[str, bytes]) -> str:
    """Why a folder with some files is not the beginning of a snapshot of others."""
    for name, data in here.items():
        (dest / name).parent.mkdir(parents=True, exist_ok=True)
        (dest / name).write_bytes(data)
    files = {n: RemoteFile(n, len(d), sha256(d)) for n, d in wanted.items()}
    return stranger(str(dest), files, COMMIT, check_many(str(dest), files.values(), "sha256"))


@pytest.mark.parametrize(
    ("name", "wanted", "mine"),
    [
        ("q4.gguf", b"GGUF" + b"new" * 200, b"GGUF" + b"my own fine tune" * 50),
        ("q4.gguf", b"GGUF" + b"new" * 200, b"GGUF" + b"own" * 200),
        ("q/q4.gguf", b"GGUF" + b"new" * 200, b"GGUF" + b"short"),
        ("pytorch_model.bin", PICKLE, b"mine" * 900),
        ("m.gguf.part2of2", PICKLE, b"mine" * 900),
        ("model.safetensors", safetensors({"a": 900}), safetensors({"a": 900}, seed=2)),
    ],
)
def test_weights_of_somebody_else_are_not_replaced(tmp_path: Path, name: str, wanted: bytes, mine: bytes) -> None:
    config = {"config.json": b"{}"}
    assert name in judge(tmp_path, {**config, name: wanted}, {**config, name: mine})


@pytest.mark.parametrize(
    ("name", "wanted", "damaged"),
    [
        ("q4.gguf", b"GGUF" + b"new" * 800, bytes(2404)),
        ("q4.gguf", b"GGUF" + b"new" * 800, HTML),
        ("pytorch_model.bin", PICKLE, POINTER),
        ("pytorch_model.bin", PICKLE, HTML + b" " * 2000),
        ("pytorch_model.bin", PICKLE, bytes(len(PICKLE))),
        ("pytorch_model.bin", PICKLE, b""),
        ("model.safetensors", safetensors({"a": 900}), safetensors({"a": 900})[:-1]),
    ],
)
def test_what_a_broken_download_leaves_is_mended(tmp_path: Path, name: str, wanted: bytes, damaged: bytes) -> None:
    config = {"config.json": b"{}"}
    assert judge(tmp_path, {**config, name: wanted}, {**config, name: damaged}) == ""


def test_a_file_with_holes_is_a_part(tmp_path: Path) -> None:
    (tmp_path / "q4.gguf").write_bytes(b"GGUF")
    os.truncate(tmp_path / "q4.gguf", 4 << 20)
    if (tmp_path / "q4.gguf").stat().st_blocks * 512 > 2 << 20:
        pytest.skip("this file system has no holes")
    assert judge(tmp_path, {"q4.gguf": b"GGUF" + b"new" * 800}, {}) == ""


@pytest.mark.parametrize("name", ["q4.gguf", "pytorch_model.bin"])
def test_a_truncated_file_that_the_client_noted_is_mended(tmp_path: Path, name: str) -> None:
    whole = b"GGUF" + b"new" * 2000
    note = tmp_path / ".cache" / "huggingface" / "download" / f"{name}.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"{'d' * 40}\n{sha256(whole)}\n1.0\n")
    assert judge(tmp_path, {name: whole}, {name: whole[:5000]}) == ""


def test_one_right_file_of_weights_makes_the_folder_ours(tmp_path: Path) -> None:
    wanted = {"1.bin": PICKLE, "2.bin": PICKLE + b"2"}
    assert judge(tmp_path, wanted, {"1.bin": PICKLE, "2.bin": PICKLE}) == ""

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._weights.inspect import Verdict, inspect
from ansible_collections.modelops.vllm.tests.support.tiny_files import HTML, POINTER, model, safetensors, shard_name

MODEL = model()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model without a manifest."""
    for name, data in MODEL.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def ids(verdict: Verdict) -> set[str]:
    return {f.id for f in verdict.findings}


def test_nothing_is_absent(tmp_path: Path) -> None:
    for dest in (tmp_path, tmp_path / "none"):
        assert inspect(str(dest)).verdict == "absent"


def test_a_whole_model_is_complete_by_header_and_by_no_more(folder: Path) -> None:
    seen = inspect(str(folder), repo="org/m")
    assert (seen.verdict, seen.verified, seen.complete) == ("complete", "header", True)
    assert ids(seen) == {"no-manifest", "repo-unproven"}
    assert seen.shards() == {"expected": 4, "present": 4, "missing": [], "bad": []}
    for level in ("none", "sha256"):
        seen = inspect(str(folder), level=level)
        assert (seen.verdict, seen.verified, seen.complete) == ("unverified", "none", False)


@pytest.mark.parametrize(
    ("damage", "verdict", "missing", "bad"),
    [
        pytest.param(lambda p: p.unlink(), "incomplete", 1, 0, id="missing-shard-garbage"),
        pytest.param(lambda p: os.truncate(p, 10), "corrupt", 0, 1, id="offline-truncated-passes"),
        pytest.param(lambda p: p.write_bytes(p.read_bytes() + b"x"), "corrupt", 0, 1, id="long"),
    ],
)
def test_a_damaged_shard_is_named_without_a_manifest(
    folder: Path, damage: t.Callable[[Path], None], verdict: str, missing: int, bad: int
) -> None:
    damage(folder / shard_name(3, 4))
    seen = inspect(str(folder))
    assert (seen.verdict, seen.present) == (verdict, 3)
    assert seen.missing == [shard_name(3, 4)] * missing
    assert seen.bad == [shard_name(3, 4)] * bad


@pytest.mark.parametrize("lost", ["model.safetensors.index.json", "config.json"])
def test_shards_without_their_index_or_config_are_incomplete(folder: Path, lost: str) -> None:
    (folder / lost).unlink()
    assert inspect(str(folder)).verdict == "incomplete"


def test_one_file_needs_no_index(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(safetensors({"t": 10}))
    assert inspect(str(tmp_path)).complete


def test_one_file_that_is_named_as_one_of_one_needs_its_index(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model-00000-of-00001.safetensors").write_bytes(safetensors({"t": 10}))
    assert inspect(str(tmp_path)).verdict == "incomplete"


def test_pickles_and_gguf_cannot_be_judged(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(100))
    assert inspect(str(tmp_path)).verdict == "unverified"


def test_stale_weights_and_unfinished_files_are_named(folder: Path) -> None:
    (folder / "old.safetensors").write_bytes(b"")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x.incomplete").write_bytes(b"x" * 5000)
    seen = inspect(str(folder))
    assert seen.complete
    assert {"stale", "partial-leftovers"} <= ids(seen)


def test_parts_of_a_gguf_file_need_each_other_and_no_index(tmp_path: Path) -> None:
    for i in (1, 2, 3):
        (tmp_path / f"m-0000{i}-of-00003.gguf").write_bytes(b"GGUF" + bytes(100))
    assert inspect(str(tmp_path)).verdict == "unverified"
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    seen = inspect(str(tmp_path))
    assert (seen.verdict, seen.missing, seen.expected) == ("incomplete", ["m-00002-of-00003.gguf"], 3)
    (tmp_path / "m-00002-of-00003.gguf").write_bytes(HTML)
    assert inspect(str(tmp_path)).bad == ["m-00002-of-00003.gguf"]


def test_a_folder_in_the_place_of_a_shard_is_not_merely_missing(folder: Path) -> None:
    (folder / shard_name(1, 4)).unlink()
    (folder / shard_name(1, 4)).mkdir()
    seen = inspect(str(folder))
    assert (seen.verdict, seen.bad, seen.missing) == ("corrupt", [shard_name(1, 4)], [])


@pytest.mark.parametrize(("text", "id_"), [(POINTER, "pointer"), (HTML, "corrupt"), (b"\xff{", "corrupt")])
def test_what_is_in_the_place_of_an_index_is_named(folder: Path, text: bytes, id_: str) -> None:
    (folder / "model.safetensors.index.json").write_bytes(text)
    seen = inspect(str(folder))
    assert seen.verdict == "corrupt"
    assert [f.numbers["file"] for f in seen.findings if f.id == id_] == ["model.safetensors.index.json"]


def test_a_second_index_without_its_shards_does_not_count(folder: Path) -> None:
    other = json.dumps({"weight_map": {"t": "consolidated-1.safetensors"}})
    (folder / "consolidated.safetensors.index.json").write_text(other)
    (folder / "original").mkdir()
    (folder / "original" / "model.safetensors.index.json").write_text(other)
    (folder / "unet").mkdir()
    (folder / "unet" / "model.safetensors.index.json").write_text(other)
    assert inspect(str(folder)).complete
    (folder / "consolidated-1.safetensors").write_bytes(safetensors({"t": 5}))
    seen = inspect(str(folder))
    assert seen.complete
    assert "stale" not in ids(seen), "an index names it"


def test_two_indices_of_the_root_count_both(folder: Path) -> None:
    (folder / "model.fp16.safetensors.index.json").write_text(json.dumps({"weight_map": {"t": "f.safetensors"}}))
    assert inspect(str(folder)).missing == ["f.safetensors"]


def test_the_cache_of_huggingface_hub_is_read_through_its_links(folder: Path, tmp_path: Path) -> None:
    links = tmp_path / "snapshots" / "x"
    links.mkdir(parents=True)
    for name in MODEL:
        (links / name).symlink_to(folder / name)
    seen = inspect(str(links))
    assert seen.complete
    assert seen.bytes_total == sum(map(len, MODEL.values()))
    (folder / shard_name(0, 4)).unlink()
    assert inspect(str(links)).missing == [shard_name(0, 4)]


def test_a_link_to_nowhere_is_no_reason_to_stop(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "nowhere")
    assert inspect(str(folder)).complete


def test_a_broken_index_is_corrupt(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text("<html>")
    assert inspect(str(folder)).verdict == "corrupt"


def test_an_index_that_does_not_fit_is_said(folder: Path) -> None:
    index = json.loads(MODEL["model.safetensors.index.json"])
    index["weight_map"]["ghost"] = shard_name(0, 4)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "upstream-inconsistent" in ids(inspect(str(folder)))


def test_nothing_is_written(folder: Path) -> None:
    before = sorted((str(p), p.stat().st_mtime_ns) for p in [folder, *folder.rglob("*")])
    inspect(str(folder))
    assert sorted((str(p), p.stat().st_mtime_ns) for p in [folder, *folder.rglob("*")]) == before

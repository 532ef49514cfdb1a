# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import Level, RemoteFile, Stamp
from ansible_collections.modelops.vllm.plugins.module_utils._weights.index import AS_PUBLISHED
from ansible_collections.modelops.vllm.plugins.module_utils._weights.inspect import (
    Verdict,
    by_listing,
    by_structure,
    inspect,
)
from ansible_collections.modelops.vllm.plugins.module_utils._weights.manifest import (
    FOLDER,
    Manifest,
    Record,
    Selection,
    save,
)
from ansible_collections.modelops.vllm.plugins.module_utils._weights.selection import Target
from ansible_collections.modelops.vllm.tests.support.tiny_files import (
    HTML,
    POINTER,
    model,
    safetensors,
    sha256,
    shard_name,
)

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
    seen = inspect(str(folder))
    assert "upstream-inconsistent" in ids(seen)
    # Nothing proves that it is the publisher's fault.
    assert (seen.verdict, seen.bad, seen.present) == ("corrupt", [shard_name(0, 4)], 3)
    assert not any("as published" in f.remedy + f.message for f in seen.findings)


def test_nothing_is_written(folder: Path) -> None:
    before = sorted((str(p), p.stat().st_mtime_ns) for p in [folder, *folder.rglob("*")])
    inspect(str(folder))
    assert sorted((str(p), p.stat().st_mtime_ns) for p in [folder, *folder.rglob("*")]) == before


def test_a_copy_of_another_shard_is_not_that_shard(folder: Path) -> None:
    (folder / shard_name(1, 4)).write_bytes(MODEL[shard_name(2, 4)])
    seen = by_structure(str(folder))
    assert (seen.verdict, seen.bad, seen.verified) == ("corrupt", [shard_name(1, 4)], "none")


def wanted(files: t.Mapping[str, bytes] = MODEL, hashed: bool = True) -> Target:
    """The whole model as the Hub lists it."""
    remotes = {n: RemoteFile(n, len(d), sha256(d) if hashed else None) for n, d in files.items()}
    return Target("c" * 40, remotes, tuple(sorted(n for n in files if n.endswith(".safetensors"))))


@pytest.mark.parametrize("hashed", [True, False])
def test_a_shard_that_does_not_fit_its_index_is_hashed(folder: Path, hashed: bool) -> None:
    """Where the Hub gives a hash: a level that reads headers alone cannot tell whose fault it is."""
    (folder / shard_name(1, 4)).write_bytes(MODEL[shard_name(2, 4)])
    seen = by_listing(str(folder), "org/m", wanted(hashed=hashed), "header")
    assert (seen.verdict, seen.bad, seen.present) == ("corrupt", [shard_name(1, 4)], 3)
    odd = {**MODEL, shard_name(1, 4): MODEL[shard_name(2, 4)]}
    seen = by_listing(str(folder), "org/m", wanted(odd, hashed), "header")
    assert seen.verdict == ("complete" if hashed else "corrupt"), "published with this difference, and proven to be"
    assert "upstream-inconsistent" in ids(seen)


@pytest.mark.parametrize(
    ("name", "data", "id_"),
    [
        ("config.json", POINTER, "pointer"),
        ("config.json", HTML, "corrupt"),
        ("config.json", b"", "corrupt"),
        ("config.json", b"\0garbage", "corrupt"),
        ("config.json", b"[]", "corrupt"),
        ("tokenizer.json", HTML, "corrupt"),
        ("generation_config.json", b'{"a": ', "corrupt"),
        pytest.param("vocab.json", b"[" * 100_000, "corrupt", id="deep"),
    ],
)
def test_a_small_file_that_is_something_else_is_named(folder: Path, name: str, data: bytes, id_: str) -> None:
    (folder / name).write_bytes(data)
    seen = by_structure(str(folder))
    assert (seen.verdict, seen.complete) == ("corrupt", False)
    assert [f.numbers["file"] for f in seen.findings if f.id == id_] == [name]


def test_small_files_of_every_valid_kind_are_fine(folder: Path) -> None:
    (folder / "list.json").write_bytes(b"[1]")
    (folder / "marked.json").write_bytes(b"\xef\xbb\xbf{}")
    (folder / "link.json").symlink_to("nowhere")
    assert by_structure(str(folder)).complete


@pytest.mark.parametrize("name", ["config.json", "x.safetensors.index.json", "pytorch_model.bin.index.json"])
def test_a_pipe_is_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    if "bin" in name:
        for shard in folder.glob("*.safetensors"):
            shard.unlink()
    os.mkfifo(folder / name)
    seen = by_structure(str(folder))
    assert seen.verdict == "corrupt"
    assert name in [f.numbers.get("file") for f in seen.findings]


@pytest.mark.parametrize(
    ("config", "weights", "verdict"),
    [
        ("adapter_config.json", "adapter_model.safetensors", "complete"),
        ("adapter_config.json", "model.safetensors", "incomplete"),
        ("params.json", "consolidated.safetensors", "complete"),
        ("params.json", "model.safetensors", "incomplete"),
    ],
)
def test_what_describes_a_model_goes_with_its_form(tmp_path: Path, config: str, weights: str, verdict: str) -> None:
    (tmp_path / config).write_text("{}")
    (tmp_path / weights).write_bytes(safetensors({"t": 10}))
    assert by_structure(str(tmp_path)).verdict == verdict


def test_pickles_are_counted_by_their_index(tmp_path: Path) -> None:
    names = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": names[0], "b": names[1]}}))
    for name in [*names, "training_args.bin"]:
        (tmp_path / name).write_bytes(b"PK\3\4" + bytes(50))
    seen = by_structure(str(tmp_path))
    assert (seen.verdict, seen.expected, ids(seen)) == ("unverified", 3, {"no-manifest"})
    (tmp_path / names[1]).unlink()
    assert by_structure(str(tmp_path)).missing == [names[1]]


def test_the_index_of_pickles_does_not_count_beside_another_form(folder: Path, tmp_path: Path) -> None:
    other = json.dumps({"weight_map": {"a": "pytorch_model-00001-of-00002.bin"}})
    (folder / "pytorch_model.bin.index.json").write_text(other)
    assert by_structure(str(folder)).complete
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "m.gguf").write_bytes(b"GGUF" + bytes(100))
    (tmp_path / "q" / "pytorch_model.bin.index.json").write_text(other)
    assert by_structure(str(tmp_path / "q")).verdict == "unverified"


def test_a_folder_that_may_not_be_read_is_not_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: str) -> t.NoReturn:
        raise PermissionError(13, "Permission denied", path)

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(os, "scandir", closed)
    for judge in (by_structure, lambda dest: by_listing(dest, "org/m", wanted(), "header")):
        with pytest.raises(ModelopsError, match="Permission denied"):
            judge(str(tmp_path))


def test_a_file_with_holes_is_named_where_no_hash_proves_it(folder: Path) -> None:
    name = shard_name(0, 4)
    whole = safetensors({"layer.0.a": 2000, "layer.0.b": 4 << 20})
    with (folder / name).open("wb") as f:
        f.write(whole[:3000])
        f.truncate(len(whole))
    with_holes = (folder / name).read_bytes()
    if (folder / name).stat().st_blocks * 512 > len(whole) // 2:
        pytest.skip("this file system has no holes")
    target = wanted({**MODEL, name: with_holes})
    for level, said in (("header", True), ("sha256", False)):
        assert ("sparse" in ids(by_listing(str(folder), "org/m", target, level))) is said
    assert "sparse" in ids(by_structure(str(folder)))
    (folder / FOLDER).mkdir()
    save(str(folder), manifest_of(folder, target, "header"))
    for _again in range(2):
        assert "sparse" in ids(inspect(str(folder)))
    save(str(folder), manifest_of(folder, target, "sha256"))
    assert "sparse" not in ids(inspect(str(folder)))


def manifest_of(folder: Path, target: Target, level: Level) -> Manifest:
    """The manifest that a run at a level would have written."""
    records = {}
    for name, remote in target.files.items():
        s = Stamp.of(str(folder / name))
        records[name] = Record(s.size, s.mtime_ns, s.ctime_ns, s.inode, remote.sha256, None, level)
    return Manifest("org/m", target.commit, "main", Selection(), level, target.shards, records)


def test_a_copy_that_came_after_the_verification_is_seen_by_headers(folder: Path) -> None:
    (folder / FOLDER).mkdir()
    save(str(folder), manifest_of(folder, wanted(), "header"))
    (folder / shard_name(0, 4)).touch()
    assert inspect(str(folder)).complete
    (folder / shard_name(1, 4)).write_bytes(MODEL[shard_name(2, 4)])
    seen = inspect(str(folder))
    assert (seen.verdict, seen.bad, seen.present) == ("corrupt", [shard_name(1, 4)], 3)


def test_a_difference_of_the_verified_files_is_no_news(folder: Path) -> None:
    (folder / shard_name(1, 4)).write_bytes(MODEL[shard_name(2, 4)])
    known = by_listing(str(folder), "org/m", wanted(hashed=False), "header").findings
    published = tuple({**f.as_dict(), "remedy": AS_PUBLISHED} for f in known if f.id == "upstream-inconsistent")
    (folder / FOLDER).mkdir()
    save(str(folder), replace(manifest_of(folder, wanted(hashed=False), "header"), upstream=published))
    (folder / shard_name(1, 4)).touch()
    seen = inspect(str(folder))
    assert seen.complete
    assert [f.id for f in seen.findings] == ["upstream-inconsistent"] * 2

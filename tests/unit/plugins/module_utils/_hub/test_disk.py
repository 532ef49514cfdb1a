# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._hub import disk

GB = 10**9


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("1GiB", 1024**3),
        ("10 GB", 10 * GB),
        ("1.5TB", 1_500 * GB),
        ("2MiB", 2 * 1024**2),
        ("7B", 7),
    ],
)
def test_decimal_and_binary_units_differ(text: str, size: int) -> None:
    assert disk.parse_size(text, "min_free") == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "1 gb", "1G", "ten", "1" * 401, "9300000TiB", "\u0661"])
def test_what_is_no_size_is_refused_with_its_option(text: str) -> None:
    with pytest.raises(ModelopsError, match="min_free"):
        disk.parse_size(text, "min_free")


@pytest.fixture
def fs(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., None]:
    def fake(free: int, inodes: int = 10**6, total_inodes: int = 10**6) -> None:
        values = os.statvfs_result((4096, 1, free, free, free, total_inodes, inodes, inodes, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _path: values)

    return fake


def test_what_fits_with_the_reserve_passes(fs, tmp_path: Path) -> None:
    fs(100 * GB)
    disk.require_space(str(tmp_path / "a" / "b"), 90 * GB, 10, 10 * GB)
    with pytest.raises(ModelopsError, match="1 bytes") as e:
        disk.require_space(str(tmp_path / "a" / "b"), 90 * GB + 1, 10, 10 * GB)
    (finding,) = e.value.result["findings"]
    assert finding["id"] == "disk-space"
    assert finding["numbers"] == {
        "needed": 90 * GB + 1,
        "reserve": 10 * GB,
        "free": 100 * GB,
        "short": 1,
        "unfinished": 0,
    }
    disk.require_space(str(tmp_path / "a" / "b"), 90 * GB + 1, 10, 10 * GB, freed=1)


def test_inodes_count_where_there_are_inodes(fs, tmp_path: Path) -> None:
    fs(100 * GB, inodes=100)
    with pytest.raises(ModelopsError, match="inodes"):
        disk.require_space(str(tmp_path), 1, 200, 0)
    fs(100 * GB, inodes=0, total_inodes=0)  # btrfs and others have none
    disk.require_space(str(tmp_path), 1, 200, 0)


def test_nothing_to_fetch_needs_nothing(fs, tmp_path: Path) -> None:
    fs(0, inodes=0)
    disk.require_space(str(tmp_path), 0, 0, 10 * GB)


@pytest.mark.case("no-resume-since-1.18")
def test_unfinished_downloads_of_others_are_named_with_their_bytes(fs, tmp_path: Path) -> None:
    part = tmp_path / ".cache" / "huggingface" / "download" / "x.1234.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 100_000)
    (part.parent / "x.metadata").write_bytes(b"x" * 100_000)
    on_disk = part.stat().st_blocks * 512
    fs(0)
    with pytest.raises(ModelopsError, match=f"take {on_disk} bytes") as e:
        disk.require_space(str(tmp_path), 1, 1, 0)
    assert e.value.result["findings"][0]["numbers"]["unfinished"] == on_disk
    assert ".cache/huggingface" in e.value.remedy


def test_what_a_run_removes_first_counts_as_free(tmp_path: Path) -> None:
    staging = tmp_path / ".modelops" / "staging"
    sizes = {"old/w.safetensors": 8192, "new/.cache/x.incomplete": 4096, "new/bad": 4096, "new/kept": 12288}
    for name, size in sizes.items():
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_bytes(b"x" * size)
    blocks = {n: (staging / n).stat().st_blocks * 512 for n in sizes}
    kept = {str(staging / "new" / "kept")}
    assert disk.freed_by_a_run(str(tmp_path), kept) == sum(b for n, b in blocks.items() if n != "new/kept")
    assert disk.freed_by_a_run(str(tmp_path / "none"), kept) == 0


def test_what_stands_in_the_place_of_a_file_is_found_early(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").mkdir()
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").mkdir()
    disk.require_places(str(tmp_path), ["b/c/w", "new", "a"])
    with pytest.raises(ModelopsError, match="is a folder"):
        disk.require_places(str(tmp_path), ["w.safetensors"])
    with pytest.raises(ModelopsError, match="is no folder"):
        disk.require_places(str(tmp_path), ["a/b/w"])

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import Stamp
from ansible_collections.modelops.vllm.plugins.module_utils._weights.manifest import (
    Manifest,
    Record,
    Selection,
    load,
    manifest_path,
    save,
)


def record(path: Path, level: str = "sha256") -> Record:
    s = Stamp.of(str(path))
    return Record(s.size, s.mtime_ns, s.ctime_ns, s.inode, "0" * 64, None, level)


@pytest.fixture
def written(tmp_path: Path) -> Manifest:
    (tmp_path / ".modelops").mkdir()
    (tmp_path / "w.safetensors").write_bytes(b"x" * 100)
    manifest = Manifest(
        repo="org/m",
        commit="c" * 40,
        revision="main",
        selection=Selection(("*.json",), (), True),
        verified="sha256",
        shards=("w.safetensors",),
        files={"w.safetensors": record(tmp_path / "w.safetensors")},
        stale=("old",),
        upstream=({"id": "x", "severity": "warning", "message": "m", "numbers": {}, "remedy": ""},),
    )
    save(str(tmp_path), manifest)
    return manifest


def test_what_is_saved_is_loaded(tmp_path: Path, written: Manifest) -> None:
    assert load(str(tmp_path)) == written
    assert [p.name for p in (tmp_path / ".modelops").iterdir()] == ["manifest.json"]
    assert (tmp_path / ".modelops" / "manifest.json").stat().st_mode & 0o777 == 0o644


def test_no_manifest_is_none(tmp_path: Path) -> None:
    assert load(str(tmp_path / "nowhere")) is None


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"schema": 99}', '{"schema": 1, "repo": "x"}'])
def test_a_manifest_that_is_not_understood_is_not_overwritten(tmp_path: Path, written: Manifest, text: str) -> None:
    Path(manifest_path(str(tmp_path))).write_text(text)
    with pytest.raises(ModelopsError, match=r"manifest\.json"):
        load(str(tmp_path))


def test_a_record_holds_until_somebody_writes(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    kept = record(path, "header")
    assert kept.holds(str(path), "header")
    assert not kept.holds(str(path), "sha256")
    old = path.stat()
    path.write_bytes(b"abd")
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert path.stat().st_mtime_ns == old.st_mtime_ns
    assert not kept.holds(str(path), "header"), "ctime tells"
    path.unlink()
    assert not kept.holds(str(path), "none")

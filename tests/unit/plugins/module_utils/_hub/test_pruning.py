# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files count as those that an earlier run put there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._hub.pruning import prune, require_prunable, stale_files
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import Stamp
from ansible_collections.modelops.vllm.plugins.module_utils._weights.manifest import Manifest, Selection
from ansible_collections.modelops.vllm.plugins.module_utils._weights.selection import Target

COMMIT = "c" * 40
TARGET = Target(COMMIT, {}, ())
NAME = "sub/old.safetensors"


@pytest.fixture
def found(tmp_path: Path) -> Manifest:
    (tmp_path / "m" / "sub").mkdir(parents=True)
    path = tmp_path / "m" / NAME
    path.write_bytes(b"old")
    return Manifest("org/m", COMMIT, "main", Selection(), "sha256", (), {}, {NAME: Stamp.of(str(path))})


def names(tmp_path: Path, found: Manifest | None) -> list[str]:
    return list(stale_files(str(tmp_path / "m"), found, TARGET))


def test_an_own_file_is_stale_also_when_its_owner_changed(tmp_path: Path, found: Manifest) -> None:
    path = tmp_path / "m" / NAME
    path.chmod(0o600)
    assert Stamp.of(str(path)) != found.stale[NAME], "chmod sets ctime"
    assert names(tmp_path, found) == [NAME]
    assert names(tmp_path, None) == []
    told = prune(str(tmp_path / "m"), [NAME])
    assert (told.id, told.numbers) == ("pruned", {"files": [NAME]})
    assert not path.exists()
    assert names(tmp_path, found) == [], "what is gone is not stale"


def test_what_somebody_wrote_anew_is_not_ours(tmp_path: Path, found: Manifest) -> None:
    path = tmp_path / "m" / NAME
    path.unlink()
    path.write_bytes(b"own")
    os.utime(path, ns=(0, 0))
    assert names(tmp_path, found) == []


def test_what_a_link_leads_to_is_not_ours(tmp_path: Path, found: Manifest) -> None:
    (tmp_path / "m" / "sub").rename(tmp_path / "elsewhere")
    (tmp_path / "m" / "sub").symlink_to(tmp_path / "elsewhere")
    assert (tmp_path / "m" / NAME).read_bytes() == b"old"
    assert names(tmp_path, found) == []
    (tmp_path / "m" / "sub").unlink()
    (tmp_path / "m" / "sub").mkdir()
    (tmp_path / "m" / NAME).symlink_to(tmp_path / "elsewhere" / "old.safetensors")
    assert names(tmp_path, found) == []


def test_weights_are_not_removed_for_a_selection_without_any(tmp_path: Path) -> None:
    with pytest.raises(ModelopsError, match="1 weight file") as e:
        require_prunable("/m", [NAME, "old.json"], TARGET)
    assert [f["id"] for f in e.value.result["findings"]] == ["prune-refused"]
    require_prunable("/m", ["old.json"], TARGET)
    require_prunable("/m", [NAME], Target(COMMIT, {}, ("new.safetensors",)))

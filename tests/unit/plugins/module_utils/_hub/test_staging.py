# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The staging area: what counts as arrived, and the folders that are made."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._hub.staging import Staging, make_folders, unfinished
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import RemoteFile

COMMIT = "0" * 40


def test_folders_are_open_to_the_service_whatever_the_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    dest = tmp_path / "org" / "name"
    before = os.umask(0o077)
    try:
        made = make_folders(str(dest), ".modelops")
    finally:
        os.umask(before)
    assert made == [str(dest / ".modelops"), str(dest), str(tmp_path / "org")]
    assert {stat.S_IMODE(Path(p).stat().st_mode) for p in made} == {0o755}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert make_folders(str(dest), ".modelops") == []


def test_what_landed_counts_as_its_size_and_the_rest_as_what_is_on_the_disk(tmp_path: Path) -> None:
    staging = Staging(str(tmp_path), "org/m", COMMIT)
    staging.open()
    parts = Path(staging.folder, ".cache", "huggingface", "download")
    parts.mkdir(parents=True)
    Path(staging.path("a")).write_bytes(b"x" * 10)
    (parts / "b.123.incomplete").write_bytes(b"x" * 8192)
    os.truncate(parts / "b.123.incomplete", 1 << 30)  # as Xet leaves it: full size, little of it written
    assert staging.bytes_of([RemoteFile("a", 10), RemoteFile("b", 1 << 30)]) == 10 + 8192
    staging.drop_partials()
    assert staging.bytes_of([RemoteFile("a", 10), RemoteFile("b", 1 << 30)]) == 10


def test_a_run_that_brought_nothing_claims_the_folder_for_nobody(tmp_path: Path) -> None:
    staging = Staging(str(tmp_path), "org/m", COMMIT)
    staging.open()
    parts = Path(staging.folder, ".cache", "huggingface")
    parts.mkdir(parents=True)
    (parts / "b.incomplete").write_bytes(b"x")
    assert unfinished(str(tmp_path)) == {}
    Path(staging.folder, "sub").mkdir()
    Path(staging.path("sub/a")).write_bytes(b"x")
    assert unfinished(str(tmp_path)) == {"repo": "org/m", "commit": COMMIT}
    staging.close_if_empty()
    assert unfinished(str(tmp_path)) == {"repo": "org/m", "commit": COMMIT}
    Path(staging.path("sub/a")).unlink()
    staging.close_if_empty()
    assert os.listdir(tmp_path / ".modelops") == []


@pytest.mark.parametrize("job", [b"", b"[]", b'{"repo": 5}', b"\xff", b"[" * 100_000], ids=lambda job: job[:12])
def test_a_broken_note_of_a_run_is_none(tmp_path: Path, job: bytes) -> None:
    staging = Staging(str(tmp_path), "org/m", COMMIT)
    staging.open()
    Path(staging.path("a")).write_bytes(b"x")
    (tmp_path / ".modelops" / "job.json").write_bytes(job)
    assert unfinished(str(tmp_path)) == {}

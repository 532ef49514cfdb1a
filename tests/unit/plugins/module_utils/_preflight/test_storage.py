# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of disk and shared memory, on directories that the tests make."""

from __future__ import annotations

import mmap
import os
import pwd

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._preflight import storage
from ansible_collections.modelops.vllm.plugins.module_utils._preflight.question import Question

GIB = 2**30


@pytest.mark.parametrize(
    ("size", "there", "free", "found"),
    [
        (230 * GIB, 0, 230 * GIB, []),
        (230 * GIB, 0, 229 * GIB, ["disk-space"]),
        (230 * GIB, 200 * GIB, 30 * GIB, []),
        (230 * GIB, 240 * GIB, 0, []),
    ],
)
def test_room_for_what_is_missing(size, there, free, found):
    findings = storage.judge_disk("/srv/models/x", size, there, free)
    assert [f.id for f in findings] == found
    assert all(f.numbers == {"size_bytes": size, "there_bytes": there, "free_bytes": free} for f in findings)


def test_sizes_are_told_in_gib():
    (finding,) = storage.judge_disk("/srv/models/x", 230119973888, 0, 100 * GIB)
    assert "214.3 GiB of the model" in finding.message
    assert finding.severity == "warning"


def test_what_is_on_disk_counts_and_holes_do_not(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "shard").write_bytes(b"x" * 8192)
    with open(tmp_path / "hole", "wb") as stream:
        stream.truncate(GIB)
    (tmp_path / "link").symlink_to("/no/such/file")
    huge = 2**60
    (finding,) = storage.disk(Question(weights_dest=str(tmp_path), weights_bytes=huge))
    assert 8192 <= finding.numbers["there_bytes"] < 20000


def test_a_directory_that_is_not_there_yet(tmp_path):
    assert storage.disk(Question(weights_dest=str(tmp_path / "a" / "b"), weights_bytes=1)) == []
    assert storage.nearest(str(tmp_path / "a" / "b")) == str(tmp_path)
    assert storage.disk(Question(weights_dest=str(tmp_path))) is None


@pytest.mark.case("B18")
@pytest.mark.parametrize(
    ("size_mib", "free_mib", "ranks", "found"),
    [
        pytest.param(64, 64, 2, ["shm-small"], id="B18-64-MiB"),
        (1024, 1024, 8, ["shm-small"]),
        (65536, 8191, 8, ["shm-small"]),
        (65536, 8192, 8, []),
    ],
)
def test_b18_small_shared_memory(size_mib, free_mib, ranks, found):
    findings = storage.judge_size("/dev/shm", size_mib * 2**20, free_mib * 2**20, ranks)
    assert [(f.id, f.severity) for f in findings] == [(id_, "warning") for id_ in found]


ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def shm(tmp_path):
    """A directory in the place of /dev/shm with the leftovers of a crash."""
    for name in ("nccl-AbCdEf", "psm_00000001", "other-file", "nccl-living"):
        (tmp_path / name).write_bytes(b"x" * 4096)
    return tmp_path


@pytest.mark.case("B18")
def test_b18_segments_without_a_living_owner_are_listed(shm):
    """One is open here: it is in use, and so is what is mapped."""
    with open(shm / "nccl-living", "rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ):
        findings = storage.shared_memory(Question(user=ME), str(shm))
    assert [f.id for f in findings] == ["shm-stale"]
    assert findings[0].numbers == {"segments": ["nccl-AbCdEf", "psm_00000001"]}
    assert sorted(p.name for p in shm.iterdir()) == ["nccl-AbCdEf", "nccl-living", "other-file", "psm_00000001"]


def test_a_mapping_without_an_open_file_is_in_use(shm):
    with open(shm / "nccl-living", "rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
    used, _sure = storage.segments_in_use(str(shm))
    mapped.close()
    assert used == {"nccl-living"}


def test_segments_of_others_are_none_of_ours(shm):
    other = next(account.pw_name for account in pwd.getpwall() if account.pw_uid != os.getuid())
    assert storage.shared_memory(Question(user=other), str(shm)) == []
    assert storage.shared_memory(Question(user="no-such-user"), str(shm)) == []


@pytest.mark.parametrize(("sure", "severity"), [(True, "warning"), (False, "info")])
def test_a_doubt_is_told(sure, severity):
    (finding,) = storage.judge_segments("/dev/shm", ["nccl-a"], "vllm", sure)
    assert finding.severity == severity
    assert ("as far as can be seen" in finding.message) is not sure


def test_many_segments_are_counted():
    (finding,) = storage.judge_segments("/dev/shm", [f"nccl-{i}" for i in range(9)], "vllm", sure=True)
    assert "9 segments" in finding.message
    assert "nccl-4, ..." in finding.message

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress file: readable by anyone, replaced as a whole, gone at the end, and never in the way of the job."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._progress import (
    ProgressFile,
    own_path,
    run_id,
    shared_path,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_each_line_replaces_the_file_and_the_end_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "switch.json"
    before = os.umask(0o077)
    try:
        with ProgressFile(str(path), "ansible-tmp-1") as progress:
            progress.tell("stopping vllm-old.service")
            assert (mode(path.parent), mode(path)) == (0o755, 0o644)
            progress.tell("waiting for GPU memory: 12 GiB in use")
            assert json.loads(path.read_text()) == {
                "run": "ansible-tmp-1",
                "pid": os.getpid(),
                "beat": 2,
                "line": "waiting for GPU memory: 12 GiB in use",
            }
            assert os.listdir(path.parent) == ["switch.json"]
    finally:
        os.umask(before)
    assert os.listdir(path.parent) == []


def test_a_job_goes_on_when_its_progress_cannot_be_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with ProgressFile(str(tmp_path / "file" / "x.json"), "r") as progress:
        progress.tell("loading")
    assert (tmp_path / "file").read_text() == ""


def test_the_file_goes_when_the_block_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with ProgressFile(str(tmp_path / "x.json"), "r") as progress:
            progress.tell("loading")
            raise ValueError("the module failed")

    with pytest.raises(ValueError, match="the module failed"):
        fail()
    assert os.listdir(tmp_path) == []


def test_threads_may_tell_at_the_same_time(tmp_path: Path) -> None:
    with ProgressFile(str(tmp_path / "x.json"), "r") as progress:
        threads = [threading.Thread(target=lambda: [progress.tell("loading") for _i in range(50)]) for _t in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert json.loads((tmp_path / "x.json").read_text())["beat"] == 200
        assert os.listdir(tmp_path) == ["x.json"]


def test_paths_that_both_sides_know() -> None:
    assert run_id("/root/.ansible/tmp/ansible-tmp-17-2/") == "ansible-tmp-17-2"
    assert own_path("/root/.ansible/tmp/ansible-tmp-17-2") == "/root/.ansible/tmp/ansible-tmp-17-2/progress.json"
    assert shared_path("switch") == "/run/modelops-vllm/switch.json"

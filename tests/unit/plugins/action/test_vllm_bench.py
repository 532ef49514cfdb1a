# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lines of a benchmark are about. The job itself is tested with hf_snapshot."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest
from ansible_collections.modelops.vllm.plugins.action.vllm_bench import ActionModule
from ansible_collections.modelops.vllm.plugins.plugin_utils._job import _Job


def test_the_label_names_the_model_and_no_address() -> None:
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"model": "minimax-m2.5", "url": "http://user:hidden@h:1", "api_key": "k"})
    assert action.job_label() == "benchmark of minimax-m2.5"
    # Each run has its own file: two benchmarks on a node are told apart by their servers' findings, not by a lock.
    assert action.job_progress_path() is None


@pytest.mark.parametrize(
    ("answered", "kept"),
    [
        ({"results_file": "/results/points.jsonl"}, {"results_file": "/results/points.jsonl"}),
        ({"results_file": "/root/.ansible_async/j1"}, {}),
    ],
)
def test_the_benchmarks_own_results_file_is_kept_and_the_jobs_is_not(
    monkeypatch: pytest.MonkeyPatch, answered: dict[str, t.Any], kept: dict[str, t.Any]
) -> None:
    status = {"valid": True, "started": 1, "finished": 1, "ansible_job_id": "j1", "stdout": "", **answered}
    monkeypatch.setattr(_Job, "_status", lambda _self, _jid, _mode: dict(status))
    job = _Job.__new__(_Job)
    assert job._collect("j1", "/root/.ansible_async/j1") == {"valid": True, **kept}

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lines of a benchmark are about. The job itself is tested with hf_snapshot."""

from __future__ import annotations

from types import SimpleNamespace

from ansible_collections.modelops.vllm.plugins.action.vllm_bench import ActionModule


def test_the_label_names_the_model_and_no_address() -> None:
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"model": "minimax-m2.5", "url": "http://user:hidden@h:1", "api_key": "k"})
    assert action.job_label() == "benchmark of minimax-m2.5"
    # Each run has its own file: two benchmarks on a node are told apart by their servers' findings, not by a lock.
    assert action.job_progress_path() is None

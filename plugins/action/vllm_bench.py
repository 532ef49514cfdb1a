# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of vllm_bench: the module runs as a job on the node, and its progress is shown."""

from __future__ import annotations

from ansible_collections.modelops.vllm.plugins.plugin_utils._job import JobAction


class ActionModule(JobAction):
    """Says which measurement is being made, and what the one before gave."""

    MODULE = "modelops.vllm.vllm_bench"
    WORK = "the benchmark"
    AGAIN = "Run again with resume to keep what was measured."

    def job_label(self) -> str:
        return f"benchmark of {self._task.args.get('model')}"

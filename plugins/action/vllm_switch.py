# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of vllm_switch: a switch is a job on the node, which ends well without its controller too."""

from __future__ import annotations

from ansible_collections.modelops.vllm.plugins.module_utils._progress import shared_path
from ansible_collections.modelops.vllm.plugins.module_utils._serve.switching import PROGRESS
from ansible_collections.modelops.vllm.plugins.plugin_utils._job import JobAction


class ActionModule(JobAction):
    """Start the job, show its progress until it ends, return its result."""

    MODULE = "modelops.vllm.vllm_switch"
    WORK = "the switch"
    AGAIN = "Run again: it goes on from what the switch has left, and can still go back to what served before."

    def job_label(self) -> str:
        return "switch"

    def job_progress_path(self) -> str:
        return shared_path(PROGRESS)

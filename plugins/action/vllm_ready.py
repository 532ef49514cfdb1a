# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of vllm_ready: a start of minutes is waited for on the node, and how far it is is shown."""

from __future__ import annotations

from ansible_collections.modelops.vllm.plugins.plugin_utils._job import JobAction


class ActionModule(JobAction):
    """Start the job, show what the instance does until it is ready, return its result."""

    MODULE = "modelops.vllm.vllm_ready"
    WORK = "the wait"
    AGAIN = "Run again: waiting changes nothing."

    def job_label(self) -> str:
        """The unit or the address; an address that the module refuses may hold a password."""
        url = str(self._task.args.get("url", ""))
        return str(self._task.args.get("unit") or url.rpartition("@")[2] or "vllm")

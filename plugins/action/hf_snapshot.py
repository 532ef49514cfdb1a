# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of hf_snapshot: a download of hours is a job on the node, and its progress is shown.

The progress is what the run that holds the destination's lock writes, so a run that waits for another one shows that
one's.
"""

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.modelops.vllm.plugins.module_utils._hub.progress import line, progress_path
from ansible_collections.modelops.vllm.plugins.plugin_utils._job import JobAction


class ActionModule(JobAction):
    """Start the job, show its progress until it ends, return its result."""

    MODULE = "modelops.vllm.hf_snapshot"
    WORK = "the download"
    AGAIN = "Run again: what is verified is kept."

    def job_label(self) -> str:
        return str(self._task.args.get("repo_id"))

    def job_is_long(self) -> bool:
        """A run that sends no request and hashes nothing takes a moment."""
        try:
            offline, reverify = (boolean(self._task.args.get(name) or False) for name in ("offline", "reverify"))
        except TypeError:
            return False  # the module refuses the value, and says why
        return reverify or not offline

    def job_progress_path(self) -> str:
        return progress_path(self._remote_expand_user(str(self._task.args.get("dest", ""))))

    def job_line(self, state: t.Mapping[str, t.Any]) -> str:
        return line(state)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of hf_snapshot: the module runs as a job on the node, and its progress is shown.

A download of hours outlives the connection that started it. The job is Ansible's own async wrapper; the progress is
what the run that holds the destination's lock writes, so a run that waits for another one shows that one's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
import typing as t

from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.modelops.vllm.plugins.module_utils._hub.progress import line, progress_path

display = Display()

_MODULE = "modelops.vllm.hf_snapshot"
_DEFAULT_INTERVAL = 30
# The async wrapper ends a job after a limit and knows no job without one.
_LIMIT = 30 * 24 * 3600
# How long a connection that was lost is tried again: a switch or a firewall is back by then, a node may be not.
_PATIENCE = 900.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_MARK = "\n--8<-- modelops\n"


class ActionModule(ActionBase):
    """Start the job, show its progress until it ends, return its result."""

    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the module; the result is the module's own."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        interval = self._interval()
        if self._task.async_val or self._task.check_mode or interval <= 0 or not _long(self._task.args):
            return self._execute_module(module_name=_MODULE, task_vars=task_vars, wrap_async=bool(self._task.async_val))
        return _Job(self, interval, task_vars).run()

    def _interval(self) -> float:
        value = self._task.args.get("progress_interval", _DEFAULT_INTERVAL)
        try:
            return float(value)
        except (TypeError, ValueError):
            return 0.0  # the module refuses the value, and says why


def _long(args: t.Mapping[str, t.Any]) -> bool:
    """Whether a run may take long enough to be worth a job: one that sends no request and hashes nothing may not."""
    try:
        offline, reverify = (boolean(args.get(name) or False) for name in ("offline", "reverify"))
    except TypeError:
        return False  # the module refuses the value, and says why
    return reverify or not offline


class _Job:
    def __init__(self, action: ActionModule, interval: float, task_vars: dict[str, t.Any]) -> None:
        self._action, self._interval, self._vars = action, interval, task_vars
        self._host = task_vars.get("inventory_hostname", "")
        self._label = f"{self._host}: {action._task.args.get('repo_id')}"
        self._run_id = ""
        self._seen: tuple[t.Any, t.Any] | None = None

    def run(self) -> dict[str, t.Any]:
        started = self._start()
        if started.get("failed") or "results_file" not in started:
            return started
        jid = str(started["ansible_job_id"])
        if not self._follow(str(started["results_file"])):
            return {
                "failed": True,
                "msg": (
                    f"The process of this task on {self._host} has ended without a result: it was killed, or the node "
                    "was started again. Run again: what is verified is kept."
                ),
            }
        return self._collect(jid)

    # The job

    def _start(self) -> dict[str, t.Any]:
        action = self._action
        action._make_tmp_path()
        # The module names its run after this folder too.
        self._run_id = os.path.basename(str(action._connection._shell.tmpdir).rstrip("/"))
        action._task.async_val = _LIMIT
        try:
            return action._execute_module(module_name=_MODULE, task_vars=self._vars, wrap_async=True)
        finally:
            # With a value left there the executor would poll the job once more.
            action._task.async_val = 0

    def _collect(self, jid: str) -> dict[str, t.Any]:
        result = self._status(jid, "status")
        with contextlib.suppress(AnsibleConnectionFailure):
            self._status(jid, "cleanup")
        for key in ("started", "finished", "ansible_job_id", "results_file", "stdout", "stdout_lines"):
            result.pop(key, None)
        return result

    def _status(self, jid: str, mode: str) -> dict[str, t.Any]:
        folder = self._action.get_shell_option("async_dir", default="~/.ansible_async")
        return self._action._execute_module(
            module_name="ansible.legacy.async_status",
            module_args={"jid": jid, "mode": mode, "_async_dir": folder},
            task_vars=self._vars,
        )

    # Looking at it

    def _follow(self, results_file: str) -> bool:
        """Wait for the end; False when the process is gone and left no result."""
        command = self._look_command(results_file)
        pause, told, gone = _FIRST_PAUSE, time.monotonic(), 0
        while True:
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE, self._interval)
            finished, state, alive = self._look(command)
            if finished:
                return True
            # Asked twice: the job may have ended between the look at its result and the look at its process.
            gone = 0 if alive else gone + 1
            if gone > 2:
                return False
            if time.monotonic() - told >= self._interval:
                told = time.monotonic()
                self._tell(state)

    def _look_command(self, results_file: str) -> str:
        """Print the result of the job, the progress on the destination, and which processes belong to the job."""
        dest = self._action._remote_expand_user(str(self._action._task.args.get("dest", "")))
        progress = progress_path(dest)
        # The brackets keep the search from finding itself.
        pattern = f"{self._run_id[:-1]}[{self._run_id[-1]}]"
        mark = shlex.quote(_MARK)
        return (
            f"cat {shlex.quote(results_file)} 2>/dev/null; printf %s {mark}; "
            f"cat {shlex.quote(progress)} 2>/dev/null; printf %s {mark}; "
            f"grep -l {shlex.quote(pattern)} /proc/[0-9]*/cmdline 2>/dev/null; true"
        )

    def _look(self, command: str) -> tuple[bool, t.Any, bool]:
        """(whether there is a result, progress or None, whether the process is there)."""
        lost_at: float | None = None
        while True:
            try:
                answer = self._action._low_level_execute_command(command)
                parts = str(answer.get("stdout", "")).split(_MARK)
                if len(parts) == 3:
                    break
                problem = str(answer.get("stderr") or answer.get("stdout") or "no answer").strip()
                failure = AnsibleConnectionFailure(f"{self._host} did not answer: {problem[-200:]}")
            except AnsibleConnectionFailure as e:
                failure = e
            now = time.monotonic()
            if lost_at is None:
                lost_at = now
                self._show("the connection is lost, and is tried again; the download goes on on the node.")
            elif now - lost_at > _PATIENCE:
                raise failure
            with contextlib.suppress(Exception):
                self._action._connection.reset()
            time.sleep(_LONGEST_PAUSE)
        if lost_at is not None:
            self._show("the connection is back.")
        result, progress, processes = parts
        return _is_result(result), _parsed(progress), bool(processes.strip())

    # Telling

    def _tell(self, state: t.Any) -> None:
        if not isinstance(state, dict):
            return
        last, self._seen = self._seen, (state.get("run"), state.get("beat"))
        if self._seen == last or (last is None and state.get("run") != self._run_id):
            return  # nothing new, or perhaps left behind by a run that was killed
        with contextlib.suppress(KeyError, TypeError, ValueError):
            other = "" if state["run"] == self._run_id else f" (by process {state['pid']}, which started before)"
            self._show(line(state) + other)

    def _show(self, text: str) -> None:
        if not self._action._task.no_log:
            # On stderr, which leaves what callbacks print on stdout whole; ansible-runner and AWX show both.
            display.display(f"{self._label}: {text}", stderr=True)


def _parsed(text: str) -> t.Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_result(text: str) -> bool:
    """Whether the async wrapper's file holds the module's result; before, it holds that the job has started."""
    state = _parsed(text)
    return isinstance(state, dict) and not state.get("started")

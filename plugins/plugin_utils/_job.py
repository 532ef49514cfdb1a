# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The controller's side of a long task: its module runs as a job on the node, and its progress is shown.

Work of minutes or hours outlives the connection that started it. The job is Ansible's own async wrapper; the progress
is a file on the node that the module keeps up to date (module_utils/_progress.py).
"""

from __future__ import annotations

import contextlib
import json
import shlex
import time
import typing as t

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.modelops.vllm.plugins.module_utils._progress import own_path, run_id

display = Display()

# The async wrapper ends a job after a limit and knows no job without one.
_LIMIT = 30 * 24 * 3600
# How long a connection that was lost is tried again: a switch or a firewall is back by then, a node may be not.
_PATIENCE = 900.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_MARK = "\n--8<-- modelops\n"


class JobAction(ActionBase):
    """The action plugin of a module with the option ``progress_interval``: start it as a job, tell, return its result.

    A plugin subclasses it as ``ActionModule``, sets the attributes and overrides the methods that differ.
    """

    MODULE: t.ClassVar[str]
    """Full name of the module."""
    WORK: t.ClassVar[str]
    """What goes on on the node when the connection is lost, as in "the download"."""
    AGAIN: t.ClassVar[str]
    """What to do when the process has gone without a result, a sentence."""
    DEFAULT_INTERVAL: t.ClassVar[float] = 30
    """Default of ``progress_interval``, in seconds."""

    _supports_check_mode = True
    _supports_async = True

    def job_label(self) -> str:
        """What the lines are about, as in "org/model"; behind the name of the host."""
        raise NotImplementedError

    def job_is_long(self) -> bool:
        """Whether the run may take long enough to be worth a job."""
        return True

    def job_progress_path(self) -> str | None:
        """Path on the node of the progress file; None when each run has its own, ``own_path(module.tmpdir)``."""
        return None

    def job_line(self, state: t.Mapping[str, t.Any]) -> str:
        """The progress as a line for people. KeyError, TypeError and ValueError mean that it says nothing."""
        return str(state["line"])

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the module; the result is the module's own."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        interval = self._interval()
        if self._task.async_val or self._task.check_mode or interval <= 0 or not self.job_is_long():
            return self._execute_module(
                module_name=self.MODULE, task_vars=task_vars, wrap_async=bool(self._task.async_val)
            )
        return _Job(self, interval, task_vars).run()

    def _interval(self) -> float:
        value = self._task.args.get("progress_interval", self.DEFAULT_INTERVAL)
        try:
            return float(value)
        except (TypeError, ValueError):
            return 0.0  # the module refuses the value, and says why


class _Job:
    def __init__(self, action: JobAction, interval: float, task_vars: dict[str, t.Any]) -> None:
        self._action, self._interval, self._vars = action, interval, task_vars
        self._host = task_vars.get("inventory_hostname", "")
        self._label = f"{self._host}: {action.job_label()}"
        self._run_id = self._progress = ""
        self._seen: tuple[t.Any, t.Any] | None = None
        self._seen_at = 0.0

    def run(self) -> dict[str, t.Any]:
        started = self._start()
        if started.get("failed") or "results_file" not in started:
            return started
        jid = str(started["ansible_job_id"])
        job_file = str(started["results_file"])
        if not self._follow(job_file):
            return {
                "failed": True,
                "msg": (
                    f"The process of this task on {self._host} has ended without a result: it was killed, or the node "
                    f"was started again. {self._action.AGAIN}"
                ),
            }
        return self._collect(jid, job_file)

    # The job

    def _start(self) -> dict[str, t.Any]:
        action = self._action
        action._make_tmp_path()
        # The module names its run after this folder too. The async wrapper removes it when the job has ended.
        tmpdir = str(action._connection._shell.tmpdir)
        self._run_id, self._progress = run_id(tmpdir), action.job_progress_path() or own_path(tmpdir)
        action._task.async_val = _LIMIT
        try:
            return action._execute_module(module_name=action.MODULE, task_vars=self._vars, wrap_async=True)
        finally:
            # With a value left there the executor would poll the job once more.
            action._task.async_val = 0

    def _collect(self, jid: str, job_file: str) -> dict[str, t.Any]:
        result = self._status(jid, "status")
        with contextlib.suppress(AnsibleConnectionFailure):
            self._status(jid, "cleanup")
        for key in ("started", "finished", "ansible_job_id", "stdout", "stdout_lines"):
            result.pop(key, None)
        # A module may have a results_file of its own.
        if result.get("results_file") == job_file:
            del result["results_file"]
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
        """Print the result of the job, its progress, and which processes belong to it."""
        # The brackets keep the search from finding itself.
        pattern = f"{self._run_id[:-1]}[{self._run_id[-1]}]"
        mark = shlex.quote(_MARK)
        return (
            f"cat {shlex.quote(results_file)} 2>/dev/null; printf %s {mark}; "
            f"cat {shlex.quote(self._progress)} 2>/dev/null; printf %s {mark}; "
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
                self._show(f"the connection is lost, and is tried again; {self._action.WORK} goes on on the node.")
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
        mine = state.get("run") == self._run_id
        last, self._seen = self._seen, (state.get("run"), state.get("beat"))
        fresh = self._seen != last
        if fresh:
            self._seen_at = time.monotonic()
        if not mine and (not fresh or last is None):
            return  # perhaps left behind by a run that was killed
        # The process of this run is there, or the job would be over: it is busy with one thing.
        silent = "" if fresh else f" (no news for {time.monotonic() - self._seen_at:.0f} s)"
        with contextlib.suppress(KeyError, TypeError, ValueError):
            other = "" if mine else f" (by process {state['pid']}, which started before)"
            self._show(self._action.job_line(state) + silent + other)

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

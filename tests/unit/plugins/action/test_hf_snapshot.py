# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job on the node, seen from the controller. The connection is a mock here; test_progress.py in tests/integration
has the real one."""

from __future__ import annotations

import json
import shlex
import typing as t
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.modelops.vllm.plugins.action import hf_snapshot as plugin
from ansible_collections.modelops.vllm.plugins.plugin_utils import _job as job

RESULTS = "/root/.ansible_async/j1.2"
STARTED = {"started": True, "finished": False, "ansible_job_id": "j1.2", "results_file": RESULTS}
RUNNING = json.dumps({"started": True, "finished": False, "ansible_job_id": "j1.2"})
OTHER = {
    "phase": "fetch",
    "bytes_done": 5_000_000,
    "bytes_total": 10_000_000,
    "files_done": 1,
    "files_total": 3,
    "bytes_per_second": 1e6,
    "pid": 77,
    "run": "ansible-tmp-other",
    "beat": 1,
}
MINE = {**OTHER, "run": "ansible-tmp-123"}


class Clock:
    """Time that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Node:
    """What the node answers to each look: text, or an exception that is raised."""

    def __init__(self, looks: t.Iterable[t.Any], result: t.Mapping[str, t.Any]) -> None:
        self.looks, self.result = iter(looks), dict(result)
        self.calls: list[tuple[str, t.Any]] = []

    def execute(self, **call: t.Any) -> dict[str, t.Any]:
        self.calls.append((call["module_name"], call.get("module_args")))
        if call["module_name"] == "ansible.legacy.async_status":
            return {**self.result, "started": True, "finished": True, "ansible_job_id": "j1.2", "results_file": RESULTS}
        return dict(STARTED) if call.get("wrap_async") else dict(self.result)

    def command(self, command: str) -> dict[str, t.Any]:
        self.calls.append(("look", command))
        look = next(self.looks)
        if isinstance(look, Exception):
            raise look
        return {"stdout": look, "rc": 0, "stderr": ""} if isinstance(look, str) else look


def seen(result: str = RUNNING, progress: t.Any = None, alive: bool = True) -> str:
    """What a look prints."""
    parts = [result, json.dumps(progress) if progress else "", "/proc/9/cmdline\n" if alive else ""]
    return job._MARK.join(parts)


END = seen('{"changed": true}', alive=False)


@pytest.fixture
def action(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., t.Any]:
    """An action for a node; its lines are in ``lines``."""
    clock = Clock()
    monkeypatch.setattr(job, "time", clock)

    def make(node: Node, *, check: bool = False, no_log: bool = False, async_val: int = 0, **args: t.Any) -> t.Any:
        lines: list[str] = []
        monkeypatch.setattr(job.display, "display", lambda text, stderr: lines.append(text))
        made = plugin.ActionModule.__new__(plugin.ActionModule)
        made._task = SimpleNamespace(
            args={"repo_id": "org/m", "dest": "/srv/my models/m", "progress_interval": 10, **args},
            async_val=async_val,
            check_mode=check,
            no_log=no_log,
        )
        made._connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=""), reset=lambda: lines.append("RESET"))
        made._make_tmp_path = lambda: setattr(made._connection._shell, "tmpdir", "/root/.ansible/tmp/ansible-tmp-123/")
        made._remote_expand_user = lambda path: path
        made.get_shell_option = lambda name, default: default
        made._execute_module = node.execute
        made._low_level_execute_command = node.command
        made.lines, made.clock = lines, clock
        return made

    monkeypatch.setattr(job.ActionBase, "run", lambda self, tmp, task_vars: {})
    return make


VARS = {"inventory_hostname": "gpu1"}


def test_lines_come_at_the_interval_and_the_result_is_the_modules(action: t.Any) -> None:
    looks = [seen(progress={**MINE, "beat": i, "bytes_done": i * 100_000}) for i in range(40)]
    node = Node([*looks, END], {"changed": True, "commit": "c"})
    made = action(node)
    assert made.run(task_vars=VARS) == {"changed": True, "commit": "c"}
    assert made.clock.now > 100
    assert 10 <= len(made.lines) <= made.clock.now / 10
    assert made.lines[0].startswith("gpu1: org/m: ")
    assert made.lines[0].endswith("800.0 kB of 10.0 MB fetched (8 %), 1 of 3 files proven, 1.0 MB/s, 9 s left")
    assert [name for name, _args in node.calls if name != "look"] == [
        "modelops.vllm.hf_snapshot",
        "ansible.legacy.async_status",
        "ansible.legacy.async_status",
    ]
    assert node.calls[-1][1]["mode"] == "cleanup"
    assert made._task.async_val == 0


def test_the_progress_of_an_earlier_run_is_shown_as_such(action: t.Any) -> None:
    looks = [seen(progress={**OTHER, "beat": i}) for i in range(12)]
    made = action(Node([*looks, END], {"changed": False}))
    made.run(task_vars=VARS)
    assert made.lines == [
        "gpu1: org/m: 5.0 MB of 10.0 MB fetched (50 %), 1 of 3 files proven, 1.0 MB/s, 5 s left"
        " (by process 77, which started before)"
    ]


def test_what_a_killed_run_left_is_not_shown(action: t.Any) -> None:
    made = action(Node([*[seen(progress=OTHER)] * 30, END], {"changed": False}))
    made.run(task_vars=VARS)
    assert made.lines == []


def test_a_run_that_is_busy_with_one_thing_is_told_as_such(action: t.Any) -> None:
    made = action(Node([*[seen(progress=MINE)] * 12, END], {"changed": True}))
    made.run(task_vars=VARS)
    first, second = made.lines[:2]
    assert "no news" not in first
    assert second == f"{first} (no news for 10 s)"


def test_nothing_is_shown_without_log_or_progress(action: t.Any) -> None:
    for options, state in (({"no_log": True}, MINE), ({}, None), ({}, [1]), ({}, {"run": "x"})):
        looks = [seen(progress=state and {**state, "beat": 3} if isinstance(state, dict) else state)] * 9
        made = action(Node([*looks, END], {"changed": True}), **options)
        made.run(task_vars=VARS)
        assert made.lines == []


@pytest.mark.parametrize(
    "loss",
    [AnsibleConnectionFailure("timed out"), {"rc": 255, "stdout": "", "stderr": "ssh: broken pipe"}],
    ids=["raised", "no-answer"],
)
def test_a_connection_that_comes_back_is_waited_for(action: t.Any, loss: t.Any) -> None:
    made = action(Node([seen(), loss, loss, seen(), END], {"changed": True}))
    assert made.run(task_vars=VARS) == {"changed": True}
    assert made.lines == [
        "gpu1: org/m: the connection is lost, and is tried again; the download goes on on the node.",
        "RESET",
        "RESET",
        "gpu1: org/m: the connection is back.",
    ]


def test_a_connection_that_stays_away_makes_the_node_unreachable(action: t.Any) -> None:
    node = Node([{"rc": 255, "stdout": "", "stderr": "no route to host"}] * 1000, {})
    made = action(node)
    with pytest.raises(AnsibleConnectionFailure, match="gpu1 did not answer: no route to host"):
        made.run(task_vars=VARS)
    assert 900 < made.clock.now < 1000


def test_a_process_that_is_gone_is_a_failure_that_says_so(action: t.Any) -> None:
    made = action(Node([seen(alive=False)] * 5, {}))
    result = made.run(task_vars=VARS)
    assert result["failed"]
    assert "gpu1 has ended without a result" in result["msg"]


def test_a_result_that_appears_after_the_process_is_gone_counts(action: t.Any) -> None:
    made = action(Node([seen(), seen(alive=False), seen(alive=False), END], {"changed": True}))
    assert made.run(task_vars=VARS) == {"changed": True}


@pytest.mark.parametrize(
    "options",
    [
        {"check": True},
        {"progress_interval": 0},
        {"progress_interval": "0"},
        {"progress_interval": "often"},
        {"offline": "true"},
        {"offline": "perhaps"},
    ],
)
def test_a_short_run_is_no_job(action: t.Any, options: dict[str, t.Any]) -> None:
    node = Node([], {"changed": False})
    assert action(node, **options).run(task_vars=VARS) == {"changed": False}
    assert [name for name, _args in node.calls] == ["modelops.vllm.hf_snapshot"]


def test_a_task_with_async_is_ansibles_own_job(action: t.Any) -> None:
    node = Node([], {})
    assert action(node, async_val=60).run(task_vars=VARS) == STARTED
    assert len(node.calls) == 1


def test_a_long_verification_offline_is_a_job(action: t.Any) -> None:
    node = Node([END], {"changed": False})
    action(node, offline=True, reverify=True).run(task_vars=VARS)
    assert len(node.calls) == 4


def test_a_start_that_fails_is_the_result(action: t.Any) -> None:
    node = Node([], {})
    made = action(node)
    made._execute_module = lambda **call: {"failed": True, "msg": "no python"}
    assert made.run(task_vars=VARS) == {"failed": True, "msg": "no python"}
    assert made._task.async_val == 0


def test_the_look_is_one_command_that_does_not_find_itself(action: t.Any) -> None:
    node = Node([END], {})
    action(node).run(task_vars=VARS)
    command = dict(node.calls)["look"]
    assert shlex.quote("/srv/my models/m/.modelops/progress.json") in command
    assert RESULTS in command
    assert "ansible-tmp-12[3]" in command
    assert "ansible-tmp-123" not in command

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tournament's tasks say to its module, and what they take from the roles."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible.module_utils.parsing.convert_bool import boolean
from jinja2.nativetypes import NativeEnvironment

from tests.support.plays import ROOT

TASKS = ROOT / "playbooks/tasks"
NAMES = ("candidates", "axes", "objective", "bounds", "sessions", "leaders", "margin", "resume", "retry")


def load(name: str) -> list[dict[str, t.Any]]:
    return t.cast(list[dict[str, t.Any]], yaml.safe_load((TASKS / name).read_text()))


def flat(tasks: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The tasks with those of all their blocks."""
    inner = [one for task in tasks for part in ("block", "rescue", "always") for one in flat(task.get(part, []))]
    return [*tasks, *inner]


def declared(name: str, **variables: t.Any) -> t.Any:
    """An option of the declaration as the variables make it."""
    (task,) = load("tournament_declare.yml")
    play = yaml.safe_load((ROOT / "playbooks/tournament.yml").read_text())[0]["vars"]
    environment = NativeEnvironment()
    environment.filters["bool"] = boolean
    return environment.from_string(task["modelops.vllm.bench_tournament"][name]).render(
        __blank=play["__blank"], **variables
    )


@pytest.mark.parametrize("name", NAMES)
def test_blank_answers_are_not_given(name: str) -> None:
    default = declared(name)
    assert declared(name, **{f"tournament_{name}": ""}) == default
    assert declared(name, **{f"tournament_{name}": None}) == default


@pytest.mark.parametrize(
    ("name", "value"), [("resume", False), ("margin", 0), ("sessions", 0), ("leaders", 0), ("candidates", ["tp4"])]
)
def test_false_and_zero_are_answers(name: str, value: t.Any) -> None:
    assert declared(name) != value
    assert declared(name, **{f"tournament_{name}": value}) == value


def test_zero_is_a_limit_too() -> None:
    text = yaml.safe_load((ROOT / "playbooks/tournament.yml").read_text())[0]["vars"]["__tournament_limit"]
    rendered = [
        NativeEnvironment().from_string(text).render(__blank=["", None], **given)
        for given in ({}, {"tournament_limit": ""}, {"tournament_limit": 0}, {"tournament_limit": "2"})
    ]
    assert rendered == [4, 4, 0, 2]


def test_the_tasks_that_judge_a_candidate_are_tasks_of_the_role() -> None:
    """A rename there would make a candidate's own fault one of the node, which ends the tournament."""
    note = next(task for task in flat(load("tournament_deploy.yml")) if "__tournament_verdicts" in task.get("vars", {}))
    files = [ROOT / f"roles/serve/tasks/{name}.yml" for name in ("layout", "gate")]
    names = {task["name"] for path in files for task in yaml.safe_load(path.read_text())}
    assert set(note["vars"]["__tournament_verdicts"]) <= names


def test_the_score_is_never_replaced_by_a_task_that_is_left_out() -> None:
    """A skipped task registers as well, and the node would not be brought back."""
    found = [task for path in TASKS.glob("tournament*.yml") for task in flat(load(path.name))]
    registered = [task for task in found if task.get("register") in ("tournament", "tournament_noted")]
    assert len(registered) >= 5
    assert [task["name"] for task in registered if "when" in task] == []


def test_going_back_has_all_settings_of_the_switch_that_a_deployment_has() -> None:
    module = "modelops.vllm.vllm_switch"
    (back,) = [task[module] for task in flat(load("tournament_back.yml")) if module in task]
    tasks = flat(yaml.safe_load((ROOT / "roles/serve/tasks/switch.yml").read_text()))
    (deployed,) = [task["module_defaults"][module] for task in tasks if "module_defaults" in task]
    assert set(deployed) <= set(back)

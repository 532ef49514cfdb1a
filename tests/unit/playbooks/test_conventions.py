# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that all roles and playbooks keep, each from a published report of what goes wrong without it."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml
from jinja2 import nodes

from tests.support.plays import ROOT, Task, definitions, expressions, parse, tasks

TASKS = tasks()
DEFINED = definitions()

# Filters and tests that make a boolean of anything.
_BOOLEAN_FILTERS = {"bool", "ansible.builtin.bool"}
# Booleans that modules, filters and Ansible itself return.
_BOOLEAN_NAMES = {"ansible_check_mode", "ansible_diff_mode"}
_BOOLEAN_KEYS = {"changed", "exists", "installed", "isdir", "passed", "ready", "valid", "taken", "Running"}


def is_boolean(node: nodes.Node | None) -> bool:
    """Whether a condition is true or false by itself. core 2.19 refuses any other, older ones guess."""
    if isinstance(node, (nodes.Compare, nodes.Test, nodes.Not)):
        return True
    if isinstance(node, (nodes.And, nodes.Or)):
        return is_boolean(node.left) and is_boolean(node.right)
    if isinstance(node, nodes.CondExpr):
        return is_boolean(node.expr1) and is_boolean(node.expr2)
    if isinstance(node, nodes.Const):
        return isinstance(node.value, bool)
    if isinstance(node, nodes.Filter):
        # default(x) hands on what stands before it.
        return node.name in _BOOLEAN_FILTERS or (
            node.name == "default" and is_boolean(node.node) and bool(node.args) and is_boolean(node.args[0])
        )
    if isinstance(node, nodes.Name):
        return node.name in _BOOLEAN_NAMES or _defined_as_boolean(node.name)
    return isinstance(node, nodes.Getattr) and node.attr in _BOOLEAN_KEYS


def _defined_as_boolean(name: str) -> bool:
    """Whether a private variable of a role or task is one expression, and that is a boolean."""
    texts = [re.fullmatch(r"{{(.*)}}", str(value).strip(), re.DOTALL) for value in DEFINED.get(name, [])]
    return (
        name.startswith("_") and bool(texts) and all(x and "{{" not in x[1] and is_boolean(parse(x[1])) for x in texts)
    )


@pytest.mark.parametrize(
    ("condition", "good"),
    [
        pytest.param("my_list", False, id="C01-list"),
        pytest.param("my_list | length > 0", True, id="C01-length"),
        pytest.param("my_dict.key | default('')", False, id="C01-default"),
        pytest.param("_r.rc == 0", True, id="C01-compare"),
        pytest.param("my_list | length", False, id="a number"),
        pytest.param("my_list | length > 0 and my_text", False, id="half"),
        pytest.param("a is defined or b | bool", True, id="both"),
        pytest.param("not my_list", True, id="not is a boolean"),
        pytest.param("x | default(false)", False, id="the default is one, x may be a text"),
        pytest.param("r.stat.exists | default(false)", True, id="both are"),
        pytest.param("'text' if a is defined else true", False, id="a text in one case"),
        pytest.param("true", True, id="constant"),
    ],
)
def test_what_is_a_boolean(condition: str, good: bool) -> None:
    assert is_boolean(parse(condition)) is good


@pytest.mark.case("C01")
def test_every_condition_is_a_boolean() -> None:
    """core 2.19 stops where a condition is a list, a text or a number; before, a filled text was true."""
    conditions = [(task.name, c) for task in TASKS for c in task.conditions()]
    assert len(conditions) > 100
    bare = [f"{name}: {c}" for name, c in conditions if not isinstance(c, bool) and not is_boolean(parse(str(c)))]
    assert bare == []


def user_booleans() -> set[str]:
    """The variables of the roles that are booleans, which AWX sends as texts."""
    found = set()
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            found |= {k for k, v in (entry.get("options") or {}).items() if v.get("type") == "bool"}
    return found


def bare_booleans(node: nodes.Node | None, names: t.Collection[str], *, decides: bool = False) -> list[str]:
    """The names that decide something in an expression without having gone through ``bool``: 'false' would be true."""
    if node is None:
        return []
    if isinstance(node, nodes.Name):
        return [node.name] if decides and node.name in names else []
    if isinstance(node, nodes.Filter) and node.name in _BOOLEAN_FILTERS:
        return []
    if isinstance(node, nodes.Filter) and node.name == "default":
        return bare_booleans(node.node, names, decides=decides)
    if isinstance(node, (nodes.And, nodes.Or)):
        return bare_booleans(node.left, names, decides=True) + bare_booleans(node.right, names, decides=True)
    if isinstance(node, nodes.Not):
        return bare_booleans(node.node, names, decides=True)
    if isinstance(node, nodes.CondExpr):
        parts = bare_booleans(node.expr1, names) + bare_booleans(node.expr2, names)
        return parts + bare_booleans(node.test, names, decides=True)
    return [name for child in node.iter_child_nodes() for name in bare_booleans(child, names)]


@pytest.mark.parametrize(
    ("expression", "bare"),
    [
        pytest.param("vllm_enable_expert_parallel", ["vllm_enable_expert_parallel"], id="C04-bare"),
        pytest.param("vllm_trust_remote_code | bool", [], id="C04-bool"),
        pytest.param("'a' if vllm_autostart else 'b'", ["vllm_autostart"], id="C04-if"),
        pytest.param("not vllm_autostart and x is defined", ["vllm_autostart"], id="C04-not"),
        pytest.param("vllm_autostart | default(true)", ["vllm_autostart"], id="C04-default"),
    ],
)
def test_what_is_a_bare_boolean(expression: str, bare: list[str]) -> None:
    names = {"vllm_enable_expert_parallel", "vllm_trust_remote_code", "vllm_autostart"}
    assert bare_booleans(parse(expression), names, decides=True) == bare


@pytest.mark.case("C04")
def test_no_boolean_of_a_user_decides_as_a_text() -> None:
    """A survey has no booleans: 'false' and 'no' come as texts, which are true unless they go through bool."""
    names = user_booleans()
    assert {"serve_start", "weights_offline", "preflight_p2p_test"} <= names
    asked = [(task.name, str(c), True) for task in TASKS for c in task.conditions()]
    asked += [(str(path.relative_to(ROOT)), text, False) for path, text in expressions()]
    bare = [f"{where}: {text}" for where, text, decides in asked if bare_booleans(parse(text), names, decides=decides)]
    assert bare == []


@pytest.mark.case("C08", "C09")
def test_no_task_polls_a_job_by_hand() -> None:
    """async_status loses a job whose folder or user differs, and takes one that outlived its limit for running.

    Long jobs are modules with a state of their own, which a second run takes up, and which their action plugin watches.
    """
    by_hand = [t_.name for t_ in TASKS if {"async", "poll"} & set(t_.body) or t_.module("ansible.builtin.async_status")]
    assert by_hand == []


@pytest.mark.case("C10")
def test_what_only_reads_runs_in_check_mode_too() -> None:
    """A command that check mode skips leaves nothing for the tasks that read its result, so they must bear that."""
    commands = ("ansible.builtin.command", "ansible.builtin.raw", "ansible.builtin.shell", "ansible.builtin.uri")
    asked = [task for task in TASKS if task.module(*commands)]
    assert len(asked) >= 3
    wrong = []
    for task in asked:
        if task.body.get("changed_when") is not False:  # it changes something, and says so by itself or by `creates`
            wrong += [task.name] * (task.body.get("check_mode") is False)
        elif task.body.get("check_mode") is not False:
            wrong += [reader.name for reader in _readers(task) if not re.search(r"default\(|skipped", str(reader.body))]
    assert wrong == []


def _readers(task: Task) -> list[Task]:
    name = task.body.get("register")
    same = [other for other in TASKS if other.path.parent == task.path.parent and other is not task]
    return [other for other in same if name and re.search(rf"\b{name}\b", str(other.body))]


@pytest.mark.case("C12")
def test_pip_never_touches_the_python_of_the_system() -> None:
    """Debian 12 and Ubuntu 24.04 refuse that, and are right."""
    pips = [task for task in TASKS if task.module("ansible.builtin.pip")]
    command = "ansible.builtin.command"
    commands = [x for x in TASKS if re.search(r"\bpip\b", str((x.module(command) or {}).get("argv")))]
    assert pips
    assert commands
    for task in pips:
        arguments = task.module("ansible.builtin.pip") or {}
        assert arguments.get("virtualenv"), task.name
        assert "executable" not in arguments, task.name
    for task in commands:
        assert "_venv ~ '/bin/pip'" in str(task.module(command)), f"{task.name} names no virtual environment"
    text = "".join(p.read_text() for p in ROOT.glob("roles/**/*.yml"))
    assert "break-system-packages" not in text
    assert "EXTERNALLY-MANAGED" not in text
    # What makes virtual environments is there before the first one is made.
    for role in {task.path.relative_to(ROOT).parts[1] for task in pips + commands}:
        files = "".join(p.read_text() for p in sorted((ROOT / "roles" / role / "tasks").glob("*.yml")))
        assert 0 < files.index("python3-venv") < files.rindex("pip"), role


@pytest.mark.case("C15")
def test_no_loop_shows_a_secret() -> None:
    """A loop prints its items, and an assert in it prints them again, whatever its label says."""
    secrets = set()
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            secrets |= {k for k, v in (entry.get("options") or {}).items() if v.get("no_log")}
    assert {"serve_api_key", "serve_secret_env", "weights_token", "benchmark_api_key"} <= secrets
    wrong = []
    for task in TASKS:
        looped = str({k: v for k, v in task.body.items() if k in ("loop", "vars") or k.startswith("with_")})
        if any(re.search(rf"\b{name}\b", looped) for name in secrets) and "loop" in task.body:
            wrong += [task.name] * (task.body.get("no_log") is not True)
        shown = str(task.module("ansible.builtin.debug") or "") + str(task.module("ansible.builtin.assert") or {})
        # The length of a secret, or whether there is one, is none.
        plain = re.sub(r"\b\w+ \| (string \| )?length\b|\b\w+ is (not )?\w+", "", shown)
        wrong += [task.name for name in secrets if re.search(rf"{{{{[^}}]*\b{name}\b", plain)]
    assert wrong == []


@pytest.mark.case("C17")
def test_systemd_is_the_first_process_of_every_node() -> None:
    """A container whose command is replaced has no systemd, and each unit test in it says something about nothing."""
    start = yaml.safe_load((ROOT / "tests/support/nodes/start.yml").read_text())
    container = next(
        x["containers.podman.podman_container"] for x in start if "containers.podman.podman_container" in x
    )
    assert container["command"] == "{{ item.command | default('/sbin/init') }}"
    assert container["systemd"] == "{{ 'false' if item.command is defined else 'always' }}"
    wait = next(x for x in start if "systemctl is-system-running" in str(x.get("ansible.builtin.command")))
    assert wait["until"] == "nodes_systemd.stdout in ['running', 'degraded']"
    assert wait["loop"] == "{{ nodes | rejectattr('command', 'defined') }}"
    for path in ROOT.glob("molecule/*/molecule.yml"):
        platforms = yaml.safe_load(path.read_text())["platforms"]
        nodes_ = [p for p in platforms if "command" not in p]
        assert nodes_, f"{path.parent.name} has no node with systemd"
        # Only plain servers, which no role is run on, have a command of their own.
        assert not [p["name"] for p in platforms if "command" in p and p.get("groups")]


@pytest.mark.case("C06")
def test_awx_finds_the_collections_that_the_playbooks_need() -> None:
    """It reads collections/requirements.yml at project sync, and nothing of that kind below roles/."""
    assert not (ROOT / "roles" / "requirements.yml").exists()
    (entry,) = yaml.safe_load((ROOT / "collections" / "requirements.yml").read_text())["collections"]
    assert entry == {"source": ".", "type": "dir"}
    used = {
        ".".join(module.split(".")[:2])
        for task in TASKS
        for module in task.body
        if module.count(".") >= 2 and not module.startswith(("ansible.builtin.", "modelops.vllm."))
    }
    assert used == set(), "a collection that requirements.yml does not bring"
    guide = (ROOT / "docs/docsite/rst/guide_awx.rst").read_text()
    assert "Galaxy credential" in guide
    assert (ROOT / "meta" / "execution-environment.yml").exists()


PLAYBOOKS = sorted(path.name for path in (ROOT / "playbooks").glob("*.yml"))


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_each_playbook_takes_the_answers_of_a_survey_first(playbook: str) -> None:
    """Without it an answer such as survey_serve_instance is dropped in silence, and another instance is meant."""
    plays = yaml.safe_load((ROOT / "playbooks" / playbook).read_text())
    if [play for play in plays if "ansible.builtin.import_playbook" in play]:
        assert {play["ansible.builtin.import_playbook"] for play in plays} <= set(PLAYBOOKS)
        return
    for play in plays:
        first = (play.get("pre_tasks") or play["tasks"])[0]["ansible.builtin.import_tasks"]
        assert first in ("tasks/survey.yml", "tasks/profiles.yml")
    (survey, *_rest) = yaml.safe_load((ROOT / "playbooks/tasks/profiles.yml").read_text())
    assert survey["ansible.builtin.import_tasks"] == "survey.yml"


def test_a_rollback_has_all_settings_of_the_switch_that_a_deployment_has() -> None:
    """What is left out has the default of the module: a rollback must not remove releases that are kept on purpose."""
    module = "modelops.vllm.vllm_switch"
    (deployed,) = [d[module] for task in TASKS if module in (d := task.body.get("module_defaults", {}))]
    (back,) = [a for task in TASKS if (a := task.module(module)) and a.get("state") == "rolled_back"]
    assert back.keys() - {"state"} == deployed.keys()

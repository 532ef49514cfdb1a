# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job templates and surveys are what AWX takes, and ask for variables that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from pathlib import Path

import ansible_collections.awx.awx.plugins.modules as awx_modules
import pytest
import yaml

from tests.support import profiles

ROOT = Path(__file__).parents[3]
DATA = yaml.safe_load((ROOT / "awx" / "job_templates.yml").read_text())
TEMPLATES = {x["name"]: x for x in DATA["awx_job_templates"]}
QUESTIONS = [(name, q) for name, x in TEMPLATES.items() for q in x["survey_spec"]["spec"]]
ROLES = {
    name: option
    for path in ROOT.glob("roles/*/meta/argument_specs.yml")
    for name, option in yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"].items()
}
# The answers that tasks/survey.yml takes.
(SURVEY,) = re.findall(r"varnames', '(.+?)'", (ROOT / "playbooks/tasks/survey.yml").read_text())
# What AWX knows: main/models/mixins.py and api/views, "survey_spec".
TYPES = {"text", "textarea", "password", "integer", "float", "multiplechoice", "multiselect"}


def test_every_task_that_operators_have_is_a_template():
    playbooks = {Path(x["playbook"]).stem for x in TEMPLATES.values()}
    assert playbooks == {"plan", "download", "deploy", "benchmark", "tournament", "rollback", "status", "stop"}
    assert all((ROOT / x["playbook"]).exists() for x in TEMPLATES.values())


@pytest.mark.parametrize(("template", "question"), QUESTIONS, ids=[f"{n}: {q['variable']}" for n, q in QUESTIONS])
def test_a_question_is_one_that_awx_takes(template: str, question: dict[str, t.Any]):
    required = {"variable", "question_name", "question_description", "type", "required", "default"}
    assert required <= set(question) <= required | {"choices", "min", "max"}
    assert question["type"] in TYPES
    assert isinstance(question["required"], bool)
    if question["type"] == "multiplechoice":
        assert all(isinstance(choice, str) for choice in question["choices"]), "a survey has no booleans"
        # AWX refuses a default, and a blank answer, that is none of the choices.
        assert question["default"] in question["choices"]
        assert question["required"] or "" in question["choices"] or question["default"] != ""
    else:
        assert "choices" not in question
    if question["type"] == "integer":
        assert question["default"] == "" or question["min"] <= question["default"] <= question["max"]
    assert not (question["required"] and question["default"] == "")


@pytest.mark.parametrize(("template", "question"), QUESTIONS, ids=[f"{n}: {q['variable']}" for n, q in QUESTIONS])
def test_a_question_asks_for_a_variable_that_exists(template: str, question: dict[str, t.Any]):
    """Blank answers for roles are dropped by tasks/survey.yml; the playbooks drop those for themselves."""
    variable = question["variable"]
    if variable.startswith("survey_"):
        assert re.search(SURVEY, variable)
        text = (ROOT / TEMPLATES[template]["playbook"]).read_text()
        assert "tasks/profiles.yml" in text or "tasks/survey.yml" in text
    if variable.startswith("survey_") and variable.removeprefix("survey_") in ROLES:
        option = ROLES[variable.removeprefix("survey_")]
        # A text may be a number that can be left out, as serve_max_model_len.
        plain = {"password"} if option.get("no_log") else {"text", "integer"}
        assert question["type"] in {"int": {"integer"}, "bool": {"multiplechoice"}}.get(option["type"], plain)
        return
    files = [ROOT / TEMPLATES[template]["playbook"], *(ROOT / "playbooks" / "tasks").glob("*.yml")]
    text = "".join(f.read_text() for f in files)
    bears_a_blank = rf"\b{variable.removeprefix('survey_')} \| default\(.*, true\)"
    assert re.search(bears_a_blank, re.sub(r"(?m)^\s*#.*$", "", text)), f"no playbook takes {variable}"


def test_what_an_inventory_may_say_is_asked_for_with_the_prefix():
    """A blank answer is an extra variable, and would win over the inventory."""
    asked = {q["variable"] for _name, q in QUESTIONS}
    assert not asked & {"hardware_profile", *ROLES}


def test_the_choices_are_the_profiles():
    hardware = ["", *profiles.load("hardware")]
    models = profiles.load("models")
    served = [name for name, model in models.items() if "download_only" not in model]
    for name, template in TEMPLATES.items():
        for question in template["survey_spec"]["spec"]:
            if question["variable"] == "survey_hardware_profile":
                assert question["choices"] == hardware
            if question["variable"] == "model_profile":
                assert question["choices"] == (list(models) if name == "vLLM download" else served)


def test_configure_gives_the_modules_what_they_take():
    """The options of awx.awx, by its own documentation."""
    (play,) = yaml.safe_load((ROOT / "awx" / "configure.yml").read_text())
    folder = Path(next(iter(awx_modules.__path__)))
    called = [(key, task[key]) for task in play["tasks"] for key in task if key.startswith("awx.awx.")]
    assert [name for name, _arguments in called] == [
        f"awx.awx.{x}" for x in ("execution_environment", "project", "job_template")
    ]
    for name, arguments in called:
        source = (folder / f"{name.rpartition('.')[2]}.py").read_text()
        known = yaml.safe_load(re.split(r"DOCUMENTATION = r?'''", source)[1].split("'''")[0])["options"]
        assert set(arguments) <= set(known) | {"organization"}, name
    (template,) = (arguments for name, arguments in called if name.endswith("job_template"))
    asked = set(re.findall(r"item\.(\w+)", str(template)))
    assert all(set(x) == asked for x in TEMPLATES.values())


@pytest.mark.slow
def test_an_execution_environment_can_be_made(tmp_path: Path):
    builder = Path(sys.executable).parent / "ansible-builder"
    command = [
        builder,
        "create",
        "-f",
        str(ROOT / "awx" / "execution-environment.yml"),
        "-c",
        str(tmp_path / "context"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    made = (tmp_path / "context" / "Containerfile").read_text()
    assert 'ARG ANSIBLE_INSTALL_REFS="ansible-core>=2.19,<2.20 ansible-runner>=2.4,<3"' in made
    assert "sshpass" in (tmp_path / "context" / "_build" / "bindep.txt").read_text()


@pytest.mark.slow
def test_the_collection_asks_an_execution_environment_for_nothing(tmp_path: Path):
    place = tmp_path / "ansible_collections" / "modelops"
    place.mkdir(parents=True)
    (place / "vllm").symlink_to(ROOT)
    builder = Path(sys.executable).parent / "ansible-builder"
    done = subprocess.run([builder, "introspect", tmp_path], capture_output=True, text=True, check=True)
    assert yaml.safe_load(done.stdout) == {"python": [], "system": []}

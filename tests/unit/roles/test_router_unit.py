# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that the role router describes, and what its entry for the role serve leaves alone."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.modelops.vllm.plugins.filter.router_argv import router_argv
from ansible_collections.modelops.vllm.plugins.filter.unit_file import unit_file
from jinja2 import Environment

ROLE = Path(__file__).parents[3] / "roles" / "router"


def read(path: str) -> t.Any:
    return yaml.safe_load((ROLE / path).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def variables() -> dict[str, t.Any]:
    return read("vars/main.yml")


def test_it_comes_back_for_as_long_as_its_backends_load(variables: dict[str, t.Any]) -> None:
    sections = variables["__router_unit_sections"]
    assert sections["Service"]["Restart"] == "always"
    assert sections["Service"]["RestartPreventExitStatus"] == 2
    assert sections["Unit"]["StartLimitIntervalSec"] == 0


def test_another_version_is_another_unit(variables: dict[str, t.Any]) -> None:
    assert "__router_version" in variables["__router_unit_sections"]["Unit"]["Description"]


def test_the_key_is_in_nothing_that_makes_the_unit(variables: dict[str, t.Any]) -> None:
    assert "api_key" not in str(variables)


def test_the_unit_is_one_that_systemd_reads(variables: dict[str, t.Any]) -> None:
    names = set(variables["__router_options"]) - {"args"}
    assert names == {"host", "port", "policy", "metrics_host", "metrics_port", "health_interval", "startup_timeout"}
    options = {"host": "::1", "port": 8000, "policy": "cache_aware", "metrics_host": "::1", "metrics_port": 29000,
               "health_interval": 10, "startup_timeout": 3600}  # fmt: skip
    words = router_argv(["http://[::1]:8001"], **options, args=variables["__router_said_args"])
    text = unit_file(variables["__router_unit_sections"], ["/r/bin/vllm-router", *words], variables["__router_env"])
    assert "CapabilityBoundingSet=\n" in text  # empty: none, and not the default
    assert 'ExecStart=/r/bin/vllm-router --worker-urls "http://[::1]:8001" --host=::1 --port=8000' in text
    assert "--worker-startup-check-interval=5" in text


def test_preparing_touches_nothing_that_runs() -> None:
    """The role serve calls it while the old release serves."""
    files = ["prepare.yml", "port.yml", "install.yml"]
    modules = {key for name in files for task in read(f"tasks/{name}") for key in task if "." in key}
    assert modules == {
        "ansible.builtin.assert",
        "ansible.builtin.command",
        "ansible.builtin.debug",
        "ansible.builtin.import_tasks",
        "ansible.builtin.include_tasks",
        "ansible.builtin.package",
        "modelops.vllm.vllm_port_info",
    }


def test_what_is_asked_is_asked_in_check_mode_too() -> None:
    for name in ("prepare.yml", "port.yml"):
        for task in read(f"tasks/{name}"):
            if "ansible.builtin.command" in task or "modelops.vllm.vllm_port_info" in task:
                assert task["check_mode"] is False, task["name"]


def test_each_version_has_a_virtual_environment_of_its_own() -> None:
    defaults = read("defaults/main.yml")
    assert defaults["router_venv"] == "/opt/vllm-router-{{ router_requirement | split('==') | last }}"
    assert defaults["router_requirement"].startswith("vllm-router==")


@pytest.mark.parametrize(
    ("install", "rc", "found", "refused", "installs"),
    [
        pytest.param("true", 0, "0.1.17", False, False, id="the wanted one"),
        pytest.param("true", 0, "0.1.16", True, False, id="another one"),
        pytest.param("false", 0, "0.1.16", False, False, id="another one, which is not to be changed"),
        pytest.param("true", 1, "", False, True, id="none"),
        pytest.param("true", 2, "", False, True, id="no environment"),
    ],
)
def test_an_environment_is_made_and_never_changed(
    install: str, rc: int, found: str, refused: bool, installs: bool
) -> None:
    tasks = {task["name"]: task for task in read("tasks/prepare.yml")}
    environment = Environment()
    environment.filters["bool"] = boolean
    given = {"router_install": install, "router_found": {"rc": rc, "stdout": found}, "__router_version": "0.1.17"}

    def holds(condition: str) -> bool:
        return bool(environment.compile_expression(condition)(**given))

    stop = tasks["Prepare | Stop when it is another version than the wanted one"]
    assert holds(stop["ansible.builtin.assert"]["that"]) is not refused
    assert holds(tasks["Prepare | Install the wanted version"]["when"]) is installs

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles preflight and serve say of a group of nodes to the modules and filters that judge it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml

ROLES = Path(__file__).parents[3] / "roles"


def load(path: str) -> t.Any:
    return yaml.safe_load((ROLES / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("variables", "pinned"),
    [({}, False), ({"serve_nodes_group": ""}, False), ({"serve_nodes_group": "engine"}, True)],
)
def test_preflight_knows_the_hosts_whose_ranks_the_role_serve_pins(variables: dict[str, str], pinned: bool) -> None:
    text = load("preflight/vars/main.yml")["__preflight_pinned"].removeprefix("{{ ").removesuffix(" }}")
    known = {"inventory_hostname": "gpu-0", "groups": {"engine": ["gpu-0", "gpu-1"]}, **variables}
    assert jinja2.Environment().compile_expression(text)(known) is pinned
    calls = [task.get("modelops.vllm.preflight_info") for task in load("preflight/tasks/host.yml")]
    assert [call["pinned"] for call in calls if call] == ["{{ __preflight_pinned }}"]


def test_the_port_of_the_clients_is_judged_with_those_between_the_nodes() -> None:
    ports = load("serve/vars/main/nodes.yml")["__serve_ports"]
    assert ports == {
        "master": "{{ serve_master_port }}",
        "rpc": "{{ serve_rpc_port }}",
        "board": "{{ serve_group_port }}",
        "serve": "{{ serve_port }}",
    }


def test_the_environment_of_the_user_is_judged_for_its_host() -> None:
    said = load("serve/vars/main/nodes.yml")["__serve_said"]
    assert said["host"] == "{{ inventory_hostname }}"
    assert said["env"] == "{{ serve_profile_env | combine(serve_env) }}"

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role documents is what it does: its argument spec against its defaults and its playbooks."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ROLES = sorted(p.parent.name for p in (ROOT / "roles").glob("*/meta"))


def defaults(role: str) -> dict[str, t.Any]:
    return yaml.safe_load((ROOT / "roles" / role / "defaults/main.yml").read_text())


def options(role: str) -> dict[str, t.Any]:
    spec = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text())
    return spec["argument_specs"]["main"]["options"]


def test_there_are_roles() -> None:
    assert ROLES == ["benchmark", "monitoring", "preflight", "router", "serve", "weights"]


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_documented_and_carries_the_prefix_of_its_role(role: str) -> None:
    assert sorted(options(role)) == sorted(defaults(role))
    assert [name for name in defaults(role) if not name.startswith(f"{role}_")] == []


@pytest.mark.parametrize("role", ROLES)
def test_the_documented_defaults_are_the_defaults(role: str) -> None:
    actual = defaults(role)
    documented = {name: o["default"] for name, o in options(role).items() if "default" in o}
    assert documented == {name: actual[name] for name in documented}
    # A spec cannot show a template as the default of a number, a list or a dictionary: only these may lack one.
    for name in actual.keys() - documented.keys():
        assert isinstance(actual[name], str), name
        assert "{{" in actual[name], name
        assert options(role)[name]["type"] not in ("str", "path"), name


@pytest.mark.parametrize("role", ROLES)
def test_no_default_needs_a_profile(role: str) -> None:
    """vllm_model and vllm_hardware may be missing: each use has something to fall back on."""
    text = (ROOT / "roles" / role / "defaults/main.yml").read_text()
    for template in re.findall(r"\{\{.*?\}\}", text):
        if "vllm_model" in template or "vllm_hardware" in template:
            assert "default(" in template, template


@pytest.mark.parametrize("kind", ["models", "hardware"])
def test_a_profile_is_one_dictionary_named_like_its_file(kind: str) -> None:
    variable = {"models": "vllm_model", "hardware": "vllm_hardware"}[kind]
    profiles = sorted((ROOT / "playbooks/vars" / kind).glob("*.yml"))
    assert profiles
    for path in profiles:
        data = yaml.safe_load(path.read_text())
        assert list(data) == [variable], path
        assert data[variable]["name"] == path.stem

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of hf_mirror, and how its failures look."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.basic import AnsibleModule

TOKEN = "0neT1meT0kenOfThisTest"
UNIT = "modelops-mirror-0123456789ab.service"

Run = t.Callable[..., t.Any]


def test_a_folder_without_a_snapshot(run_module: Run, tmp_path: Path) -> None:
    result = run_module("hf_mirror", {"dest": str(tmp_path), "token": TOKEN, "address": "127.0.0.1"})
    assert result.rc == 1
    assert "holds no snapshot that was verified" in result["msg"]
    assert "Run hf_snapshot" in result["msg"]
    assert TOKEN not in str(result)


@pytest.mark.parametrize(
    ("params", "missing"),
    [({"dest": "/srv/m"}, "token"), ({"token": TOKEN}, "dest"), ({"state": "stopped"}, "unit")],
)
def test_what_a_state_needs(run_module: Run, params: dict[str, t.Any], missing: str) -> None:
    result = run_module("hf_mirror", params)
    assert result.rc == 1
    assert f"but all of the following are missing: {missing}" in result["msg"]


def test_a_relative_folder(run_module: Run) -> None:
    result = run_module("hf_mirror", {"dest": "models", "token": TOKEN})
    assert "dest is 'models', which is not an absolute path" in result["msg"]


def test_stopping_what_has_ended_changes_nothing(run_module: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def run_command(self: AnsibleModule, command: list[str]) -> tuple[int, str, str]:
        ran.append(command)
        return 0, "inactive\n", ""

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda self, name, required: f"/usr/bin/{name}")
    result = run_module("hf_mirror", {"state": "stopped", "unit": UNIT})
    assert (result.rc, result["changed"], result["unit"]) == (0, False, UNIT)
    assert ran == [["/usr/bin/systemctl", "show", "--property=ActiveState", "--value", UNIT]]

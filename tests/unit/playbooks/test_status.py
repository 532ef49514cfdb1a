# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""status.yml and stop.yml as AWX runs them on nodes that have nothing yet. molecule/monitoring has those that serve."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


@pytest.fixture
def play(tmp_path: Path) -> t.Callable[..., tuple[int, str]]:
    """A function that runs a playbook on this machine and, before it, on a node that cannot be reached."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    gone = {"ansible_connection": "containers.podman.podman", "ansible_host": "modelops-no-such-container"}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"vllm_nodes": {"hosts": {"gone": gone, "here": here}}}), encoding="utf-8")

    def run(playbook: str, *arguments: str, **extra: t.Any) -> tuple[int, str]:
        extra |= {"serve_state_dir": str(tmp_path / "state")}
        command = [Path(sys.executable).parent / "ansible-playbook", "-i", str(inventory), f"playbooks/{playbook}"]
        done = subprocess.run(
            [*command, *arguments, "-e", json.dumps(extra)],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json", "ANSIBLE_NOCOLOR": "1"},
            text=True,
            capture_output=True,
            timeout=180,
            check=False,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


def test_a_node_that_cannot_be_reached_is_a_row_and_no_failure(play: t.Callable[..., tuple[int, str]]) -> None:
    code, output = play(
        "status.yml", "--check", vllm_hosts="", status_instances="", status_sample_seconds=None, status_timeout=""
    )
    assert code == 0, output
    assert '"gone - unreachable' in output
    assert '"here - no-instance' in output
    assert output.count("Status | Show the table") == 1


def test_what_cannot_be_read_is_told_in_the_table(play: t.Callable[..., tuple[int, str]]) -> None:
    code, output = play("status.yml", "--limit", "here", status_timeout="0")
    assert code == 0, output
    assert '"here - not-readable' in output
    assert "here: timeout is 0; it must be from 1 to 600 seconds." in output


@pytest.mark.parametrize("extra", [{"stop_all": "", "serve_instance": None}, {"stop_all": "true"}])
def test_a_bare_node_has_nothing_to_stop(play: t.Callable[..., tuple[int, str]], extra: dict[str, t.Any]) -> None:
    code, output = play("stop.yml", "--check", "--limit", "here", **extra)
    assert code == 0, output
    assert "There is nothing to stop." in output
    assert "changed=0" in output

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""deploy.yml refuses before the switch what the role monitoring would refuse after it. No instance runs yet."""

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


# What each node says about itself, and in what words it is refused.
REFUSED: dict[str, tuple[dict[str, t.Any], str]] = {
    "loopback": ({}, "what listens on loopback: main (127.0.0.1) of loopback."),
    "replicas": (
        {"serve_host": "0.0.0.0", "serve_layout": "tp4-r2", "monitoring_targets": {"main-r0": "proxy:1"}},
        "what listens on loopback: main-r1 (127.0.0.1) of replicas.",
    ),
    "tunnel": ({"serve_host": "0.0.0.0", "monitoring_address": "localhost"}, "would look for tunnel on that host"),
    "alerts": ({"monitoring_prometheus_rules_dir": "/x", "monitoring_alerts": {"X": False}}, "There is no alert 'X'"),
}
PASSED: dict[str, dict[str, t.Any]] = {
    "all-addresses": {"serve_host": "0.0.0.0"},
    "no-router": {"serve_layout": "tp4-r2", "serve_router": "false", "serve_host": "10.0.0.5"},
    "auto": {"monitoring_targets": {"main-r0": "proxy:1"}},  # whether it takes replicas is not known yet
    "several-nodes": {"serve_nodes_group": "engine"},
    "staged-only": {"serve_start": "false"},
    "on-the-node": {"monitoring_host": "{{ inventory_hostname }}"},
}


def deploy(tmp_path: Path, nodes: t.Mapping[str, dict[str, t.Any]]) -> tuple[int, str]:
    """(return code, output in one line) of what deploy.yml says about the monitoring by a Prometheus elsewhere."""
    common = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_host": "10.0.0.5",
        "ansible_python_interpreter": sys.executable,
        "monitoring_host": "localhost",
        "monitoring_state_dir": str(tmp_path / "state"),
        "monitoring_prometheus_file_sd_dir": str(tmp_path),
    }
    hosts = {name: {**common, **variables} for name, variables in nodes.items()}
    (tmp_path / "hosts.yml").write_text(json.dumps({"vllm_nodes": {"hosts": hosts}}))
    command = [Path(sys.executable).parent / "ansible-playbook", "-i", tmp_path / "hosts.yml", "--tags", "monitoring"]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections")}
    command.append(ROOT / "playbooks" / "deploy.yml")
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=300, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_what_prometheus_could_not_reach_or_read_ends_the_play_first(tmp_path: Path) -> None:
    code, output = deploy(tmp_path, {name: variables for name, (variables, _said) in REFUSED.items()})
    assert code == 2, output
    assert [said for _variables, said in REFUSED.values() if said not in output.replace("''", "'")] == []
    assert output.count("failed=1") == len(REFUSED)
    assert "Targets | Look at the instances" not in output


def test_what_it_reaches_or_may_reach_goes_on(tmp_path: Path) -> None:
    code, output = deploy(tmp_path, PASSED)
    assert code == 0, output
    assert sorted(path.name for path in tmp_path.glob("vllm-*.yml")) == sorted(f"vllm-{name}.yml" for name in PASSED)

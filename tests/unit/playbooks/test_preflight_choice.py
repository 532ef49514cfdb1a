# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role preflight lets pass what the role serve would deploy, and stops the rest before the download.

This machine is the node, with the mock of nvidia-smi that shows eight RTX PRO 6000.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MOCK = ROOT / "tests" / "support" / "fake_nvidia_smi"
pytestmark = pytest.mark.slow


def preflight(tmp_path, *profiles, **variables):
    """(return code, output) of the role with profiles such as models/kimi_k2_5; the output is one line."""
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "preflight_nvidia_smi": str(MOCK),
        "preflight_vllm_bin": "/nonexistent/vllm",
        "preflight_weights_dest": str(tmp_path / "weights"),
        "preflight_port": 18999,
    }
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"node": host}}}))
    play = {"hosts": "node", "gather_facts": False, "roles": ["modelops.vllm.preflight"]}
    play["vars_files"] = [str(ROOT / "playbooks" / "vars" / f"{profile}.yml") for profile in profiles]
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    command = [Path(sys.executable).parent / "ansible-playbook", "-i", tmp_path / "hosts.yml", tmp_path / "play.yml"]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections")}
    command += ["-e", json.dumps(variables)]
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=120, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_without_a_valid_preferred_layout_the_planner_chooses(tmp_path):
    code, output = preflight(tmp_path, "models/minimax_m2_5", serve_preferred_layouts=["tp8"])
    assert code == 0, output
    assert "Valid layout: tp2-dp4-ep" in output
    code, output = preflight(tmp_path, "models/minimax_m2_5", serve_layout="tp8")
    assert code == 2
    assert "ERROR layout-invalid: None of the layouts can serve the model: tp8." in output


def test_a_model_that_fits_no_layout_is_refused_with_one_reason_of_each_kind(tmp_path):
    code, output = preflight(tmp_path, "models/glm_5_fp8", "hardware/rtx_pro_6000_x8")
    assert code == 2
    assert "ERROR layout-invalid" in output
    # Once where the play ends and once in the result of the task.
    assert output.count("Does not fit: ") in (1, 2), output


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        ({"preflight_vllm_version": "0.16.0"}, 2, "ERROR vllm-too-old: vLLM 0.16.0 is too old"),
        # The role serve would install it.
        ({"serve_vllm_requirement": "vllm==0.16.0"}, 2, "ERROR vllm-too-old: vLLM 0.16.0 is too old"),
        ({"serve_vllm_requirement": "vllm==0.16.0", "serve_engine": "podman"}, 0, "Valid layout: tp8"),
        ({"serve_vllm_requirement": "vllm==0.22.0"}, 0, "WARNING vllm-known-bad: vLLM 0.22.0"),
    ],
)
def test_the_version_of_vllm_is_judged_before_the_download(tmp_path, variables, code, said):
    done, output = preflight(tmp_path, "models/kimi_k2_5", "hardware/rtx_pro_6000_x8", **variables)
    assert done == code, output
    assert said in output


def test_a_machine_of_two_nodes_wants_a_group_of_two(tmp_path):
    hardware = {"name": "pair", "accelerator": "cuda", "nodes": 2, "gpus": {}, "serve_args": {}, "serve_env": {}}
    code, output = preflight(tmp_path, "models/llama_3_3_70b", vllm_hardware=hardware)
    assert code == 2
    assert "ERROR node-count: The hardware profile is 2 nodes with one engine, and the deployment spans 1." in output

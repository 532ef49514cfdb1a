# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""plan.yml as operators and AWX run it: without a node and without GPUs."""

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

PROFILES = {"model_profile": "minimax_m2_5", "hardware_profile": "rtx_pro_6000_x8", "plan_vllm_version": "0.26.0"}


def play(*arguments, **extra):
    """(return code, the messages of the table or the failure) of a run with these extra variables."""
    command = [
        Path(sys.executable).parent / "ansible-playbook",
        "playbooks/plan.yml",
        *arguments,
        "-e",
        json.dumps(extra),
    ]
    environment = {
        **os.environ,
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_profile_on_a_profile_in_check_mode():
    code, output = play("--check", **PROFILES)
    assert code == 0, output
    assert "*  tp2-dp4-ep" in output
    assert "tp8: FP8 blocks of 128 do not fit the experts: 1536/8 = 192 per rank" in output
    assert "changed=0" in output


def test_strings_blanks_and_nulls_of_a_survey():
    code, output = play(
        **PROFILES | {"hardware_profile": "h200_x2"},
        plan_live="false",
        plan_max_model_len="16384",
        plan_max_num_seqs="256",
        plan_layouts="tp2,tp1-dp2-ep",
        plan_objective="",
        plan_nodes=None,
        plan_kv_cache_dtype="",
        plan_gpu_memory_utilization=None,
        plan_model_dir="",
        plan_gpus=None,
        vllm_hosts="",
    )
    assert code == 0, output
    assert "159,248" in output
    assert "59,497" in output


@pytest.mark.parametrize("blank", ["", None])
def test_a_blank_answer_leaves_the_hardware_to_the_inventory(tmp_path, blank):
    inventory = tmp_path / "hosts.yml"
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "hardware_profile": "h200_x2"}
    inventory.write_text(json.dumps({"all": {"hosts": {"localhost": host}}}), encoding="utf-8")
    said = {"model_profile": "minimax_m2_5", "plan_layouts": "tp2"}
    code, output = play("-i", str(inventory), **said, survey_hardware_profile=blank)
    assert code == 0, output
    assert "107.25" in output  # GiB of weights on each of the two
    code, output = play("-i", str(inventory), **said, survey_hardware_profile="b200_x8")
    assert "*  tp2        2     6" in output, output  # of eight


def test_what_a_deployment_takes_is_said():
    """The profiles prefer another layout than the one with the best estimate."""
    code, output = play(model_profile="kimi_k2_5", hardware_profile="rtx_pro_6000_x8")
    assert code == 0, output
    assert "*  tp4-dp2-ep" in output
    assert "serve_layout: auto takes tp8, the first valid one that the profiles prefer." in output


@pytest.mark.parametrize(
    ("version", "code", "said"),
    [
        ("0.19.0", 2, "ERROR vllm-too-old: vLLM 0.19.0 is too old: the model needs 0.19.1 or newer."),
        ("0.22.0", 0, "WARNING vllm-known-bad: vLLM 0.22.0 is known to fail with this model: "),
    ],
)
def test_the_version_is_judged_after_the_layouts(version, code, said):
    done, output = play(model_profile="kimi_k2_5", hardware_profile="rtx_pro_6000_x8", plan_vllm_version=version)
    assert done == code, output
    assert said in output
    assert "*  tp4-dp2-ep" in output


def test_a_folder_that_no_profile_knows(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 48, "num_experts": 8}), encoding="utf-8")
    code, output = play(plan_model_dir=str(tmp_path), hardware_profile="b200_x8")
    assert code == 0, output
    assert "Not in the config: layers" in output


@pytest.fixture
def live(tmp_path):
    """Arguments of a run that asks a node, which is this machine."""
    node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"vllm_nodes": {"hosts": {"node": node}}}), encoding="utf-8")
    return "-i", str(inventory), "--check"


def test_a_node_is_asked_for_its_gpus(live):
    # The mock has eight cards; the two of the profile do not count then.
    code, output = play(*live, **PROFILES | {"hardware_profile": "h200_x2"}, plan_live="yes", plan_nvidia_smi=str(MOCK))
    assert code == 0, output
    assert "tp8-ep" in output
    assert "94.96 GiB x 0.92" in output


def test_a_node_without_gpus_is_no_plan(live, tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n", encoding="utf-8")
    smi.chmod(0o755)
    code, output = play(*live, **PROFILES, plan_live=True, plan_nvidia_smi=str(smi))
    assert code == 2
    assert "This node shows no GPU to plan for: No devices were found" in output


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({}, "There is no model or no GPU to plan for. Choose model_profile"),
        ({"model_profile": "minimax_m2_5"}, "There is no model or no GPU to plan for."),
        (
            {"model_profile": "glm_5_gguf", "hardware_profile": "rtx_pro_6000_x8"},
            "glm_5_gguf is for playbooks/download.yml only. vLLM does not serve GGUF files",
        ),
        ({"model_profile": "nothing"}, "model_profile=nothing is none of the profiles"),
        ({**PROFILES, "plan_layouts": ["tp8x"]}, "tp8x"),
        ({**PROFILES, "plan_objective": "fun"}, "value of objective must be one of"),
    ],
    ids=["nothing", "no GPUs", "download only", "unknown profile", "layout", "objective"],
)
def test_what_is_missing_or_wrong_is_named(extra, named):
    code, output = play(**extra)
    assert code == 2
    assert named in " ".join(output.split())

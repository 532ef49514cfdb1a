# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""layout_info as a module, and the profiles that stand on it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
import yaml
from ansible_collections.modelops.vllm.plugins.module_utils._planner.shape import ModelShape

VARS = Path(__file__).parents[4] / "playbooks" / "vars"


def profile(kind, name):
    return next(iter(yaml.safe_load((VARS / kind / f"{name}.yml").read_text(encoding="utf-8")).values()))


@pytest.fixture
def minimax():
    model, hardware = profile("models", "minimax_m2_5"), profile("hardware", "rtx_pro_6000_x8")
    return {"config": model["config"], "gpus": hardware["gpus"], "layouts": model["layouts"]}


def test_the_first_deployment(run_module, minimax):
    result = run_module("layout_info", {**minimax, "vllm_version": "0.26.0", "max_model_len": 196608}, check=True)
    assert (result.rc, result["changed"], result["first_valid"]) == (0, False, "tp8-ep")
    assert all(x["valid"] for x in result["layouts"])


def test_an_invalid_layout_is_a_result(run_module, minimax):
    result = run_module("layout_info", {**minimax, "layouts": ["tp8"], "vllm_version": "0.26.0+cu129"})
    assert (result.rc, result["layouts"][0]["valid"], result["recommended"]) == (0, False, None)


def test_awx_may_send_json(run_module, minimax):
    result = run_module("layout_info", {**minimax, "gpus": '{"count": "4", "memory_mib": "97887"}', "layouts": "tp4"})
    assert result["layouts"][0]["valid"] is True


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"layouts": ["tp8+ep"]}, "tp8+ep"),
        ({"vllm_version": "latest"}, "latest"),
        ({"gpus": []}, "empty list"),
    ],
)
def test_bad_input_fails_by_name(run_module, minimax, options, named):
    result = run_module("layout_info", {**minimax, **options})
    assert result.rc == 1
    assert named in result["msg"]


def test_a_model_is_needed_once(run_module):
    assert "one of the following is required" in run_module("layout_info", {"gpus": {"count": 1}})["msg"]
    both = {"config": {"a": 1}, "model_dir": "/tmp", "gpus": {"count": 1}}
    assert "mutually exclusive" in run_module("layout_info", both)["msg"]


def test_flags_reach_the_rules(run_module, minimax):
    flags = {"eplb": True, "redundant_experts": 1, "attention_backend": "FLASHMLA", "data_parallel_backend": "ray"}
    result = run_module("layout_info", {**minimax, **flags, "layouts": ["tp8-ep"], "nodes": 2})
    ids = {f["id"] for f in result["layouts"][0]["findings"]}
    assert {"eplb-uneven", "attention-backend", "dp-backend"} <= ids


def test_choices_are_checked(run_module, minimax):
    result = run_module("layout_info", {**minimax, "mm_encoder_tp_mode": "rows"})
    assert "value of mm_encoder_tp_mode must be one of: weights, data" in result["msg"]


def test_what_is_returned_is_documented(run_module, minimax):
    module = importlib.import_module("ansible_collections.modelops.vllm.plugins.modules.layout_info")
    returned = yaml.safe_load(module.RETURN)
    result = run_module("layout_info", minimax)
    assert set(result) - {"changed", "invocation"} == set(returned)
    assert set(result["layouts"][0]) == set(returned["layouts"]["contains"])
    assert set(result["recommendation"]) == set(returned["recommendation"]["contains"])


@pytest.mark.parametrize("path", sorted((VARS / "hardware").glob("*.yml")), ids=lambda p: p.stem)
def test_hardware_profiles_can_be_planned_with(run_module, minimax, path):
    hardware = profile("hardware", path.stem)
    assert hardware["name"] == path.stem
    result = run_module("layout_info", {"config": minimax["config"], "gpus": hardware["gpus"]})
    assert result.rc == 0
    assert "gpus-unknown" not in {f["id"] for f in result["findings"]}
    told = [f["message"] for f in result["findings"] if f["id"] == "recommendation-confidence"]
    assert not [m for m in told if "a usual" in m]  # the bandwidth is in the tables, the link is given


def test_the_profile_is_the_model_of_the_table(minimax, load_fixture):
    entry = next(m for m in json.loads(load_fixture("models.json"))["models"] if m["id"] == "MiniMaxAI/MiniMax-M2.5")
    assert ModelShape.from_config(minimax["config"]) == ModelShape.from_config(entry)
    assert profile("models", "minimax_m2_5")["disk_bytes"] == entry["weights_bytes_computed"]

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""preflight_info as a module, on this machine and with what the mock of nvidia-smi shows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

FAKE = str(Path(__file__).parents[3] / "support" / "fake_nvidia_smi")
CPU = {"accelerator": "cpu"}


def status(result):
    return {row["id"]: row["status"] for row in result["checks"]}


def test_a_node_without_gpus_and_without_a_service(run_module):
    result = run_module("preflight_info", CPU, check=True)
    assert (result.rc, result["changed"], result["passed"]) == (0, False, True)
    found = status(result)
    assert [found[id_] for id_ in ("gpus", "vram", "driver", "peer-access", "port", "disk", "tools")] == ["skipped"] * 7
    assert found["layout"] == "info"


@pytest.mark.slow
def test_eight_gpus_one_of_them_held(run_module, monkeypatch):
    monkeypatch.setenv("FAKE_NVIDIA_SMI_HOLDER", str(os.getpid()))
    shown = run_module("gpu_info", {"nvidia_smi": FAKE, "expected": {"count": 8}})
    options = {"gpu_info": dict(shown), "p2p_test": True, "vllm_bin": "/no/such/vllm"}
    result = run_module("preflight_info", options)
    assert (result["passed"], status(result)["vram"], status(result)["peer-access"]) == (False, "error", "warning")
    held = next(f for f in result["findings"] if f["id"] == "vram-held")
    assert (held["numbers"]["gpu"], held["numbers"]["processes"][0]["pid"]) == (0, os.getpid())
    again = run_module("preflight_info", {**options, "ignore": ["vram-held"]})
    assert (again["passed"], again["ignored"], status(again)["vram"]) == (True, ["vram-held"], "ignored")


@pytest.mark.slow
@pytest.mark.case("E07", "E08", "E09")
@pytest.mark.parametrize("mode", ["no_devices", "no_driver", "driver_mismatch", "gpu_lost"])
def test_a_broken_node_does_not_pass(run_module, monkeypatch, mode):
    monkeypatch.setenv("FAKE_NVIDIA_SMI_MODE", mode)
    shown = run_module("gpu_info", {"nvidia_smi": FAKE, "expected": {"count": 8}})
    result = run_module("preflight_info", {"gpu_info": dict(shown)})
    assert (result["passed"], status(result)["gpus"]) == (False, "error")


def test_what_the_version_of_vllm_and_the_number_of_nodes_say_counts(run_module):
    old = {"id": "vllm-too-old", "severity": "error", "message": "Too old.", "remedy": "", "numbers": {}}
    result = run_module("preflight_info", {**CPU, "vllm_findings": [old], "expected_nodes": 2})
    assert (result["passed"], status(result)["vllm"], status(result)["nodes"]) == (False, "error", "error")
    result = run_module("preflight_info", {**CPU, "vllm_findings": []})
    assert (result["passed"], status(result)["vllm"], status(result)["nodes"]) == (True, "ok", "skipped")


@pytest.mark.case("B16")
def test_b16_the_owner_of_a_port_stops_it(run_module):
    finding = {"id": "port-taken", "severity": "error", "message": "Taken by x (pid 7).", "remedy": "", "numbers": {}}
    result = run_module("preflight_info", {**CPU, "port_info": {"findings": [finding]}})
    assert (result["passed"], status(result)["port"]) == (False, "error")
    free = run_module("preflight_info", {**CPU, "port_info": {"findings": []}})
    assert (free["passed"], status(free)["port"]) == (True, "ok")


def test_an_unknown_id_is_an_error(run_module):
    result = run_module("preflight_info", {**CPU, "ignore": ["clock"]})
    assert result.rc == 1
    assert "'clock'" in result["msg"]
    assert "clock-unsynchronised" in result["msg"]


@pytest.mark.parametrize("options", [{"p2p_timeout": 0}, {"nodes": 0}])
def test_bad_numbers(run_module, options):
    result = run_module("preflight_info", {**CPU, **options})
    assert result.rc == 1
    assert "at least 1" in result["msg"]


def test_the_result_is_json_without_the_environment(run_module):
    result = run_module("preflight_info", {**CPU, "env": {"SOME_NAME": "not-to-be-shown-4711"}})
    del result["invocation"]  # what Ansible itself adds
    assert "not-to-be-shown-4711" not in json.dumps(result)

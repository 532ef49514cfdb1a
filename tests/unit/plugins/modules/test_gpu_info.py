# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info as a module, against the mock of nvidia-smi."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

FAKE = str(Path(__file__).parents[3] / "support" / "fake_nvidia_smi")
PROFILE = {"count": 8, "name": "NVIDIA RTX PRO 6000 Blackwell", "memory_mib": 97887, "compute_cap": "12.0"}


@pytest.mark.slow
def test_eight_rtx_pro_6000(run_module):
    result = run_module("gpu_info", {"nvidia_smi": FAKE, "expected": PROFILE}, check=True)
    assert (result.rc, result["changed"], result["status"], result["link"]) == (0, False, "ok", "pcie")
    assert len(result["gpus"]) == 8
    assert (result["topology"]["GPU0"]["GPU3"], result["topology"]["GPU0"]["GPU4"]) == ("NODE", "SYS")
    assert result["p2p"]["write"]["GPU7"]["GPU0"] == "OK"
    assert {g["bar1_mib"] for g in result["gpus"]} == {131072}
    assert (result["processes"], result["acs"]["bridges"]) == ([], {})
    assert not [f for f in result["findings"] if f["severity"] == "error"]


@pytest.mark.slow
def test_the_holder_of_memory_is_named(run_module, monkeypatch):
    monkeypatch.setenv("FAKE_NVIDIA_SMI_HOLDER", str(os.getpid()))
    result = run_module("gpu_info", {"nvidia_smi": FAKE})
    process = result["processes"][0]
    assert (process["pid"], process["gpu_index"], process["used_memory_mib"]) == (os.getpid(), 0, 90000)
    assert process["owner"] == pwd.getpwuid(os.getuid()).pw_name
    assert result["gpus"][0]["memory_free_mib"] == 7249


@pytest.mark.slow
@pytest.mark.case("E07", "E08", "E09")
@pytest.mark.parametrize("status", ["no_devices", "no_driver", "driver_mismatch", "gpu_lost"])
def test_faults_are_statuses(run_module, monkeypatch, status):
    monkeypatch.setenv("FAKE_NVIDIA_SMI_MODE", status)
    result = run_module("gpu_info", {"nvidia_smi": FAKE, "expected": PROFILE})
    assert (result.rc, result["status"], result["gpus"]) == (0, status, [])
    assert "gpu-count" in [f["id"] for f in result["findings"]]


@pytest.mark.slow
def test_a_hanging_driver_is_a_timeout(run_module, monkeypatch):
    monkeypatch.setenv("FAKE_NVIDIA_SMI_MODE", "hang")
    assert run_module("gpu_info", {"nvidia_smi": FAKE, "timeout": 1})["status"] == "timeout"


@pytest.mark.slow
def test_a_driver_that_hangs_half_way_leaves_what_it_said(run_module, monkeypatch):
    monkeypatch.setenv("FAKE_NVIDIA_SMI_MODE", "half_hang")
    result = run_module("gpu_info", {"nvidia_smi": FAKE, "timeout": 1})
    assert (result["status"], len(result["gpus"]), result["link"]) == ("ok", 8, None)
    assert "gpu-incomplete" in [f["id"] for f in result["findings"]]


@pytest.mark.slow
def test_an_old_driver(run_module, monkeypatch):
    monkeypatch.setenv("FAKE_NVIDIA_SMI_MODE", "old_driver")
    result = run_module("gpu_info", {"nvidia_smi": FAKE})
    assert (result["status"], len(result["gpus"]), result["gpus"][0]["compute_cap"]) == ("ok", 8, None)


def test_no_nvidia_smi(run_module):
    result = run_module("gpu_info", {"nvidia_smi": "/no/such/nvidia-smi"})
    assert (result.rc, result["status"]) == (0, "no_nvidia_smi")


def test_a_bad_option_fails(run_module):
    result = run_module("gpu_info", {"timeout": 0})
    assert result.rc == 1
    assert "timeout is 0" in result["msg"]

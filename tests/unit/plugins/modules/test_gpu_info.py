# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info as a module, against the mock of nvidia-smi."""

from __future__ import annotations

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
    assert not [f for f in result["findings"] if f["severity"] == "error"]


@pytest.mark.slow
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

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The XML of nvidia-smi, and who the processes in it belong to."""

from __future__ import annotations

import os
import pwd

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.details import parse_details
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.owners import merge
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.parse import parse_processes

XML = """<nvidia_smi_log><gpu id="00000000:41:00.0">
<mig_devices><mig_device><index>0</index></mig_device><mig_device><index>1</index></mig_device></mig_devices>
<processes>
<process_info><pid>100</pid><type>C</type><process_name>/opt/vllm/bin/python3 serve --api-key=x</process_name>
<used_memory>90000 MiB</used_memory></process_info>
<process_info><pid>200</pid><type>G</type><process_name>Xorg</process_name><used_memory>N/A</used_memory></process_info>
<process_info><pid>N/A</pid></process_info>
</processes></gpu></nvidia_smi_log>"""
GPUS = [{"index": 3, "uuid": "GPU-a", "bus_id": "00000000:41:00.0"}]


def test_a_real_capture(load_fixture):
    details, processes = parse_details(load_fixture("nvidia-smi/h200x2/smi_q.xml"))
    assert list(details) == ["00000000:00:06.0", "00000000:00:07.0"]
    assert details["00000000:00:07.0"] == {
        "architecture": "Hopper",
        "bar1_mib": 262144,
        "virtualization": "Pass-Through",
        "pcie_gen_device_max": 5,
        "fabric_state": "Completed",
        "fabric_status": "Success",
        "recovery_action": None,
        "row_remapping_failed": False,
        "mig_devices": 0,
    }
    assert processes == []


def test_a_real_process_that_holds_memory(load_fixture):
    # One H200, driver 580.159.04, while python3 -c 'torch.empty(2**30, device="cuda:0")' ran.
    _details, processes = parse_details(load_fixture("nvidia-smi/h200x1/smi_q_busy.xml"))
    apps = parse_processes(load_fixture("nvidia-smi/h200x1/compute_apps_busy.csv"))
    uuid = "GPU-82850aa4-3af6-fd28-dd8b-551dd47c0a48"
    assert [(p["pid"], p["gpu_uuid"], p["used_memory_mib"]) for p in apps] == [(553, uuid, 4614)]
    gpu = {"index": 0, "uuid": uuid, "bus_id": "00000000:00:06.0"}
    (held,) = merge(apps, processes, [gpu], proc="/nonexistent")
    assert (held["pid"], held["kind"], held["name"], held["gpu_index"], held["used_memory_mib"]) == (
        553,
        "C",
        "python3",
        0,
        4614,
    )


def test_what_an_old_driver_does_not_say_is_nothing():
    details, processes = parse_details(XML)
    assert details["00000000:41:00.0"]["bar1_mib"] is None
    assert details["00000000:41:00.0"]["mig_devices"] == 2
    assert [(p["pid"], p["kind"], p["used_memory_mib"]) for p in processes] == [(100, "C", 90000), (200, "G", None)]


@pytest.mark.parametrize("text", ["", "Failed to initialize NVML: Unknown Error", "<nvidia_smi_log><gpu>"])
def test_a_text_that_is_no_xml(text):
    assert parse_details(text) == ({}, [])


def test_owner_and_unit_of_the_processes(tmp_path):
    (tmp_path / "100").mkdir()
    (tmp_path / "100" / "comm").write_text("VLLM::Worker_TP\n", encoding="utf-8")
    (tmp_path / "100" / "cgroup").write_text("0::/system.slice/vllm-main.service\n", encoding="utf-8")
    apps = [{"pid": 100, "gpu_uuid": "GPU-a", "used_memory_mib": 90000}]
    assert merge(apps, parse_details(XML)[1], GPUS, str(tmp_path)) == [
        {
            "pid": 100,
            "gpu_uuid": "GPU-a",
            "gpu_index": 3,
            "used_memory_mib": 90000,
            "kind": "C",
            "name": "VLLM::Worker_TP",
            "owner": pwd.getpwuid(os.getuid()).pw_name,
            "unit": "vllm-main.service",
        },
        {
            "pid": 200,
            "gpu_uuid": "GPU-a",
            "gpu_index": 3,
            "used_memory_mib": None,
            "kind": "G",
            "name": "Xorg",
            "owner": None,
            "unit": None,
        },
    ]


def test_a_command_line_never_comes_out(tmp_path):
    process = merge([], parse_details(XML)[1], GPUS, str(tmp_path))[0]
    assert (process["name"], process["owner"]) == ("python3", None)


def test_the_query_alone(tmp_path):
    apps = [{"pid": 7, "gpu_uuid": "GPU-b", "used_memory_mib": None}]
    process = merge(apps, [], GPUS, str(tmp_path))[0]
    assert (process["pid"], process["gpu_index"], process["kind"], process["name"]) == (7, None, "C", None)

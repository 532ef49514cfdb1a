# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of nvidia-smi: a real capture, the mock, and what others reported."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._gpu import parse


def test_a_real_capture_of_two_h200(load_fixture):
    gpus = parse.parse_gpus(load_fixture("nvidia-smi/h200x2/smi_query.csv"))
    assert [g["index"] for g in gpus] == [0, 1]
    first = gpus[0]
    assert (first["name"], first["memory_mib"], first["memory_free_mib"]) == ("NVIDIA H200", 143771, 143156)
    assert (first["compute_cap"], first["driver_version"]) == ("9.0", "580.159.04")
    assert (first["bus_id"], first["pcie_gen"], first["pcie_width"]) == ("00000000:00:06.0", 5, 16)
    assert (first["power_limit_w"], first["mig"], first["persistence"], first["ecc"]) == (700.0, False, True, True)
    assert (first["addressing_mode"], first["virtual"], first["unified_memory"]) == (None, False, False)


def test_topology_of_the_capture(load_fixture):
    alone, one = parse.parse_topology(load_fixture("nvidia-smi/h200x1/topo_m.txt"))
    assert (alone, parse.link_of(alone), one["GPU0"]["cpus"]) == ({"GPU0": {}}, None, "0-15")
    matrix, affinity = parse.parse_topology(load_fixture("nvidia-smi/h200x2/topo_m.txt"))
    assert matrix == {"GPU0": {"GPU1": "NV18"}, "GPU1": {"GPU0": "NV18"}}
    assert affinity == {"GPU0": {"cpus": "0-31", "numa": "0"}, "GPU1": {"cpus": "0-31", "numa": "0"}}
    assert parse.link_of(matrix) == "nvlink"


def test_peer_access_of_the_capture(load_fixture):
    tables = load_fixture("nvidia-smi/h200x2/topo_p2p.txt").split("== ")
    assert parse.parse_p2p(tables[1]) == {"GPU0": {"GPU1": "OK"}, "GPU1": {"GPU0": "OK"}}
    assert parse.parse_p2p(tables[-1]) == {"GPU0": {"GPU1": "NS"}, "GPU1": {"GPU0": "NS"}}


def test_no_processes_in_the_capture(load_fixture):
    assert parse.parse_processes(load_fixture("nvidia-smi/h200x2/compute_apps.csv")) == []


def test_processes():
    text = "pid, gpu_uuid, used_gpu_memory [MiB]\n4711, GPU-1, 90112 MiB\n4712, GPU-1, [N/A]\n"
    assert parse.parse_processes(text) == [
        {"pid": 4711, "gpu_uuid": "GPU-1", "used_memory_mib": 90112},
        {"pid": 4712, "gpu_uuid": "GPU-1", "used_memory_mib": None},
    ]


def test_network_cards_are_devices_too_but_no_gpus():
    text = (
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
        "GPU0\t X \tNODE\tPIX\t0-31\t0\nGPU1\tNODE\t X \tSYS\t0-31\t0\nNIC0\tPIX\tSYS\t X \t\t\n\nNIC Legend:\n"
    )
    matrix, affinity = parse.parse_topology(text)
    assert matrix["NIC0"] == {"GPU0": "PIX", "GPU1": "SYS"}
    assert set(affinity) == {"GPU0", "GPU1"}
    assert parse.link_of(matrix) == "pcie"


@pytest.mark.parametrize(
    ("matrix", "link"),
    [
        ({}, None),
        ({"GPU0": {}}, None),
        ({"GPU0": {"GPU1": "NV4"}, "GPU1": {"GPU0": "NV4"}}, "nvlink"),
        # Bridged pairs are not a fabric: what crosses them goes over PCIe.
        ({"GPU0": {"GPU1": "NV4", "GPU2": "SYS"}}, "pcie"),
    ],
)
def test_link(matrix, link):
    assert parse.link_of(matrix) == link


def test_every_bracketed_cell_is_nothing():
    text = (
        "index, name, memory.total [MiB], power.limit [W], mig.mode.current\n"
        "0, NVIDIA H200, [Unknown Error], [Not Supported], [N/A]\n"
        "1, NVIDIA H200, 143771 MiB, [Insufficient Permissions], Enabled\n"
    )
    gpus = parse.parse_gpus(text)
    assert [(g["memory_mib"], g["power_limit_w"], g["mig"]) for g in gpus] == [
        (None, None, False),
        (143771, None, True),
    ]


@pytest.mark.case("E01")
def test_e01_unified_memory_is_that_of_the_host():
    fields = ["index", "name", "uuid", "compute_cap", "memory.total", "memory.free", "memory.used"]
    gpus = parse.parse_gpus("0, NVIDIA GB10, GPU-1, 12.1, [N/A], [N/A], [N/A]", fields)
    parse.share_host_memory(gpus, "MemTotal: 127600000 kB\nMemAvailable: 120000000 kB")
    assert len(gpus) == 1
    assert (gpus[0]["unified_memory"], gpus[0]["memory_source"]) == (True, "/proc/meminfo")
    assert gpus[0]["memory_mib"] / 1024 == pytest.approx(121.7, abs=0.05)
    assert gpus[0]["memory_free_mib"] / 1024 == pytest.approx(114.4, abs=0.05)


@pytest.mark.parametrize("shown", ["[Unknown Error]", "[Insufficient Permissions]", "[GPU is lost]"])
def test_memory_that_cannot_be_asked_for_is_not_that_of_the_host(shown):
    gpus = parse.parse_gpus(f"index, name, memory.total [MiB]\n0, NVIDIA H200, {shown}\n")
    parse.share_host_memory(gpus, "MemTotal: 127600000 kB\nMemAvailable: 120000000 kB")
    assert (gpus[0]["memory_mib"], gpus[0]["memory_source"], gpus[0]["unified_memory"]) == (None, None, False)


def test_memory_of_its_own_is_never_replaced(load_fixture):
    gpus = parse.parse_gpus(load_fixture("nvidia-smi/h200x2/smi_query.csv"))
    parse.share_host_memory(gpus, "MemTotal: 1000 kB")
    assert (gpus[0]["memory_mib"], gpus[0]["unified_memory"]) == (143771, False)


@pytest.mark.case("E04")
def test_e04_a_virtual_gpu_with_one_cell_missing():
    gpu = parse.parse_gpus("[N/A], 24576, NVIDIA H100L-2-24C", ["clocks.max.sm", "memory.total", "name"])[0]
    assert (gpu["clock_max_mhz"], gpu["memory_mib"], gpu["name"]) == (None, 24576, "NVIDIA H100L-2-24C")
    assert gpu["virtual"] is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95",
        "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n",
        "index, name, uuid\n",
        "index, name, uuid\nUnable to determine the device handle for GPU0000:0B:00.0: Unknown Error\n",
        "index, name, uuid\nsomething, with, commas\n",
    ],
)
def test_an_error_text_is_never_a_gpu(text):
    assert parse.parse_gpus(text) == []


@pytest.mark.parametrize(
    ("text", "rc", "status"),
    [
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95",
            18,
            "driver_mismatch",
        ),
        ("No devices were found\n", 0, "no_devices"),
        ("No devices were found\n", 6, "no_devices"),
        (
            "Failed to initialize NVML: No supported GPUs were found\nUnable to determine the number of GPUs\n",
            255,
            "no_devices",
        ),
        ("Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n", 0, "gpu_lost"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9, "no_driver"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12, "no_driver"),
        ("Failed to initialize NVML: Driver Not Loaded", 9, "no_driver"),
        ("Failed to initialize NVML: Unknown Error", 255, "error"),
        ("Failed to initialize NVML: Insufficient Permissions", 4, "error"),
        ("", 127, "error"),
    ],
)
def test_error_texts(text, rc, status):
    assert parse.classify(text, rc)[0] == status


def test_no_fault_in_plain_output(load_fixture):
    assert parse.classify(load_fixture("nvidia-smi/h200x2/smi_query.csv"), 0) is None


def test_the_lost_gpu_is_named():
    assert parse.bus_id("Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error") == "0000:0B:00.0"
    assert parse.bus_id("no id") is None


def test_the_field_that_a_driver_does_not_know():
    assert parse.unknown_field('Field "addressing_mode" is not a valid field to query.\n') == "addressing_mode"
    assert parse.unknown_field("index, name") is None


def test_the_line_that_tells_the_error_is_shown():
    text = "index, name\n0, NVIDIA H200\nWARNING: infoROM is corrupted at gpu 0000:86:00.0\n"
    assert parse.classify(text, 14)[1] == "WARNING: infoROM is corrupted at gpu 0000:86:00.0"
    assert parse.classify("", 127)[1] == "exit status 127, no output"


@pytest.mark.parametrize(
    ("matrix", "pair"),
    [
        ({}, None),
        ({"GPU0": {}}, None),
        ({"GPU0": {"GPU1": "NV18"}, "GPU1": {"GPU0": "NV18"}}, (0, 1)),
        ({"GPU0": {"GPU1": "PIX", "GPU2": "SYS", "GPU10": "SYS", "NIC0": "SYS"}, "GPU1": {"GPU2": "NODE"}}, (0, 2)),
        ({"GPU0": {"GPU1": "PHB"}, "GPU1": {"GPU2": "NODE"}, "GPU2": {"GPU1": "NODE"}}, (1, 2)),
    ],
)
def test_the_farthest_pair(matrix, pair):
    assert parse.farthest_pair(matrix) == pair


@pytest.mark.parametrize(
    ("mode", "hmm"), [("HMM", True), ("ATS", False), ("None", False), ("N/A", None), ("[N/A]", None)]
)
def test_heterogeneous_memory_management(mode, hmm):
    assert parse.parse_gpus(f"index, name, addressing_mode\n0, NVIDIA GB10, {mode}\n")[0]["hmm"] is hmm

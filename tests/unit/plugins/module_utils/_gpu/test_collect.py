# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of gpu_info for every state of a node, with the calls answered by the test."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._gpu import collect as module
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.collect import collect
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.host import Output


@pytest.fixture
def capture(load_fixture):
    """A runner that answers with the capture of two H200."""
    tables = load_fixture("nvidia-smi/h200x2/topo_p2p.txt").split("== ")

    def run(arguments):
        if arguments == ["-q", "-x"]:
            return Output(load_fixture("nvidia-smi/h200x2/smi_q.xml"), rc=0)
        if arguments[0].startswith("--query-gpu="):
            return Output(load_fixture("nvidia-smi/h200x2/smi_query.csv"), rc=0)
        if arguments[0].startswith("--query-compute-apps="):
            return Output(load_fixture("nvidia-smi/h200x2/compute_apps.csv"), rc=0)
        if arguments == ["topo", "-m"]:
            return Output(load_fixture("nvidia-smi/h200x2/topo_m.txt"), rc=0)
        return Output(next(table for table in tables if table.startswith(arguments[2])), rc=0)

    return run


@pytest.fixture(autouse=True)
def _host(monkeypatch):
    """The test's own machine must not show through."""
    monkeypatch.setattr(module, "iommu_mode", lambda: "off")
    monkeypatch.setattr(module, "acs_of", lambda gpus: {"mode": "unknown", "bridges": {}})
    monkeypatch.setattr(module, "numa_node", lambda bus: None)
    monkeypatch.setattr(module, "read_text", lambda path: "")


def answer(*outputs):
    left = list(outputs)
    return lambda arguments: left.pop(0) if len(left) > 1 else left[0]


def ids(result):
    return [f["id"] for f in result["findings"]]


def test_a_healthy_node(capture):
    result = collect(capture)
    assert (result["status"], result["message"], result["driver_version"]) == ("ok", "", "580.159.04")
    assert (result["link"], result["topology"]["GPU0"], result["p2p"]["read"]["GPU0"]) == (
        "nvlink",
        {"GPU1": "NV18"},
        {"GPU1": "OK"},
    )
    assert [g["link"] for g in result["gpus"]] == ["nvlink", "nvlink"]
    first = result["gpus"][0]
    assert (first["cpu_affinity"], first["bar1_mib"], first["architecture"]) == ("0-31", 262144, "Hopper")
    assert (first["virtualization"], first["fabric_state"], first["recovery_action"]) == (
        "Pass-Through",
        "Completed",
        None,
    )
    assert (first["pcie_gen_device_max"], first["row_remapping_failed"], first["mig_devices"]) == (5, False, 0)
    assert (first["hmm"], first["virtual"]) == (False, False)
    assert (result["processes"], result["findings"]) == ([], [])


@pytest.mark.parametrize(
    ("output", "status"),
    [
        (Output("No devices were found\n", rc=0), "no_devices"),
        (Output("No devices were found\n", rc=6), "no_devices"),
        (Output("Failed to initialize NVML: No supported GPUs were found\n", rc=255), "no_devices"),
        (Output("", rc=0), "no_devices"),
        (Output(missing=True), "no_nvidia_smi"),
        (Output(timed_out=True), "timeout"),
        (Output(stderr="Permission denied"), "error"),
        (Output("Failed to initialize NVML: Driver/library version mismatch", rc=18), "driver_mismatch"),
    ],
)
@pytest.mark.case("E07", "E08")
def test_e07_e08_a_broken_node_has_a_status_and_no_gpus(output, status):
    result = collect(answer(output))
    assert (result["status"], result["gpus"]) == (status, [])
    assert result["message"] != ""
    error = result["findings"][0]
    assert (error["id"], error["severity"]) == (f"gpu-{status.replace('_', '-')}", "error")
    assert error["remedy"] != ""


@pytest.mark.case("E09")
def test_e09_a_lost_gpu_is_named_and_counted():
    text = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n"
    result = collect(answer(Output(text, rc=0)), {"count": 4})
    assert (result["status"], result["gpus"]) == ("gpu_lost", [])
    assert result["findings"][0]["id"] == "gpu-lost"
    assert result["findings"][0]["numbers"] == {"bus_id": "0000:0B:00.0"}
    assert "reboot" in result["findings"][0]["remedy"]
    assert result["findings"][1]["numbers"] == {"expected": 4, "found": 0}


def test_a_lost_gpu_leaves_the_others_to_see(load_fixture):
    text = (
        load_fixture("nvidia-smi/h200x2/smi_query.csv") + "Unable to determine the device handle for GPU 0000:0B:00.0"
    )
    result = collect(answer(Output(text, rc=255), Output()))
    assert (result["status"], len(result["gpus"])) == ("gpu_lost", 2)


def test_an_unknown_error_in_a_cell_is_not_a_broken_node():
    text = "index, name, memory.total [MiB]\n0, NVIDIA H200, 143771 MiB\n1, NVIDIA H200, [Unknown Error]\n"
    result = collect(answer(Output(text, rc=0), Output()))
    assert (result["status"], len(result["gpus"])) == ("ok", 2)


def test_fields_that_an_old_driver_does_not_know_are_left_out():
    asked = []

    def run(arguments):
        asked.append(arguments[0])
        for field in ("compute_cap", "addressing_mode"):
            if field in arguments[0]:
                return Output(f'Field "{field}" is not a valid field to query.\n', rc=2)
        return Output("index, name\n0, Tesla V100\n", rc=0) if "query-gpu" in arguments[0] else Output()

    result = collect(run)
    assert (result["status"], result["gpus"][0]["name"], result["gpus"][0]["compute_cap"]) == ("ok", "Tesla V100", None)
    assert len([a for a in asked if "query-gpu" in a]) == 3


def test_a_driver_that_knows_next_to_nothing_gets_the_minimal_query():
    def run(arguments):
        field = arguments[0].split("=")[-1].split(",")[-1]
        if "query-gpu" in arguments[0] and field != "pci.bus_id":
            return Output(f'Field "{field}" is not a valid field to query.\n', rc=2)
        return Output("index, name\n0, Tesla K80\n", rc=0) if "query-gpu" in arguments[0] else Output()

    assert collect(run)["gpus"][0]["name"] == "Tesla K80"


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({"count": 2, "name": "NVIDIA H200", "memory_mib": 143771, "compute_cap": "9.0"}, []),
        ({"count": "2"}, []),
        ({"name": "nvidia h200"}, []),
        ({"memory_mib": None, "compute_cap": ""}, []),
        ({"count": 8}, ["gpu-count"]),
        ({"name": "NVIDIA H20"}, ["gpu-name"]),
        ({"name": "NVIDIA RTX PRO 6000 Blackwell"}, ["gpu-name"]),
        ({"compute_cap": "12.0"}, ["gpu-compute-cap"]),
        ({"memory_mib": 183359}, ["gpu-memory-mib"]),
        ({"count": 8, "name": "NVIDIA B200", "compute_cap": "10.0"}, ["gpu-count", "gpu-name", "gpu-compute-cap"]),
    ],
)
def test_gpus_against_a_hardware_profile(capture, expected, found):
    assert ids(collect(capture, expected)) == found


def test_a_profile_names_a_family():
    text = "index, name, uuid\n0, NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition, GPU-1\n"
    assert ids(collect(answer(Output(text, rc=0), Output()), {"name": "NVIDIA RTX PRO 6000 Blackwell"})) == []


def test_slices_and_narrow_links_are_told():
    text = (
        "index, name, mig.mode.current, pcie.link.width.current, pcie.link.width.max\n"
        "0, NVIDIA H200, Enabled, 8, 16\n1, NVIDIA H200, Disabled, 16, 16\n"
    )
    result = collect(answer(Output(text, rc=0), Output()))
    assert [(f["id"], f["numbers"]) for f in result["findings"]] == [
        ("gpu-partial", {"gpus": [0]}),
        ("gpu-pcie-narrow", {"gpus": [0]}),
    ]


@pytest.fixture
def pcie(capture):
    """The two GPUs of the capture without their NVLink; ``replace`` changes texts of the answers."""

    def made(replace=()):
        def run(arguments):
            if arguments == ["topo", "-m"]:
                return Output("\tGPU0\tGPU1\nGPU0\t X \tNODE\nGPU1\tNODE\t X \n", rc=0)
            output = capture(arguments)
            text = output.stdout
            for old, new in replace:
                text = text.replace(old, new)
            return Output(text, rc=output.rc)

        return run

    return made


@pytest.mark.case("A27")
def test_a27_a_translating_iommu_and_acs_on_pcie_are_warned_of(monkeypatch, capture, pcie):
    monkeypatch.setattr(module, "iommu_mode", lambda: "translated")
    redirect = {"mode": "redirect", "bridges": {"0000:40:01.1": "SrcValid+ ReqRedir+ CmpltRedir+"}}
    monkeypatch.setattr(module, "acs_of", lambda gpus: redirect)
    assert ids(collect(capture)) == []  # NVLink does not pass them
    result = collect(pcie())
    assert (result["iommu"], result["acs"]) == ("translated", redirect)
    assert [(f["id"], f["severity"]) for f in result["findings"]] == [
        ("iommu-translated", "warning"),
        ("acs-redirect", "warning"),
    ]
    assert "ReqRedir+" in result["findings"][1]["message"]
    for finding in result["findings"]:
        assert "NCCL_P2P_DISABLE=1" in finding["remedy"]
        assert "--disable-custom-all-reduce" in finding["remedy"]


@pytest.mark.parametrize(
    ("replace", "found"),
    [
        ([], []),
        ([("<total>262144 MiB</total>", "<total>256 MiB</total>")], [("gpu-bar1-small", "warning")]),
        ([("\tOK", "\tCNS")], [("p2p-refused", "warning")]),
        ([("<state>Completed<", "<state>In Progress<")], [("gpu-fabric", "error")]),
        ([("<status>Success<", "<status>Insufficient Resources<")], [("gpu-fabric", "error")]),
        ([("<state>Completed<", "<state>N/A<"), ("<status>Success<", "<status>N/A<")], []),
        ([("action>None<", "action>Reboot<")], [("gpu-needs-recovery", "error")] * 2),
        ([("action>None<", "action>Drain P2P<")], [("gpu-needs-recovery", "warning")] * 2),
        ([("failure>No<", "failure>Yes<")], [("gpu-memory-faulty", "warning")] * 2),
        ([(", 5, 5, 16, 16,", ", 1, 4, 16, 16,")], [("gpu-pcie-slow", "warning")]),
        # An idle GPU lowers its generation.
        ([(", 5, 5, 16, 16,", ", 1, 5, 16, 16,")], []),
        ([("Disabled, Enabled, Enabled", "Disabled, Disabled, Enabled")], [("gpu-persistence-off", "info")]),
        ([("700.00 W, 700.00 W", "400.00 W, 700.00 W")], [("gpu-power-limit", "info")]),
        ([(">Pass-Through<", ">VGPU<")], [("gpu-partial", "warning")]),
    ],
)
def test_what_is_odd_is_told(pcie, replace, found):
    assert [(f["id"], f["severity"]) for f in collect(pcie(replace))["findings"]] == found


def test_a_corrupted_inforom_is_a_warning(load_fixture):
    text = load_fixture("nvidia-smi/h200x2/smi_query.csv") + "WARNING: infoROM is corrupted at gpu 0000:00:06.0\n"
    result = collect(answer(Output(text, rc=14), Output()))
    assert (result["status"], len(result["gpus"]), ids(result)) == ("ok", 2, ["gpu-inforom"])


def test_calls_that_hang_later_are_named(load_fixture):
    result = collect(answer(Output(load_fixture("nvidia-smi/h200x2/smi_query.csv"), rc=0), Output(timed_out=True)))
    assert (result["status"], len(result["gpus"]), result["link"]) == ("ok", 2, None)
    assert ids(result) == ["gpu-incomplete"]
    assert "topo -m" in result["findings"][0]["message"]


def test_the_link_of_the_profile(pcie):
    found = collect(pcie(), {"link": "nvlink"})["findings"]
    assert [(f["id"], f["numbers"]) for f in found] == [("gpu-link", {"expected": "nvlink", "found": "pcie"})]
    assert collect(pcie(), {"link": "pcie"})["findings"] == []

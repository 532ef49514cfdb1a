# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IOMMU, ACS and NUMA as the kernel shows them, on trees that the tests make."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._gpu import pcie

BITS = {"SrcValid": 1, "TransBlk": 2, "ReqRedir": 4, "CmpltRedir": 8, "UpstreamFwd": 16}


def config(*words, offset=0x148):
    """A configuration space of 4096 bytes: advanced error reporting first, then ACS with these bits."""
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 0x2 << 16 | offset << 20).to_bytes(4, "little")
    space[offset : offset + 4] = (0x000D | 0x1 << 16).to_bytes(4, "little")
    space[offset + 6 : offset + 8] = sum(BITS[w] for w in words).to_bytes(2, "little")
    return bytes(space)


@pytest.fixture
def machine(tmp_path):
    """A tree of PCI devices: ``paths`` from the root complex, ``spaces`` by address."""

    def made(paths, spaces):
        flat = tmp_path / "bus"
        flat.mkdir()
        for path in paths:
            place = tmp_path / "devices" / path
            place.mkdir(parents=True, exist_ok=True)
            for device in [place, *place.parents]:
                if pcie._ADDRESS.fullmatch(device.name) and not (flat / device.name).exists():
                    (flat / device.name).symlink_to(device)
                    (device / "config").write_bytes(spaces.get(device.name, b""))
                    (device / "numa_node").write_text("1\n" if device == place else "-1\n", encoding="ascii")
        return str(flat)

    return made


def gpu(bus, virtualization=None):
    return {"bus_id": bus, "virtualization": virtualization}


@pytest.mark.parametrize(
    ("types", "mode"),
    [
        ([], "off"),
        (["identity", "identity"], "passthrough"),
        (["identity", "DMA"], "translated"),
        (["DMA-FQ"], "translated"),
        ([""], "unknown"),
    ],
)
def test_iommu_mode(tmp_path, types, mode):
    for i, kind in enumerate(types):
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "type").write_text(f"{kind}\n", encoding="utf-8")
    assert pcie.iommu_mode(str(tmp_path)) == mode


def test_no_iommu_in_this_kernel_and_no_kernel_to_see(tmp_path):
    assert pcie.iommu_mode(str(tmp_path / "none")) == "off"
    assert pcie.iommu_mode(str(tmp_path / "none" / "none")) == "unknown"


def test_numa_node(machine):
    devices = machine(["pci0000:40/0000:40:01.1/0000:41:00.0"], {})
    assert pcie.numa_node("00000000:41:00.0", devices) == 1
    assert pcie.numa_node("00000000:42:00.0", devices) is None
    assert pcie.numa_node(None, devices) is None


def test_addresses_of_nvidia_smi_and_of_the_kernel():
    assert pcie.address("00000000:0B:00.0") == "0000:0b:00.0"
    assert pcie.address("00010000:C1:00.0") == "0000:c1:00.0"


@pytest.mark.parametrize(
    ("space", "control"),
    [
        (config("SrcValid", "ReqRedir", "CmpltRedir"), 0b1101),
        (config(offset=0x100), 0),
        (config("ReqRedir")[:0x100], 0),  # no extended space: a conventional device, without ACS
        (bytes(4096), 0),
        (config("ReqRedir")[:64], None),  # what others than root get
        (b"", None),
        (bytes(0x100) + (0x0001 | 0x100 << 20).to_bytes(4, "little") + bytes(60), 0),  # goes in a circle
    ],
)
def test_acs_control(space, control):
    assert pcie.acs_control(space) == control


@pytest.mark.case("A27")
def test_a27_bridges_that_redirect_are_named(machine):
    devices = machine(
        ["pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:01.0/0000:43:00.0", "pci0000:c0/0000:c0:01.1/0000:c1:00.0"],
        {
            "0000:40:01.1": config("SrcValid", "ReqRedir", "CmpltRedir"),
            "0000:41:00.0": config(),
            "0000:42:01.0": config("UpstreamFwd"),
            "0000:c0:01.1": config("SrcValid", "ReqRedir"),
        },
    )
    assert pcie.bridges("00000000:43:00.0", devices) == ["0000:40:01.1", "0000:41:00.0", "0000:42:01.0"]
    assert pcie.acs_of([gpu("00000000:43:00.0"), gpu("00000000:C1:00.0")], devices) == {
        "mode": "redirect",
        "bridges": {"0000:40:01.1": "SrcValid+ ReqRedir+ CmpltRedir+", "0000:c0:01.1": "SrcValid+ ReqRedir+"},
    }


@pytest.mark.parametrize(
    ("space", "virtualization", "mode"),
    [
        (config("SrcValid"), "None", "direct"),
        (config("ReqRedir")[:64], "None", "unknown"),
        (config(), "Pass-Through", "unknown"),
    ],
)
def test_what_cannot_be_seen_is_unknown(machine, space, virtualization, mode):
    devices = machine(["pci0000:40/0000:40:01.1/0000:41:00.0"], {"0000:40:01.1": space})
    assert pcie.acs_of([gpu("00000000:41:00.0", virtualization)], devices) == {"mode": mode, "bridges": {}}


def test_a_device_that_the_kernel_does_not_show(machine):
    devices = machine(["pci0000:40/0000:41:00.0"], {})
    for gpus in ([gpu("00000000:99:00.0")], [gpu(None)], []):
        assert pcie.acs_of(gpus, devices)["mode"] == "unknown"

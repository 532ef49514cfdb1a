# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What only ``nvidia-smi -q -x`` says: BAR1, fabric, virtualization, needed repairs, processes of every kind."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree

from .parse import cell, typed

# Key of a GPU, where it stands in the XML (driver 535 to 580), and its type.
_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("architecture", "product_architecture", "str"),
    ("bar1_mib", "bar1_memory_usage/total", "int"),
    ("virtualization", "gpu_virtualization_mode/virtualization_mode", "str"),
    ("pcie_gen_device_max", "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen", "int"),
    ("fabric_state", "fabric/state", "str"),
    ("fabric_status", "fabric/status", "str"),
    ("recovery_action", "gpu_recovery_action", "str"),
    ("row_remapping_failed", "remapped_rows/remapped_row_failure", "str"),
)
DETAILS = (*(key for key, _place, _kind in _FIELDS), "mig_devices")


def parse_details(text: str) -> tuple[dict[str, dict[str, t.Any]], list[dict[str, t.Any]]]:
    """(the keys of DETAILS for each bus id, all processes) in the output of ``nvidia-smi -q -x``.

    A process is ``{pid, gpu_bus_id, kind, name, used_memory_mib}``; kind is C (compute), G (graphics) or both.
    A text that is no XML, as an error is, has nothing of either.
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return {}, []
    details: dict[str, dict[str, t.Any]] = {}
    processes: list[dict[str, t.Any]] = []
    for gpu in root.iter("gpu"):
        bus = gpu.get("id", "")
        details[bus] = {key: typed(_text(gpu, place), kind) for key, place, kind in _FIELDS}
        details[bus]["row_remapping_failed"] = {"Yes": True, "No": False}.get(details[bus]["row_remapping_failed"])
        details[bus]["mig_devices"] = len(gpu.findall("mig_devices/mig_device"))
        processes += [_process(p, bus) for p in gpu.iter("process_info") if _text(p, "pid").isdigit()]
    return details, processes


def _text(element: ElementTree.Element, place: str) -> str:
    return (element.findtext(place) or "").strip()


def _process(element: ElementTree.Element, bus: str) -> dict[str, t.Any]:
    return {
        "pid": int(_text(element, "pid")),
        "gpu_bus_id": bus,
        "kind": cell(_text(element, "type")),
        "name": cell(_text(element, "process_name")),
        "used_memory_mib": typed(_text(element, "used_memory"), "int"),
    }

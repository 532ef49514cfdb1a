# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What the kernel says about the way between GPUs: IOMMU, ACS of the bridges above them, NUMA node.

ACS is read from the configuration space, as lspci does: where root may not read it, lspci may not either.
"""

from __future__ import annotations

import os
import re
import typing as t

from .host import read_text

DEVICES = "/sys/bus/pci/devices"
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")

# PCI Express Base Specification 6.0, 7.7.11: the extended capability and the bits of its control register (at offset
# 6), with the words of lspci. Requests or completions that are redirected go up to the root complex and back.
_EXTENDED = 0x100
_ACS = 0x000D
_ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
_REDIRECT = 0b1100
_MOST_CAPABILITIES = 48  # a list that is longer goes in a circle


def address(bus_id: str) -> str:
    """``00000000:0B:00.0`` of nvidia-smi as ``0000:0b:00.0`` of the kernel."""
    domain, _colon, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def numa_node(bus_id: str | None, devices: str = DEVICES) -> int | None:
    """The NUMA node of a PCI device, None when the machine has only one or does not say."""
    text = read_text(f"{devices}/{address(bus_id)}/numa_node").strip() if bus_id else ""
    return int(text) if text.isdigit() else None


def iommu_mode(root: str = "/sys/kernel/iommu_groups") -> str:
    """``off``, ``passthrough`` (every group is an identity mapping), ``translated``, or ``unknown`` without a /sys."""
    try:
        groups = os.listdir(root)
    except FileNotFoundError:
        return "off" if os.path.isdir(os.path.dirname(root)) else "unknown"
    except OSError:
        return "unknown"
    if not groups:
        return "off"
    types = {read_text(os.path.join(root, g, "type")).strip() for g in groups}
    if types == {""}:
        return "unknown"
    return "passthrough" if types == {"identity"} else "translated"


def acs_control(config: bytes) -> int | None:
    """The ACS control register in a configuration space; 0 for a device without ACS, None when it cannot be seen.

    Only root gets more than the first 64 bytes.
    """
    if len(config) < _EXTENDED:
        return None
    place = _EXTENDED
    for _step in range(_MOST_CAPABILITIES):
        if place < _EXTENDED or place + 8 > len(config):
            break
        header = int.from_bytes(config[place : place + 4], "little")
        if header & 0xFFFF == _ACS:
            return int.from_bytes(config[place + 6 : place + 8], "little")
        place = header >> 20
    return 0


def acs_words(control: int) -> str:
    """The bits that are set, as lspci shows them after ACSCtl."""
    return " ".join(f"{word}+" for bit, word in enumerate(_ACS_BITS) if control >> bit & 1)


def bridges(bus_id: str, devices: str = DEVICES) -> list[str] | None:
    """The bridges above a device, from the root complex down; None when the kernel does not show the device."""
    path = os.path.join(devices, address(bus_id))
    if not os.path.exists(path):
        return None
    return [part for part in os.path.realpath(path).split(os.sep)[:-1] if _ADDRESS.fullmatch(part)]


def acs_of(gpus: t.Sequence[t.Mapping[str, t.Any]], devices: str = DEVICES) -> dict[str, t.Any]:
    """``{mode, bridges}`` for the ways above all GPUs.

    mode is ``redirect`` when a bridge sends peer traffic up to the root complex, ``direct`` when none does, and
    ``unknown`` when a bridge cannot be read, or when this is a virtual machine, whose host has the bridges.
    ``bridges`` has the control words of those that redirect, by address.
    """
    controls: dict[str, int | None] = {}
    hidden = not gpus
    for gpu in gpus:
        above = bridges(gpu["bus_id"], devices) if gpu["bus_id"] else None
        hidden = hidden or above is None or gpu.get("virtualization") in ("Pass-Through", "VGPU")
        for bridge in above or []:
            if bridge not in controls:
                controls[bridge] = acs_control(_read_bytes(os.path.join(devices, bridge, "config")))
    redirecting = {b: acs_words(c) for b, c in sorted(controls.items()) if c is not None and c & _REDIRECT}
    if redirecting:
        return {"mode": "redirect", "bridges": redirecting}
    unread = hidden or None in controls.values()
    return {"mode": "unknown" if unread else "direct", "bridges": {}}


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""

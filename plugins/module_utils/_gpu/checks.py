# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What is wrong or odd with the GPUs of a node: one function a rule, each gives findings."""

from __future__ import annotations

import re
import typing as t

from .._findings import Finding, error, info, warning
from .parse import bus_id

Gpus = t.Sequence[t.Mapping[str, t.Any]]

# What an instance must be started with when peer access is broken; the environment alone was not enough with two ranks,
# where vLLM's own all-reduce is used (vllm#51513).
NO_P2P = "Serve with NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce"
# NVML: what nvidia-smi calls recovery action. With these CUDA fails on the GPU, with the others it still works.
_REPAIRS = ("Reset", "GPU Reset", "Reboot", "Node Reboot")


def unusable(status: str, message: str, remedy: str) -> Finding:
    """The finding of a status that is not ok."""
    numbers = {"bus_id": bus_id(message)} if status == "gpu_lost" else {}
    name = status.replace("_", "-").removeprefix("gpu-")
    return error(f"gpu-{name}", f"No usable GPUs: {message}", remedy, **numbers)


def remarks(gpus: Gpus, link: str | None, iommu: str, acs: t.Mapping[str, t.Any], p2p_read: t.Any) -> list[Finding]:
    """What is odd about GPUs that answer; ``p2p_read`` is the matrix of ``topo -p2p r``."""
    findings = [f for rule in _RULES for f in rule(gpus)]
    if link == "pcie" and len(gpus) > 1:
        findings += _detours(iommu, acs) + _no_peer_access(p2p_read) + _small_bar1(gpus)
    return findings


def _names(gpus: Gpus) -> str:
    return ", ".join(str(g["index"]) for g in gpus)


def _indexes(gpus: Gpus) -> list[int]:
    return [g["index"] for g in gpus]


def _partial(gpus: Gpus) -> list[Finding]:
    odd = [g for g in gpus if g["mig"] or g["virtual"]]
    if not odd:
        return []
    return [
        warning(
            "gpu-partial",
            f"GPU {_names(odd)} is cut by MIG or vGPU; slices cannot form a tensor parallel group.",
            "Turn MIG off for models that need more than one GPU.",
            gpus=_indexes(odd),
        )
    ]


def _unified(gpus: Gpus) -> list[Finding]:
    if not any(g["unified_memory"] for g in gpus):
        return []
    return [info("gpu-unified-memory", "GPU and CPU share one memory, sizes are those of the host.")]


def _narrow(gpus: Gpus) -> list[Finding]:
    odd = [g for g in gpus if g["pcie_width"] and g["pcie_width_max"] and g["pcie_width"] < g["pcie_width_max"]]
    if not odd:
        return []
    return [
        warning(
            "gpu-pcie-narrow",
            f"GPU {_names(odd)} uses fewer PCIe lanes than it has.",
            "Check slot, riser and cable.",
            gpus=_indexes(odd),
        )
    ]


def _slow_slot(gpus: Gpus) -> list[Finding]:
    """The best generation that slot and GPU share; the current one drops while a GPU is idle and says nothing."""
    odd = [g for g in gpus if (g["pcie_gen_device_max"] or 0) > (g["pcie_gen_max"] or 99)]
    if not odd:
        return []
    return [
        warning(
            "gpu-pcie-slow",
            f"GPU {_names(odd)} can do PCIe {odd[0]['pcie_gen_device_max']}.0, its slot offers "
            f"{odd[0]['pcie_gen_max']}.0 at most.",
            "Check the slot and its setting in the BIOS, and risers and cables for their generation.",
            gpus=_indexes(odd),
        )
    ]


def _fabric(gpus: Gpus) -> list[Finding]:
    """NVSwitch machines: CUDA does not start (error 802) before the fabric manager is done."""
    odd = [
        g
        for g in gpus
        if g["fabric_state"] and (g["fabric_state"], g["fabric_status"] or "Success") != ("Completed", "Success")
    ]
    if not odd:
        return []
    states = sorted({f"{g['fabric_state']} ({g['fabric_status'] or 'no status'})" for g in odd})
    return [
        error(
            "gpu-fabric",
            f"The NVLink fabric of GPU {_names(odd)} is not ready: {', '.join(states)}. CUDA fails with error 802.",
            "Start nvidia-fabricmanager in exactly the version of the driver, and look at its log.",
            gpus=_indexes(odd),
            states=states,
        )
    ]


def _broken(gpus: Gpus) -> list[Finding]:
    findings = []
    for gpu in gpus:
        action = gpu["recovery_action"]
        if action:
            make = error if action in _REPAIRS else warning
            findings.append(
                make(
                    "gpu-needs-recovery",
                    f"The driver asks to recover GPU {gpu['index']}: {action}.",
                    "Look for Xid messages in the kernel log, stop what uses the GPU, and do what the driver asks.",
                    gpu=gpu["index"],
                    action=action,
                )
            )
        if gpu["row_remapping_failed"]:
            findings.append(
                warning(
                    "gpu-memory-faulty",
                    f"GPU {gpu['index']} could not remap a faulty row of its memory.",
                    "Have the card replaced: errors of its memory end what runs there.",
                    gpu=gpu["index"],
                )
            )
    return findings


def _persistence(gpus: Gpus) -> list[Finding]:
    odd = [g for g in gpus if g["persistence"] is False]
    if not odd:
        return []
    return [
        info(
            "gpu-persistence-off",
            f"Persistence mode of GPU {_names(odd)} is off: each first use starts the GPU anew, and limits set by "
            "nvidia-smi are lost.",
            "Enable nvidia-persistenced.",
            gpus=_indexes(odd),
        )
    ]


def _power(gpus: Gpus) -> list[Finding]:
    odd = [g for g in gpus if g["power_limit_w"] and g["power_limit_w"] < (g["power_max_limit_w"] or 0)]
    if not odd:
        return []
    limits = sorted({f"{g['power_limit_w']:g} W of {g['power_max_limit_w']:g} W" for g in odd})
    return [
        info(
            "gpu-power-limit",
            f"The power of GPU {_names(odd)} is limited to {', '.join(limits)}. Single requests hardly notice, "
            "many at a time do.",
            gpus=_indexes(odd),
        )
    ]


_RULES: tuple[t.Callable[[Gpus], list[Finding]], ...] = (
    _partial,
    _unified,
    _narrow,
    _slow_slot,
    _fabric,
    _broken,
    _persistence,
    _power,
)


def _detours(iommu: str, acs: t.Mapping[str, t.Any]) -> list[Finding]:
    """NVIDIA/nccl#1999, vllm#33041: the first all-reduce hangs although topo -p2p says OK."""
    findings = []
    if iommu == "translated":
        findings.append(
            warning(
                "iommu-translated",
                "The IOMMU translates addresses: GPU to GPU transfers over PCIe may hang or be slow, also where "
                "nvidia-smi says that peer access is OK.",
                f"Boot with iommu=pt and switch off ACS redirection, or: {NO_P2P}.",
            )
        )
    if acs["mode"] == "redirect":
        shown = "; ".join(f"{bridge} {words}" for bridge, words in acs["bridges"].items())
        findings.append(
            warning(
                "acs-redirect",
                f"PCIe bridges above the GPUs redirect peer traffic to the root complex (ACS: {shown}): it may hang "
                "or be slow.",
                f"Switch ACS off in the BIOS, or: {NO_P2P}.",
                bridges=dict(acs["bridges"]),
            )
        )
    return findings


def _no_peer_access(matrix: t.Mapping[str, t.Mapping[str, str]]) -> list[Finding]:
    odd = [f"{a}-{b} {c}" for a, row in matrix.items() for b, c in row.items() if a < b and c != "OK"]
    if not odd:
        return []
    shown = ", ".join(odd[:4]) + (", ..." if len(odd) > 4 else "")
    return [
        warning(
            "p2p-refused",
            f"The driver refuses peer access between GPUs ({shown}): NCCL goes through the memory of the host.",
            "This is so for some GPUs and machines; otherwise see the legend of nvidia-smi topo -p2p r.",
            pairs=odd,
        )
    ]


def _small_bar1(gpus: Gpus) -> list[Finding]:
    """Peer access over PCIe goes through BAR1; with resizable BAR it is as large as the memory."""
    odd = [g for g in gpus if g["bar1_mib"] and g["memory_mib"] and g["bar1_mib"] < g["memory_mib"]]
    if not odd:
        return []
    return [
        warning(
            "gpu-bar1-small",
            f"BAR1 of GPU {_names(odd)} ({odd[0]['bar1_mib']} MiB) is smaller than its memory: peer access is limited.",
            "Enable Resizable BAR and Above 4G Decoding in the BIOS.",
            gpus=_indexes(odd),
            bar1_mib=odd[0]["bar1_mib"],
        )
    ]


def unexpected(gpus: Gpus, link: str | None, status: str, expected: t.Mapping[str, t.Any]) -> list[Finding]:
    """How the GPUs differ from those of a hardware profile (count, name, memory_mib, compute_cap, link)."""
    findings: list[Finding] = []
    count = expected.get("count")
    if count and len(gpus) != int(count):
        findings.append(
            error(
                "gpu-count",
                f"The hardware profile has {count} GPUs, the node shows {len(gpus)} (status {status}).",
                "Use the profile of this node, or mend the node.",
                expected=int(count),
                found=len(gpus),
            )
        )
    for key, rule in (("name", _name_differs), ("compute_cap", _cap_differs), ("memory_mib", _memory_differs)):
        wanted = expected.get(key)
        if wanted in (None, ""):
            continue
        odd = sorted({str(g[key]) for g in gpus if rule(g[key], wanted)})
        if odd:
            findings.append(
                error(
                    f"gpu-{key.replace('_', '-')}",
                    f"The hardware profile has GPUs with {key} {wanted}, the node has {', '.join(odd)}.",
                    "Use the profile of this node.",
                    expected=str(wanted),
                    found=odd,
                )
            )
    if link and expected.get("link") and link != expected["link"]:
        findings.append(
            warning(
                "gpu-link",
                f"The hardware profile says that {expected['link']} connects the GPUs, on the node it is {link}.",
                "Use the profile of this node (the link decides on layouts), or look at nvidia-smi nvlink --status.",
                expected=expected["link"],
                found=link,
            )
        )
    return findings


def _name_differs(found: t.Any, wanted: t.Any) -> bool:
    """A profile names a family: "NVIDIA RTX PRO 6000 Blackwell" stands for its Server Edition too."""
    return not re.match(rf"{re.escape(str(wanted))}(?!\w)", str(found), re.IGNORECASE)


def _cap_differs(found: t.Any, wanted: t.Any) -> bool:
    return found is not None and str(found) != str(wanted)


def _memory_differs(found: t.Any, wanted: t.Any) -> bool:
    """Less memory than planned with. A little is lost to ECC and firmware."""
    return found is not None and found < int(wanted) * 0.99

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a node has in GPUs: one result for gpu_info, whatever state the node is in."""

from __future__ import annotations

import re
import typing as t

from .._findings import Finding, as_dicts, error, info, warning
from .host import Output, Runner, iommu_mode, numa_node, read_text
from .parse import (
    MINIMAL_QUERY,
    QUERY,
    Matrix,
    bus_id,
    classify,
    link_of,
    parse_gpus,
    parse_p2p,
    parse_processes,
    parse_topology,
    share_host_memory,
    unknown_field,
)

# An old driver names the fields that it does not know one by one; after so many the minimal query is used.
_DROPPED_FIELDS = 6


def collect(run: Runner, expected: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """The result of gpu_info. ``expected`` has count, name, memory_mib and compute_cap, or a part of them."""
    output = _query(run)
    status, message, remedy = _status(output)
    gpus = parse_gpus(output.stdout) if status in ("ok", "gpu_lost") else []
    if status == "ok" and not gpus:
        status, message, remedy = "no_devices", "nvidia-smi shows no GPU.", "Check with lspci that the GPUs are there."
    share_host_memory(gpus, read_text("/proc/meminfo"))
    matrix: Matrix = {}
    affinity: dict[str, dict[str, str | None]] = {}
    p2p: dict[str, Matrix] = {}
    processes: list[dict[str, t.Any]] = []
    if gpus:
        matrix, affinity = parse_topology(run(["topo", "-m"]).stdout)
        if len(gpus) > 1:
            p2p = {
                name: parse_p2p(run(["topo", "-p2p", flag]).stdout) for name, flag in (("read", "r"), ("write", "w"))
            }
        apps = run(["--query-compute-apps=pid,gpu_uuid,used_gpu_memory", "--format=csv"])
        processes = parse_processes(apps.stdout)
    link = link_of(matrix)
    for gpu in gpus:
        near = affinity.get(f"GPU{gpu['index']}", {})
        gpu["link"] = link
        gpu["numa_node"] = numa_node(gpu["bus_id"])
        gpu["cpu_affinity"] = near.get("cpus")
    driver = next((g["driver_version"] for g in gpus if g["driver_version"]), None)
    for gpu in gpus:
        del gpu["driver_version"]
    iommu = iommu_mode()
    findings = [] if status == "ok" else [_unusable(status, message, remedy)]
    findings += _remarks(gpus, link, iommu)
    findings += _unexpected(gpus, status, expected or {})
    return {
        "status": status,
        "message": message,
        "gpus": gpus,
        "driver_version": driver,
        "topology": matrix,
        "p2p": p2p,
        "link": link,
        "iommu": iommu,
        "processes": processes,
        "findings": as_dicts(findings),
    }


def _query(run: Runner) -> Output:
    """The query with every field that this driver knows."""
    fields = list(QUERY)
    for _attempt in range(_DROPPED_FIELDS):
        output = run([f"--query-gpu={','.join(fields)}", "--format=csv"])
        stranger = unknown_field(output.text)
        if stranger is None:
            return output
        if stranger not in fields:
            break
        fields.remove(stranger)
    return run([f"--query-gpu={','.join(MINIMAL_QUERY)}", "--format=csv"])


def _status(output: Output) -> tuple[str, str, str]:
    if output.missing:
        return "no_nvidia_smi", "nvidia-smi was not found.", "Install the NVIDIA driver, or set nvidia_smi."
    if output.timed_out:
        return "timeout", "nvidia-smi did not answer in time.", "Look for Xid messages in the kernel log; reboot."
    if output.rc is None:
        return "error", f"nvidia-smi could not be started: {output.stderr}.", "Look at the file that nvidia_smi names."
    fault = classify(output.text, output.rc)
    if fault is None:
        return "ok", "", ""
    status, line, remedy = fault
    # "[Unknown Error]" in a cell is one value that is missing, not a broken node.
    if status == "error" and output.rc == 0 and parse_gpus(output.stdout):
        return "ok", "", ""
    return status, line, remedy


def _unusable(status: str, message: str, remedy: str) -> Finding:
    numbers = {"bus_id": bus_id(message)} if status == "gpu_lost" else {}
    return error(
        "gpu-" + status.replace("_", "-").removeprefix("gpu-"), f"No usable GPUs: {message}", remedy, **numbers
    )


def _remarks(gpus: list[dict[str, t.Any]], link: str | None, iommu: str) -> list[Finding]:
    """What is odd about GPUs that answer."""
    findings: list[Finding] = []
    sliced = [g["index"] for g in gpus if g["mig"] or g["virtual"]]
    if sliced:
        findings.append(
            warning(
                "gpu-partial",
                f"GPU {', '.join(map(str, sliced))} is cut by MIG or vGPU; slices cannot form a tensor parallel group.",
                "Turn MIG off for models that need more than one GPU.",
                gpus=sliced,
            )
        )
    unified = [g["index"] for g in gpus if g["unified_memory"]]
    if unified:
        findings.append(info("gpu-unified-memory", "GPU and CPU share one memory, sizes are those of the host."))
    narrow = [
        g["index"] for g in gpus if g["pcie_width"] and g["pcie_width_max"] and g["pcie_width"] < g["pcie_width_max"]
    ]
    if narrow:
        findings.append(
            warning(
                "gpu-pcie-narrow",
                f"GPU {', '.join(map(str, narrow))} uses fewer PCIe lanes than it has.",
                "Check slot, riser and cable.",
                gpus=narrow,
            )
        )
    if iommu == "translated" and link == "pcie" and len(gpus) > 1:
        # NVIDIA/nccl#1999, vllm#33041: the first all-reduce hangs although topo -p2p says OK.
        findings.append(
            warning(
                "iommu-translated",
                "The IOMMU translates addresses: GPU to GPU transfers over PCIe may hang or be slow, also where "
                "nvidia-smi says that peer access is OK.",
                "Boot with iommu=pt and switch off ACS redirection, or serve with NCCL_P2P_DISABLE=1 and, on two GPUs, "
                "--disable-custom-all-reduce.",
            )
        )
    return findings


def _unexpected(gpus: list[dict[str, t.Any]], status: str, expected: t.Mapping[str, t.Any]) -> list[Finding]:
    """How the GPUs differ from those of a hardware profile."""
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
    return findings


def _name_differs(found: t.Any, wanted: t.Any) -> bool:
    """A profile names a family: "NVIDIA RTX PRO 6000 Blackwell" stands for its Server Edition too."""
    return not re.match(rf"{re.escape(str(wanted))}(?!\w)", str(found), re.IGNORECASE)


def _cap_differs(found: t.Any, wanted: t.Any) -> bool:
    return found is not None and str(found) != str(wanted)


def _memory_differs(found: t.Any, wanted: t.Any) -> bool:
    """Less memory than planned with. A little is lost to ECC and firmware."""
    return found is not None and found < int(wanted) * 0.99

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a node has in GPUs: one result for gpu_info, whatever state the node is in."""

from __future__ import annotations

import typing as t

from .._findings import Finding, as_dicts, warning
from .checks import remarks, unexpected, unusable
from .details import DETAILS, parse_details
from .host import Output, Runner, read_text
from .owners import merge
from .parse import (
    MINIMAL_QUERY,
    QUERY,
    Matrix,
    classify,
    link_of,
    parse_gpus,
    parse_p2p,
    parse_processes,
    parse_topology,
    share_host_memory,
    unknown_field,
)
from .pcie import acs_of, iommu_mode, numa_node

# An old driver names the fields that it does not know one by one; after so many the minimal query is used.
_DROPPED_FIELDS = 6
# Exit status of nvidia-smi, from its manual: all the output is there, and the infoROM of a GPU is corrupted.
_INFOROM_CORRUPTED = 14


class _Asked:
    """Runs the calls after the first and keeps in mind which of them did not end in time."""

    def __init__(self, run: Runner) -> None:
        self._run = run
        self.late: list[str] = []

    def __call__(self, *arguments: str) -> str:
        output = self._run(list(arguments))
        if output.timed_out:
            self.late.append(" ".join(arguments))
        return output.stdout


def collect(run: Runner, expected: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """The result of gpu_info. ``expected`` has count, name, memory_mib, compute_cap and link, or a part of them."""
    output = _query(run)
    status, message, remedy = _status(output)
    gpus = parse_gpus(output.stdout) if status in ("ok", "gpu_lost") else []
    if status == "ok" and not gpus:
        status, message, remedy = "no_devices", "nvidia-smi shows no GPU.", "Check with lspci that the GPUs are there."
    share_host_memory(gpus, read_text("/proc/meminfo"))
    ask = _Asked(run)
    matrix: Matrix = {}
    affinity: dict[str, dict[str, str | None]] = {}
    p2p: dict[str, Matrix] = {}
    processes: list[dict[str, t.Any]] = []
    details: dict[str, dict[str, t.Any]] = {}
    if gpus:
        apps = parse_processes(ask("--query-compute-apps=pid,gpu_uuid,used_gpu_memory", "--format=csv"))
        details, listed = parse_details(ask("-q", "-x"))
        processes = merge(apps, listed, gpus)
        matrix, affinity = parse_topology(ask("topo", "-m"))
        if len(gpus) > 1:
            p2p = {name: parse_p2p(ask("topo", "-p2p", flag)) for name, flag in (("read", "r"), ("write", "w"))}
    link = link_of(matrix)
    driver = next((g["driver_version"] for g in gpus if g["driver_version"]), None)
    for gpu in gpus:
        near = affinity.get(f"GPU{gpu['index']}", {})
        gpu.update(dict.fromkeys(DETAILS) | details.get(gpu["bus_id"], {}))
        gpu.update(link=link, numa_node=numa_node(gpu["bus_id"]), cpu_affinity=near.get("cpus"))
        gpu["virtual"] = gpu["virtual"] or gpu["virtualization"] == "VGPU"
        del gpu["driver_version"]
    iommu, acs = iommu_mode(), acs_of(gpus)
    findings = [] if status == "ok" else [unusable(status, message, remedy)]
    findings += _incomplete(output, ask.late)
    findings += remarks(gpus, link, iommu, acs, p2p.get("read", {}))
    findings += unexpected(gpus, link, status, expected or {})
    return {
        "status": status,
        "message": message,
        "gpus": gpus,
        "driver_version": driver,
        "topology": matrix,
        "p2p": p2p,
        "link": link,
        "iommu": iommu,
        "acs": acs,
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
    # "[Unknown Error]" in a cell is one value that is missing, not a broken node; nor is a corrupted infoROM.
    if status == "error" and output.rc in (0, _INFOROM_CORRUPTED) and parse_gpus(output.stdout):
        return "ok", "", ""
    return status, line, remedy


def _incomplete(output: Output, late: t.Sequence[str]) -> list[Finding]:
    """What was said or left out beside the table of GPUs."""
    findings: list[Finding] = []
    inforom = next((line.strip() for line in output.text.splitlines() if "inforom" in line.lower()), None)
    if inforom is not None:
        findings.append(
            warning(
                "gpu-inforom",
                f"nvidia-smi says: {inforom}.",
                "The GPU works, but its ECC and page records are not kept. Have the card looked at.",
            )
        )
    if late:
        findings.append(
            warning(
                "gpu-incomplete",
                f"nvidia-smi did not answer in time to: {', '.join(late)}. What it would say is missing here.",
                "Look for Xid messages in the kernel log, and give more time.",
            )
        )
    return findings

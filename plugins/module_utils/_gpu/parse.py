# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Text of nvidia-smi as data. An error text is never a GPU, and a bracketed cell is never a value."""

from __future__ import annotations

import csv
import re
import typing as t

Matrix = dict[str, dict[str, str]]

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NUMBER = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(?:MiB|W|MHz|%|x)?")
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
# vGPU and MIG profiles end in their size: "NVIDIA H100L-2-24C", "GRID A100-40C".
_VIRTUAL = re.compile(r"(^GRID |-\d+[ABCQ]$| MIG )")
# The addressing mode says whether the driver maps host memory by heterogeneous memory management.
_HMM = {"hmm": True, "ats": False, "none": False}
# What GB10 shows for its memory. "[Unknown Error]" is a GPU whose memory could not be asked for.
_NO_OWN_MEMORY = ("[N/A]", "N/A", "[Not Supported]")
_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')

# Query fields and the key and type of each in a GPU.
FIELDS: t.Mapping[str, tuple[str, str]] = {
    "index": ("index", "int"),
    "name": ("name", "str"),
    "uuid": ("uuid", "str"),
    "memory.total": ("memory_mib", "int"),
    "memory.used": ("memory_used_mib", "int"),
    "memory.free": ("memory_free_mib", "int"),
    "compute_cap": ("compute_cap", "str"),
    "driver_version": ("driver_version", "str"),
    "pci.bus_id": ("bus_id", "str"),
    "pcie.link.gen.current": ("pcie_gen", "int"),
    "pcie.link.gen.max": ("pcie_gen_max", "int"),
    "pcie.link.width.current": ("pcie_width", "int"),
    "pcie.link.width.max": ("pcie_width_max", "int"),
    "power.limit": ("power_limit_w", "float"),
    "power.max_limit": ("power_max_limit_w", "float"),
    "clocks.max.sm": ("clock_max_mhz", "int"),
    "mig.mode.current": ("mig", "switch"),
    "persistence_mode": ("persistence", "switch"),
    "ecc.mode.current": ("ecc", "switch"),
    "addressing_mode": ("addressing_mode", "str"),
}
QUERY = tuple(f for f in FIELDS if f != "clocks.max.sm")
# What every driver of the last ten years knows.
MINIMAL_QUERY = ("index", "name", "uuid", "memory.total", "memory.used", "memory.free", "driver_version", "pci.bus_id")


def cell(text: str) -> str | None:
    """A cell, None when it is empty, N/A, None or anything in brackets ([N/A], [Not Supported], [Unknown Error])."""
    text = text.strip()
    return None if text in ("", "N/A", "None") or text.startswith("[") else text


def typed(text: str, kind: str) -> t.Any:
    """A cell as ``str``, ``int``, ``float`` or ``switch`` (Enabled is True); None when it says nothing of that kind."""
    value = cell(text)
    if value is None or kind == "str":
        return value
    if kind == "switch":
        return {"enabled": True, "disabled": False}.get(value.lower())
    match = _NUMBER.fullmatch(value)
    if match is None:
        return None
    return float(match[1]) if kind == "float" else int(float(match[1]))


def parse_gpus(text: str, fields: t.Sequence[str] | None = None) -> list[dict[str, t.Any]]:
    """The GPUs in the output of ``nvidia-smi --query-gpu=... --format=csv``.

    The header says which column is what; with ``--format=noheader`` give ``fields``. Lines that do not have a
    cell for each column, or no device in it, are not GPUs and are left out.
    """
    rows = [[c.strip() for c in row] for row in csv.reader(text.splitlines()) if row]
    if fields is None:
        header = next((i for i, row in enumerate(rows) if _field(row[0]) in FIELDS), None)
        if header is None:
            return []
        fields = [_field(c) for c in rows[header]]
        rows = rows[header + 1 :]
    gpus = []
    for row in rows:
        if len(row) != len(fields):
            continue
        gpu: dict[str, t.Any] = {key: None for key, _form in FIELDS.values()}
        gpu.update({FIELDS[f][0]: typed(c, FIELDS[f][1]) for f, c in zip(fields, row, strict=True) if f in FIELDS})
        if ("index" in fields and gpu["index"] is None) or gpu["name"] is None:
            continue
        shown = dict(zip(fields, row, strict=True))
        gpu["hmm"] = _HMM.get(shown.get("addressing_mode", "").lower())
        gpu["mig"] = bool(gpu["mig"])
        gpu["virtual"] = bool(_VIRTUAL.search(gpu["name"]))
        own_memory = gpu["virtual"] or gpu["mig"] or shown.get("memory.total") not in _NO_OWN_MEMORY
        gpu["unified_memory"] = not own_memory
        gpu["memory_source"] = "nvidia-smi" if gpu["memory_mib"] is not None else None
        gpus.append(gpu)
    return gpus


def _field(title: str) -> str:
    """``memory.total [MiB]`` as ``memory.total``."""
    return title.split("[", maxsplit=1)[0].strip()


def unknown_field(text: str) -> str | None:
    """The field that an old driver does not know, when that is what it says."""
    match = _UNKNOWN_FIELD.search(text)
    return match[1] if match else None


def parse_meminfo(text: str) -> tuple[int | None, int | None]:
    """(MemTotal, MemAvailable) of /proc/meminfo in MiB."""
    found = dict(re.findall(r"^(MemTotal|MemAvailable):\s*(\d+) kB", text, re.MULTILINE))
    total, available = found.get("MemTotal"), found.get("MemAvailable")
    return (int(total) // 1024 if total else None), (int(available) // 1024 if available else None)


def share_host_memory(gpus: list[dict[str, t.Any]], meminfo: str) -> None:
    """Fill in the memory of GPUs that have none of their own (GB10): it is that of the host."""
    total, available = parse_meminfo(meminfo)
    for gpu in gpus:
        if gpu["unified_memory"] and total is not None:
            gpu.update(
                memory_mib=total,
                memory_free_mib=available,
                memory_used_mib=None if available is None else total - available,
                memory_source="/proc/meminfo",
            )


def parse_topology(text: str) -> tuple[Matrix, dict[str, dict[str, str | None]]]:
    """(link matrix between devices, CPU and NUMA affinity of each GPU) of ``nvidia-smi topo -m``."""
    rows = _table(text)
    if not rows:
        return {}, {}
    header, body = rows[0], rows[1:]
    devices = [h for h in header if re.fullmatch(r"GPU\d+|NIC\d+|mlx\S+", h)]
    matrix: Matrix = {}
    affinity: dict[str, dict[str, str | None]] = {}
    for row in body:
        name, cells = row[0], row[1:]
        if name not in devices or len(cells) < len(devices):
            continue
        matrix[name] = {d: c for d, c in zip(devices, cells, strict=False) if d != name}
        if name.startswith("GPU"):
            titles = header[len(devices) :]
            rest = dict(zip(titles, cells[len(devices) :], strict=False))
            affinity[name] = {
                "cpus": cell(rest.get("CPU Affinity", "")),
                "numa": cell(rest.get("NUMA Affinity", "")),
            }
    return matrix, affinity


def parse_p2p(text: str) -> Matrix:
    """The matrix of ``nvidia-smi topo -p2p``: OK, or why not (CNS, GNS, TNS, NS, U)."""
    rows = _table(text)
    if not rows:
        return {}
    header = [h for h in rows[0] if h]
    return {
        row[0]: {d: c for d, c in zip(header, row[1:], strict=False) if d != row[0]}
        for row in rows[1:]
        if re.fullmatch(r"GPU\d+", row[0])
    }


def _table(text: str) -> list[list[str]]:
    """The cells of the first table, up to the legend; the colours of the header removed."""
    rows: list[list[str]] = []
    for line in _ANSI.sub("", text).splitlines():
        if line.strip().startswith("Legend"):
            break
        cells = [c.strip() for c in line.split("\t")]
        if not rows and not re.search(r"\bGPU0\b", line):
            continue
        if not any(cells):
            break
        rows.append([c for c in cells if c] if not rows else cells)
    return rows


def parse_processes(text: str) -> list[dict[str, t.Any]]:
    """The processes in the output of ``nvidia-smi --query-compute-apps=pid,gpu_uuid,used_gpu_memory``."""
    rows = [[c.strip() for c in row] for row in csv.reader(text.splitlines()) if row]
    return [
        {"pid": int(row[0]), "gpu_uuid": cell(row[1]), "used_memory_mib": typed(row[2], "int")}
        for row in rows
        if len(row) == 3 and row[0].isdigit()
    ]


# From near to far; NVLink is nearer than all of them. Source: the legend of `nvidia-smi topo -m`.
_DISTANCE = ("PIX", "PXB", "PHB", "NODE", "SYS")


def farthest_pair(matrix: Matrix) -> tuple[int, int] | None:
    """The two GPUs with the longest way between them, the first such pair; None without a pair."""
    pairs = [
        (_DISTANCE.index(c) + 1 if c in _DISTANCE else 0, int(a[3:]), int(b[3:]))
        for a, row in matrix.items()
        for b, c in row.items()
        if re.fullmatch(r"GPU\d+", a) and re.fullmatch(r"GPU\d+", b) and int(a[3:]) < int(b[3:])
    ]
    if not pairs:
        return None
    _far, first, second = min(pairs, key=lambda pair: (-pair[0], pair[1], pair[2]))
    return first, second


def link_of(matrix: Matrix) -> str | None:
    """``nvlink`` when every pair of GPUs has one, else ``pcie``; None for a single GPU or no matrix."""
    pairs = [c for a, row in matrix.items() for b, c in row.items() if a.startswith("GPU") and b.startswith("GPU")]
    if not pairs:
        return None
    return "nvlink" if all(re.fullmatch(r"NV\d+", c) for c in pairs) else "pcie"


# Words of nvidia-smi and what they mean; the first that meets wins.
_ERRORS: tuple[tuple[str, str, str], ...] = (
    (
        r"driver/library version mismatch",
        "driver_mismatch",
        "Reboot, or stop what uses the GPUs and reload the nvidia kernel modules.",
    ),
    (
        r"unable to determine the device handle|gpu is lost|fallen off the bus",
        "gpu_lost",
        "Look for Xid messages in the kernel log; reboot, and reseat the card when it happens again.",
    ),
    (
        r"no devices were found|no supported gpus were found|unable to determine the number of gpus",
        "no_devices",
        "Check with lspci that the GPUs are there and that the driver supports them.",
    ),
    (
        r"couldn't communicate with the nvidia driver|driver is not loaded|driver not loaded"
        r"|couldn't find libnvidia-ml|shared library not found",
        "no_driver",
        "Install the NVIDIA driver for this kernel and load it.",
    ),
)


_FAILURE = re.compile(
    r"failed to initialize nvml|insufficient permissions|unknown error|inforom is corrupted", re.IGNORECASE
)


def classify(text: str, rc: int) -> tuple[str, str, str] | None:
    """(status, the line that says it, remedy) of an error text; None when it is none."""
    for pattern, status, remedy in _ERRORS:
        for line in text.splitlines():
            if re.search(pattern, line, re.IGNORECASE):
                return status, line.strip(), remedy
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if _FAILURE.search(line)), None)
    if said is None and rc != 0:
        said = lines[0] if lines else f"exit status {rc}, no output"
    return None if said is None else ("error", said, "Run nvidia-smi on the node as root.")


def bus_id(text: str) -> str | None:
    """The first PCI bus id in a text."""
    match = _BUS_ID.search(text)
    return match[0] if match else None

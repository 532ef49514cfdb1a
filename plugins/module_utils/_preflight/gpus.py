# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Checks of the GPUs for the instance that will run on them: memory, driver, numbers, vLLM's tools."""

from __future__ import annotations

import glob
import os
import re
import shutil
import typing as t

from .._findings import Finding, error, info, warning
from .question import Question

# The default of --gpu-memory-utilization since vLLM 0.20; it was 0.9 before.
_UTILIZATION = 0.92

# Lowest driver for each CUDA major version. Source: CUDA Toolkit release notes, "CUDA minor version compatibility".
_DRIVERS = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
# Packages of PyTorch's CUDA by which its major version is known: nvidia_cuda_runtime_cu12-12.8.90.dist-info, and from
# CUDA 13 on nvidia_cuda_runtime-13.0.48.dist-info.
_RUNTIME = re.compile(r"nvidia_cuda_runtime(?:_cu\d+)?-(\d+)\.")
_STOP_IT = "Stop it yourself if it may go: this collection stops its own units only."
_FIND_IT = "Look for it on the host of this container, or for a process that could not be ended; else reboot."
_CUDA_BIN = "/usr/local/cuda/bin"  # also in the PATH that the role serve gives an instance
# FlashInfer's kernels, compiled beforehand: with them the first start compiles next to nothing.
_PREBUILT = ("flashinfer_jit_cache-*.dist-info", "flashinfer_cubin-*.dist-info")


def vram(question: Question) -> list[Finding] | None:
    """vLLM ends when less than utilization x total is free; what units of ours hold is free after the switch."""
    gpus = question.used_gpus
    if not gpus:
        return None
    share = question.utilization or _UTILIZATION
    ours = question.siblings | {question.unit} - {""}
    return [f for gpu in gpus for f in _vram_of(gpu, _holders(question, gpu), ours, share)]


def _holders(question: Question, gpu: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    processes = question.gpu_info.get("processes") or []
    return [p for p in processes if p.get("gpu_index") == gpu["index"]]


def _vram_of(
    gpu: t.Mapping[str, t.Any], holders: t.Sequence[t.Mapping[str, t.Any]], ours: t.Collection[str], share: float
) -> list[Finding]:
    total, free = gpu["memory_mib"], gpu["memory_free_mib"]
    if total is None or free is None:
        return []
    own = [p for p in holders if p["unit"] in ours]
    foreign = [p for p in holders if p not in own]
    if any(p["used_memory_mib"] is None for p in own):
        return []  # the driver does not say what the switch will free
    later = free + sum(p["used_memory_mib"] for p in own)
    wanted = int(total * share)
    held = ", ".join(_described(p) for p in foreign)
    numbers = {
        "gpu": gpu["index"],
        "free_mib": later,
        "wanted_mib": wanted,
        "processes": [
            {key: p[key] for key in ("pid", "name", "owner", "unit", "used_memory_mib") if key in p} for p in foreign
        ],
    }
    if later < wanted:
        return [
            error(
                "vram-held",
                f"GPU {gpu['index']} has {later} MiB free of the {wanted} MiB that vLLM asks for ({total} MiB x "
                f"{share:g}); the rest is held by {held or 'no process that can be seen from here'}.",
                _STOP_IT if foreign else _FIND_IT,
                **numbers,
            )
        ]
    if foreign:
        return [info("vram-shared", f"GPU {gpu['index']} is used by others too: {held}.", **numbers)]
    return []


def _described(process: t.Mapping[str, t.Any]) -> str:
    used = process["used_memory_mib"]
    parts = [f"pid {process['pid']}", f"user {process['owner']}" if process["owner"] else "", process["unit"] or ""]
    size = "an unknown amount" if used is None else f"{used} MiB"
    return f"{process['name'] or 'a process'} ({', '.join(p for p in parts if p)}; {size})"


def visible_devices(question: Question) -> list[Finding] | None:
    """CUDA_VISIBLE_DEVICES must be a list of numbers: vLLM reads each as one (vllm#41848)."""
    text = question.visible
    if text is None or not question.gpus:
        return None
    parts = [part.strip() for part in text.split(",")]
    known = {g["index"] for g in question.gpus}
    bad = [part for part in parts if not part.isdigit() or int(part) not in known]
    if bad or len(set(parts)) < len(parts):
        return [
            error(
                "visible-devices",
                f"CUDA_VISIBLE_DEVICES is {text!r}: vLLM takes numbers of GPUs, each once, here of "
                f"{', '.join(map(str, sorted(known)))}. UUIDs end it, MIG slices form no tensor parallel group.",
                "Give the numbers that nvidia-smi shows; the role serve orders GPUs as nvidia-smi does.",
                value=text,
                bad=bad,
            )
        ]
    wanted = int(question.layout.get("gpus") or 0) // max(1, question.nodes)
    if wanted > len(parts):
        return [
            error(
                "visible-devices",
                f"CUDA_VISIBLE_DEVICES is {text!r} and the layout {question.layout.get('id')} needs {wanted} GPUs.",
                "Name as many GPUs, or choose a smaller layout.",
                value=text,
                wanted=wanted,
            )
        ]
    return []


def packages(vllm_bin: str) -> str | None:
    """The site-packages beside a vllm executable, None when it is not there."""
    root = os.path.dirname(os.path.dirname(vllm_bin))
    found = sorted(glob.glob(os.path.join(glob.escape(root), "lib", "python3*", "site-packages")))
    return found[0] if found else None


def driver(question: Question) -> list[Finding] | None:
    """A driver that is older than the CUDA of the installed PyTorch does not start it."""
    place, version = packages(question.vllm_bin), question.gpu_info.get("driver_version")
    if place is None or not version:
        return None
    majors = [int(m[1]) for name in os.listdir(place) if (m := _RUNTIME.match(name))]
    if not majors or max(majors) not in _DRIVERS:
        return None
    lowest = _DRIVERS[max(majors)]
    if tuple(int(part) for part in re.findall(r"\d+", str(version))) >= lowest:
        return []
    needed = ".".join(map(str, lowest))
    return [
        error(
            "driver-too-old",
            f"The driver is {version}, the CUDA {max(majors)} of the installed vLLM needs {needed} or newer.",
            "Update the driver, or install a vLLM that was built for an older CUDA.",
            found=version,
            needed=needed,
        )
    ]


def tools(question: Question) -> list[Finding] | None:
    """What vLLM compiles kernels with at its first start (flashinfer#3386)."""
    place = packages(question.vllm_bin)
    if question.accelerator != "cuda" or place is None:
        return None
    findings = []
    path = os.pathsep.join((os.path.dirname(question.vllm_bin), _CUDA_BIN, os.environ.get("PATH", "")))
    if shutil.which("ninja", path=path) is None:
        findings.append(
            warning(
                "jit-ninja-missing",
                "There is no ninja beside vllm nor in PATH: kernels that are compiled at the first start fail.",
                "Install the package ninja into the virtual environment of vLLM.",
            )
        )
    prebuilt = any(glob.glob(os.path.join(glob.escape(place), pattern)) for pattern in _PREBUILT)
    if not prebuilt and shutil.which("nvcc", path=path) is None:
        findings.append(
            warning(
                "jit-nvcc-missing",
                "There is neither nvcc nor a package with compiled FlashInfer kernels: a model that needs them fails.",
                "Install flashinfer-jit-cache and flashinfer-cubin in FlashInfer's version, or the CUDA toolkit.",
            )
        )
    return findings

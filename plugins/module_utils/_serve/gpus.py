# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Whose GPUs are they, and are they free? Asked before anything is stopped, and again before anything is started."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._findings import Finding, error, warning
from .._gpu.host import Output, Runner, read_text
from .._gpu.owners import merge
from .._gpu.parse import MINIMAL_QUERY, parse_gpus, parse_processes, share_host_memory
from .release import Release

# What vLLM takes of a GPU when nobody says how much. Source: the default of --gpu-memory-utilization since 0.20.
DEFAULT_FRACTION: t.Final = 0.92


@dataclass(frozen=True)
class Gpu:
    """One GPU that a release wants: MiB, and the processes on it as :func:`_gpu.owners.merge` gives them.

    ``unified``: its memory is that of the host.
    """

    index: str
    total: int
    free: int
    need: int
    processes: tuple[t.Mapping[str, t.Any], ...]
    unified: bool = False


class Gpus:
    """The GPUs of this node. ``ask`` makes a runner of nvidia-smi with a time limit of its own."""

    def __init__(self, ask: t.Callable[[], Runner], proc: str = "/proc") -> None:
        self._ask, self._proc = ask, proc

    def judge(self, releases: t.Sequence[Release], ours: t.Collection[str]) -> list[Finding]:
        """Will they hold the releases when the units ``ours`` are gone? An error for each reason why not."""
        wanted = _wanted(releases)
        if not wanted:
            return []
        seen, problem = self._look(wanted)
        if problem:
            return [error("gpu-unreadable", problem, "Nothing was stopped. Run the role modelops.vllm.preflight.")]
        findings = [
            error(
                "gpu-missing",
                f"The release wants GPU {index}, and nvidia-smi shows {', '.join(sorted(seen)) or 'none'}.",
                "Choose a layout with fewer GPUs, or set serve_devices to GPUs that are there.",
                index=index,
            )
            for index in sorted(wanted.keys() - seen.keys())
        ]
        for gpu in seen.values():
            foreign = [p for p in gpu.processes if p["unit"] not in ours]
            left, certain = _left(gpu, ours)
            numbers = {"index": gpu.index, "free_mib": left, "need_mib": gpu.need, "pids": [p["pid"] for p in foreign]}
            short = certain and left < gpu.need
            if foreign:
                findings.append(_beside(gpu, "; ".join(map(describe, foreign)), numbers, short=short))
            elif short:
                findings.append(
                    error(
                        "gpu-memory-hidden",
                        f"GPU {gpu.index} will have {left} MiB free of {gpu.need} MiB needed, and no process that"
                        " nvidia-smi shows holds the rest.",
                        "A container, a virtual machine or MIG may hold it, or a process that hangs in the driver: look"
                        " at fuser -v /dev/nvidia*. Without any, reset the GPU or reboot. Or set serve_devices to other"
                        " GPUs, or lower serve_gpu_memory_utilization.",
                        **numbers,
                    )
                )
        return findings

    def holders(self, releases: t.Sequence[Release], ours: t.Collection[str], *, room: bool) -> list[str]:
        """What keeps the GPUs from holding the releases now, a line for each GPU; empty when nothing does.

        Without ``room`` it is enough that no process of ``ours`` is left on them.

        The driver frees memory some time after a process is gone, and a worker that was orphaned keeps it for ever
        (vllm#55510), so a port that is free says nothing.
        """
        wanted = _wanted(releases)
        if not wanted:
            return []
        seen, problem = self._look(wanted)
        if problem:
            return [problem]
        lines = []
        for gpu in seen.values():
            left = [p for p in gpu.processes if p["unit"] in ours]
            if left or (room and gpu.free < gpu.need):
                who = "; ".join(map(describe, gpu.processes)) or "no process that nvidia-smi shows"
                lines.append(f"GPU {gpu.index}: {gpu.free} MiB free of {gpu.need} MiB needed, used by {who}")
        return lines

    def _look(self, wanted: t.Mapping[str, float]) -> tuple[dict[str, Gpu], str]:
        """({index: GPU} of those that are wanted, what keeps nvidia-smi from answering)"""
        run = self._ask()
        output = run([f"--query-gpu={','.join(MINIMAL_QUERY)}", "--format=csv"])
        gpus = parse_gpus(output.stdout)
        if not gpus or output.timed_out:
            return {}, f"nvidia-smi does not show the GPUs: {_why(output)}."
        share_host_memory(gpus, read_text("/proc/meminfo"))
        apps = run(["--query-compute-apps=pid,gpu_uuid,used_gpu_memory", "--format=csv"])
        if apps.rc != 0:
            return {}, f"nvidia-smi does not show who uses the GPUs: {_why(apps)}."
        processes = merge(parse_processes(apps.stdout), [], gpus, self._proc)
        seen = {}
        for gpu in gpus:
            index = str(gpu["index"])
            if index in wanted:
                total, free = gpu["memory_mib"] or 0, gpu["memory_free_mib"] or 0
                held = tuple(p for p in processes if p["gpu_uuid"] == gpu["uuid"])
                seen[index] = Gpu(index, total, free, int(total * wanted[index]), held, gpu["unified_memory"])
        return seen, ""


def _left(gpu: Gpu, ours: t.Collection[str]) -> tuple[int, bool]:
    """(MiB that will be free once the units ``ours`` are gone, whether that is certain)

    Of processes on virtual and partial GPUs nvidia-smi may not tell the memory, and where it is that of the host it
    tells a part. Then all may come back but what others are known to hold.
    """
    own = [p["used_memory_mib"] for p in gpu.processes if p["unit"] in ours]
    foreign = [p["used_memory_mib"] for p in gpu.processes if p["unit"] not in ours]
    if not own or (None not in own and not gpu.unified):
        return gpu.free + sum(own), True
    if foreign and None not in foreign:
        return gpu.total - sum(foreign), True
    return gpu.free + sum(mib or 0 for mib in own), False


def _beside(gpu: Gpu, who: str, numbers: t.Mapping[str, t.Any], *, short: bool) -> Finding:
    """What it means that processes are on the GPU which stay. ``short``: too little is left beside them."""
    if short:
        return error(
            "gpu-taken",
            f"GPU {gpu.index} will have {numbers['free_mib']} MiB free of {gpu.need} MiB needed. It is used by {who}.",
            "Stop it yourself if it may go: this role stops its own units only. Or set serve_devices to"
            " other GPUs, or lower serve_gpu_memory_utilization.",
            **numbers,
        )
    return warning(
        "gpu-shared",
        f"GPU {gpu.index} is also used by {who}.",
        "It fits beside it; what it takes later is missing for the model.",
        **numbers,
    )


def _wanted(releases: t.Sequence[Release]) -> dict[str, float]:
    """{index: the largest part of its memory that a release wants}"""
    wanted: dict[str, float] = {}
    for release in releases:
        fraction = float(release.record.get("vram_fraction") or DEFAULT_FRACTION)
        for index in release.devices:
            wanted[index] = max(wanted.get(index, 0.0), fraction)
    return wanted


def describe(process: t.Mapping[str, t.Any]) -> str:
    """A process for a message: never its command line, which may hold a secret."""
    parts = [f"pid {process['pid']}"]
    parts += [f"user {process['owner']}"] if process["owner"] else []
    parts += [str(process["unit"])] if process["unit"] else []
    memory = f", {process['used_memory_mib']} MiB" if process["used_memory_mib"] is not None else ""
    return f"{process['name'] or 'a process'} ({', '.join(parts)}{memory})"


def _why(output: Output) -> str:
    if output.missing:
        return "it was not found"
    if output.timed_out:
        return "it did not answer in time"
    return " ".join(output.text.split())[:300] or f"exit status {output.rc}"

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The host that is measured, when the client is on it: GPUs and how they are linked, software, the server's process.

Reads only, and what cannot be read is left out: an identity has what is known.
"""

from __future__ import annotations

import contextlib
import glob
import os
import typing as t

from .._gpu.host import runner
from .._gpu.parse import Matrix, parse_topology
from .energy import Gpu
from .identity import scrub

# Variables of the server's environment that decide how it computes; prefixes end with an underscore.
ENVIRONMENT: t.Final = (
    "VLLM_",
    "NCCL_",
    "PYTORCH_",
    "TORCH_",
    "UCX_",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "OMP_NUM_THREADS",
)

_NVIDIA_SMI_TIMEOUT_S: t.Final = 20.0
_LISTEN: t.Final = "0A"


def describe(
    gpus: t.Sequence[Gpu], driver: str, software: t.Mapping[str, str | None], port: int, secrets: t.Sequence[str | None]
) -> dict[str, t.Any]:
    """All that is known of this host, for the identity of a result; ``port`` is the server's."""
    known: dict[str, t.Any] = {"kernel": os.uname().release}
    if gpus:
        known.update(
            driver=driver,
            gpu_names=sorted({gpu.name for gpu in gpus}),
            gpu_count=len(gpus),
            power_limits_w=_distinct(gpu.power_limit_w for gpu in gpus),
            sm_clock_limits_mhz=_distinct(gpu.sm_clock_limit_mhz for gpu in gpus),
            topology=pairs(parse_topology(runner("nvidia-smi", _NVIDIA_SMI_TIMEOUT_S)(["topo", "-m"]).stdout)[0]),
        )
    if any(software.values()):
        known["software"] = {name: version for name, version in software.items() if version}
    process = server_process(port)
    if process:
        known["process"] = scrub(process, secrets)
    return known


def _distinct(values: t.Iterable[float | None]) -> list[float]:
    return sorted({value for value in values if value is not None})


def pairs(matrix: Matrix) -> dict[str, str]:
    """The link between each two GPUs, once, as in ``{"GPU0-GPU1": "NODE"}``."""
    gpus = sorted((name for name in matrix if name.startswith("GPU")), key=lambda name: int(name[3:]))
    return {f"{a}-{b}": matrix[a][b] for i, a in enumerate(gpus) for b in gpus[i + 1 :] if b in matrix[a]}


def server_process(port: int, proc: str = "/proc") -> dict[str, t.Any]:
    """Arguments, file of arguments and environment of the process that listens on ``port``; empty when it cannot be
    read, as by a user who is neither root nor the server's."""
    sockets = _listening(port, proc)
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        if sockets and sockets & _sockets(f"{proc}/{pid}"):
            return _process(f"{proc}/{pid}")
    return {}


def _listening(port: int, proc: str) -> set[str]:
    """The sockets that listen on a port, in the form that /proc/PID/fd has them."""
    found = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"{proc}/net/{name}", encoding="ascii") as f:
            for line in f.readlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found


def _sockets(process: str) -> set[str]:
    found = set()
    for path in glob.glob(f"{process}/fd/*"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(path))
    return found


def _process(process: str) -> dict[str, t.Any]:
    try:
        arguments = _strings(f"{process}/cmdline")
        environment = dict(entry.partition("=")[::2] for entry in _strings(f"{process}/environ"))
    except OSError:
        return {}
    chosen = {name: environment[name] for name in sorted(environment) if _decides(name)}
    return {"args": arguments, "env": chosen, **_config(arguments)}


def _strings(path: str) -> list[str]:
    with open(path, "rb") as f:
        return [part.decode("utf-8", "replace") for part in f.read().split(b"\0") if part]


def _decides(name: str) -> bool:
    return any(name.startswith(known) if known.endswith("_") else name == known for known in ENVIRONMENT)


def _config(arguments: t.Sequence[str]) -> dict[str, list[str]]:
    """The lines of the file of ``vllm serve --config``, without comments."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        path = following if argument == "--config" else argument.removeprefix("--config=")
        if argument.startswith("--config") and path:
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as f:
                return {"config": [line for line in map(str.strip, f) if line and not line.startswith("#")]}
    return {}

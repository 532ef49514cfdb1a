# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Energy counters and power of GPUs, read from the driver's own library.

nvidia-smi does not show the energy counter (``total_energy_consumption`` is no field of its query in driver 580), so
the C functions behind it are called: they come with every driver, and need no package.
"""

from __future__ import annotations

import ctypes
import time
import typing as t

from .energy import Gpu, Reading

_LIBRARY: t.Final = "libnvidia-ml.so.1"
_TEXT_BYTES: t.Final = 96
# nvmlClockType_t: the clock of the streaming multiprocessors.
_SM_CLOCK: t.Final = 1


class Nvml:
    """The library, loaded; ``gpus`` are all GPUs of the host. Use :func:`open_nvml`."""

    def __init__(self, library: t.Any) -> None:
        self._library = library
        self._handles: dict[str, t.Any] = {}
        self.gpus: list[Gpu] = []
        self.driver = self._text("nvmlSystemGetDriverVersion")
        count = ctypes.c_uint()
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
                continue
            uuid = self._text("nvmlDeviceGetUUID", handle)
            if uuid:
                self._handles[uuid] = handle
                limit = self._number("nvmlDeviceGetEnforcedPowerLimit", handle, kind=ctypes.c_uint)
                clock = self._number("nvmlDeviceGetMaxClockInfo", handle, _SM_CLOCK, kind=ctypes.c_uint)
                name = self._text("nvmlDeviceGetName", handle)
                self.gpus.append(Gpu(uuid, name, limit and limit / 1000, clock))

    def read(self, uuids: t.Iterable[str]) -> Reading:
        """Counters (J) and power (W) of these GPUs now; a GPU that does not answer is left out."""
        energy, power = {}, {}
        for uuid in uuids:
            handle = self._handles.get(uuid)
            joules = handle and self._number("nvmlDeviceGetTotalEnergyConsumption", handle, kind=ctypes.c_ulonglong)
            watts = handle and self._number("nvmlDeviceGetPowerUsage", handle, kind=ctypes.c_uint)
            if joules is not None:
                energy[uuid] = joules / 1000
            if watts is not None:
                power[uuid] = watts / 1000
        return Reading(time.monotonic(), energy, power)

    def _number(self, function: str, *arguments: t.Any, kind: t.Any) -> int | None:
        value = kind()
        failed = getattr(self._library, function)(*arguments, ctypes.byref(value))
        return None if failed else int(value.value)

    def _text(self, function: str, *handle: t.Any) -> str:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        failed = getattr(self._library, function)(*handle, text, _TEXT_BYTES)
        return "" if failed else text.value.decode("utf-8", "replace")


def open_nvml() -> Nvml | None:
    """The library, or None on a host without an NVIDIA driver."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        return None if library.nvmlInit_v2() else Nvml(library)
    except (OSError, AttributeError):
        return None

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose GPUs are they, and are they free: from what nvidia-smi prints and /proc knows."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.host import Output
from ansible_collections.modelops.vllm.plugins.module_utils._serve.gpus import Gpus
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release

HEADER = "index, name, uuid, memory.total [MiB], memory.used [MiB], memory.free [MiB], driver_version, pci.bus_id"
APPS = "pid, gpu_uuid, used_gpu_memory [MiB]"
UNIT = "vllm-main.service"


class Smi:
    """nvidia-smi of two GPUs of 100,000 MiB."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes: list[tuple[int, int, int]] = []  # pid, GPU, MiB
        self.hidden = [0, 0]  # MiB that are used without a process
        self.unknown: set[int] = set()  # pids whose memory nvidia-smi does not tell
        self.unified = False  # no memory but that of this host
        self.output: Output | None = None

    def process(self, pid: int, gpu: int, mib: int, unit: str = "", name: str = "VLLM::Worker_TP0") -> None:
        self.processes.append((pid, gpu, mib))
        place = self.root / str(pid)
        place.mkdir(exist_ok=True)
        (place / "comm").write_text(name + "\n", encoding="utf-8")
        (place / "cgroup").write_text(f"0::/system.slice/{unit}\n" if unit else "0::/user.slice\n", encoding="utf-8")

    def __call__(self, arguments: t.Sequence[str]) -> Output:
        if self.output is not None:
            return self.output
        if arguments[0].startswith("--query-gpu"):
            rows = [HEADER]
            for n in (0, 1):
                used = self.hidden[n] + sum(mib for _pid, gpu, mib in self.processes if gpu == n)
                memory = f"100000 MiB, {used} MiB, {100000 - used} MiB" if not self.unified else "[N/A], [N/A], [N/A]"
                rows.append(f"{n}, X, GPU-{n}, {memory}, 580.1, 0000{n}:01:00.0")
            return Output("\n".join(rows), "", 0)
        told = {pid: "[N/A]" if pid in self.unknown else f"{mib} MiB" for pid, _gpu, mib in self.processes}
        rows = [APPS] + [f"{pid}, GPU-{gpu}, {told[pid]}" for pid, gpu, _mib in self.processes]
        return Output("\n".join(rows), "", 0)


@pytest.fixture
def smi(tmp_path: Path) -> Smi:
    return Smi(tmp_path)


def release(*devices: str, fraction: float | None = None) -> Release:
    record = {"devices": list(devices), "unit": UNIT, "instance": "main"}
    return Release("/r", {**record, "vram_fraction": fraction})


def gpus(smi: Smi) -> Gpus:
    return Gpus(lambda: smi, str(smi.root))


def test_without_devices_nobody_is_asked(smi: Smi) -> None:
    smi.output = Output(missing=True)
    assert gpus(smi).judge([release()], ()) == []
    assert gpus(smi).holders([release()], (), room=True) == []


def test_what_will_be_stopped_is_no_obstacle(smi: Smi) -> None:
    smi.process(10, 0, 95000, UNIT)
    assert gpus(smi).judge([release("0", "1")], {UNIT}) == []


@pytest.mark.parametrize(("unit", "where"), [("ollama.service", "ollama.service"), ("", "pid 11")])
def test_a_foreign_process_that_takes_the_memory_is_an_error_with_its_owner(smi: Smi, unit: str, where: str) -> None:
    smi.process(10, 0, 50000, UNIT)
    smi.process(11, 0, 20000, unit, "ollama")
    (finding,) = gpus(smi).judge([release("0")], {UNIT})
    assert (finding.id, finding.severity) == ("gpu-taken", "error")
    assert where in finding.message
    assert "80000 MiB free of 92000 MiB needed" in finding.message
    assert finding.numbers == {"index": "0", "free_mib": 80000, "need_mib": 92000, "pids": [11]}


def test_a_foreign_process_beside_which_it_fits_is_a_warning(smi: Smi) -> None:
    smi.process(11, 0, 400, "", "Xorg")
    (finding,) = gpus(smi).judge([release("0")], {UNIT})
    assert (finding.id, finding.severity) == ("gpu-shared", "warning")


def test_a_release_that_takes_less_fits(smi: Smi) -> None:
    smi.process(11, 0, 40000, "ollama.service")
    assert [f.id for f in gpus(smi).judge([release("0", fraction=0.5)], ())] == ["gpu-shared"]


def test_other_gpus_do_not_matter(smi: Smi) -> None:
    smi.process(11, 1, 90000, "ollama.service")
    assert gpus(smi).judge([release("0")], ()) == []


def test_a_gpu_that_is_not_there_is_named(smi: Smi) -> None:
    (finding,) = gpus(smi).judge([release("0", "7")], ())
    assert (finding.id, finding.numbers["index"]) == ("gpu-missing", "7")


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (Output(missing=True), "it was not found"),
        (Output(timed_out=True), "it did not answer in time"),
        (Output("", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9), "communicate"),
    ],
)
def test_gpus_that_cannot_be_looked_at_are_an_error_before_and_not_free_after(
    smi: Smi, output: Output, why: str
) -> None:
    smi.output = output
    (finding,) = gpus(smi).judge([release("0")], ())
    assert finding.id == "gpu-unreadable"
    assert why in finding.message
    (line,) = gpus(smi).holders([release("0")], (), room=True)
    assert why in line


@pytest.mark.case("B02")
def test_orphans_of_a_stopped_unit_are_named(smi: Smi) -> None:
    smi.process(21951, 0, 13800, "", "VLLM::EngineCore")
    smi.process(21952, 0, 13950, "")
    (line,) = gpus(smi).holders([release("0")], {UNIT}, room=True)
    assert line.startswith("GPU 0: 72250 MiB free of 92000 MiB needed, used by VLLM::EngineCore (pid 21951")
    assert "pid 21952" in line


def test_memory_that_no_process_holds_is_waited_for_too(smi: Smi) -> None:
    smi.hidden = [50000, 0]
    assert gpus(smi).holders([release("0", "1")], {UNIT}, room=True) == [
        "GPU 0: 50000 MiB free of 92000 MiB needed, used by no process that nvidia-smi shows"
    ]


def test_memory_that_no_process_holds_is_an_error_before_anything_is_stopped(smi: Smi) -> None:
    smi.hidden = [50000, 0]
    smi.process(10, 0, 20000, UNIT)
    (finding,) = gpus(smi).judge([release("0", "1")], {UNIT})
    assert (finding.id, finding.severity) == ("gpu-memory-hidden", "error")
    assert finding.message == (
        "GPU 0 will have 50000 MiB free of 92000 MiB needed, and no process that nvidia-smi shows holds the rest."
    )
    assert finding.numbers == {"index": "0", "free_mib": 50000, "need_mib": 92000, "pids": []}
    assert gpus(smi).judge([release("0", fraction=0.5)], {UNIT}) == []


def test_a_process_of_its_own_whose_memory_is_unknown_may_hold_all_that_is_missing(smi: Smi) -> None:
    smi.hidden = [90000, 0]
    smi.process(10, 0, 0, UNIT)
    smi.unknown = {10}
    assert gpus(smi).judge([release("0")], {UNIT}) == []


@pytest.mark.parametrize(
    ("foreign", "told", "expected", "free"),
    [
        (4, True, "gpu-shared", 99996),  # Xorg beside an instance that holds the GPU
        (8000, True, "gpu-shared", 92000),
        (8001, True, "gpu-taken", 91999),
        (20000, True, "gpu-taken", 80000),
        (4, False, "gpu-shared", 5000),  # nothing is known to be in the way
    ],
)
def test_beside_a_process_of_its_own_whose_memory_is_unknown_the_foreign_ones_are_counted(
    smi: Smi, foreign: int, told: bool, expected: str, free: int
) -> None:
    smi.process(10, 0, 0, UNIT)
    smi.process(11, 0, foreign, "", "Xorg")
    smi.hidden = [95000 - foreign, 0]
    smi.unknown = {10} if told else {10, 11}
    (finding,) = gpus(smi).judge([release("0")], {UNIT})
    assert (finding.id, finding.numbers["free_mib"], finding.numbers["need_mib"]) == (expected, free, 92000)


def test_an_unknown_process_of_others_alone_is_measured_by_what_is_free(smi: Smi) -> None:
    smi.process(11, 0, 0, "", "python")
    smi.unknown = {11}
    smi.hidden = [95000, 0]
    assert [f.id for f in gpus(smi).judge([release("0")], {UNIT})] == ["gpu-taken"]
    smi.hidden = [4000, 0]
    assert [f.id for f in gpus(smi).judge([release("0")], {UNIT})] == ["gpu-shared"]


@pytest.mark.case("E01")
def test_where_memory_is_that_of_the_host_a_small_foreign_process_is_no_obstacle(smi: Smi) -> None:
    smi.unified = True
    smi.process(10, 0, 1, UNIT)
    smi.process(11, 0, 4, "", "Xorg")
    assert [f.id for f in gpus(smi).judge([release("0", fraction=0.99)], {UNIT})] == ["gpu-shared"]


def test_what_a_process_holds_of_the_memory_of_the_host_is_not_known(smi: Smi) -> None:
    smi.unified = True
    assert [f.id for f in gpus(smi).judge([release("0", fraction=1.0)], {UNIT})] == ["gpu-memory-hidden"]
    smi.process(10, 0, 1, UNIT)
    assert gpus(smi).judge([release("0", fraction=1.0)], {UNIT}) == []


def test_a_process_of_the_unit_is_waited_for_though_there_is_room(smi: Smi) -> None:
    smi.process(10, 0, 300, UNIT)
    assert len(gpus(smi).holders([release("0")], {UNIT}, room=True)) == 1
    assert len(gpus(smi).holders([release("0")], {UNIT}, room=False)) == 1
    assert gpus(smi).holders([release("0")], (), room=False) == []

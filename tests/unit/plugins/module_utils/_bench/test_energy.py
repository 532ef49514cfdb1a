# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy that is believed, and energy that is not; the driver's library is a fake one."""

from __future__ import annotations

import ctypes
import types
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import energy, nvml
from ansible_collections.modelops.vllm.plugins.module_utils._bench.energy import Gpu, Reading

FIGURES = {"output_tokens_per_s": 1000.0, "total_tokens_per_s": 5000.0}


def readings(seconds: t.Iterable[float], watts: float = 300.0, counted: float = 300.0) -> list[Reading]:
    return [Reading(s, {"a": 50 + counted * s, "b": 70 + counted * s}, {"a": watts, "b": watts}) for s in seconds]


def test_the_counters_of_the_layouts_gpus_give_the_energy() -> None:
    result = energy.measure(readings(range(11)), ["a", "b"], FIGURES)
    assert (result["valid"], result["reason"], result["gpus"]) == (True, "", 2)
    assert result["energy_j"] == pytest.approx(6000)
    assert result["power_energy_j"] == pytest.approx(6000)
    assert result["average_power_w"] == pytest.approx(600)
    assert result["joules_per_output_token"] == pytest.approx(0.6)
    assert result["joules_per_total_token"] == pytest.approx(0.12)
    assert result["output_tokens_per_s_per_w"] == pytest.approx(1000 / 600)
    # A GPU outside of the layout is not in it.
    assert energy.measure(readings(range(11)), ["a"], FIGURES)["energy_j"] == pytest.approx(3000)


@pytest.mark.parametrize(
    ("seen", "uuids", "words"),
    [
        pytest.param(readings([0, 1, 2, 6, 7]), ["a"], "not seen for 4.0 s", id="energy-window"),
        pytest.param(readings(range(11), watts=320.0), ["a"], "more than 5% apart", id="energy-window-disagreement"),
        pytest.param(readings(range(11), counted=0.0), ["a"], "0 J", id="energy-window-still-counter"),
        pytest.param(readings(range(11)), ["a", "c"], "GPU c has no energy counter", id="energy-window-other-gpu"),
        pytest.param(readings([0, 1]), ["a"], "1.0 s, less than 2 s", id="energy-window-short"),
        pytest.param([], ["a"], "0.0 s, less than 2 s", id="energy-window-empty"),
    ],
)
def test_energy_is_null_when_it_cannot_be_believed(seen: list[Reading], uuids: list[str], words: str) -> None:
    result = energy.measure(seen, uuids, FIGURES)
    assert result["valid"] is False
    assert words in result["reason"]
    assert (result["energy_j"], result["joules_per_output_token"], result["average_power_w"]) == (None, None, None)


def test_power_that_agrees_within_five_percent_is_enough() -> None:
    assert energy.measure(readings(range(11), watts=312.0), ["a"], FIGURES)["valid"] is True


def test_power_that_rises_late_is_no_contradiction() -> None:
    """Looks at an H200 under matrix products: its power is a mean of the last second, its counter is not."""
    watts = [90.8, 649.0, 676.8, 689.2, 687.7, 692.2]
    seen = [Reading(float(s), {"a": 690.0 * s}, {"a": w}) for s, w in enumerate(watts)]
    assert energy.trapezoid(seen, "a") < 0.95 * 690 * 5
    assert energy.measure(seen, ["a"], FIGURES)["valid"] is True


GPUS = [Gpu("a", "X", 300.0), Gpu("b", "X", 300.0)]


@pytest.mark.parametrize(
    ("wanted", "count", "uuids", "words"),
    [
        (["b"], 1, ["b"], ""),
        ([], 2, ["a", "b"], ""),
        ([], 1, [], "does not fill the host's 2 GPUs"),
        ([], None, [], "gpu_uuids is not set"),
        (["z", "a"], 2, [], "no GPU z on the client's host"),
        # one GPU's energy over the tokens of two, one GPU named twice, and another instance's GPU beside the own one
        (["b"], 2, [], "names 1 different GPUs, but the instance occupies 2"),
        (["b", "b"], 2, [], "names 1 different GPUs, but the instance occupies 2"),
        (["a", "b"], 1, [], "names 2 different GPUs, but the instance occupies 1"),
        (["b", "b"], None, ["b"], ""),
    ],
)
def test_only_the_instances_own_gpus_are_measured(
    wanted: list[str], count: int | None, uuids: list[str], words: str
) -> None:
    chosen, reason = energy.choose(GPUS, wanted, count)
    assert chosen == uuids
    assert words in reason
    assert bool(reason) is not bool(uuids)


def test_the_cost_is_that_of_the_whole_instance() -> None:
    # The example of the published arithmetic: 1,239 tokens/s on eight GPUs at 1.50 an hour.
    found = energy.cost({"output_tokens_per_s": 1239.0, "total_tokens_per_s": None}, 8, 1.5, "USD")
    assert found is not None
    assert found["per_million_output_tokens"] == pytest.approx(2.69, abs=0.005)
    assert found["per_million_total_tokens"] is None
    assert energy.cost(FIGURES, 8, None, "USD") is None
    assert energy.cost(FIGURES, None, 1.5, "USD") is None


def library() -> types.SimpleNamespace:
    """What libnvidia-ml answers; the second GPU has no energy counter."""

    def number(value: int, without: int = 0) -> t.Callable[..., int]:
        def answer(handle: t.Any, out: t.Any) -> int:
            out._obj.value = value
            return 3 if handle.value == without else 0

        return answer

    def text(value: str) -> t.Callable[..., int]:
        def answer(*arguments: t.Any) -> int:
            *handle, out, _size = arguments
            out.value = (value + str(handle[0].value) if value == "GPU-" else value).encode()
            return 0

        return answer

    def count(out: t.Any) -> int:
        out._obj.value = 2
        return 0

    def sm_clock(_handle: t.Any, kind: int, out: t.Any) -> int:
        out._obj.value = {1: 1980}[kind]
        return 0

    def handle(index: int, out: t.Any) -> int:
        out._obj.value = index + 1
        return 0

    return types.SimpleNamespace(
        nvmlInit_v2=lambda: 0,
        nvmlDeviceGetCount_v2=count,
        nvmlDeviceGetHandleByIndex_v2=handle,
        nvmlSystemGetDriverVersion=text("580.159.04"),
        nvmlDeviceGetUUID=text("GPU-"),
        nvmlDeviceGetName=text("NVIDIA H200"),
        nvmlDeviceGetEnforcedPowerLimit=number(700000),
        nvmlDeviceGetTotalEnergyConsumption=number(2486173, without=2),
        nvmlDeviceGetPowerUsage=number(85383),
        nvmlDeviceGetMaxClockInfo=sm_clock,
    )


def test_the_drivers_library_is_asked_in_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library())
    opened = nvml.open_nvml()
    assert opened is not None
    assert opened.driver == "580.159.04"
    assert opened.gpus == [Gpu("GPU-1", "NVIDIA H200", 700.0, 1980), Gpu("GPU-2", "NVIDIA H200", 700.0, 1980)]
    reading = opened.read(["GPU-1", "GPU-2", "GPU-3"])
    assert reading.energy_j == {"GPU-1": pytest.approx(2486.173)}
    assert reading.power_w == {"GPU-1": pytest.approx(85.383), "GPU-2": pytest.approx(85.383)}


def test_a_host_without_a_driver_has_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> t.Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert nvml.open_nvml() is None

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of GPUs for an instance: free memory, CUDA_VISIBLE_DEVICES, driver, compilers."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._preflight import gpus
from ansible_collections.modelops.vllm.plugins.module_utils._preflight.question import Question

UNIT = "vllm-main.service"


def gpu(index, free=97249, total=97887):
    return {"index": index, "memory_mib": total, "memory_free_mib": free}


def process(index, used, unit=None, owner="alice", name="python3"):
    return {"pid": 4711, "gpu_index": index, "used_memory_mib": used, "unit": unit, "owner": owner, "name": name}


def ask(shown, processes=(), **options):
    return Question(gpu_info={"gpus": list(shown), "processes": list(processes)}, unit=UNIT, **options)


def ids(findings):
    return [f.id for f in findings]


def test_free_gpus_have_nothing_to_tell():
    assert gpus.vram(ask([gpu(0), gpu(1)])) == []
    assert gpus.vram(ask([])) is None


def test_what_holds_memory_is_named_with_pid_owner_and_size():
    (finding,) = gpus.vram(ask([gpu(0, free=7249), gpu(1)], [process(0, 90000, unit="ollama.service")]))
    assert (finding.id, finding.severity) == ("vram-held", "error")
    assert "python3 (pid 4711, user alice, ollama.service; 90000 MiB)" in finding.message
    assert finding.numbers == {
        "gpu": 0,
        "free_mib": 7249,
        "wanted_mib": 90056,
        "processes": [
            {"pid": 4711, "name": "python3", "owner": "alice", "unit": "ollama.service", "used_memory_mib": 90000}
        ],
    }


@pytest.mark.parametrize(
    ("used", "found"),
    [
        (90000, []),  # free again once the unit is replaced
        (80000, ["vram-held"]),  # that is not enough
        (None, []),  # the driver does not say how much that will be
    ],
)
def test_the_unit_that_will_be_replaced(used, found):
    assert ids(gpus.vram(ask([gpu(0, free=7249)], [process(0, used, unit=UNIT)]))) == found


def test_another_instance_of_the_collection_makes_room():
    held = [process(0, 90000, unit="vllm-kimi.service")]
    assert ids(gpus.vram(ask([gpu(0, free=7249)], held, siblings=frozenset({"vllm-kimi.service"})))) == []
    assert ids(gpus.vram(ask([gpu(0, free=7249)], held))) == ["vram-held"]


def test_memory_that_nobody_seems_to_hold():
    (finding,) = gpus.vram(ask([gpu(0, free=7249)]))
    assert "no process that can be seen from here" in finding.message
    assert "container" in finding.remedy


def test_a_small_neighbour_is_information():
    (finding,) = gpus.vram(ask([gpu(0)], [process(0, None, owner=None, name=None)]))
    assert (finding.id, finding.severity) == ("vram-shared", "info")
    assert "a process (pid 4711; an unknown amount)" in finding.message


@pytest.mark.parametrize(("share", "found"), [(0.0, ["vram-held"]), (0.9, []), (0.95, ["vram-held"])])
def test_the_share_that_vllm_asks_for(share, found):
    assert ids(gpus.vram(ask([gpu(0, free=89000)], utilization=share))) == found


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({}, [0, 1, 2, 3]),
        ({"layout": {"gpus": 2}}, [0, 1]),
        ({"layout": {"gpus": 4}, "nodes": 2}, [0, 1]),
        ({"layout": {"gpus": 2}, "env": {"CUDA_VISIBLE_DEVICES": "2,3"}}, [2, 3]),
        ({"env": {"CUDA_VISIBLE_DEVICES": "3"}}, [3]),
    ],
)
def test_only_the_gpus_that_will_be_used_matter(options, used):
    question = ask([gpu(i, free=0) for i in range(4)], **options)
    assert [f.numbers["gpu"] for f in gpus.vram(question)] == used


@pytest.mark.case("E10")
@pytest.mark.parametrize(
    ("value", "found"),
    [
        pytest.param("MIG-00000000-1111-2222-3333-444444444444", ["visible-devices"], id="E10-mig"),
        pytest.param("GPU-00000000-1111-2222-3333-444444444444", ["visible-devices"], id="E10-uuid"),
        pytest.param("0,1", [], id="E10-numbers"),
        (" 1 , 0", []),
        ("0,0", ["visible-devices"]),
        ("0,8", ["visible-devices"]),
        ("", ["visible-devices"]),
        ("-1", ["visible-devices"]),
    ],
)
def test_e10_cuda_visible_devices(value, found):
    findings = gpus.visible_devices(ask([gpu(0), gpu(1)], env={"CUDA_VISIBLE_DEVICES": value}))
    assert ids(findings) == found
    assert all(f.severity == "error" and repr(value) in f.message for f in findings)


def test_too_few_visible_gpus_for_the_layout():
    question = ask([gpu(0), gpu(1)], env={"CUDA_VISIBLE_DEVICES": "0"}, layout={"id": "tp2", "gpus": 2})
    (finding,) = gpus.visible_devices(question)
    assert finding.numbers == {"value": "0", "wanted": 2}
    assert "tp2" in finding.message


def test_all_gpus_are_visible():
    assert gpus.visible_devices(ask([gpu(0)])) is None


@pytest.fixture
def venv(tmp_path):
    """A virtual environment with these packages and programs."""

    def made(packages=(), programs=()):
        for name in packages:
            (tmp_path / "lib/python3.12/site-packages" / name).mkdir(parents=True)
        (tmp_path / "lib/python3.12/site-packages").mkdir(parents=True, exist_ok=True)
        (tmp_path / "bin").mkdir()
        for name in programs:
            (tmp_path / "bin" / name).write_text("#!/bin/sh\n", encoding="ascii")
            (tmp_path / "bin" / name).chmod(0o755)
        return str(tmp_path / "bin" / "vllm")

    return made


@pytest.mark.parametrize(
    ("package", "version", "found"),
    [
        ("nvidia_cuda_runtime_cu12-12.8.90.dist-info", "580.159.04", []),
        ("nvidia_cuda_runtime_cu12-12.8.90.dist-info", "525.60.13", []),
        ("nvidia_cuda_runtime_cu12-12.8.90.dist-info", "470.256.02", ["driver-too-old"]),
        ("nvidia_cuda_runtime-13.0.96.dist-info", "575.57.08", ["driver-too-old"]),
        ("nvidia_cuda_runtime-13.0.96.dist-info", "580.65.06", []),
        ("nvidia_cuda_runtime-13.0.96.dist-info", "595.10", []),
    ],
)
def test_the_driver_and_the_cuda_of_vllm(venv, package, version, found):
    question = Question(gpu_info={"driver_version": version}, vllm_bin=venv([package]))
    assert ids(gpus.driver(question)) == found


def test_a_cuda_that_cannot_be_known(venv):
    assert gpus.driver(Question(gpu_info={"driver_version": "470.1"}, vllm_bin=venv(["torch-2.9.0.dist-info"]))) is None
    assert gpus.driver(Question(gpu_info={"driver_version": "470.1"}, vllm_bin="/no/such/bin/vllm")) is None


@pytest.mark.case("B11")
@pytest.mark.parametrize(
    ("packages", "programs", "found"),
    [
        ([], [], ["jit-ninja-missing", "jit-nvcc-missing"]),
        ([], ["ninja"], ["jit-nvcc-missing"]),
        ([], ["ninja", "nvcc"], []),
        (["flashinfer_jit_cache-0.6.1.dist-info"], ["ninja"], []),
    ],
)
def test_b11_what_compiles_kernels(venv, monkeypatch, packages, programs, found):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(gpus, "_CUDA_BIN", "/nowhere")
    findings = gpus.tools(Question(vllm_bin=venv(packages, programs)))
    assert [(f.id, f.severity) for f in findings] == [(id_, "warning") for id_ in found]


def test_nothing_is_compiled_with_cuda_on_a_cpu(venv):
    assert gpus.tools(Question(accelerator="cpu", vllm_bin=venv())) is None
    assert gpus.tools(Question(vllm_bin="/no/such/bin/vllm")) is None

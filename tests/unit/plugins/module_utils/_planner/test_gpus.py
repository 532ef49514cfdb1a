# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs that the planner is given."""

from __future__ import annotations

import json

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._planner.gpus import GIB, Gpus

ONE = {"index": 0, "name": "NVIDIA H200", "memory_mib": 143771, "compute_cap": "9.0", "link": "nvlink", "mig": False}


def test_a_mapping_with_strings():
    gpus, findings = Gpus.parse({"count": "8", "memory_mib": "97887", "compute_cap": 12.0, "link": "PCIe"})
    assert gpus == Gpus(8, "", 97887, (12, 0), "pcie")
    assert findings == []


def test_the_list_and_the_whole_result_of_gpu_info_are_the_same():
    listed = [ONE, {**ONE, "index": 1}]
    expected = Gpus(2, "NVIDIA H200", 143771, (9, 0), "nvlink")
    for raw in (listed, {"status": "ok", "gpus": listed}, json.dumps(listed)):
        assert Gpus.parse(raw)[0] == expected


def test_usable_memory_is_that_of_the_host_not_of_the_box():
    # E12: torch sees 94.97 GiB of a "96 GB" card that nvidia-smi shows with 97887 MiB.
    gpus, _findings = Gpus.parse({"count": 1, "memory_mib": 97887})
    assert 94.9 * GIB < gpus.usable_bytes <= 94.97 * GIB


def test_mixed_gpus_count_as_the_smallest():
    gpus, findings = Gpus.parse([ONE, {**ONE, "memory_mib": 81559, "compute_cap": "8.0", "link": "pcie"}])
    assert (gpus.memory_mib, gpus.compute_cap, gpus.link) == (81559, (8, 0), None)
    assert [f.id for f in findings] == ["gpus-mixed"]


def test_slices_are_kept_by_number():
    gpus, _findings = Gpus.parse([ONE, {**ONE, "index": 1, "mig": True}])
    assert gpus.partial == ("1",)


def test_what_is_free_counts_where_it_is_shared_only():
    shared = {**ONE, "unified_memory": True, "memory_free_mib": 1000}
    assert Gpus.parse([shared])[0].free_mib == 1000
    assert Gpus.parse([shared])[0].usable_bytes == 143771 << 20  # the driver keeps nothing of its own
    assert Gpus.parse([{**ONE, "memory_free_mib": 1000}])[0].free_mib is None


def test_a_cpu_is_told():
    gpus, findings = Gpus.parse({"count": 2, "name": "cpu", "memory_mib": 8192, "compute_cap": None, "link": None})
    assert gpus.is_cpu
    assert gpus.usable_bytes == 8192 << 20
    assert [f.id for f in findings] == ["accelerator-cpu"]


def test_what_is_missing_is_told():
    _gpus, findings = Gpus.parse({"count": 2})
    assert findings[0].numbers == {"unknown": ["memory_mib", "compute_cap"]}


@pytest.mark.parametrize("raw", [None, "", {}])
def test_no_gpus_given(raw):
    assert Gpus.parse(raw) == (None, [])


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ([], "empty list"),
        ({"name": "x"}, "no count"),
        ({"count": 0}, "gpus.count is 0"),
        ({"count": "many"}, "'many'"),
        ({"count": 1, "link": "infiniband"}, "'infiniband'"),
        ({"count": 1, "memory_mib": "96GB"}, "'96GB'"),
        ([1], "not mappings"),
        (8, "neither a list nor a mapping"),
        ("{", "not valid JSON"),
    ],
)
def test_wrong_gpus_are_named(raw, named):
    with pytest.raises(ModelopsError) as e:
        Gpus.parse(raw)
    assert named in str(e.value)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter as plays use it: through Jinja, with what gpu_info returns."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.filter.replica_instances import FilterModule, replica_instances

GPUS = [{"index": i, "name": "NVIDIA H200", "memory_mib": 143771, "numa_node": i // 2} for i in range(4)]


def test_the_filter_gives_plain_data() -> None:
    found = replica_instances("main", "tp2-r2", "8000", gpus=GPUS, router="true")
    assert found[1] == {"instance": "main-r1", "host": "127.0.0.1", "port": 8002, "url": "http://127.0.0.1:8002",
                        "devices": ["2", "3"]}  # fmt: skip
    assert [one["devices"] for one in found] == [["0", "1"], ["2", "3"]]


def test_what_the_node_cannot_hold_is_a_filter_error_with_the_remedy() -> None:
    with pytest.raises(AnsibleFilterError, match=r"tp4-r2 needs 2 x 4 GPUs on one node, this node has 4\. Choose a"):
        replica_instances("main", "tp4-r2", 8000, gpus=GPUS)


def test_it_is_found_by_its_name() -> None:
    assert FilterModule().filters() == {"replica_instances": replica_instances}

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layout ids and what makes sense on a machine."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._planner.layout import (
    Layout,
    enumerate_layouts,
    max_replicas,
)


@pytest.mark.parametrize(
    "text", ["tp8", "tp8-ep", "tp4-r2", "tp4-dp2-ep", "tp8-pp2", "tp1-dp8-ep", "tp2-pp2-dp2-ep-r2"]
)
def test_an_id_survives_a_round_trip(text):
    assert Layout.parse(text).id == text


@pytest.mark.parametrize(
    ("value", "id_"),
    [
        ("dp8-ep", "tp1-dp8-ep"),
        ("TP8-EP", "tp8-ep"),
        ("tp8-ep8", "tp8-ep"),
        ("ep-tp8", "tp8-ep"),
        ({"tp": 8, "ep": True}, "tp8-ep"),
        ({"tp": "4", "dp": "2", "ep": "yes", "pp": "", "replicas": None}, "tp4-dp2-ep"),
        ({"tp": 16, "ep": True, "nnodes": 2}, "tp16-ep"),
        ({"id": "tp4-r2"}, "tp4-r2"),
    ],
)
def test_other_ways_to_write_it(value, id_):
    assert Layout.parse(value).id == id_


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("tp", "'tp'"),
        ("", "''"),
        ("tp8-", "''"),
        ("tp8-xx2", "'xx2'"),
        ("tp8-tp4", "'tp4'"),
        ("tp0", "size of 0"),
        ("tp8-ep4", "always uses TP x DP = 8"),
        ({"tp": 8, "experts": 2}, "experts"),
        ({}, "no keys"),
        ({"tp": "x"}, "'x'"),
        ({"tp": 0}, "layout tp is 0"),
        (8, "neither an id nor a mapping"),
    ],
)
def test_a_wrong_layout_is_named(value, named):
    with pytest.raises(ModelopsError) as e:
        Layout.parse(value)
    assert named in str(e.value)


def test_expert_ranks_and_expert_cuts():
    assert (Layout(4, dp=2, ep=True).ep_size, Layout(4, dp=2, ep=True).moe_tp) == (8, 1)
    # Without EP data parallel ranks cut the experts too.
    assert (Layout(4, dp=2).ep_size, Layout(4, dp=2).moe_tp) == (1, 8)


def test_eight_gpus_and_a_moe():
    ids = [x.id for x in enumerate_layouts(8, moe=True)]
    assert ids[:2] == ["tp8", "tp8-ep"]
    for id_ in ("tp4", "tp4-r2", "tp4-dp2-ep", "tp2-dp4-ep", "tp1-dp8-ep", "tp4-pp2", "tp1-r8"):
        assert id_ in ids
    assert len(ids) == len(set(ids))
    assert all(x.gpus <= 8 for x in enumerate_layouts(8, moe=True))


def test_a_dense_model_gets_neither_experts_nor_data_parallelism():
    layouts = enumerate_layouts(8, moe=False)
    assert not [x.id for x in layouts if x.ep or x.dp > 1]
    assert "tp2-r4" in [x.id for x in layouts]


def test_odd_machines():
    assert {x.tp for x in enumerate_layouts(3, moe=False)} == {1, 2, 3}
    assert {x.tp for x in enumerate_layouts(6, moe=False)} == {1, 2, 3, 4, 6}


def test_replicas_stay_in_their_node():
    assert max_replicas(Layout(4), 8, 1) == 2
    assert max_replicas(Layout(8), 8, 2) == 2
    assert max_replicas(Layout(3), 8, 2) == 4
    assert max_replicas(Layout(8, pp=2), 8, 2) == 1
    assert max_replicas(Layout(8, pp=2), 8, 5) == 2

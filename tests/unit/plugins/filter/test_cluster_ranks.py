# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that gives the hosts of an inventory group their ranks."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.filter.cluster_ranks import cluster_ranks

LAYOUT = {"tp": 4, "pp": 2, "dp": 1, "ep": False, "replicas": 1, "id": "tp4-pp2", "gpus": 8}


def facts(address: str) -> dict[str, t.Any]:
    interface = {"device": "eth0", "ipv4": {"address": address}}
    return {"ansible_facts": {"interfaces": ["eth0"], "eth0": interface, "default_ipv4": {"address": address}}}


HOSTVARS: dict[str, dict[str, t.Any]] = {
    "head": {**facts("10.0.0.1"), "serve_node_address": ""},
    "worker": {**facts("10.0.0.2"), "ansible_host": "10.0.0.2"},
    "bystander": {},
}


def test_the_order_of_the_group_gives_the_ranks_and_the_play_may_have_another() -> None:
    found = cluster_ranks(["head", "worker"], HOSTVARS, ["worker", "bystander", "head"], LAYOUT)
    assert found["valid"] is True
    assert found["findings"] == []
    assert found["members"] == [
        {"host": "head", "address": "10.0.0.1", "interface": "eth0"},
        {"host": "worker", "address": "10.0.0.2", "interface": "eth0"},
    ]
    assert found["args"]["master-addr"] == "10.0.0.1"
    assert {host: (r["rank"], r["headless"]) for host, r in found["ranks"].items()} == {
        "head": (0, False),
        "worker": (1, True),
    }
    assert found["ranks"]["worker"]["argv"] == ["--headless", "--api-server-count=0", "--node-rank=1"]
    assert found["ranks"]["worker"]["env"]["GLOO_SOCKET_IFNAME"] == "eth0"


def test_a_limit_that_leaves_a_rank_out_is_refused_with_its_name() -> None:
    found = cluster_ranks(["head", "worker"], HOSTVARS, ["head"], LAYOUT)
    assert found["valid"] is False
    assert [(f["id"], f["severity"], f["numbers"]) for f in found["findings"]] == [
        ("group-incomplete", "error", {"missing": ["worker"]})
    ]


def test_ports_may_be_texts() -> None:
    found = cluster_ranks(["head", "worker"], HOSTVARS, ["head", "worker"], LAYOUT, ports={"master": "29999"})
    assert found["args"]["master-port"] == 29999


def test_flags_of_the_user_are_judged() -> None:
    args = {"data-parallel-backend": "ray"}
    found = cluster_ranks(["head", "worker"], HOSTVARS, ["head", "worker"], LAYOUT, args=args)
    assert [f["id"] for f in found["findings"]] == ["backend-not-mp"]
    assert found["ranks"] == {}


@pytest.mark.parametrize(
    ("host", "said", "ids"),
    [("head", "10.0.0.1", []), ("worker", "10.0.0.1", ["address-of-another"]), ("worker", "10.0.0.2", [])],
)
def test_an_environment_of_the_whole_group_with_one_address(host: str, said: str, ids: list[str]) -> None:
    both = ["head", "worker"]
    found = cluster_ranks(both, HOSTVARS, both, LAYOUT, host=host, env={"VLLM_HOST_IP": said})
    assert (found["valid"], [f["id"] for f in found["findings"]]) == (not ids, ids)


@pytest.mark.parametrize(
    ("layout", "ports"),
    [({}, {}), ({"tp": "many"}, {}), (LAYOUT, {"mastre": 1}), (LAYOUT, {"master": "x"})],
)
def test_what_is_no_layout_and_what_are_no_ports(layout: dict[str, t.Any], ports: dict[str, t.Any]) -> None:
    with pytest.raises(AnsibleFilterError, match="cluster_ranks takes"):
        cluster_ranks(["head", "worker"], HOSTVARS, ["head", "worker"], layout, ports=ports)

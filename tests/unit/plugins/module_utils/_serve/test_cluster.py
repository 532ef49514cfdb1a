# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flags of each rank, and the groups that cannot serve."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve.args import Layout
from ansible_collections.modelops.vllm.plugins.module_utils._serve.cluster import (
    Cluster,
    Node,
    Ports,
    absent,
    common_digest,
    node,
    other_address,
    plan,
)

HEADLESS = ["--headless", "--api-server-count=0"]


def nodes(number: int) -> list[Node]:
    return [Node(f"gpu-{i}", f"10.0.0.{i + 1}", "ens1") for i in range(number)]


def layout(**sizes: t.Any) -> Layout:
    return t.cast(Layout, {"tp": 1, "pp": 1, "dp": 1, "ep": False, "replicas": 1, **sizes})


def planned(number: int, **sizes: t.Any) -> Cluster:
    found = plan(nodes(number), layout(**sizes), Ports(), {})
    assert found.valid, found.findings
    return found


def refused(members: t.Sequence[Node], *, ports: Ports | None = None, **sizes: t.Any) -> list[str]:
    found = plan(members, layout(**(sizes or {"tp": len(members)})), ports or Ports(), {})
    assert found.args == {}
    assert found.ranks == []
    return [f.id for f in found.findings if f.severity == "error"]


def test_an_engine_that_spans_nodes_has_node_ranks() -> None:
    found = planned(2, tp=8, pp=2)
    assert found.args == {
        "distributed-executor-backend": "mp",
        "nnodes": 2,
        "master-addr": "10.0.0.1",
        "master-port": 29501,
    }
    assert [r.argv for r in found.ranks] == [["--node-rank=0"], [*HEADLESS, "--node-rank=1"]]
    assert [r.headless for r in found.ranks] == [False, True]
    assert found.findings == []


def test_engines_side_by_side_have_start_ranks_and_the_head_has_none() -> None:
    found = planned(3, tp=4, dp=6, ep=True)
    assert found.args == {
        "data-parallel-size-local": 2,
        "data-parallel-address": "10.0.0.1",
        "data-parallel-rpc-port": 29550,
    }
    assert [r.argv for r in found.ranks] == [
        [],
        [*HEADLESS, "--data-parallel-start-rank=2"],
        [*HEADLESS, "--data-parallel-start-rank=4"],
    ]


def test_engines_of_several_nodes_each_have_both() -> None:
    found = planned(4, tp=8, pp=2, dp=2)
    assert found.args["nnodes"] == 4
    assert found.args["data-parallel-size-local"] == 1
    assert [r.argv[-2:] for r in found.ranks[1:]] == [
        ["--node-rank=1", "--data-parallel-start-rank=0"],
        ["--node-rank=2", "--data-parallel-start-rank=1"],
        ["--node-rank=3", "--data-parallel-start-rank=1"],
    ]
    assert found.ranks[0].argv == ["--node-rank=0"]
    assert [(f.severity, f.id) for f in found.findings] == [("info", "engines-of-nodes")]


def test_the_flags_of_a_rank_are_not_in_the_file_that_all_share() -> None:
    for sizes in ({"tp": 8, "pp": 2}, {"dp": 2}, {"tp": 16, "dp": 2}):
        found = planned(4 if "dp" in sizes and "tp" in sizes else 2, **sizes)
        own = {word.split("=")[0].removeprefix("--") for r in found.ranks for word in r.argv}
        assert own.isdisjoint(found.args)


@pytest.mark.case("D02")
def test_every_library_is_told_its_address_or_its_interface() -> None:
    assert planned(2, tp=2).ranks[1].env == {
        "VLLM_HOST_IP": "10.0.0.2",
        "NCCL_SOCKET_IFNAME": "=ens1",
        "GLOO_SOCKET_IFNAME": "ens1",
        "TP_SOCKET_IFNAME": "ens1",
    }


@pytest.mark.case("D06")
def test_tensor_parallelism_over_the_network_is_warned_about() -> None:
    found = planned(2, tp=16)
    assert [(f.severity, f.id, f.numbers) for f in found.findings] == [
        ("warning", "tp-across-nodes", {"tp": 16, "local": 8})
    ]
    assert "tp8" in found.findings[0].remedy


@pytest.mark.parametrize(
    ("number", "sizes", "problem"),
    [
        pytest.param(3, {"tp": 8}, "nodes-uneven", id="8-ranks-on-3-nodes"),
        pytest.param(2, {}, "nodes-uneven", id="one-rank-on-2-nodes"),
        pytest.param(4, {"tp": 3, "dp": 8}, "", id="two-engines-of-3-a-node"),
        pytest.param(2, {"tp": 2, "dp": 3}, "nodes-uneven", id="an-engine-and-a-half-a-node"),
        pytest.param(4, {"tp": 6, "dp": 2}, "", id="an-engine-on-two-nodes-each"),
        pytest.param(4, {"tp": 12, "dp": 3}, "nodes-uneven", id="an-engine-on-a-node-and-a-third"),
        pytest.param(2, {"tp": 4, "replicas": 2}, "replicas-across-nodes", id="replicas"),
        pytest.param(1, {"tp": 8}, "group-of-one", id="one-node"),
        pytest.param(0, {"tp": 8}, "group-of-one", id="no-node"),
    ],
)
def test_layouts_and_nodes_that_do_not_fit(number: int, sizes: dict[str, int], problem: str) -> None:
    found = plan(nodes(number), layout(**sizes), Ports(), {})
    assert [f.id for f in found.findings if f.severity == "error"] == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("127.0.1.1", "address-unusable"),
        ("::1", "address-unusable"),
        ("0.0.0.0", "address-unusable"),
        ("169.254.1.2", "address-unusable"),
        ("fe80::1", "address-unusable"),
        ("224.0.0.1", "address-unusable"),
        ("gpu-1", "address-unusable"),
        ("", "address-unusable"),
        ("10.0.0.1", "address-twice"),
        ("fd00::2", "address-families"),
    ],
)
def test_addresses_that_other_nodes_cannot_use(address: str, problem: str) -> None:
    assert refused([nodes(2)[0], Node("gpu-1", address, "ens1")]) == [problem]


def test_one_address_in_two_spellings_is_one_address() -> None:
    assert refused([Node("a", "fd00::0:1", "ens1"), Node("b", "FD00::1", "ens1")]) == ["address-twice"]


def test_an_address_that_the_node_does_not_have() -> None:
    assert refused([nodes(2)[0], Node("gpu-1", "10.0.0.2", "")]) == ["address-not-here"]


def test_an_address_on_the_loopback_interface_leads_nowhere() -> None:
    found = plan([nodes(2)[0], Node("gpu-1", "10.255.0.2", "lo")], layout(pp=2), Ports(), {})
    assert [(f.id, f.severity, f.numbers) for f in found.findings] == [
        ("address-on-loopback", "error", {"host": "gpu-1", "address": "10.255.0.2"})
    ]
    assert "serve_node_address" in found.findings[0].remedy


@pytest.mark.parametrize(
    "env", [{}, {"VLLM_HOST_IP": ""}, {"VLLM_HOST_IP": " FD00::0:1"}, {"NCCL_SOCKET_IFNAME": "ib0"}]
)
def test_an_environment_that_leaves_a_node_its_address(env: dict[str, str]) -> None:
    assert other_address(Node("gpu-0", "fd00::1", "ens1"), env) == []


def test_an_environment_with_the_address_of_another_node_is_refused() -> None:
    (finding,) = other_address(nodes(2)[1], {"VLLM_HOST_IP": "10.0.0.1"})
    assert (finding.id, finding.severity) == ("address-of-another", "error")
    assert finding.numbers == {"host": "gpu-1", "said": "10.0.0.1", "address": "10.0.0.2"}
    assert "serve_node_address" in finding.remedy


@pytest.mark.parametrize("name", ["master", "rpc", "board"])
def test_the_port_of_the_clients_is_none_of_the_nodes(name: str) -> None:
    ports = Ports(**{name: 8000, "serve": 8000})
    found = plan(nodes(2), layout(pp=2), ports, {})
    assert [(f.id, f.severity, f.numbers) for f in found.findings] == [("port-twice", "error", {"port": 8000})]
    assert found.findings[0].message.startswith("serve_port and serve_")


def test_everything_that_is_wrong_is_said_at_once() -> None:
    members = [Node("a", "127.0.0.1", "lo"), Node("b", "10.0.0.2", ""), Node("c", "x", "")]
    assert refused(members, tp=2, ports=Ports(29501, 29501, 70000)) == [
        "address-unusable",
        "address-not-here",
        "address-unusable",
        "port-twice",
        "port-range",
        "nodes-uneven",
    ]


@pytest.mark.case("D04")
@pytest.mark.parametrize(
    "name",
    [
        "distributed-executor-backend",
        "data_parallel_backend",
        "--data-parallel-backend",
        "--distributed_executor_backend",
    ],
)
def test_ray_is_refused_with_the_reason(name: str) -> None:
    found = plan(nodes(2), layout(tp=16), Ports(), {name: "ray"})
    assert [f.id for f in found.findings if f.severity == "error"] == ["backend-not-mp"]
    assert "upstream advises mp" in found.findings[-1].message
    assert plan(nodes(2), layout(tp=16), Ports(), {name: "mp"}).valid


def test_a_backend_of_another_kind_is_not_refused_for_what_ray_is() -> None:
    found = plan(nodes(2), layout(tp=16), Ports(), {"distributed-executor-backend": "external_launcher"})
    assert not found.valid
    assert "Ray" not in found.findings[-1].message


def test_hosts_that_the_play_leaves_out_are_named() -> None:
    assert absent(["a", "b", "c"], ["c", "a", "b", "d"]) == []
    found = absent(["a", "b", "c"], ["b"])
    assert [(f.id, f.severity, f.numbers) for f in found] == [("group-incomplete", "error", {"missing": ["a", "c"]})]
    assert "a, c" in found[0].message


FACTS = {
    "interfaces": ["lo", "eth0", "bond0.7", "br-lan"],
    "default_ipv4": {"address": "192.168.0.5", "interface": "eth0"},
    "lo": {"device": "lo", "ipv4": {"address": "127.0.0.1"}, "ipv6": [{"address": "::1"}]},
    "eth0": {"device": "eth0", "ipv4": {"address": "192.168.0.5"}, "ipv6": [{"address": "fd00::5"}]},
    "bond0_7": {
        "device": "bond0.7",
        "ipv4": {"address": "10.7.0.5"},
        "ipv4_secondaries": [{"address": "10.7.0.6"}],
    },
    "br_lan": {"device": "br-lan"},
}


@pytest.mark.parametrize(
    ("said", "reached", "address", "interface"),
    [
        pytest.param("", "", "192.168.0.5", "eth0", id="the-default-route"),
        pytest.param("10.7.0.6", "192.168.0.5", "10.7.0.6", "bond0.7", id="said"),
        pytest.param("FD00::0:5", "", "FD00::0:5", "eth0", id="in-another-spelling"),
        pytest.param("", "10.7.0.5", "10.7.0.5", "bond0.7", id="as-the-inventory-has-it"),
        pytest.param("", "203.0.113.9", "192.168.0.5", "eth0", id="behind-a-nat"),
        pytest.param("", "gpu-1.example.org", "192.168.0.5", "eth0", id="by-name"),
        pytest.param("10.9.9.9", "192.168.0.5", "10.9.9.9", "", id="of-another-node"),
    ],
)
def test_the_address_of_a_node(said: str, reached: str, address: str, interface: str) -> None:
    variables = {"serve_node_address": said, "ansible_host": reached, "ansible_facts": FACTS}
    assert node("gpu-0", variables) == Node("gpu-0", address, interface)


@pytest.mark.parametrize(
    ("host", "reached", "address", "interface"),
    [
        pytest.param("10.7.0.5", None, "10.7.0.5", "bond0.7", id="its-own"),
        pytest.param("10.7.0.5", "192.168.0.5", "192.168.0.5", "eth0", id="ansible-host-wins"),
        pytest.param("203.0.113.9", None, "192.168.0.5", "eth0", id="behind-a-nat"),
    ],
)
def test_the_address_of_a_node_that_the_inventory_calls_by_one(
    host: str, reached: str | None, address: str, interface: str
) -> None:
    variables = {"ansible_facts": FACTS} if reached is None else {"ansible_facts": FACTS, "ansible_host": reached}
    assert node(host, variables) == Node(host, address, interface)


def test_a_node_that_was_never_asked_has_no_address() -> None:
    assert node("gpu-0", {}) == Node("gpu-0", "", "")


def test_what_all_ranks_share_is_one_word() -> None:
    base = common_digest("a: 1\n", "0.32.0", "c0ffee", nodes(2))
    others = [
        common_digest("a: 2\n", "0.32.0", "c0ffee", nodes(2)),
        common_digest("a: 1\n", "0.33.0", "c0ffee", nodes(2)),
        common_digest("a: 1\n", "0.32.0", "beef", nodes(2)),
        common_digest("a: 1\n", "0.32.0", "c0ffee", nodes(3)),
        common_digest("a: 1\n", "0.32.0", "c0ffee", nodes(2)[::-1]),
    ]
    assert base == common_digest("a: 1\n", "0.32.0", "c0ffee", nodes(2))
    assert len({base, *others}) == 6

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas on one node: names, ports, and GPUs that are near to each other and belong to one replica only."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve.replicas import instances, nearest_groups


def gpus(count: int, numa: t.Callable[[int], int | None] = lambda _i: None) -> list[dict[str, t.Any]]:
    return [{"index": i, "numa_node": numa(i)} for i in range(count)]


def matrix(count: int, path: t.Callable[[int, int], str]) -> dict[str, dict[str, str]]:
    """The topology of gpu_info; ``path`` is asked with the lower index first."""
    return {f"GPU{a}": {f"GPU{b}": path(*sorted((a, b))) for b in range(count) if b != a} for a in range(count)}


def devices(layout: str, **options: t.Any) -> list[str]:
    """The GPUs of each replica as one text."""
    return [",".join(one.devices) for one in instances("main", layout, 8000, **options)]


def test_one_replica_is_the_instance_itself_where_clients_ask() -> None:
    assert [one.as_dict() for one in instances("main", "tp4", 8000, host="10.0.0.5", gpus={"count": 4})] == [
        {"instance": "main", "host": "10.0.0.5", "port": 8000, "url": "http://10.0.0.5:8000",
         "devices": ["0", "1", "2", "3"]}
    ]  # fmt: skip


def test_replicas_have_names_addresses_and_gpus_of_their_own() -> None:
    assert [one.as_dict() for one in instances("main", "tp4-r2", 8000, gpus={"count": 8})] == [
        {"instance": "main-r0", "host": "127.0.0.1", "port": 8001, "url": "http://127.0.0.1:8001",
         "devices": ["0", "1", "2", "3"]},
        {"instance": "main-r1", "host": "127.0.0.1", "port": 8002, "url": "http://127.0.0.1:8002",
         "devices": ["4", "5", "6", "7"]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("fd00::5", "http://[fd00::5]:8000"),
        ("node1", "http://node1:8000"),
    ],
)
def test_an_address_to_listen_on_is_asked_where_it_answers(host: str, url: str) -> None:
    (one,) = instances("main", "tp1", 8000, host=host)
    assert (one.host, one.url) == (host, url)


def test_behind_a_router_nobody_else_reaches_the_replicas() -> None:
    assert [one.host for one in instances("main", "tp1-r2", 8000, host="0.0.0.0")] == ["127.0.0.1", "127.0.0.1"]
    exposed = instances("main", "tp1-r2", 8000, host="0.0.0.0", router=False)
    assert [one.host for one in exposed] == ["0.0.0.0", "0.0.0.0"]


@pytest.mark.parametrize(
    ("layout", "router", "ports"),
    [
        ("tp1-r3", "auto", [8001, 8002, 8003]),
        ("tp1-r3", True, [8001, 8002, 8003]),
        ("tp1-r3", "false", [8000, 8001, 8002]),
        ("tp1", "auto", [8000]),
        ("tp1", "yes", [8001]),
    ],
)
def test_the_router_has_the_port_that_clients_use(layout: str, router: t.Any, ports: list[int]) -> None:
    assert [one.port for one in instances("main", layout, "8000", router=router)] == ports


def test_without_gpus_there_are_no_devices() -> None:
    assert devices("tp2-r2") == ["", ""]


def test_a_layout_of_layout_info_is_taken_with_all_its_figures() -> None:
    layout = {"id": "tp2-pp2-r2", "tp": 2, "pp": 2, "dp": 1, "dcp": None, "ep": False, "replicas": 2, "valid": True,
              "gpus": 8, "kv_tokens": 434176}  # fmt: skip
    assert devices(layout, gpus={"count": 8}) == ["0,1,2,3", "4,5,6,7"]


def test_data_parallel_ranks_belong_to_the_engine() -> None:
    assert devices("tp2-dp2-ep-r2", gpus={"count": 8}) == ["0,1,2,3", "4,5,6,7"]


# Machines and what is nearest on them.
PAIRS_ON_SWITCHES = matrix(8, lambda a, b: "PIX" if b == a + 4 else "NODE" if a % 2 == b % 2 else "SYS")
BRIDGED_PAIRS = matrix(4, lambda a, b: "NV12" if (a, b) in ((0, 3), (1, 2)) else "SYS")
THREE_AND_FIVE = matrix(8, lambda a, b: "NODE" if (a < 3) == (b < 3) else "SYS")
NVSWITCH = matrix(8, lambda _a, _b: "NV18")


@pytest.mark.parametrize(
    ("layout", "topology", "groups"),
    [
        pytest.param("tp2-r4", PAIRS_ON_SWITCHES, ["0,4", "1,5", "2,6", "3,7"], id="the two behind one switch"),
        pytest.param("tp4-r2", PAIRS_ON_SWITCHES, ["0,4,2,6", "1,5,3,7"], id="one socket each, pairs together"),
        pytest.param("tp2-r2", BRIDGED_PAIRS, ["0,3", "1,2"], id="the two under one NVLink bridge"),
        pytest.param("tp2-r3", THREE_AND_FIVE, ["0,1", "3,4", "5,6"], id="no pair over both sockets while one fits"),
        pytest.param("tp2-r4", THREE_AND_FIVE, ["0,1", "2,7", "3,4", "5,6"], id="the last pair takes what is left"),
        pytest.param("tp4", THREE_AND_FIVE, ["3,4,5,6"], id="the socket that holds it"),
        pytest.param("tp3", THREE_AND_FIVE, ["0,1,2"], id="the smaller socket, the larger stays whole"),
        pytest.param("tp2-r3", NVSWITCH, ["0,1", "2,3", "4,5"], id="all equally near: by index"),
        pytest.param("tp8", PAIRS_ON_SWITCHES, ["0,4,2,6,1,5,3,7"], id="neighbours have neighbouring ranks"),
    ],
)
def test_the_ranks_of_a_replica_are_neighbours(layout: str, topology: t.Any, groups: list[str]) -> None:
    count = len(topology)
    assert devices(layout, gpus=gpus(count), topology=topology) == groups


def test_numa_nodes_decide_where_the_driver_shows_no_matrix() -> None:
    assert devices("tp2-r2", gpus=gpus(4, lambda i: i % 2)) == ["0,2", "1,3"]
    assert devices("tp2-r2", gpus=gpus(4)) == ["0,1", "2,3"]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
def test_no_gpu_is_given_to_two_replicas(size: int) -> None:
    for seed in range(20):
        distances = {pair: (pair[0] * 7 + pair[1] * 3 + seed * 5) % 6 for pair in itertools.combinations(range(8), 2)}
        found = nearest_groups(range(8), size, 8 // size, lambda a, b: distances[min(a, b), max(a, b)])  # noqa: B023
        assert [len(group) for group in found] == [size] * (8 // size)
        assert len({d for group in found for d in group}) == size * (8 // size)


@pytest.mark.parametrize("chosen", [[6, 7, 4, 5], "6,7,4,5", " 6, 7,4,5,"])
def test_chosen_gpus_are_dealt_out_in_their_order(chosen: t.Any) -> None:
    assert devices("tp2-r2", gpus=gpus(8), topology=PAIRS_ON_SWITCHES, devices=chosen) == ["6,7", "4,5"]


def test_one_chosen_gpu_may_be_a_number() -> None:
    assert devices("tp1", gpus=gpus(8), devices=5) == ["5"]
    assert devices("tp1", gpus=gpus(8), devices="0") == ["0"]


def test_gpus_that_the_driver_numbers_with_a_gap_keep_their_numbers() -> None:
    assert devices("tp1-r2", gpus=[{"index": 0}, {"index": 3}]) == ["0", "3"]


@pytest.mark.parametrize(
    ("layout", "options", "words"),
    [
        ("tp4-r2", {"gpus": {"count": 6}}, "tp4-r2 needs 2 x 4 GPUs on one node, this node has 6. Choose a layout"),
        ("tp8", {"gpus": []}, "tp8 needs 8 GPUs on one node, this node has 0."),
        ("tp2-r2", {"gpus": gpus(8), "devices": [0, 1, 2]}, "2 x 2 GPUs on one node, serve_devices names 3."),
        ("tp2", {"gpus": gpus(8), "devices": [1, 1]}, "serve_devices names GPU 1 twice"),
        ("tp2", {"gpus": gpus(2), "devices": [1, 2]}, "serve_devices names GPU 2, this node has 0, 1."),
        ("tp2", {"gpus": gpus(2), "devices": "a,b"}, "an entry of serve_devices is 'a'"),
        ("tp2", {"gpus": {}}, "serve_gpus.count is None"),
        ("tp1-r2", {"router": "maybe"}, "serve_router is 'maybe'"),
        ("tp1-x2", {}, "'tp1-x2' is not a layout id"),
    ],
)
def test_what_the_node_cannot_hold_is_refused(layout: str, options: t.Any, words: str) -> None:
    with pytest.raises(ModelopsError) as e:
        instances("main", layout, 8000, **options)
    assert words in str(e.value)


@pytest.mark.parametrize(
    ("port", "layout", "words"),
    [
        (65534, "tp1-r2", "with 2 replicas and a router it takes the ports 65534 to 65536"),
        (65534, "tp1-r2", "Set serve_port to a value from 1024 to 65533."),
        (80, "tp1", "with 1 replica it takes the ports 80 to 80"),
        (65536, "tp1", "65536"),
        ("https", "tp1", "serve_port is 'https', which is not a whole number."),
        (True, "tp1", "serve_port is True"),
    ],
)
def test_a_port_that_does_not_exist_is_refused(port: t.Any, layout: str, words: str) -> None:
    with pytest.raises(ModelopsError) as e:
        instances("main", layout, port)
    assert words in str(e.value)


def test_the_last_ports_are_used() -> None:
    assert [one.port for one in instances("main", "tp1-r2", 65533)] == [65534, 65535]
    assert [one.port for one in instances("main", "tp1", 65535)] == [65535]


@pytest.mark.parametrize("name", ["", "Main", "-main", "a b", "x" * 38])
def test_a_name_that_no_service_may_have_is_refused(name: str) -> None:
    with pytest.raises(ModelopsError, match="serve_instance"):
        instances(name, "tp1-r2", 8000)

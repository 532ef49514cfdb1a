# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus is told to scrape."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.filter.replica_instances import replica_instances
from ansible_collections.modelops.vllm.plugins.filter.scrape_file import FilterModule, scrape_file

ROW: dict[str, t.Any] = {
    "instance": "main",
    "kind": "engine",
    "state": "serving",
    "enabled": True,
    "model": "MiniMax-M2.5",
    "layout": "tp8-ep",
    "host": "0.0.0.0",
    "port": 8000,
    "url": "http://127.0.0.1:8000",
}


def groups(*rows: dict[str, t.Any], **options: t.Any) -> list[dict[str, t.Any]]:
    return yaml.safe_load(scrape_file([{**ROW, **row} for row in rows], "gpu01", "gpu01.example.com", **options))


def target(**row: t.Any) -> str:
    return groups(row)[0]["targets"][0]


def test_the_filter_has_its_name() -> None:
    assert FilterModule().filters() == {"scrape_file": scrape_file}


def test_a_target_with_its_labels() -> None:
    text = scrape_file([ROW], "gpu01", "gpu01.example.com")
    assert text.startswith("# Written by the role modelops.vllm.monitoring")
    assert yaml.safe_load(text) == [
        {
            "targets": ["gpu01.example.com:8000"],
            "labels": {"node": "gpu01", "instance": "main", "model": "MiniMax-M2.5", "layout": "tp8-ep"},
        }
    ]


def test_no_instances_are_an_empty_list() -> None:
    assert groups() == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("0.0.0.0", "gpu01.example.com:8000"),
        ("::", "gpu01.example.com:8000"),
        ("10.0.0.5", "10.0.0.5:8000"),
        ("fd00::5", "[fd00::5]:8000"),
        ("gpu01.internal", "gpu01.internal:8000"),
    ],
)
def test_the_address_is_the_one_that_is_listened_on(host: str, expected: str) -> None:
    assert target(host=host) == expected


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", "127.0.0.1:8000"),
        ("127.1.2.3", "127.1.2.3:8000"),
        ("::1", "[::1]:8000"),
        ("::ffff:127.0.0.1", "[::ffff:127.0.0.1]:8000"),
        ("localhost", "localhost:8000"),
        (None, "127.0.0.1:8000"),
    ],
)
def test_loopback_is_reached_from_the_node_only(host: str | None, local: str) -> None:
    with pytest.raises(AnsibleFilterError, match=r"listens on loopback: main \(.*\) of gpu01\. Name the proxy"):
        groups({"host": host})
    assert groups({"host": host}, local=True)[0]["targets"] == [local]


def test_all_that_cannot_be_reached_is_named_at_once_with_what_helps_replicas() -> None:
    rows = [{"instance": f"main-r{i}", "host": "127.0.0.1", "port": 8001 + i} for i in range(2)]
    with pytest.raises(AnsibleFilterError) as caught:
        groups(*rows)
    assert "main-r0 (127.0.0.1), main-r1 (127.0.0.1) of gpu01. Name the proxy in front of each" in str(caught.value)
    assert "only without a router (serve_router: false)" in str(caught.value)


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "::1", "[::1]"])
def test_a_prometheus_on_another_host_is_not_sent_to_itself(address: str) -> None:
    with pytest.raises(AnsibleFilterError, match=rf"its address is {re.escape(address)}\. Set monitoring_address"):
        scrape_file([ROW], "gpu01", address)
    assert scrape_file([{**ROW, "host": "10.0.0.5"}], "gpu01", address).count("10.0.0.5:8000") == 1
    assert scrape_file([ROW], "gpu01", address, targets={"main": "localhost:9443"}).count("localhost:9443") == 1


@pytest.mark.parametrize("address", ["fd00::1", "[fd00::1]"])
def test_an_address_of_ipv6_stands_in_brackets_once(address: str) -> None:
    assert yaml.safe_load(scrape_file([ROW], "gpu01", address))[0]["targets"] == ["[fd00::1]:8000"]


def test_instances_that_are_yet_to_run_can_be_judged() -> None:
    (row,) = replica_instances("main", "tp1", 8000, host="0.0.0.0")
    assert yaml.safe_load(scrape_file([row], "gpu01", "gpu01.example.com")) == [
        {"targets": ["gpu01.example.com:8000"], "labels": {"node": "gpu01", "instance": "main"}}
    ]


def test_a_prometheus_on_the_node_asks_loopback_when_all_addresses_are_listened_on() -> None:
    assert groups({}, local=True)[0]["targets"] == ["127.0.0.1:8000"]


def test_a_named_target_wins_also_for_loopback() -> None:
    found = groups({"host": "127.0.0.1"}, {"instance": "b"}, targets={"main": "proxy:443"})
    assert [g["targets"] for g in found] == [["proxy:443"], ["gpu01.example.com:8000"]]


@pytest.mark.parametrize("bad", ["https://proxy", "proxy", "proxy:443/metrics", "a b:1", "proxy:65536", "proxy:0"])
def test_a_bad_target_is_named(bad: str) -> None:
    with pytest.raises(AnsibleFilterError, match="is no target for the instance main of gpu01: write it as host:port"):
        groups({}, targets={"main": bad})


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        ({"state": "stopped", "enabled": False}, False),
        ({"state": "failed", "enabled": None}, False),
        ({"state": "failed", "enabled": True}, True),
        ({"state": "starting", "enabled": False}, True),
        ({"state": "serving", "enabled": False}, True),
        ({"kind": "router", "layout": ""}, False),
        ({"url": None, "state": "running"}, False),
    ],
    ids=["stopped by hand", "no unit", "down", "first start", "not at boot", "router", "second node of an engine"],
)
def test_what_nobody_wants_to_be_told_about_is_left_out(row: dict[str, t.Any], kept: bool) -> None:
    assert len(groups(row)) == kept


def test_more_labels_win_and_what_is_not_known_is_left_out() -> None:
    (found,) = groups({"layout": None}, labels={"site": 3, "node": "n1"})
    assert found["labels"] == {"node": "n1", "instance": "main", "model": "MiniMax-M2.5", "site": "3"}
    with pytest.raises(AnsibleFilterError, match="'a-b' is no name of a label"):
        groups({}, labels={"a-b": "x"})

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus is told to scrape."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible.errors import AnsibleFilterError
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


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", None])
def test_loopback_is_reached_from_the_node_only(host: str | None) -> None:
    with pytest.raises(AnsibleFilterError, match=r"The instance main of gpu01 listens on .* Name the proxy"):
        groups({"host": host})
    found = groups({"host": host}, local=True)[0]["targets"]
    assert found == ["[::1]:8000" if host == "::1" else f"{host or '127.0.0.1'}:8000"]


def test_a_prometheus_on_the_node_asks_loopback_when_all_addresses_are_listened_on() -> None:
    assert groups({}, local=True)[0]["targets"] == ["127.0.0.1:8000"]


def test_a_named_target_wins_also_for_loopback() -> None:
    found = groups({"host": "127.0.0.1"}, {"instance": "b"}, targets={"main": "proxy:443"})
    assert [g["targets"] for g in found] == [["proxy:443"], ["gpu01.example.com:8000"]]


@pytest.mark.parametrize("bad", ["https://proxy", "proxy", "proxy:443/metrics", "a b:1"])
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

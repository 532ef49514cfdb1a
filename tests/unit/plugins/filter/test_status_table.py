# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of instances that people read."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.filter.status_table import FilterModule, status_table

MAIN = {
    "instance": "main",
    "kind": "engine",
    "state": "serving",
    "model": "MiniMax-M2.5",
    "commit": "f710177d938eff80b684d42c5aa84b382612f21f",
    "layout": "tp8-ep",
    "uptime_seconds": 93784,
    "tokens_per_second": 2511.4,
    "requests_running": 64,
    "requests_waiting": 3,
    "kv_cache_usage": 0.875,
    "vram_mib": 727040,
}
NOTHING: dict[str, t.Any] = {**dict.fromkeys(MAIN), "instance": "b", "kind": "engine", "state": "failed"}
ROUTER = {**NOTHING, "instance": "main-router", "kind": "router", "state": "serving"}


def result(*instances: t.Any, **more: t.Any) -> dict[str, t.Any]:
    return {"instances": list(instances), "findings": [], **more}


def test_the_filter_has_its_name() -> None:
    assert FilterModule().filters() == {"status_table": status_table}


def test_a_row_an_instance() -> None:
    lines = status_table({"gpu01": result(MAIN, NOTHING)}).splitlines()
    assert " ".join(lines[0].split()) == (
        "node instance state model commit layout uptime tokens/s running waiting KV-cache VRAM-GiB"
    )
    assert " ".join(lines[1].split()) == ("gpu01 main serving MiniMax-M2.5 f710177 tp8-ep 1d2h 2,511.4 64 3 88% 710.0")
    assert lines[2].split() == ["gpu01", "b", "failed", *["-"] * 9]
    assert len(lines) == 3


def test_a_router_is_told_as_one() -> None:
    assert status_table({"gpu01": result(ROUTER)}).splitlines()[1].split()[:6] == [
        "gpu01", "main-router", "serving", "-", "-", "router",
    ]  # fmt: skip


def test_columns_are_aligned() -> None:
    lines = status_table({"gpu01": result(MAIN), "a-longer-name": result(NOTHING)}).splitlines()
    assert {line.index(word) for line, word in zip(lines, ["instance", "main", "b  "], strict=True)} == {15}
    assert {len(line) for line in lines} == {len(lines[0])}


@pytest.mark.parametrize(
    ("outcome", "words", "note"),
    [
        ({"unreachable": True, "msg": "ssh: no route\nto host"}, "unreachable", "  gpu02: ssh: no route to host"),
        ({"failed": True, "msg": "Run as root."}, "not-readable", "  gpu02: Run as root."),
        ({"msg": "No JSON.", "module_stderr": "sudo: not found"}, "not-readable", "  gpu02: No JSON. sudo: not found"),
        ({}, "not-asked", None),
        (result(), "no-instance", None),
    ],
    ids=["unreachable", "failed", "no module", "not asked", "nothing there"],
)
def test_a_node_without_instances_is_a_row_too(outcome: dict[str, t.Any], words: str, note: str | None) -> None:
    lines = status_table({"gpu01": result(MAIN), "gpu02": outcome}).splitlines()
    assert " ".join(lines[2].split()) == f"gpu02 - {words}" + " -" * 9
    assert lines[3:] == (["", note] if note else [])


def test_no_single_space_where_a_long_line_could_be_broken() -> None:
    lines = status_table({"gpu01": result(MAIN), "gpu02": result()}).splitlines()
    assert [line for line in lines if re.search(r"\S \S", line)] == []


def test_a_long_message_is_cut() -> None:
    lines = status_table({"gpu02": {"unreachable": True, "msg": "x" * 1000}}).splitlines()
    assert lines[-1] == f"  gpu02: {'x' * 300} ..."


def test_findings_follow_with_their_node_and_errors_first() -> None:
    warning = {"severity": "warning", "message": "It is warm.", "remedy": "Open a window."}
    error = {"severity": "error", "message": "It burns.", "remedy": ""}
    lines = status_table({"a": result(MAIN, findings=[warning]), "b": result(findings=[error])}).splitlines()
    assert lines[3:] == ["", "  b: ERROR It burns.", "  a: WARNING It is warm. Open a window."]


@pytest.mark.parametrize(("seconds", "text"), [(59, "0m59s"), (3600, "1h0m"), (86399, "23h59m"), (172800, "2d0h")])
def test_durations_have_two_units(seconds: int, text: str) -> None:
    assert f"  {text}  " in status_table({"n": result({**MAIN, "uptime_seconds": seconds})})


def test_no_hosts_are_an_empty_table_and_a_list_is_refused() -> None:
    assert status_table({}).startswith("node  instance")
    with pytest.raises(AnsibleFilterError, match="wants a dictionary"):
        status_table([MAIN])  # type: ignore[arg-type]

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Staging the part of one node in an engine on several."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import switching
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Store

GROUP = {
    "name": "pair/main",
    # As the filter cluster_ranks gives them, with more than is needed here.
    "members": [
        {"host": "head", "address": "10.0.0.1", "interface": "eth0"},
        {"host": "worker", "address": "10.0.0.2", "interface": "eth0"},
    ],
    "rank": "1",  # a text, as a template of the role makes it
    "port": "29510",
}


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, t.Any]:
    monkeypatch.setattr(switching, "run", lambda _argv: (0, "", ""))
    return {
        "state_dir": str(tmp_path / "state"),
        "config_dir": str(tmp_path / "etc"),
        "instance": "main",
        "unit_text": "[Unit]\nDescription=vLLM\n",
        "args_text": "model: /m\n",
        "secrets": {"VLLM_API_KEY": "sk-very-secret-4711"},
        "question": {"url": "http://127.0.0.1:8000", "model": "m"},
        "group": GROUP,
        "watch_text": "[Unit]\nDescription=watch\n",
    }


def test_a_release_of_a_group_has_its_watch_and_knows_its_rank(
    run_module: t.Any, params: dict[str, t.Any], tmp_path: Path
) -> None:
    result = run_module("vllm_release", params)
    release = Store(params["state_dir"]).get("main", result["release"])
    assert release.headless
    places = {f["name"]: (f["dest"], f["mode"]) for f in release.files}
    assert places["group.json"] == (str(tmp_path / "etc/main.group.json"), "0644")
    assert places["watch.service"] == ("/etc/systemd/system/vllm-main-watch.service", "0644")
    assert release.read("watch.service") == params["watch_text"]
    group = json.loads(release.read("group.json"))
    assert group["group"]["members"] == [
        {"host": "head", "address": "10.0.0.1"},
        {"host": "worker", "address": "10.0.0.2"},
    ]
    assert (group["group"]["rank"], group["unit"]) == (1, "vllm-main.service")
    assert "sk-very" not in release.read("group.json")


def test_all_that_the_ranks_share_is_in_the_digest_and_their_units_are_not(
    run_module: t.Any, params: dict[str, t.Any]
) -> None:
    def digest(**changes: t.Any) -> str:
        result = run_module("vllm_release", {**params, **changes})
        return str(Store(params["state_dir"]).get("main", result["release"]).record["group"]["digest"])

    first = digest()
    assert digest(unit_text="[Unit]\nDescription=another rank\n", group={**GROUP, "rank": 0}) == first
    assert digest(args_text="model: /n\n") != first
    assert digest(vllm_version="0.33.0") != first
    assert digest(commit="c0ffee") != first


def test_a_release_of_one_node_is_what_it_was(run_module: t.Any, params: dict[str, t.Any]) -> None:
    result = run_module("vllm_release", {**params, "group": {}, "watch_text": ""})
    release = Store(params["state_dir"]).get("main", result["release"])
    assert not release.headless
    assert "group" not in release.record
    assert "watch.service" not in {f["name"] for f in release.files}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": {**GROUP, "rank": 2}}, "group is no group of nodes.*rank 2 of 2 members"),
        ({"group": {"name": "pair"}}, "group is no group of nodes.*members"),
        ({"watch_text": ""}, "no watch_text"),
    ],
)
def test_what_is_no_group_is_refused(
    run_module: t.Any, params: dict[str, t.Any], changes: dict[str, t.Any], message: str
) -> None:
    result = run_module("vllm_release", {**params, **changes})
    assert result.rc == 1
    assert re.search(message, result["msg"])

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role benchmark takes from the records of a node, in a play that deploys nothing and in one that does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROLE = ROOT / "roles" / "benchmark"


def instance(name: str, port: int, devices: list[str], **changes: t.Any) -> dict[str, t.Any]:
    """One of the instances that vllm_status_info returns."""
    return {
        "instance": name,
        "service": "main",
        "kind": "engine",
        "active_state": "active",
        "port": port,
        "url": f"http://127.0.0.1:{port}",
        "devices": devices,
        "commit": "c0ffee",
        "layout": "tp2-r2",
        **changes,
    }


ROUTED = [
    instance("main-router", 8000, [], kind="router", commit=None, layout=None),
    instance("main-0", 8001, ["0", "1"]),
    instance("main-1", 8002, ["2", "3"]),
    # Another service, and what was stopped when this one came.
    instance("other", 8100, ["4"], service="other", commit="beef", layout="tp1"),
    instance("old", 8000, ["0"], service="old", active_state="inactive", commit="dead", layout="tp1"),
]


def templated(**given: t.Any) -> dict[str, t.Any]:
    """The variables of the role as a task has them."""
    wanted = ("gpus", "identity", "metrics_urls", "state_dir")
    message = "{{ {" + ", ".join(f"'{name}': benchmark_{name}" for name in wanted) + "} | to_json }}"
    files = [f"@{ROLE / part / 'main.yml'}" for part in ("defaults", "vars")]
    extra = [*files, json.dumps(given), json.dumps({"said": message})]
    argv = [sys.executable, "-m", "ansible", "adhoc", "localhost", "-c", "local", "-m", "debug", "-a", "var=said"]
    for item in extra:
        argv += ["-e", item]
    environment = {
        **os.environ,
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.json",
    }
    run = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment, cwd=ROOT, timeout=120)
    said = json.loads(run.stdout)["plays"][0]["tasks"][0]["hosts"]["localhost"]["said"]
    return t.cast(dict[str, t.Any], json.loads(said) if isinstance(said, str) else said)


@pytest.mark.slow
def test_a_play_that_deploys_nothing_knows_what_serves() -> None:
    found = templated(__benchmark_status={"instances": ROUTED})
    assert int(found["gpus"]) == 4
    assert (found["identity"]["commit"], found["identity"]["layout"]) == ("c0ffee", "tp2-r2")
    assert found["metrics_urls"] == ["http://127.0.0.1:8001", "http://127.0.0.1:8002"]
    assert found["state_dir"] == "/var/lib/vllm"


@pytest.mark.slow
def test_another_service_of_the_node_is_found_by_its_port() -> None:
    found = templated(benchmark_url="http://localhost:8100", __benchmark_status={"instances": ROUTED})
    assert int(found["gpus"]) == 1
    assert (found["identity"]["commit"], found["identity"]["layout"]) == ("beef", "tp1")
    assert found["metrics_urls"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"benchmark_url": "http://gpu02:8000", "__benchmark_status": {"instances": ROUTED}},
        {"benchmark_url": "http://127.0.0.1:9", "__benchmark_status": {"instances": ROUTED}},
        {"__benchmark_status": {"failed": False, "msg": "no systemd"}},
        {},
    ],
)
def test_of_other_servers_nothing_is_known(given: dict[str, t.Any]) -> None:
    found = templated(**given)
    assert int(found["gpus"]) == 0
    assert (found["identity"]["commit"], found["identity"]["layout"]) == ("", "")
    assert found["metrics_urls"] == []


@pytest.mark.slow
def test_what_the_play_has_deployed_itself_comes_first() -> None:
    deployed = {"serve_identity": {"gpus": 8, "layout": "tp8", "vllm_args": {}}, "weights_result": {"commit": "abc"}}
    found = templated(__benchmark_status={"instances": ROUTED}, **deployed)
    assert int(found["gpus"]) == 8
    assert (found["identity"]["commit"], found["identity"]["layout"]) == ("abc", "tp8")

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a switch asks of its node, with systemd's answers given."""

from __future__ import annotations

import json
import shutil
import socket
import typing as t
from types import SimpleNamespace

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve.node import Node, run
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release


class Systemctl:
    """Answers ``systemctl`` by its first arguments and keeps what it was asked."""

    def __init__(self, **active: str) -> None:
        self.active = active
        self.asked: list[str] = []

    def __call__(self, argv: t.Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(" ".join(argv))
        if argv[:2] == ["systemctl", "show"]:
            unit = argv[-1]
            return (
                0,
                f"LoadState=loaded\nActiveState={self.active.get(unit.split('.')[0].replace('-', '_'), 'inactive')}\n",
                "",
            )
        if argv[:2] == ["systemctl", "start"]:
            return 1, "", "Job for vllm-main.service failed.\n"
        return 0, "", ""


def test_a_start_forgets_earlier_failures_and_says_what_systemd_says() -> None:
    systemctl = Systemctl()
    assert Node("", systemctl).start("vllm-main.service") == "Job for vllm-main.service failed."
    assert systemctl.asked == [
        "systemctl reset-failed -- vllm-main.service",
        "systemctl start -- vllm-main.service",
    ]


@pytest.mark.parametrize(
    ("active", "runs"),
    [("active", True), ("activating", True), ("deactivating", True), ("inactive", False), ("failed", False)],
)
def test_a_unit_that_comes_back_by_itself_runs(active: str, runs: bool) -> None:
    assert Node("", Systemctl(vllm_main=active)).runs("vllm-main.service") is runs


@pytest.mark.parametrize(("free", "expected"), [(10 << 20, ["disk-full"]), (1 << 30, ["disk-low"]), (6 << 30, [])])
def test_the_disk(free: int, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=free))
    assert [f.id for f in Node("").disk_findings("/var/lib/vllm")] == expected


def release(port: int | None) -> Release:
    return Release("/r", {"host": "127.0.0.1", "port": port, "unit": "vllm-main.service", "instance": "main"})


def test_a_port_that_another_process_holds_is_an_error_and_one_that_goes_is_none() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening, as a vLLM that loads
        port = held.getsockname()[1]
        node = Node("", Systemctl(vllm_old="active"))
        assert [f.id for f in node.port_findings(release(port), {"vllm-main.service"})] == ["port-reserved"]
        assert node.port_findings(release(port), {"vllm-old.service"}) == []
    assert node.port_findings(release(None), set()) == []


def test_ports_beside_the_main_one_are_judged_as_well() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        further = [{"host": "127.0.0.1", "port": port, "variable": "router_metrics_port"}]
        router = Release("/r", {**release(None).record, "ports": further})
        node = Node("", Systemctl(vllm_router_stays="active"))
        (finding,) = node.port_findings(router, {"vllm-router-new.service"})
        assert (finding.id, finding.severity) == ("port-reserved", "error")
        assert "set router_metrics_port to a free port" in finding.remedy
        assert node.port_findings(router, {"vllm-router-stays.service"}) == []


def test_a_node_without_gpus_asks_nobody_about_them() -> None:
    node = Node("")
    assert node.gpu_findings([release(1)], ()) == []
    assert node.gpu_holders([release(1)], (), room=True) == []


def test_a_missing_program_is_status_127() -> None:
    assert run(["modelops-no-such-program"]) == (127, "", "modelops-no-such-program: not found")


def test_a_container_of_somebody_else_is_found_before_a_release_in_a_container_replaces_it() -> None:
    listed = json.dumps([{"Names": ["vllm-main"], "Labels": None}])
    asked: list[t.Sequence[str]] = []

    def podman(argv: t.Sequence[str]) -> tuple[int, str, str]:
        asked.append(argv)
        return 0, listed, ""

    def release_at(dest: str) -> Release:
        return Release("/x", {"instance": "main", "files": [{"name": "unit", "dest": dest, "mode": "0644"}]})

    node = Node("", podman)
    assert node.container_findings(release_at("/etc/systemd/system/vllm-main.service")) == []
    assert asked == []
    (finding,) = node.container_findings(release_at("/etc/containers/systemd/vllm-main.container"))
    assert finding.id == "container-foreign"

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role preflight says about nodes that are fit, and about nodes that are not."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from tests.support.scenario import run_playbook

CONVERGE = Path(__file__).parents[1] / "converge.yml"
REPORTS = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])

LISTEN = """
import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); s.bind(("127.0.0.1", 8123)); s.listen()
time.sleep(120)
"""


def preflight(node: str, *arguments: str, **variables: t.Any) -> tuple[int, str]:
    """(exit status, output in one line) of the scenario's play on one node with other variables."""
    run = run_playbook(CONVERGE, "-l", node, *arguments, **variables)
    return run.returncode, run.stdout


def report(node: str) -> dict[str, t.Any]:
    return json.loads((REPORTS / f"{node}.json").read_text(encoding="utf-8"))


def statuses(node: str) -> dict[str, str]:
    return {row["id"]: row["status"] for row in report(node)["checks"]}


def test_a_fit_node_with_gpus_passes_and_its_report_is_kept() -> None:
    found = statuses("preflight-gpu")
    assert report("preflight-gpu")["passed"] is True
    assert [found[id_] for id_ in ("vram", "systemd", "port")] == ["ok", "ok", "ok"]
    assert found["service-user"] == "info"  # not there yet
    assert found["shared-memory"] == "warning"  # 1 GiB for eight GPUs
    assert found["disk"] == "warning"
    assert found["peer-access"] == "skipped"


def test_a_fit_node_without_gpus_passes_too() -> None:
    found = statuses("preflight-cpu")
    assert report("preflight-cpu")["passed"] is True
    assert [found[id_] for id_ in ("gpus", "vram", "driver", "tools", "disk")] == ["skipped"] * 5
    assert found["port"] == "ok"


@pytest.fixture
def listener(host: t.Any) -> t.Iterator[None]:
    """A service that holds the port, with SO_REUSEPORT as vLLM's API servers have."""
    host.check_output("systemd-run --unit=other-server python3 -c %s", LISTEN)
    host.check_output("timeout 20 sh -c 'until ss -ltn | grep -q 127.0.0.1:8123; do sleep 0.1; done'")
    yield
    host.run("systemctl stop other-server")


@pytest.mark.usefixtures("listener")
def test_all_errors_are_told_at_once_and_the_holder_of_the_port_lives(host: t.Any) -> None:
    status, output = preflight("preflight-gpu", preflight_expected_gpus={"count": 4, "name": "NVIDIA H200"})
    assert status != 0
    for text in ("ERROR gpu-count", "ERROR gpu-name", "ERROR port-taken", "other-server.service", "WARNING disk-space"):
        assert text in output
    assert host.run("systemctl is-active other-server").stdout.strip() == "active"


@pytest.mark.usefixtures("listener")
def test_what_is_ignored_is_shown_as_ignored() -> None:
    status, output = preflight("preflight-gpu", preflight_ignore=["port-taken"])
    assert status == 0, output
    assert "INFO port-taken: Ignored error:" in output
    assert report("preflight-gpu")["ignored"] == ["port-taken"]


def test_an_unknown_id_names_the_known_ones() -> None:
    status, output = preflight("preflight-cpu", preflight_ignore=["prot-taken"])
    assert status != 0
    assert "'prot-taken', which no check finds" in output
    assert "port-taken" in output


def test_the_service_user_and_what_it_left_behind(host: t.Any) -> None:
    host.check_output("useradd --system --home-dir /var/lib/vllm/home vllm")
    host.check_output("install -d -m 0755 /var/lib/vllm/home")  # of root
    host.check_output("install -o vllm -m 0600 /dev/null /dev/shm/nccl-AbCdEf")
    try:
        status, output = preflight("preflight-gpu")
        assert status != 0
        assert "ERROR cache-not-writable: vllm may not write to /var/lib/vllm/home" in output
        assert "shm-stale" in output
        assert "nccl-AbCdEf" in output
        assert host.file("/dev/shm/nccl-AbCdEf").exists
        host.check_output("chown vllm /var/lib/vllm/home")
        assert preflight("preflight-gpu")[0] == 0
        assert statuses("preflight-gpu")["service-user"] == "ok"
    finally:
        host.run("rm -rf /dev/shm/nccl-AbCdEf /var/lib/vllm; userdel vllm")


def test_a_broken_driver_stops_the_role(host: t.Any) -> None:
    host.check_output("printf '#!/bin/sh\nFAKE_NVIDIA_SMI_MODE=driver_mismatch exec nvidia-smi \"$@\"\n' > /root/smi")
    host.check_output("chmod 755 /root/smi")
    status, output = preflight("preflight-gpu", preflight_nvidia_smi="/root/smi")
    assert status != 0
    assert "ERROR gpu-driver-mismatch" in output
    assert "eboot" in output


def test_a_test_of_peer_access_that_hangs_is_a_broken_one(host: t.Any) -> None:
    """NCCL is not here: a fake python hangs as a rank does, and nothing of it is left."""
    host.check_output("mkdir -p /root/venv/bin")
    host.check_output("printf '#!/bin/sh\nexec sleep 300\n' > /root/venv/bin/python; chmod 755 /root/venv/bin/python")
    options = {"preflight_p2p_test": "true", "preflight_p2p_timeout": "2", "preflight_vllm_bin": "/root/venv/bin/vllm"}
    status, output = preflight("preflight-gpu", **options)
    assert status != 0
    assert "ERROR p2p-broken: An all-reduce of two ranks between GPU 0 and GPU 4 failed" in output
    assert "it did not end in 2 s" in output
    assert host.run("pgrep -f '[s]leep 300'").stdout == ""


def test_several_nodes_and_a_name_that_leads_to_loopback(host: t.Any) -> None:
    before = host.file("/etc/hosts").content_string
    host.check_output("sh -c %s", "printf '127.0.1.1 %s\n' \"$(hostname)\" > /etc/hosts")
    try:
        status, output = preflight("preflight-gpu", preflight_nodes=2)
        assert status != 0
        assert "ERROR hostname-loopback" in output
        assert "VLLM_HOST_IP=" in output
    finally:
        host.check_output("printf %s > /etc/hosts", before)


def test_an_old_python_is_told_before_any_module_runs(host: t.Any) -> None:
    host.check_output("printf '#!/bin/sh\necho 3.6\n' > /root/old-python; chmod 755 /root/old-python")
    status, output = preflight("preflight-gpu", preflight_python="/root/old-python")
    assert status != 0
    assert "3.6" in output
    assert "the modules need Python 3.10 or later" in output
    assert "set ansible_python_interpreter" in output


def test_check_mode_says_the_same_and_changes_nothing() -> None:
    status, output = preflight("preflight-gpu", "--check", "--diff")
    assert status == 0, output
    assert "changed=0" in output

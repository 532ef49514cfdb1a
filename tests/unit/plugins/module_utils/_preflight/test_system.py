# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of systemd, limits, clock and host name."""

from __future__ import annotations

import ctypes
import types

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._preflight import system
from ansible_collections.modelops.vllm.plugins.module_utils._preflight.question import Question

GOOD = {
    "LoadState": "loaded",
    "LimitNOFILESoft": "1048576",
    "LimitMEMLOCKSoft": "infinity",
    "LimitNPROCSoft": "infinity",
    "TasksMax": "154000",
}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"LimitNOFILESoft": "1024"}, [("limit-nofile", "LimitNOFILE", 1024)]),
        ({"LimitMEMLOCKSoft": "8388608"}, [("limit-memlock", "LimitMEMLOCK", 8388608)]),
        ({"LimitNPROCSoft": "512"}, [("limit-nproc", "LimitNPROC", 512)]),
        ({"TasksMax": "512"}, [("limit-nproc", "TasksMax", 512)]),
        ({"TasksMax": "[not set]"}, []),
        # Before the first deployment systemd shows what a unit without settings gets; the role sets files and memory.
        ({"LoadState": "not-found", "LimitNOFILESoft": "1024", "LimitMEMLOCKSoft": "65536"}, []),
        ({"LoadState": "not-found", "TasksMax": "512"}, [("limit-nproc", "TasksMax", 512)]),
    ],
)
def test_limits(changes, found):
    findings = system.judge_limits("vllm-main.service", {**GOOD, **changes})
    assert [(f.id, f.numbers["limit"], f.numbers["value"]) for f in findings] == found
    assert all(f.severity == "warning" and "vllm-main.service" in f.message for f in findings)


def test_no_unit_no_limits():
    assert system.limits(Question()) is None


def test_systemd(tmp_path):
    assert system.systemd(Question(), str(tmp_path)) == []
    (finding,) = system.systemd(Question(), str(tmp_path / "none"))
    assert (finding.id, finding.severity) == ("systemd-missing", "warning")


@pytest.mark.parametrize(
    ("error", "state", "found"),
    [(100, True, []), (15_999_999, True, []), (16_000_000, False, ["clock-unsynchronised"])],
)
def test_the_clock_as_the_kernel_estimates_it(monkeypatch, error, state, found):
    def adjtimex(buffer):
        ctypes.memmove(ctypes.addressof(buffer) + 24, error.to_bytes(8, "little"), 8)
        return 5

    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: types.SimpleNamespace(adjtimex=adjtimex))
    assert system.clock_synchronised() is state
    assert [(f.id, f.severity) for f in system.clock(Question())] == [(id_, "warning") for id_ in found]


def test_a_kernel_that_does_not_say(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: types.SimpleNamespace(adjtimex=lambda buffer: -1))
    assert system.clock(Question()) is None


CARDS = {"lo": "127.0.0.1", "docker0": "172.17.0.1", "eth0": "10.0.0.11", "eth1": "192.168.0.11"}
ROUTES = {"VLLM_HOST_IP": "10.0.0.11", "GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0"}


@pytest.mark.case("D02")
def test_d02_a_host_name_on_loopback_is_an_error_with_the_values_to_set():
    (finding,) = system.judge_host_name("node1", ["127.0.1.1"], CARDS, "10.0.0.11", {})
    assert (finding.id, finding.severity) == ("hostname-loopback", "error")
    assert finding.numbers == {"addresses": ["127.0.1.1"], "suggested": ROUTES}
    assert "VLLM_HOST_IP=10.0.0.11, GLOO_SOCKET_IFNAME=eth0, NCCL_SOCKET_IFNAME=eth0" in finding.remedy


@pytest.mark.case("D02")
@pytest.mark.parametrize(
    ("addresses", "env", "severity"),
    [
        (["10.0.0.11"], {}, None),
        (["127.0.1.1", "10.0.0.11"], {}, "error"),
        (["::1"], {}, "error"),
        ([], {}, "error"),
        (["127.0.1.1"], {"NCCL_SOCKET_IFNAME": "eth0"}, "error"),  # not enough alone
        (["127.0.1.1"], ROUTES, "warning"),
    ],
)
def test_d02_what_counts_as_loopback_and_what_helps(addresses, env, severity):
    findings = system.judge_host_name("node1", addresses, CARDS, "10.0.0.11", env)
    assert [f.severity for f in findings] == ([severity] if severity else [])


@pytest.mark.parametrize("addresses", [["127.0.1.1"], []])
def test_ranks_that_the_role_pins_do_not_depend_on_the_host_name(addresses):
    (finding,) = system.judge_host_name("node1", addresses, CARDS, "10.0.0.11", {}, pinned=True)
    assert (finding.id, finding.severity) == ("hostname-loopback", "info")
    assert system.judge_host_name("node1", ["10.0.0.11"], CARDS, "10.0.0.11", {}, pinned=True) == []


@pytest.mark.parametrize(("pinned", "severity"), [(True, "info"), (False, "error")])
def test_the_question_says_who_pins(monkeypatch, pinned, severity):
    monkeypatch.setattr(system.socket, "getaddrinfo", lambda name, port: [(2, 1, 6, "", ("127.0.1.1", 0))])
    (finding,) = system.host_name(Question(nodes=2, pinned=pinned))
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("address", "card"), [("192.168.0.11", "eth1"), ("", "eth0"), ("node1.example", "eth0"), ("172.17.0.1", "docker0")]
)
def test_the_interface_that_carries_the_address_of_the_inventory(address, card):
    (finding,) = system.judge_host_name("node1", ["127.0.1.1"], CARDS, address, {})
    assert finding.numbers["suggested"]["GLOO_SOCKET_IFNAME"] == card


@pytest.mark.parametrize(("expected", "given", "found"), [(1, 3, None), (2, 2, []), (2, 1, ["node-count"])])
def test_hardware_of_two_nodes_serves_on_two_or_not_at_all(expected, given, found):
    findings = system.nodes(Question(expected_nodes=expected, nodes=given))
    assert (findings if findings is None else [f.id for f in findings]) == found


def test_a_single_node_needs_no_name():
    assert system.host_name(Question(nodes=1)) is None


def test_this_machine_has_a_loopback_interface():
    assert system.interfaces()["lo"] == "127.0.0.1"

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a port."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import ports
from ansible_collections.modelops.vllm.plugins.module_utils._serve.ports import Owner

UNIT = "vllm-main.service"
OURS = Owner(10, "vllm", UNIT)
NGINX = Owner(812, "nginx", "nginx.service")

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:1F40 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 100 0 0 10 0
   2: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 0 100 0 0 10 0
"""


def table(address: str) -> str:
    """/proc/net/tcp with one listener on port 8000 of this address, as the kernel shows it. Its inode is 7."""
    return f"  sl\n   0: {address}:1F40 0:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7 1 0 100 0\n"


def ip(text: str) -> ports.Address:
    return ipaddress.ip_address(text)


@pytest.fixture
def listener() -> t.Iterator[int]:
    with contextlib.closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


def test_only_listeners_of_the_port_count() -> None:
    assert ports.listeners(TABLE, 8000) == [(ip("127.0.0.1"), "111")]
    assert ports.listeners("", 8000) == []


@pytest.mark.parametrize(
    ("shown", "address"),
    [
        ("00000000", "0.0.0.0"),
        ("0B00000A", "10.0.0.11"),
        ("00000000000000000000000000000000", "::"),
        ("00000000000000000000000001000000", "::1"),
        ("B80D0120000000000000000001000000", "2001:db8::1"),
        ("0000000000000000FFFF00000B00000A", "10.0.0.11"),  # ::ffff:10.0.0.11
    ],
)
def test_the_address_of_a_listener_is_read(shown: str, address: str) -> None:
    assert ports.listeners(table(shown), 8000) == [(ip(address), "7")]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "10.0.0.11", False),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "::", True),
        ("127.0.0.1", "::1", False),
        ("0.0.0.0", "::", True),
        ("0.0.0.0", "::1", False),
        ("::1", "::1", True),
        ("::1", "2001:db8::1", False),
        ("::1", "::", True),
    ],
)
def test_which_addresses_exclude_each_other(one: str, other: str, both: bool) -> None:
    assert ports.overlap(ip(one), ip(other)) is both
    assert ports.overlap(ip(other), ip(one)) is both


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/vllm-main.service\n", UNIT),
        ("12:pids:/system.slice/vllm-main.service/sub\n0::/x\n", UNIT),
        ("0::/user.slice/session-1.scope\n", ""),
        ("", ""),
    ],
)
def test_the_service_of_a_process_is_in_its_cgroup(text: str, unit: str) -> None:
    assert ports.unit_of_cgroup(text) == unit


def test_a_real_listener_is_found_with_its_process(listener: int) -> None:
    (owner,) = ports.owners("127.0.0.1", listener, str)
    assert owner.pid == os.getpid()
    assert owner.process
    assert ports.bind_error("127.0.0.1", listener) == errno.EADDRINUSE
    assert ports.bind_error("0.0.0.0", listener) == errno.EADDRINUSE


def test_a_bound_socket_that_does_not_listen_is_seen_by_binding_only() -> None:
    with contextlib.closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        assert ports.owners("127.0.0.1", port, str) == []
        assert ports.bind_error("127.0.0.1", port) == errno.EADDRINUSE
    assert ports.bind_error("127.0.0.1", port) == 0


def test_where_processes_cannot_be_seen_ss_names_the_service(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(TABLE)
    row = "LISTEN 0 2048 127.0.0.1:8000 0.0.0.0:* ino:111 sk:1 cgroup:/system.slice/vllm-main.service <-> \n"
    other = "LISTEN 0 2048 10.0.0.11:8000 0.0.0.0:* ino:11 sk:2 cgroup:/system.slice/nginx.service <-> \n"
    assert ports.owners("127.0.0.1", 8000, lambda: other + row, str(tmp_path)) == [Owner(0, "", UNIT)]
    assert ports.owners("127.0.0.1", 8000, str, str(tmp_path)) == [Owner(0, "", "")]
    assert ports.owners("127.0.0.1", 9000, lambda: row, str(tmp_path)) == []


@pytest.mark.parametrize(
    ("shown", "host", "in_the_way"),
    [
        ("0B00000A", "127.0.0.1", False),  # a proxy on the public address, as the guide recommends
        ("0B00000A", "10.0.0.11", True),
        ("0B00000A", "0.0.0.0", True),
        ("0B00000A", "::", True),
        ("0B00000A", "no-such-host.invalid", True),  # what cannot be told apart counts
        ("00000000", "127.0.0.1", True),
        ("00000000000000000000000000000000", "127.0.0.1", True),
        ("00000000000000000000000001000000", "127.0.0.1", False),
    ],
)
def test_a_listener_on_another_address_is_not_in_the_way(
    tmp_path: Path, shown: str, host: str, in_the_way: bool
) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / ("tcp" if len(shown) == 8 else "tcp6")).write_text(table(shown))
    assert ports.owners(host, 8000, str, str(tmp_path)) == ([Owner(0, "", "")] if in_the_way else [])


def test_a_listener_on_all_of_ipv6_alone_leaves_ipv4_free(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp6").write_text(table("0" * 32))
    row = "LISTEN 0 128 [::]:8000 [::]:* ino:7 sk:1 cgroup:/system.slice/nginx.service v6only:1 <->"
    assert ports.owners("127.0.0.1", 8000, lambda: row, str(tmp_path)) == []
    assert ports.owners("::1", 8000, lambda: row, str(tmp_path)) == [Owner(0, "", "nginx.service")]
    both = row.replace("v6only:1 ", "")
    assert ports.owners("127.0.0.1", 8000, lambda: both, str(tmp_path)) == [Owner(0, "", "nginx.service")]


def test_real_listeners_on_two_addresses_are_told_apart(listener: int) -> None:
    with contextlib.closing(socket.socket()) as proxy:
        proxy.bind(("127.0.0.2", listener))
        proxy.listen()
        assert {
            str(a) for a, _inode in ports.listeners(Path("/proc/net/tcp").read_text(encoding="utf-8"), listener)
        } == {
            "127.0.0.1",
            "127.0.0.2",
        }
        assert [owner.pid for owner in ports.owners("127.0.0.2", listener, str)] == [os.getpid()]
        assert ports.owners("127.0.0.3", listener, str) == []


def test_an_address_of_another_host_is_said() -> None:
    (finding,) = ports.judge("192.0.2.1", 8000, {UNIT}, ports.bind_error("192.0.2.1", 8000), [])
    assert finding.id == "address-unusable"


@pytest.mark.parametrize(
    ("bind_errno", "holders", "expected"),
    [
        (0, [], []),
        (0, [NGINX], []),  # it listens on another address of the node
        pytest.param(errno.EADDRINUSE, [OURS], [], id="B16-the-one-that-is-replaced"),
        pytest.param(errno.EADDRINUSE, [NGINX], ["port-taken"], id="B16-another-process"),
        (errno.EADDRINUSE, [OURS, NGINX], ["port-taken"]),
        (errno.EADDRINUSE, [Owner(9, "vllm", "vllm-other.service")], ["port-taken"]),
        (errno.EADDRINUSE, [], ["port-reserved"]),
    ],
)
def test_the_verdict(bind_errno: int, holders: list[Owner], expected: list[str]) -> None:
    assert [f.id for f in ports.judge("127.0.0.1", 8000, {UNIT}, bind_errno, holders)] == expected


@pytest.mark.case("B17")
def test_the_owner_is_named() -> None:
    (finding,) = ports.judge("127.0.0.1", 8000, {UNIT}, errno.EADDRINUSE, [NGINX])
    assert "nginx (pid 812, nginx.service)" in finding.message


def test_without_a_unit_nobody_is_ours() -> None:
    assert [f.id for f in ports.judge("127.0.0.1", 8000, (), errno.EADDRINUSE, [Owner(9, "sh", "")])] == ["port-taken"]

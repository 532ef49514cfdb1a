# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Checks of the operating system: systemd, limits, clock, host name."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import ipaddress
import os
import socket
import struct
import typing as t

from .._findings import Finding, error, info, warning
from .._gpu.host import runner
from .question import Question

_NOFILE = 65535  # vLLM warns below
_TASKS = 4096  # threads of eight workers with their NCCL, OpenMP and tokenizer threads, with room
_PROPERTIES = ("LoadState", "LimitNOFILESoft", "LimitMEMLOCKSoft", "LimitNPROCSoft", "TasksMax")

# Interfaces that do not lead to another node.
_LOCAL = ("lo", "docker", "podman", "veth", "br-", "virbr", "cni", "flannel", "cali", "tun", "tap", "dummy")
# With these on every node the host name does not matter. Sources: vllm#7074, aws-do-eks#50.
_ROUTES = ("VLLM_HOST_IP", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def systemd(_question: Question, runtime: str = "/run/systemd/system") -> list[Finding] | None:
    """The role serve runs instances as systemd services."""
    if os.path.isdir(runtime):
        return []
    return [
        warning(
            "systemd-missing",
            "systemd does not run this node, and the role serve can start instances only by it.",
            "Serve on a node that is booted with systemd.",
        )
    ]


def limits(question: Question) -> list[Finding] | None:
    """Limits of the unit as systemd has it loaded; before the first deployment those that it would inherit."""
    if not question.unit:
        return None
    output = runner("systemctl", 10)(["show", question.unit, *(f"--property={name}" for name in _PROPERTIES)])
    shown = dict(line.split("=", 1) for line in output.stdout.splitlines() if "=" in line)
    return judge_limits(question.unit, shown) if shown else None


def judge_limits(unit: str, shown: t.Mapping[str, str]) -> list[Finding]:
    """Properties of ``systemctl show``. The role sets files and locked memory, so a unit that is to come has them."""
    rules: list[tuple[str, str, str, int | None]] = [
        ("limit-nproc", "LimitNPROCSoft", "processes", _TASKS),
        ("limit-nproc", "TasksMax", "tasks", _TASKS),
    ]
    if shown.get("LoadState") == "loaded":
        rules += [
            ("limit-nofile", "LimitNOFILESoft", "open files", _NOFILE),
            ("limit-memlock", "LimitMEMLOCKSoft", "bytes of locked memory", None),
        ]
    findings = []
    for id_, name, what, least in rules:
        value = shown.get(name, "")
        if not value.isdigit() or (least is not None and int(value) >= least):
            continue  # "infinity", or not told
        setting = name.removesuffix("Soft")
        findings.append(
            warning(
                id_,
                f"{unit} may have {value} {what}, and needs {'no limit' if least is None else f'{least} or more'}.",
                f"Set {setting} in serve_unit_overrides.",
                limit=setting,
                value=int(value),
            )
        )
    return findings


def clock(_question: Question) -> list[Finding] | None:
    """By the kernel, whichever daemon keeps the time."""
    synchronised = clock_synchronised()
    return None if synchronised is None else judge_clock(synchronised)


def judge_clock(synchronised: bool) -> list[Finding]:
    if synchronised:
        return []
    return [
        warning(
            "clock-unsynchronised",
            "Nothing keeps the clock of this node right. TLS, tokens and the logs of several nodes need that.",
            "Enable chrony or systemd-timesyncd. In a container it is the host's matter.",
        )
    ]


def clock_synchronised() -> bool | None:
    """What timedatectl calls NTPSynchronized, without D-Bus: the kernel's estimate of the error is below 16 s.

    None when the kernel does not say. The structure is struct timex of 64-bit Linux: modes, offset, freq, maxerror.
    """
    buffer = ctypes.create_string_buffer(512)
    try:
        if ctypes.CDLL(None, use_errno=True).adjtimex(buffer) < 0:
            return None
    except (OSError, AttributeError):
        return None
    _modes, _offset, _freq, largest_error = struct.unpack_from("I4xqqq", buffer)
    return bool(largest_error < 16_000_000)


def nodes(question: Question) -> list[Finding] | None:
    """Hardware that is several nodes by itself serves as one engine on all of them, or not at all."""
    wanted, given = question.expected_nodes, question.nodes
    if wanted < 2:
        return None
    if wanted == given:
        return []
    return [
        error(
            "node-count",
            f"The hardware profile is {wanted} nodes with one engine, and the deployment spans {given}.",
            f"Set serve_nodes_group to an inventory group of these {wanted} nodes, or choose the profile of one node.",
            nodes=given,
            expected_nodes=wanted,
        )
    ]


def host_name(question: Question) -> list[Finding] | None:
    """On several nodes the name must not lead to loopback, where Gloo would listen."""
    if question.nodes < 2:
        return None
    name = socket.gethostname()
    try:
        addresses = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)})
    except OSError:
        addresses = []
    return judge_host_name(name, addresses, interfaces(), question.address, question.env, pinned=question.pinned)


def judge_host_name(
    name: str,
    addresses: t.Sequence[str],
    cards: t.Mapping[str, str],
    address: str,
    env: t.Mapping[str, str],
    *,
    pinned: bool = False,
) -> list[Finding]:
    """``addresses`` of the host name, ``cards`` with the address of each interface, ``address`` of the inventory.

    ``pinned``: the role serve gives each rank all of :data:`_ROUTES`.
    """
    loopback = [a for a in addresses if _is_loopback(a)]
    if addresses and not loopback:
        return []
    leads = f"leads to {', '.join(loopback)}" if loopback else "leads nowhere"
    if pinned:
        # Debian and Ubuntu are installed like this.
        return [
            info(
                "hostname-loopback",
                f"The host name {name} {leads}. The ranks do not listen there: the role serve sets {', '.join(_ROUTES)}"
                " for each of them.",
                addresses=list(addresses),
            )
        ]
    wanted = next(((c, a) for c, a in cards.items() if a == address), None) or next(
        ((c, a) for c, a in cards.items() if not c.startswith(_LOCAL) and not _is_loopback(a)), None
    )
    card, ip = wanted or ("the interface to the other nodes", "its address")
    values = dict(zip(_ROUTES, (ip, card, card), strict=True))
    unset = [route for route in _ROUTES if not env.get(route)]
    make = error if unset else warning
    return [
        make(
            "hostname-loopback",
            f"The host name {name} {leads}: the other nodes cannot join a group that listens there"
            f"{', and no ' + ', '.join(unset) + ' says where else' if unset else ''}.",
            f"Let {name} lead to {ip} in /etc/hosts, or set on this node "
            f"{', '.join(f'{k}={v}' for k, v in values.items())} in serve_env.",
            addresses=list(addresses),
            suggested=values,
        )
    ]


def _is_loopback(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address.split("%", maxsplit=1)[0]).is_loopback
    return False


def interfaces() -> dict[str, str]:
    """The IPv4 address of each interface that has one."""
    found = {}
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        for _index, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                # SIOCGIFADDR, see netdevice(7)
                answer = fcntl.ioctl(sock.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))
                found[name] = socket.inet_ntoa(answer[20:24])
    return found

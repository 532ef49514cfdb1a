# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Who listens on a TCP port: /proc says it to root; where root may not look at all processes, ss knows the service."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import typing as t
from dataclasses import dataclass

from .._findings import Finding, error

_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
_UNIT = re.compile(r"/([^/\s]+\.service)(?:[/\s]|$)")


@dataclass(frozen=True)
class Owner:
    """A process that holds a listening socket. pid 0 when it could not be found (another PID namespace)."""

    pid: int
    process: str
    unit: str

    def as_dict(self) -> dict[str, t.Any]:
        return {"pid": self.pid, "process": self.process, "unit": self.unit}


def listening_inodes(table: str, port: int) -> set[str]:
    """Inodes of the sockets that listen on ``port``, from the text of /proc/net/tcp or tcp6."""
    inodes = set()
    for row in table.splitlines()[1:]:
        fields = row.split()
        if len(fields) > 9 and fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(fields[9])
    return inodes


def unit_of_cgroup(text: str) -> str:
    """The service of a process, from the text of /proc/PID/cgroup; an empty string for a process of none."""
    units = [m[1] for line in text.splitlines() if (m := _UNIT.search(line))]
    return units[0] if units else ""


def owners(port: int, ask_ss: t.Callable[[], str], proc: str = "/proc") -> list[Owner]:
    """The listeners on ``port``, whatever address they use.

    In a container root may not see the files of other users' processes (no CAP_SYS_PTRACE). ``ask_ss`` then gives the
    output of ``ss -ltnH --cgroup`` for the port, which tells the services.
    """
    inodes: set[str] = set()
    for table in ("tcp", "tcp6"):
        inodes |= listening_inodes(_read(f"{proc}/net/{table}"), port)
    if not inodes:
        return []
    links = {f"socket:[{inode}]" for inode in inodes}
    found = [owner for pid in _pids(proc) if (owner := _owner(proc, pid, links)) is not None]
    if found:
        return found
    return [Owner(0, "", unit_of_cgroup(row)) for row in ask_ss().splitlines() if row.strip()] or [Owner(0, "", "")]


def _pids(proc: str) -> list[str]:
    return sorted((name for name in os.listdir(proc) if name.isdigit()), key=int)


def _owner(proc: str, pid: str, links: set[str]) -> Owner | None:
    try:
        descriptors = os.listdir(f"{proc}/{pid}/fd")
    except OSError:
        return None
    for fd in descriptors:
        with contextlib.suppress(OSError):
            if os.readlink(f"{proc}/{pid}/fd/{fd}") in links:
                unit = unit_of_cgroup(_read(f"{proc}/{pid}/cgroup"))
                return Owner(int(pid), _read(f"{proc}/{pid}/comm").strip(), unit)
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def bind_error(host: str, port: int) -> int:
    """0 when the address can be bound as vLLM would bind it, else the errno.

    A vLLM that still loads has bound its port without listening yet: only binding shows that.
    """
    try:
        family, kind, proto, _name, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        return errno.EADDRNOTAVAIL
    with contextlib.closing(socket.socket(family, kind, proto)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(address)
        except OSError as e:
            return e.errno or errno.EINVAL
    return 0


def judge(host: str, port: int, ours: t.Collection[str], bind_errno: int, holders: t.Sequence[Owner]) -> list[Finding]:
    """May an instance serve on this address? A listener of the units ``ours``, which will stop, is no obstacle."""
    own = [holder for holder in holders if holder.unit in ours]
    foreign = [holder for holder in holders if holder not in own]
    if bind_errno == 0 or (bind_errno == errno.EADDRINUSE and own and not foreign):
        return []
    where = f"{host}:{port}"
    if bind_errno != errno.EADDRINUSE:
        return [
            error(
                "address-unusable",
                f"{where} cannot be bound: {os.strerror(bind_errno)}.",
                "Set serve_host to 127.0.0.1 or to an address of this node.",
                host=host,
                port=port,
            )
        ]
    if not foreign:
        return [
            error(
                "port-reserved",
                f"{where} is bound by a process that does not listen yet, perhaps another vLLM that still loads.",
                "Wait for it or stop it, or set serve_port to a free port.",
                host=host,
                port=port,
            )
        ]
    return [
        error(
            "port-taken",
            f"{where} is taken by {_describe(holder)}.",
            "Stop it yourself if it may go, or set serve_port to a free port: this role stops its own unit only.",
            host=host,
            port=port,
            pid=holder.pid,
        )
        for holder in foreign
    ]


def _describe(holder: Owner) -> str:
    if not holder.pid:
        return holder.unit or "a process that cannot be seen from here (another container?)"
    return f"{holder.process} (pid {holder.pid}{', ' + holder.unit if holder.unit else ''})"

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Who listens on a TCP port: /proc says it to root; where root may not look at all processes, ss knows the service."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import socket
import sys
import typing as t
from dataclasses import dataclass

from .._findings import Finding, error
from .addresses import Address, plain

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


def listeners(table: str, port: int) -> list[tuple[Address, str]]:
    """(local address, inode) of the sockets that listen on ``port``, from the text of /proc/net/tcp or tcp6."""
    found = []
    for row in table.splitlines()[1:]:
        fields = row.split()
        if len(fields) > 9 and fields[3] == _LISTEN:
            address, _colon, said = fields[1].rpartition(":")
            if int(said, 16) == port:
                found.append((_of_kernel(address), fields[9]))
    return found


def _of_kernel(text: str) -> Address:
    """An address as /proc/net shows it: words of 32 bits, each in the byte order of the machine."""
    words = (int(text[i : i + 8], 16) for i in range(0, len(text), 8))
    return plain(ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words)))


def overlap(one: Address, other: Address) -> bool:
    """Whether two sockets on the same port cannot both have these addresses. ``::`` takes IPv4 as well."""
    if one.version == other.version:
        return one == other or one.is_unspecified or other.is_unspecified
    return one.is_unspecified if one.version == 6 else other.is_unspecified


def unit_of_cgroup(text: str) -> str:
    """The service of a process, from the text of /proc/PID/cgroup; an empty string for a process of none."""
    units = [m[1] for line in text.splitlines() if (m := _UNIT.search(line))]
    return units[0] if units else ""


def ss(port: int) -> list[str]:
    """The command that asks for the listeners on a port."""
    return ["ss", "-ltnHe", "--cgroup", "sport", "=", f":{port}"]


def owners(host: str, port: int, ask_ss: t.Callable[[], str], proc: str = "/proc") -> list[Owner]:
    """The listeners on ``port`` that are in the way of one on ``host``: on the same address, or one of both on all.

    ``ask_ss`` gives the output of :func:`ss` for the port. It tells which sockets on ``::`` leave IPv4 alone. It also
    tells the services where root may not see the files of other users' processes (containers without CAP_SYS_PTRACE).
    """
    wanted = _resolve(host, port)
    rows = [row for table in ("tcp", "tcp6") for row in listeners(_read(f"{proc}/net/{table}"), port)]
    held = {inode: address for address, inode in rows if wanted is None or overlap(plain(wanted), address)}
    if not held:
        return []
    said: list[str] | None = None
    if wanted is not None and wanted.version == 4 and any(address.version == 6 for address in held.values()):
        said = ask_ss().splitlines()
        held = {i: address for i, address in held.items() if not any("v6only:1" in row for row in _rows_of(said, i))}
        if not held:
            return []
    links = {f"socket:[{inode}]" for inode in held}
    found = [owner for pid in _pids(proc) if (owner := _owner(proc, pid, links)) is not None]
    if found:
        return found
    if said is None:
        said = ask_ss().splitlines()
    return [Owner(0, "", unit_of_cgroup(row)) for inode in held for row in _rows_of(said, inode)] or [Owner(0, "", "")]


def _rows_of(said: t.Iterable[str], inode: str) -> list[str]:
    """The rows of ss about one socket."""
    return [row for row in said if f"ino:{inode}" in row.split()]


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


def _lookup(host: str, port: int) -> t.Any:
    """The first row of getaddrinfo, which is what vLLM binds; None for a name that nobody knows."""
    try:
        return socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError:
        return None


def _resolve(host: str, port: int) -> Address | None:
    info = _lookup(host, port)
    return None if info is None else ipaddress.ip_address(info[4][0].partition("%")[0])


def bind_error(host: str, port: int) -> int:
    """0 when the address can be bound as vLLM would bind it, else the errno.

    A vLLM that still loads has bound its port without listening yet: only binding shows that.
    """
    info = _lookup(host, port)
    if info is None:
        return errno.EADDRNOTAVAIL
    family, kind, proto, _name, address = info
    with contextlib.closing(socket.socket(family, kind, proto)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(address)
        except OSError as e:
            return e.errno or errno.EINVAL
    return 0


class Listener(t.TypedDict):
    """An address that a release listens on, and the variable that sets its port."""

    host: str
    port: int
    variable: str


def wanted(record: t.Mapping[str, t.Any]) -> list[Listener]:
    """Those of a release.json: its port, unless it serves no HTTP, and those beside it; older ones lack these."""
    port: Listener = {
        "host": str(record.get("host") or "127.0.0.1"),
        "port": int(record.get("port") or 0),
        "variable": "serve_port",
    }
    return [one for one in (port, *(record.get("ports") or ())) if one["port"]]


def judge(
    host: str,
    port: int,
    ours: t.Collection[str],
    bind_errno: int,
    holders: t.Sequence[Owner],
    *,
    variable: str = "serve_port",
) -> list[Finding]:
    """May an instance serve on this address? A listener of the units ``ours``, which will stop, is no obstacle.

    ``variable`` sets the port.
    """
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
                f"Wait for it or stop it, or set {variable} to a free port.",
                host=host,
                port=port,
            )
        ]
    return [
        error(
            "port-taken",
            f"{where} is taken by {_describe(holder)}.",
            f"Stop it yourself if it may go, or set {variable} to a free port: this role stops its own unit only.",
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

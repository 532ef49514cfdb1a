# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Starts the mirror of a proven snapshot as a transient service of systemd, and stops it.

The service outlives the connection that started it, and ends by itself after its lifetime whatever happens to the play.
"""

from __future__ import annotations

import inspect
import ipaddress
import json
import os
import re
import shutil
import socket
import sys
import tempfile
import typing as t
import uuid
from dataclasses import asdict, dataclass, field

from .._errors import ModelopsError
from .._weights import manifest as manifests
from .._weights.manifest import Manifest
from . import mirror
from .sources import HTTP_LIMIT

# (status, standard output, standard error) of a command.
Runner = t.Callable[[list[str]], tuple[int, str, str]]

_UNIT = re.compile(r"modelops-mirror-[0-9a-f]{12}\.service")

# A file in memory that only root can read: the token does not get to a disk.
RUN_FOLDER = "/run"

# Twenty random letters and digits are 119 bits.
_MIN_TOKEN = 20

# What a file server needs, and no more. It gives up root by itself after it has opened the files, for which it may need
# to pass through folders that are closed to others.
_PROPERTIES = (
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=read-only",
    "PrivateDevices=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_SETGID CAP_SETUID",
    "LimitNOFILE=65536",
    "TasksMax=256",
    "TimeoutStartSec=60",
)


@dataclass(frozen=True)
class Offer:
    """What to serve: the folder of a snapshot, where others reach this node, and for how many seconds at most."""

    dest: str
    token: str = field(repr=False)
    address: str = ""
    port: int = 0
    lifetime: int = 86400


def start(offer: Offer, run: Runner, check_mode: bool = False) -> dict[str, t.Any]:
    """Serve a proven snapshot; the result of the module. Nothing is started in check mode."""
    _require(offer)
    found = _proven(offer.dest)
    address = offer.address or default_address()
    listen = resolve(address)
    result = {
        "changed": True,
        "unit": "",
        "url": "",
        "repo_id": found.repo,
        "commit": found.commit,
        "files": len(found.files),
        "bytes_total": sum(r.size for r in found.files.values()),
        "checksums": {name: record.sha256 for name, record in sorted(found.files.items())},
    }
    if not check_mode:
        unit = f"modelops-mirror-{uuid.uuid4().hex[:12]}.service"
        port = _launch(unit, offer, found, listen, run)
        host = f"[{address}]" if ":" in address else address
        result |= {"unit": unit, "url": f"http://{host}:{port}"}
    return result


def stop(unit: str, run: Runner, check_mode: bool = False) -> dict[str, t.Any]:
    """Stop a mirror; nothing to do when it has ended already."""
    if not _UNIT.fullmatch(unit):
        raise ModelopsError(f"unit {unit!r} is not the name of a mirror.", "Give the unit that the start returned.")
    status, out, err = run(["systemctl", "show", "--property=ActiveState", "--value", unit])
    if status:
        raise ModelopsError(f"systemctl cannot tell about {unit}: {err.strip()}.", "Check the systemd of the node.")
    running = out.strip() not in ("inactive", "failed", "")
    if running and not check_mode:
        status, _out, err = run(["systemctl", "stop", unit])
        if status:
            raise ModelopsError(f"{unit} cannot be stopped: {err.strip()}.", f"Run systemctl stop {unit}.")
    return {"changed": running, "unit": unit}


def _require(offer: Offer) -> None:
    token = offer.token
    if len(token) < _MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ModelopsError(
            f"token has less than {_MIN_TOKEN} characters, or a space or a character outside ASCII.",
            "Give a long random one that is used once, by the lookup ansible.builtin.password for example.",
        )
    if offer.port and not 1024 <= offer.port <= 65535:
        raise ModelopsError(f"port is {offer.port}; 0 or one of 1024 to 65535 is needed.", "0 takes any free port.")
    if offer.lifetime < 1:
        raise ModelopsError(f"lifetime is {offer.lifetime}; at least 1 second is needed.", "Give a larger number.")


def _proven(dest: str) -> Manifest:
    """The manifest of a folder whose files are all as they were verified."""
    again = "Run hf_snapshot for this folder first."
    found = manifests.load(dest)
    if found is None:
        raise ModelopsError(f"{dest} holds no snapshot that was verified: there is no manifest.", again)
    doubtful = sorted(n for n, r in found.files.items() if not r.holds(os.path.join(dest, n), r.verified))
    if doubtful:
        raise ModelopsError(
            f"{len(doubtful)} files in {dest} are missing or were written to since they were verified, "
            f"{doubtful[0]} is one of them.",
            again,
        )
    large = sorted(n for n, r in found.files.items() if r.size > HTTP_LIMIT)
    if large:
        raise ModelopsError(
            f"{large[0]} has {found.files[large[0]].size} bytes; huggingface_hub fetches at most {HTTP_LIMIT} by HTTP.",
            "Let each node fetch from the Hub, or share the folder.",
        )
    return found


def default_address() -> str:
    """The address of this node on the way to its default gateway; nothing is sent."""
    # Networks for documentation (RFC 5737, RFC 3849): no route but the default one leads there.
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                s.connect((far, 9))
                return str(s.getsockname()[0])
        except OSError:
            continue
    raise ModelopsError("This node has no default route, so its address is not known.", "Give address.")


def resolve(address: str) -> str:
    """The IP address to listen on for an address that may be a name."""
    try:
        found = str(socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as e:
        raise ModelopsError(f"address {address} is not known on this node: {e.strerror}.", "Give an IP address.") from e
    # Debian has the host's own name as 127.0.1.1 in /etc/hosts.
    if found != address and ipaddress.ip_address(found).is_loopback:
        raise ModelopsError(
            f"address {address} is {found} on this node, where no other node reaches it.", "Give an IP address."
        )
    return found


def _launch(unit: str, offer: Offer, found: Manifest, listen: str, run: Runner) -> int:
    """Start the service, and wait until it listens; the port."""
    folder = tempfile.mkdtemp(prefix="modelops-mirror-", dir=RUN_FOLDER)
    try:
        program, job = os.path.join(folder, "mirror.py"), os.path.join(folder, "job.json")
        with open(program, "w", encoding="utf-8") as f:
            f.write(inspect.getsource(mirror))
        with open(os.open(job, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as f:
            json.dump(_job(offer, found, listen), f)
        properties = (*_PROPERTIES, f"RuntimeMaxSec={offer.lifetime}", f"StandardInput=file:{job}")
        status, _out, err = run(
            [
                "systemd-run",
                "--quiet",
                "--collect",
                f"--unit={unit}",
                f"--description=Mirror of {found.repo} for the other nodes of the site",
                "--service-type=notify",
                *(f"--property={p}" for p in properties),
                "--",
                sys.executable,
                "-I",
                program,
            ]
        )
        if status:
            raise _not_started(unit, err, run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _port(unit, run)


def _job(offer: Offer, found: Manifest, listen: str) -> dict[str, t.Any]:
    return {
        "token": offer.token,
        "address": listen,
        "port": offer.port,
        "repo": found.repo,
        "commit": found.commit,
        "revision": found.revision,
        "folder": offer.dest,
        "files": {name: asdict(record) for name, record in found.files.items()},
    }


def _not_started(unit: str, err: str, run: Runner) -> ModelopsError:
    """The error of a service that did not get ready, with the last line that it wrote."""
    _status, log, _err = run(["journalctl", f"--unit={unit}", "--output=cat", "--no-pager", "--lines=40"])
    # Python's last line of a traceback; systemd's own lines follow it.
    said = [line for line in log.splitlines() if re.match(r"\w*(Error|Exception)\b", line)] or err.strip().splitlines()
    reason = said[-1] if said else "no reason was given"
    return ModelopsError(
        f"The mirror did not start: {reason}.",
        "Give an address of this node and a port that is free there; the mirror needs systemd 240 or newer.",
    )


def _port(unit: str, run: Runner) -> int:
    """The port that the service told systemd in its status."""
    _status, out, _err = run(["systemctl", "show", "--property=StatusText", "--value", unit])
    match = re.search(r":(\d+)$", out.strip())
    if not match:
        run(["systemctl", "stop", unit])
        raise ModelopsError(f"{unit} does not tell its port: {out.strip()!r}.", f"Look at journalctl --unit={unit}.")
    return int(match[1])

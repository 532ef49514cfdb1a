# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Who holds GPU memory: what nvidia-smi lists, with the owner and the service that /proc knows."""

from __future__ import annotations

import os
import pwd
import typing as t

from .._serve.ports import unit_of_cgroup
from .host import read_text


def merge(
    apps: t.Sequence[t.Mapping[str, t.Any]],
    listed: t.Sequence[t.Mapping[str, t.Any]],
    gpus: t.Sequence[t.Mapping[str, t.Any]],
    proc: str = "/proc",
) -> list[dict[str, t.Any]]:
    """The processes of the query (compute only) and of the XML (also graphics), each once a GPU.

    ``apps`` are those of :func:`parse.parse_processes`, ``listed`` those of :func:`details.parse_details`. Owner,
    unit and name are None for a process of another PID namespace, such as that of a container's neighbour.
    """
    index_of_uuid = {g["uuid"]: g["index"] for g in gpus}
    by_bus = {g["bus_id"]: g for g in gpus}
    found: dict[tuple[int, t.Any], dict[str, t.Any]] = {}
    for app in apps:
        uuid = app["gpu_uuid"]
        found[app["pid"], uuid] = {**app, "gpu_index": index_of_uuid.get(uuid), "kind": "C", "name": None}
    for process in listed:
        gpu = by_bus.get(process["gpu_bus_id"], {})
        key = (process["pid"], gpu.get("uuid"))
        known = found.get(key)
        if known is None:
            known = {"pid": process["pid"], "gpu_uuid": gpu.get("uuid"), "gpu_index": gpu.get("index")}
            known["used_memory_mib"] = process["used_memory_mib"]
            found[key] = known
        known["kind"] = process["kind"] or known.get("kind")
        known["name"] = os.path.basename((process["name"] or "").split(" ")[0]) or None
    return [{**process, **_seen(process, proc)} for process in found.values()]


def _seen(process: t.Mapping[str, t.Any], proc: str) -> dict[str, t.Any]:
    """``{name, owner, unit}`` of a process. Never its command line, which may hold a secret."""
    place = os.path.join(proc, str(process["pid"]))
    name = read_text(f"{place}/comm").strip() or process["name"]
    return {"name": name, "owner": _owner(place), "unit": unit_of_cgroup(read_text(f"{place}/cgroup")) or None}


def _owner(place: str) -> str | None:
    try:
        uid = os.stat(place).st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.module_utils._table import aligned, number

DOCUMENTATION = r"""
name: status_table
short_description: The instances of all nodes as a table for people
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - A table of what M(modelops.vllm.vllm_status_info) returned on each node, a row an instance. A node that could not be
    reached or has no instance is a row, too. Findings follow below, errors first.
positional: _input
options:
  _input:
    description: The registered result of M(modelops.vllm.vllm_status_info) of each node, by its name.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show all nodes
  ansible.builtin.debug:
    msg: "{{ ({inventory_hostname: status} | modelops.vllm.status_table).splitlines() }}"
  vars:
    status: "{{ status_result }}"
"""

RETURN = r"""
_value:
  description: The table.
  type: str
"""

# No single spaces in a row: the YAML output of Ansible would break a long line there.
_HEAD = (
    "node", "instance", "state", "model", "commit", "layout", "uptime", "tokens/s", "running", "waiting", "KV-cache",
    "VRAM-GiB",
)  # fmt: skip
_LEFT = set(range(6))  # columns of words; the others are numbers, aligned to the right
_SHORT_COMMIT = 7
_LONGEST = 300  # characters of what a connection says, which may quote a whole command
_ORDER = {"error": 0, "warning": 1, "info": 2}


def status_table(results: t.Mapping[str, t.Any]) -> str:
    """Lines for a fixed width font, in the order of ``results``."""
    if not isinstance(results, t.Mapping):
        raise AnsibleFilterError("status_table wants a dictionary: node -> result of vllm_status_info.")
    rows: list[tuple[str, ...]] = [_HEAD]
    notes: list[tuple[int, str]] = []
    for node, result in results.items():
        fault = _fault(result)
        instances = [] if fault else result.get("instances") or []
        rows += [_row(str(node), instance) for instance in instances]
        if not instances:
            rows.append((str(node), "-", fault[0] if fault else "no-instance", *["-"] * (len(_HEAD) - 3)))
        if fault and fault[1]:
            notes.append((-1, f"  {node}: {fault[1]}"))
        for finding in [] if fault else result.get("findings") or []:
            text = f"  {node}: {finding['severity'].upper()} {finding['message']} {finding['remedy']}"
            notes.append((_ORDER.get(finding["severity"], len(_ORDER)), text.rstrip()))
    notes.sort(key=lambda note: note[0])
    return "\n".join(aligned(rows, _LEFT) + ([""] + [text for _order, text in notes] if notes else []))


def _fault(result: t.Any) -> tuple[str, str] | None:
    """(word for the row, message) of a node that gave no result."""
    if not isinstance(result, t.Mapping) or not result:
        return "not-asked", ""
    # What a module could not say itself, such as that there is no sudo.
    said = (str(result.get(key) or "") for key in ("msg", "module_stderr"))
    message = " ".join(" ".join(said).split())
    message = message if len(message) <= _LONGEST else message[:_LONGEST] + " ..."
    if result.get("unreachable"):
        return "unreachable", message
    return None if "instances" in result else ("not-readable", message)


def _row(node: str, instance: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    usage, vram = instance["kv_cache_usage"], instance["vram_mib"]
    return (
        node,
        instance["instance"],
        instance["state"],
        instance["model"] or "-",
        (instance["commit"] or "-")[:_SHORT_COMMIT],
        instance["layout"] or ("router" if instance["kind"] == "router" else "-"),
        _duration(instance["uptime_seconds"]),
        number(instance["tokens_per_second"], 1),
        number(instance["requests_running"]),
        number(instance["requests_waiting"]),
        "-" if usage is None else f"{usage:.0%}",
        number(None if vram is None else vram / 1024, 1),
    )


def _duration(seconds: int | None) -> str:
    """The two largest units: ``3d4h``, ``4h5m``, ``5m6s``."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}d{hours}h" if days else f"{hours}h{minutes}m" if hours else f"{minutes}m{rest}s"


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"status_table": status_table}

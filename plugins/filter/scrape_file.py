# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import typing as t
import urllib.parse

import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.module_utils._serve.addresses import parse

DOCUMENTATION = r"""
name: scrape_file
short_description: Text of a file for Prometheus' file_sd_configs from the instances of a node
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - A target for each instance that runs or shall run, with the labels C(node), C(instance), C(model) and C(layout).
  - One that an operator has stopped is left out. So are a node without a server and a router, whose metrics are others.
  - An instance that listens where Prometheus cannot reach it is an error that names it. So is one that Prometheus would
    look for on its own host, since O(address) is loopback.
positional: _input
options:
  _input:
    description:
      - RV(modelops.vllm.vllm_status_info#module:instances).
      - Or what P(modelops.vllm.replica_instances#filter) gives, to know before a switch what could not be reached.
    type: list
    elements: dict
    required: true
  node:
    description: Name of the node for the label.
    type: str
    required: true
  address:
    description: Name or address under which Prometheus reaches the node. An IPv6 address may stand in brackets.
    type: str
    required: true
  local:
    description: Whether Prometheus runs on the node itself, so that it reaches what listens on loopback.
    type: bool
    default: false
  targets:
    description:
      - Targets C(host:port) by instance, for those that Prometheus reaches another way, such as by a proxy.
      - A target may be on loopback, such as a tunnel on the host of Prometheus.
    type: dict
    default: {}
  labels:
    description: More labels for all targets. They win over those of this filter.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Let Prometheus know the instances of this node
  ansible.builtin.copy:
    content: "{{ status.instances | modelops.vllm.scrape_file(node=inventory_hostname, address=inventory_hostname) }}"
    dest: /etc/prometheus/file_sd/vllm-{{ inventory_hostname }}.yml
    mode: "0644"
  delegate_to: prometheus.example.com
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
"""

HEADER: t.Final = "# Written by the role modelops.vllm.monitoring: changes made here are lost.\n"
_LABEL: t.Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TARGET: t.Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s/:\[\]]+):([0-9]{1,5})")
_LAST_PORT: t.Final = 65535
_GONE: t.Final = ("stopped", "stopping", "failed", "missing")


def scrape_file(
    instances: t.Sequence[t.Mapping[str, t.Any]],
    node: str,
    address: str,
    *,
    local: bool = False,
    targets: t.Mapping[str, str] | None = None,
    labels: t.Mapping[str, t.Any] | None = None,
) -> str:
    """The text; raises AnsibleFilterError for instances that cannot be reached, a bad label or target."""
    wrong = [name for name in labels or {} if not _LABEL.fullmatch(str(name))]
    if wrong:
        raise AnsibleFilterError(f"{wrong[0]!r} is no name of a label: use letters, digits and _.")
    watched = [row for row in instances if _watched(row)]
    if not local:
        _refuse_unreachable([row for row in watched if not (targets or {}).get(row["instance"])], node, str(address))
    groups = []
    for row in watched:
        target = str((targets or {}).get(row["instance"]) or _target(row, str(address), local))
        match = _TARGET.fullmatch(target)
        if match is None or not 1 <= int(match[1]) <= _LAST_PORT:
            raise AnsibleFilterError(
                f"{target!r} is no target for the instance {row['instance']} of {node}: write it as host:port, with a"
                f" port from 1 to {_LAST_PORT}."
            )
        known = {"node": node, "instance": row["instance"], "model": row.get("model"), "layout": row.get("layout")}
        merged = {**known, **(labels or {})}
        text = {str(name): str(value) for name, value in merged.items() if value is not None}
        groups.append({"targets": [target], "labels": text})
    return HEADER + yaml.safe_dump(groups, sort_keys=False, allow_unicode=True)


def _watched(row: t.Mapping[str, t.Any]) -> bool:
    """Whether it has metrics of vLLM that somebody wants to see."""
    if row["url"] is None or row.get("kind") == "router":
        return False
    # What an operator has stopped is disabled as well: an alert about it would be noise.
    return row.get("state") not in _GONE or bool(row.get("enabled"))


def _refuse_unreachable(rows: t.Sequence[t.Mapping[str, t.Any]], node: str, address: str) -> None:
    """Raises AnsibleFilterError for what a Prometheus on another host cannot reach by the address of the node."""
    inside = [f"{row['instance']} ({_listens(row)[0]})" for row in rows if _is_loopback(_listens(row)[0])]
    if inside:
        raise AnsibleFilterError(
            f"A Prometheus on another host cannot reach what listens on loopback: {', '.join(inside)} of {node}. Name"
            " the proxy in front of each in monitoring_targets (host:port). Or set serve_host to an address that only"
            " Prometheus and the proxy can reach, since /metrics needs no API key; replicas listen on it only without a"
            " router (serve_router: false)."
        )
    if _is_loopback(address) and any(_is_everywhere(_listens(row)[0]) for row in rows):
        raise AnsibleFilterError(
            f"A Prometheus on another host would look for {node} on that host: its address is {address}. Set"
            f" monitoring_address to one under which Prometheus reaches {node}, or monitoring_host to {node} where"
            " Prometheus runs on it."
        )


def _listens(row: t.Mapping[str, t.Any]) -> tuple[str, int | None]:
    """The address and the port that an instance listens on."""
    url = urllib.parse.urlsplit(row["url"])
    return str(row["host"] or url.hostname or ""), row["port"] or url.port


def _target(row: t.Mapping[str, t.Any], address: str, local: bool) -> str:
    """Where Prometheus reaches an instance, by the address that it listens on."""
    host, port = _listens(row)
    if _is_everywhere(host):
        host = "127.0.0.1" if local else _bare(address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bare(host: str) -> str:
    return host.removeprefix("[").removesuffix("]")


def _is_loopback(host: str) -> bool:
    ip = parse(_bare(host))
    return host.lower() == "localhost" if ip is None else ip.is_loopback


def _is_everywhere(host: str) -> bool:
    ip = parse(_bare(host))
    return ip is not None and ip.is_unspecified


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"scrape_file": scrape_file}

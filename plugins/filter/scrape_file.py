# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ipaddress
import re
import typing as t
import urllib.parse

import yaml
from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: scrape_file
short_description: Text of a file for Prometheus' file_sd_configs from the instances of a node
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - A target for each instance that runs or shall run, with the labels C(node), C(instance), C(model) and C(layout).
  - One that an operator has stopped is left out. So are a node without a server and a router, whose metrics are others.
  - An instance that listens where Prometheus cannot reach it is an error that names it.
positional: _input
options:
  _input:
    description: RV(modelops.vllm.vllm_status_info#module:instances).
    type: list
    elements: dict
    required: true
  node:
    description: Name of the node for the label.
    type: str
    required: true
  address:
    description: Name or address under which Prometheus reaches the node.
    type: str
    required: true
  local:
    description: Whether Prometheus runs on the node itself, so that it reaches what listens on loopback.
    type: bool
    default: false
  targets:
    description: Targets C(host:port) by instance, for those that Prometheus reaches another way, such as by a proxy.
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
_TARGET: t.Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s/:\[\]]+):[0-9]{1,5}")
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
    """The text; raises AnsibleFilterError for an instance that cannot be reached, a bad label or target."""
    wrong = [name for name in labels or {} if not _LABEL.fullmatch(str(name))]
    if wrong:
        raise AnsibleFilterError(f"{wrong[0]!r} is no name of a label: use letters, digits and _.")
    groups = []
    for row in instances:
        if row["url"] is None or row["kind"] == "router":
            continue
        # What an operator has stopped is disabled as well: an alert about it would be noise.
        if row["state"] in _GONE and not row["enabled"]:
            continue
        target = str((targets or {}).get(row["instance"]) or _target(row, str(node), str(address), local))
        if not _TARGET.fullmatch(target):
            raise AnsibleFilterError(
                f"{target!r} is no target for the instance {row['instance']} of {node}: write it as host:port."
            )
        known = {"node": node, "instance": row["instance"], "model": row["model"], "layout": row["layout"]}
        merged = {**known, **(labels or {})}
        text = {str(name): str(value) for name, value in merged.items() if value is not None}
        groups.append({"targets": [target], "labels": text})
    return HEADER + yaml.safe_dump(groups, sort_keys=False, allow_unicode=True)


def _target(row: t.Mapping[str, t.Any], node: str, address: str, local: bool) -> str:
    """Where Prometheus reaches an instance, by the address that it listens on."""
    url = urllib.parse.urlsplit(row["url"])
    host, port = str(row["host"] or url.hostname or ""), row["port"] or url.port
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        loopback, everywhere = host == "localhost", False
    else:
        loopback, everywhere = ip.is_loopback, ip.is_unspecified
    if loopback and not local:
        raise AnsibleFilterError(
            f"The instance {row['instance']} of {node} listens on {host}, where a Prometheus on another host cannot"
            " reach it. Name the proxy in front of it in monitoring_targets (host:port), or set serve_host to an"
            " address that only Prometheus and the proxy can reach: /metrics needs no API key."
        )
    if everywhere:
        host = "127.0.0.1" if local else address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"scrape_file": scrape_file}

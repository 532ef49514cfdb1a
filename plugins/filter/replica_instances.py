# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import replicas

DOCUMENTATION = r"""
name: replica_instances
short_description: The instances of a layout on one node
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Gives each replica of a layout such as V(tp4-r2) a name, an address and GPUs of its own.
  - The GPUs of a replica are the nearest to each other that are left. What is nearer comes from the topology, or from
    the NUMA nodes where the driver shows no topology.
  - A layout without replicas is one instance with the name itself.
positional: _input, layout, port
options:
  _input:
    description: Name of the instance. Replicas are called C(<name>-r0), C(<name>-r1) and so on.
    type: str
    required: true
  layout:
    description: The id of a layout, or an entry of RV(modelops.vllm.layout_info#module:layouts).
    type: raw
    required: true
  port:
    description: The port that clients use. A router in front takes it, and the instances have the ports after it.
    type: int
    required: true
  host:
    description: The address that clients use. A router in front takes it, and the instances listen on loopback.
    type: str
    default: 127.0.0.1
  gpus:
    description:
      - The GPUs as M(modelops.vllm.gpu_info) returns them, or a mapping with their C(count).
      - Without GPUs each instance gets an empty list of devices, as for vLLM's CPU build.
    type: raw
  devices:
    description:
      - Indices of the GPUs that may be used, as a list or as a text with commas. They are dealt out in this order.
      - By default all of O(gpus), the nearest together.
    type: raw
    default: []
  topology:
    description: What connects the GPUs, as RV(modelops.vllm.gpu_info#module:topology).
    type: dict
    default: {}
  router:
    description: Whether a router stands in front. With V(auto) it does when there is more than one replica.
    type: raw
    default: auto
"""

EXAMPLES = r"""
- name: Show what would run
  ansible.builtin.debug:
    msg: "{{ 'main' | modelops.vllm.replica_instances('tp4-r2', 8000, gpus=node.gpus, topology=node.topology) }}"
# [{"instance": "main-r0", "host": "127.0.0.1", "port": 8001, "url": "http://127.0.0.1:8001",
#   "devices": ["0", "1", "2", "3"]},
#  {"instance": "main-r1", "host": "127.0.0.1", "port": 8002, "url": "http://127.0.0.1:8002",
#   "devices": ["4", "5", "6", "7"]}]
"""

RETURN = r"""
_value:
  description: The instances in the order of their names and ports.
  type: list
  elements: dict
  contains:
    instance:
      description: Name of the instance.
      type: str
    host:
      description: The address that it listens on.
      type: str
    port:
      description: Its port.
      type: int
    url:
      description: Where it is asked from its node.
      type: str
    devices:
      description: Indices of its GPUs in the order of its ranks.
      type: list
      elements: str
"""


def replica_instances(name: str, layout: t.Any, port: t.Any, **options: t.Any) -> list[dict[str, t.Any]]:
    """One mapping for each instance; raises AnsibleFilterError for what the node cannot hold."""
    try:
        return [one.as_dict() for one in replicas.instances(str(name), layout, port, **options)]
    except ModelopsError as e:
        raise AnsibleFilterError(str(e)) from e


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"replica_instances": replica_instances}

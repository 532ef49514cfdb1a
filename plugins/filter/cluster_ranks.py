# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.module_utils._findings import as_dicts
from ansible_collections.modelops.vllm.plugins.module_utils._serve import cluster
from ansible_collections.modelops.vllm.plugins.module_utils._serve.args import Layout

DOCUMENTATION = r"""
name: cluster_ranks
short_description: Flags and environment of each node of one vLLM engine on several nodes
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Gives each host of an inventory group its rank, in the order of the group, and says which flags all ranks share in
    their args file, which a rank has for itself on the command line, and which addresses and interfaces are pinned.
  - Everything that is wrong with the group, its addresses, its ports and its layout is reported at once, in RV(_value).
positional: _input
options:
  _input:
    description: Names of the hosts, rank 0 (the head) first, for example C(groups['engine']).
    type: list
    elements: str
    required: true
  hostvars:
    description:
      - Ansible's C(hostvars). Of each host the variables C(serve_node_address) and C(ansible_host) are read, and the
        facts of the subset V(network).
      - The address of a node is C(serve_node_address), or C(ansible_host) (the name of the host where that is not set)
        where that is an address of the node, or the address of its default route.
    type: dict
    required: true
  present:
    description:
      - The hosts that go through this play together, C(ansible_play_batch). A host of the group that is not among them
        is an error.
    type: list
    elements: str
    required: true
  layout:
    description: The layout as M(modelops.vllm.layout_info) returns it, with V(tp), V(pp), V(dp), V(ep) and V(replicas).
    type: dict
    required: true
  ports:
    description: TCP ports of the cluster network, V(master), V(rpc) and V(board), and V(serve) of the clients.
    type: dict
    default: {}
  args:
    description: Flags that the user and the profile give. A backend other than V(mp) among them is an error.
    type: dict
    default: {}
  host:
    description: The host of the group that O(env) belongs to, C(inventory_hostname).
    type: str
    default: ""
  env:
    description:
      - Environment that the user and the profile give on O(host), which wins over that of the rank. C(VLLM_HOST_IP)
        with another address than that of the node is an error.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the ranks of an engine
  ansible.builtin.debug:
    msg: "{{ groups['engine'] | modelops.vllm.cluster_ranks(hostvars, ansible_play_batch, layout) }}"
  vars:
    layout: {tp: 8, pp: 2, dp: 1, ep: false, replicas: 1}
"""

RETURN = r"""
_value:
  description:
    - V(valid) says whether the group can serve the layout, and V(findings) why not.
    - V(members) are the nodes with host, address and interface, V(args) the flags that all ranks share.
    - V(ranks) has for each host V(rank), V(headless), V(argv) (words behind C(vllm serve --config FILE)) and V(env).
    - V(args) and V(ranks) are empty when the group is not valid.
  type: dict
"""


def cluster_ranks(
    hosts: t.Sequence[str],
    hostvars: t.Mapping[str, t.Any],
    present: t.Sequence[str],
    layout: t.Mapping[str, t.Any],
    *,
    ports: t.Mapping[str, t.Any] | None = None,
    args: t.Mapping[str, t.Any] | None = None,
    host: str = "",
    env: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """Findings about the group, its members, and what each rank is started with."""
    try:
        sizes = Layout(
            tp=int(layout["tp"]),
            pp=int(layout.get("pp", 1)),
            dp=int(layout.get("dp", 1)),
            ep=bool(layout.get("ep", False)),
            replicas=int(layout.get("replicas", 1)),
        )
        numbers = cluster.Ports(**{name: int(port) for name, port in (ports or {}).items()})
    except (KeyError, TypeError, ValueError) as e:
        raise AnsibleFilterError(f"cluster_ranks takes a layout {{tp, pp, dp, ep, replicas}} and ports: {e!r}") from e
    nodes = [cluster.node(name, _variables(hostvars, name)) for name in hosts]
    found = cluster.plan(nodes, sizes, numbers, args or {})
    own = [f for node in nodes if node.host == host for f in cluster.other_address(node, env or {})]
    # Of a host that is not here nothing is known: what is wrong with its address would be no news.
    findings = cluster.absent(hosts, present) or [*found.findings, *own]
    return {
        "valid": not any(f.severity == "error" for f in findings),
        "findings": as_dicts(findings),
        "members": [{"host": n.host, "address": n.address, "interface": n.interface} for n in nodes],
        "args": dict(found.args),
        "ranks": {rank.host: rank.as_dict() for rank in found.ranks},
    }


def _variables(hostvars: t.Mapping[str, t.Any], host: str) -> dict[str, t.Any]:
    """What is needed of one host. hostvars is no dict: it evaluates what it is asked for."""
    known = hostvars[host]
    return {name: known[name] for name in ("serve_node_address", "ansible_host", "ansible_facts") if name in known}


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., dict[str, t.Any]]]:
        return {"cluster_ranks": cluster_ranks}

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One engine on several nodes: which of vLLM's flags all ranks share, and which belong to one of them.

vLLM's own multi-node backend (mp) alone. ``vllm serve --config FILE`` puts the flags of the file in front of those of
the command line, so the file is the same on all nodes, and the few flags of a rank stand behind it in ExecStart.
Source: entrypoints/cli/serve.py, engine/arg_utils.py and config/parallel.py of vLLM 0.32.0.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import typing as t
from dataclasses import dataclass

from .._findings import Finding, error, has_errors, info, warning
from .args import Flags, Layout
from .board import Member

MASTER_PORT: t.Final = 29501
RPC_PORT: t.Final = 29550
BOARD_PORT: t.Final = 29510

# The interface of each library that would otherwise choose one itself, by the name of the host or the first that is up.
# NCCL takes a prefix unless the name starts with "=": eth1 would match eth10.
_PINS: t.Final[t.Mapping[str, str]] = {
    "VLLM_HOST_IP": "{address}",
    "NCCL_SOCKET_IFNAME": "={interface}",
    "GLOO_SOCKET_IFNAME": "{interface}",
    "TP_SOCKET_IFNAME": "{interface}",
}

# Linux has one loopback interface, and it is always called so.
_LOOPBACK: t.Final = "lo"

_RAY_REASON: t.Final = (
    "Ray is a cluster of its own to install, to supervise and to keep in one version, vLLM's images have come without"
    " it since 0.19, and upstream advises mp"
)
# Flags that choose the backend, and the only value that this role can supervise.
_BACKENDS: t.Final = ("distributed-executor-backend", "data-parallel-backend")


@dataclass(frozen=True)
class Node:
    """A member with the interface that carries its address; empty when no interface of the node does."""

    host: str
    address: str
    interface: str


@dataclass(frozen=True)
class Ports:
    """TCP ports on the cluster network: ``master`` and ``rpc`` are the head's, ``board`` is ours on each node.

    ``serve`` is that of the clients (0: not told): no other may have its number, on whatever address it is.
    """

    master: int = MASTER_PORT
    rpc: int = RPC_PORT
    board: int = BOARD_PORT
    serve: int = 0


@dataclass(frozen=True)
class Rank:
    """What one node has for itself: the words behind ``vllm serve --config FILE``, and its environment."""

    host: str
    rank: int
    argv: list[str]
    env: dict[str, str]

    @property
    def headless(self) -> bool:
        """A worker: it serves no HTTP."""
        return self.rank > 0

    def as_dict(self) -> dict[str, t.Any]:
        return {"rank": self.rank, "headless": self.headless, "argv": self.argv, "env": self.env}


@dataclass(frozen=True)
class Cluster:
    """The answer. ``args`` and ``ranks`` are empty when a finding is an error."""

    members: list[Node]
    args: Flags
    ranks: list[Rank]
    findings: list[Finding]

    @property
    def valid(self) -> bool:
        return not has_errors(self.findings)

    def group_members(self) -> tuple[Member, ...]:
        """The members as their boards know them."""
        return tuple(Member(node.host, node.address) for node in self.members)


def node(host: str, variables: t.Mapping[str, t.Any]) -> Node:
    """A node out of its variables ``serve_node_address`` and ``ansible_host``, and its facts of the subset network.

    What the inventory calls its address, ``host`` itself where nothing else does, counts only when the node has it:
    behind a NAT it is that of something else.
    """
    facts = variables.get("ansible_facts") or {}
    interfaces = _interfaces(facts)
    said = str(variables.get("serve_node_address") or "").strip()
    reached = str(variables.get("ansible_host") or host).strip()
    default = str((facts.get("default_ipv4") or facts.get("default_ipv6") or {}).get("address") or "")
    address = said or (reached if _key(reached) in interfaces else default)
    return Node(host, address, interfaces.get(_key(address), ""))


def _interfaces(facts: t.Mapping[str, t.Any]) -> dict[object, str]:
    """Addresses of a node and the interfaces that carry them, from the facts that ansible.builtin.setup gathers."""
    found: dict[object, str] = {}
    for name in facts.get("interfaces") or ():
        # The facts of eth0.5 and br-lan are called eth0_5 and br_lan; "device" has the true name.
        interface = facts.get(str(name).replace("-", "_").replace(".", "_").replace(":", "_")) or {}
        device = str(interface.get("device") or name)
        rows = [interface.get("ipv4") or {}, *(interface.get("ipv4_secondaries") or ()), *(interface.get("ipv6") or ())]
        for row in rows:
            if row.get("address"):
                found.setdefault(_key(str(row["address"])), device)
    return found


def _key(text: str) -> object:
    """An address in one form, whatever way it is written."""
    return _address(text) or text


def absent(hosts: t.Sequence[str], present: t.Collection[str]) -> list[Finding]:
    """All ranks switch together: a host of the group that the play leaves out is an error."""
    missing = [host for host in hosts if host not in present]
    if not missing:
        return []
    return [
        error(
            "group-incomplete",
            f"Not in this play, or failed in it: {', '.join(missing)}.",
            "All nodes of one engine switch together: run the play without --limit (or with all of them in it) and"
            " without serial, after mending what failed.",
            missing=missing,
        )
    ]


def plan(members: t.Sequence[Node], layout: Layout, ports: Ports, flags: t.Mapping[str, t.Any]) -> Cluster:
    """The flags of ``layout`` on these nodes, rank 0 first.

    ``flags`` are those that profile and user give, by their long names, with or without dashes in front: a backend of
    another kind is refused.
    """
    findings = [
        *_judge_members(members),
        *_judge_ports(ports),
        *_judge_layout(layout, len(members)),
        *_judge_ray(flags),
    ]
    if has_errors(findings):
        return Cluster(list(members), {}, [], findings)
    nodes, engine = len(members), layout["tp"] * layout["pp"]
    local = engine * layout["dp"] // nodes
    args: Flags = {}
    own: list[list[str]] = [["--headless", "--api-server-count=0"] if rank else [] for rank in range(nodes)]
    if engine > local:
        # An engine spans nodes.
        args |= {
            "distributed-executor-backend": "mp",
            "nnodes": nodes,
            "master-addr": members[0].address,
            "master-port": ports.master,
        }
        for rank, words in enumerate(own):
            words.append(f"--node-rank={rank}")
    if layout["dp"] > 1:
        # Engines side by side, coordinated by the head, whose API server shares the requests out among all of them.
        size = max(1, local // engine)
        args |= {
            "data-parallel-size-local": size,
            "data-parallel-address": members[0].address,
            "data-parallel-rpc-port": ports.rpc,
        }
        for rank, words in enumerate(own):
            # The head has no start rank: one would make it a server for its own engines only.
            if rank:
                words.append(f"--data-parallel-start-rank={rank * layout['dp'] // nodes}")
    ranks = [Rank(node.host, i, own[i], _pins(node)) for i, node in enumerate(members)]
    return Cluster(list(members), args, ranks, findings)


def common_digest(args_text: str, vllm_version: str, commit: str, members: t.Sequence[Node | Member]) -> str:
    """What all ranks must have in common, as one word: the args file, the version, the weights and the group itself."""
    addresses = [[node.host, node.address] for node in members]
    common = json.dumps([args_text, vllm_version, commit, addresses], sort_keys=True)
    return hashlib.sha256(common.encode()).hexdigest()


def other_address(node: Node, env: t.Mapping[str, t.Any]) -> list[Finding]:
    """The environment of the user wins over the pins of a rank: an address in it has to be that of this node."""
    said = str(env.get("VLLM_HOST_IP") or "").strip()
    if not said or _key(said) == _key(node.address):
        return []
    return [
        error(
            "address-of-another",
            f"VLLM_HOST_IP in serve_env is {said}, and the address of {node.host} is {node.address}: the ranks of a"
            " group with one address for all of them do not find each other.",
            "Leave VLLM_HOST_IP out of serve_env: each rank gets that of its node. Where it is not the right one, set"
            " serve_node_address of this host.",
            host=node.host,
            said=said,
            address=node.address,
        )
    ]


def _pins(node: Node) -> dict[str, str]:
    return {name: value.format(address=node.address, interface=node.interface) for name, value in _PINS.items()}


def _judge_members(members: t.Sequence[Node]) -> t.Iterator[Finding]:
    if len(members) < 2:
        yield error(
            "group-of-one",
            f"The group has {len(members)} nodes.",
            "Put at least two hosts into it, or leave serve_nodes_group empty.",
            nodes=len(members),
        )
    taken: dict[object, str] = {}
    families: dict[int, str] = {}
    for node in members:
        address = _address(node.address)
        if address is None:
            yield _bad_address(node, "is no IP address")
            continue
        reason = _unusable(address)
        if reason:
            yield _bad_address(node, reason)
            continue
        if address in taken:
            yield error(
                "address-twice",
                f"{taken[address]} and {node.host} have the same address {address}.",
                "Give each node its own serve_node_address in the cluster network.",
            )
        taken.setdefault(address, node.host)
        families.setdefault(address.version, node.host)
        if not node.interface:
            yield error(
                "address-not-here",
                f"No interface of {node.host} has the address {address}.",
                "Set serve_node_address to an address that this node has in the cluster network (ip -br address).",
                address=str(address),
            )
        elif node.interface == _LOOPBACK:
            # NCCL and Gloo would listen there. A routed fabric has such addresses, and other interfaces carry them.
            yield error(
                "address-on-loopback",
                f"{node.host} has the address {address} on the interface {_LOOPBACK}, which leads to no other node.",
                "Set serve_node_address of this host to the address of the interface that does (ip -br address).",
                host=node.host,
                address=str(address),
            )
    if len(families) > 1:
        yield error(
            "address-families",
            f"{families[4]} has an IPv4 address and {families[6]} an IPv6 address.",
            "Set serve_node_address of all nodes to addresses of one family.",
        )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _unusable(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Why other nodes cannot reach this address; an empty string when they may."""
    if address.is_loopback:
        return "is a loopback address, which no other node reaches"
    if address.is_unspecified or address.is_multicast:
        return "is no address of one node"
    if address.is_link_local:
        return "is a link-local address, which is not routed and not unique"
    return ""


def _bad_address(node: Node, reason: str) -> Finding:
    return error(
        "address-unusable",
        f"The address of {node.host}, {node.address!r}, {reason}.",
        "Set serve_node_address of this host to its IP address in the cluster network.",
        host=node.host,
        address=node.address,
    )


def _judge_ports(ports: Ports) -> t.Iterator[Finding]:
    named = {"serve_master_port": ports.master, "serve_rpc_port": ports.rpc, "serve_group_port": ports.board}
    users: dict[int, str] = {ports.serve: "serve_port"}
    for name, port in named.items():
        if not 1 <= port <= 65535:
            yield error("port-range", f"{name} is {port}, which is no TCP port.", "Give a number from 1 to 65535.")
        elif port in users:
            yield error(
                "port-twice", f"{users[port]} and {name} are both {port}.", "Give each its own port.", port=port
            )
        users.setdefault(port, name)


def _judge_layout(layout: Layout, nodes: int) -> t.Iterator[Finding]:
    tp, pp, dp = layout["tp"], layout["pp"], layout["dp"]
    engine, world = tp * pp, tp * pp * dp
    sizes = f"tp{tp} x pp{pp} x dp{dp} = {world} ranks"
    if layout["replicas"] > 1:
        yield error(
            "replicas-across-nodes",
            f"A layout with {layout['replicas']} replicas is several engines, and the group is one.",
            "Serve one replica a node with serve_nodes_group empty, or choose a layout without -rN.",
        )
    if nodes < 2:
        return
    if world % nodes:
        yield error(
            "nodes-uneven",
            f"{sizes} do not divide evenly over {nodes} nodes.",
            f"Choose a layout with a multiple of {nodes} ranks, or another number of hosts in the group.",
            world=world,
            nodes=nodes,
        )
        return
    local = world // nodes
    if local % engine and engine % local:
        yield error(
            "nodes-uneven",
            f"Each of {nodes} nodes gets {local} of {sizes}, neither a whole number of engines of {engine} ranks nor a"
            " whole part of one.",
            "Choose TP and PP so that an engine fits a node, or spans whole nodes.",
            engine=engine,
            local=local,
            nodes=nodes,
        )
    elif tp > local:
        yield warning(
            "tp-across-nodes",
            f"Tensor parallel size {tp} crosses nodes of {local} ranks: each layer waits for the network.",
            f"Keep tensor parallelism in the node: tp{local} with pipeline or data parallelism across the nodes.",
            tp=tp,
            local=local,
        )
    if engine > local and dp > 1:
        yield info(
            "engines-of-nodes",
            f"Each of {dp} engines spans {engine // local} nodes.",
            "This combination is rarely used: compare it with one engine, and with one engine a node.",
        )


def _judge_ray(flags: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    given = {str(name).lstrip("-").replace("_", "-"): value for name, value in flags.items()}
    for name in _BACKENDS:
        value = given.get(name)
        if value is not None and str(value) != "mp":
            reason = f": {_RAY_REASON}" if str(value) == "ray" else ""
            yield error(
                "backend-not-mp",
                f"{name} is {value!r}; several nodes are served with mp, vLLM's own backend, alone{reason}.",
                f"Leave {name} out.",
                flag=name,
            )

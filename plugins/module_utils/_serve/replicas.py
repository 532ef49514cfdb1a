# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One layout with replicas as instances of one node: a name, an address and GPUs of their own for each.

Pure. The GPUs of a replica are the nearest to each other that the machine has, since its ranks talk to each other and
those of different replicas do not.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .._planner.layout import Layout
from .._planner.values import truth, whole

Topology: t.TypeAlias = "t.Mapping[str, t.Mapping[str, str]]"
Gpus: t.TypeAlias = "t.Sequence[t.Mapping[str, t.Any]] | t.Mapping[str, t.Any]"

# The role serve takes the same names: they become those of units, files and directories.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_PORTS: t.Final = (1024, 65535)
_LAYOUT_KEYS: t.Final = ("tp", "pp", "dp", "ep", "dcp", "replicas")
# From near to far. Source: the legend of `nvidia-smi topo -m`; NVLink (NV1, NV18) is nearer than all of them.
_PATHS: t.Final = ("PIX", "PXB", "PHB", "NODE", "SYS")
_FARTHEST: t.Final = len(_PATHS)
_SAME_NUMA: t.Final = _PATHS.index("NODE") + 1

# Addresses to listen on that nobody can ask.
_ASKED: t.Final[t.Mapping[str, str]] = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_BEHIND_ROUTER: t.Final = "127.0.0.1"

_Near: t.TypeAlias = t.Callable[[int, int], int]


@dataclass(frozen=True)
class Instance:
    """One vLLM service: where it listens, and its GPUs by index in the order of its ranks (none on CPU)."""

    instance: str
    host: str
    port: int
    devices: tuple[str, ...]

    @property
    def url(self) -> str:
        """Where it is asked from its node."""
        host = _ASKED.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def as_dict(self) -> dict[str, t.Any]:
        data = {name: getattr(self, name) for name in ("instance", "host", "port", "url")}
        return {**data, "devices": list(self.devices)}


def instances(
    name: str,
    layout: t.Any,
    port: t.Any,
    *,
    host: str = "127.0.0.1",
    gpus: Gpus | None = None,
    devices: t.Any = (),
    topology: Topology | None = None,
    router: t.Any = "auto",
) -> list[Instance]:
    """The instances of ``layout`` on one node.

    ``layout`` is an id or a mapping such as layout_info returns. ``gpus`` are those of gpu_info, or ``{count: 8}``, or
    None for instances without GPUs. ``devices`` are the indices that may be used, in this order; without any all GPUs
    may, nearest together. ``router`` says whether one stands in front, ``auto`` puts it before several replicas: it
    then listens on ``host`` and ``port``, and the instances have the ports after it on loopback.

    :raises ModelopsError: for too few or doubtful GPUs, a port or a name that does not exist.
    """
    plan = _layout(layout)
    names = [name] if plan.replicas == 1 else [f"{name}-r{i}" for i in range(plan.replicas)]
    for one in names:
        _check_name(one)
    in_front = plan.replicas > 1 if router == "auto" else truth(router, "serve_router")
    first = _first_port(port, plan.replicas, in_front)
    groups = _groups(plan, gpus, devices, topology or {}) if gpus is not None else [()] * plan.replicas
    return [
        Instance(one, _BEHIND_ROUTER if in_front else host, first + i, tuple(str(d) for d in group))
        for i, (one, group) in enumerate(zip(names, groups, strict=True))
    ]


def _layout(value: t.Any) -> Layout:
    if isinstance(value, t.Mapping):
        return Layout.parse({k: value[k] for k in _LAYOUT_KEYS if value.get(k) is not None})
    return Layout.parse(value)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ModelopsError(
            f"instance {name!r} is no name for a service: up to 40 lower case letters, digits, - and _.",
            "Choose a shorter or simpler serve_instance.",
        )


def _first_port(value: t.Any, replicas: int, router: bool) -> int:
    port = whole(value, "serve_port")
    last = port + replicas - 1 + (1 if router else 0)
    if port < _PORTS[0] or last > _PORTS[1]:
        what = f"{replicas} replica{'s' if replicas > 1 else ''}{' and a router' if router else ''}"
        raise ModelopsError(
            f"serve_port is {port}: with {what} it takes the ports {port} to {last}, and a service has"
            f" {_PORTS[0]} to {_PORTS[1]}.",
            f"Set serve_port to a value from {_PORTS[0]} to {_PORTS[1] - (last - port)}.",
        )
    return port + 1 if router else port


def _groups(plan: Layout, gpus: Gpus, devices: t.Any, topology: Topology) -> list[tuple[int, ...]]:
    present = _present(gpus)
    chosen = _chosen(devices, present)
    usable = chosen or sorted(present)
    if len(usable) < plan.gpus:
        wanted = f"{plan.replicas} x {plan.world}" if plan.replicas > 1 else str(plan.world)
        source = f"serve_devices names {len(usable)}" if chosen else f"this node has {len(usable)}"
        raise ModelopsError(
            f"layout {plan.id} needs {wanted} GPUs on one node, {source}.",
            "Choose a layout with fewer GPUs, or "
            + ("more of serve_devices." if chosen else "set serve_gpus to what the node has."),
        )
    if chosen:
        return [tuple(chosen[i * plan.world : (i + 1) * plan.world]) for i in range(plan.replicas)]
    return nearest_groups(usable, plan.world, plan.replicas, _distance(present, topology))


def _present(gpus: Gpus) -> dict[int, t.Any]:
    """Index of each GPU, with its NUMA node where that is known."""
    if isinstance(gpus, t.Mapping):
        return dict.fromkeys(range(whole(gpus.get("count"), "serve_gpus.count")))
    return {whole(gpu.get("index", i), "the index of a GPU", 0): gpu.get("numa_node") for i, gpu in enumerate(gpus)}


def _chosen(devices: t.Any, present: t.Mapping[int, t.Any]) -> list[int]:
    """serve_devices: a list of indices, or a text such as 0,1,2,3 (AWX)."""
    words: t.Iterable[t.Any] = devices or []
    if isinstance(devices, (str, int)):
        words = [word for word in str(devices).split(",") if word.strip()]
    chosen = [whole(word, "an entry of serve_devices", 0) for word in words]
    remedy = "Give the numbers that nvidia-smi shows, such as [0, 1, 2, 3]."
    repeated = sorted({d for d in chosen if chosen.count(d) > 1})
    if repeated:
        raise ModelopsError(f"serve_devices names GPU {repeated[0]} twice: a GPU serves one instance.", remedy)
    missing = [d for d in chosen if d not in present]
    if missing:
        raise ModelopsError(
            f"serve_devices names GPU {missing[0]}, this node has {', '.join(map(str, sorted(present))) or 'none'}.",
            remedy,
        )
    return chosen


def _distance(numa: t.Mapping[int, t.Any], topology: Topology) -> _Near:
    """0 for NVLink up to 5 for two sockets; where the driver shows no matrix, the NUMA nodes decide."""

    def between(a: int, b: int) -> int:
        path = topology.get(f"GPU{a}", {}).get(f"GPU{b}", "")
        if path in _PATHS:
            return _PATHS.index(path) + 1
        if re.fullmatch(r"NV[0-9]+", path):
            return 0
        same = numa[a] is not None and numa[a] == numa[b]
        return _SAME_NUMA if same else _FARTHEST

    return between


def nearest_groups(devices: t.Sequence[int], size: int, count: int, distance: _Near) -> list[tuple[int, ...]]:
    """``count`` disjoint groups of ``size`` devices, each as near together as the rest allows.

    Each group comes out of the smallest neighbourhood that is large enough, so that a whole one (a switch, a socket)
    stays whole for a group that needs it. Groups are in the order of their first device.
    """
    free = list(devices)
    groups = []
    for _i in range(count):
        near = next(
            fitting
            for level in range(_FARTHEST + 1)
            if (fitting := [c for c in _clusters(free, level, distance) if len(c) >= size])
        )
        group = min(near, key=len)[:size]
        free = [d for d in free if d not in group]
        groups.append(tuple(group))
    return sorted(groups, key=min)


def _clusters(devices: t.Sequence[int], level: int, distance: _Near) -> list[list[int]]:
    """Devices that are connected by steps of at most ``level``; in each cluster the nearer ones stand together."""
    if level < 0:
        return [[d] for d in devices]
    joined: list[list[int]] = []
    for cluster in _clusters(devices, level - 1, distance):
        touching = [c for c in joined if any(distance(a, b) <= level for a in c for b in cluster)]
        joined = [c for c in joined if c not in touching]
        joined.append([d for c in [*touching, cluster] for d in c])
    return sorted(joined, key=lambda c: (-len(c), min(c)))

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What preflight is asked about a node."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Question:
    """The node as the other modules saw it, and the instance that will run on it.

    ``siblings`` are the units of the other instances of this collection, which the switch stops where they are in the
    way.

    ``nodes`` is how many nodes the deployment spans, ``expected_nodes`` how many its hardware profile is made of.
    ``pinned``: the role serve tells each rank its address and its interface.
    ``gpu_info`` is the result of gpu_info (empty without GPUs), ``layout`` the entry of layout_info that will be
    served (empty when none was judged), ``env`` and ``args`` are those of the instance, ``utilization`` is
    gpu_memory_utilization (0: vLLM's default), ``weights_bytes`` the size of the snapshot (0: unknown).
    """

    accelerator: str = "cuda"
    gpu_info: t.Mapping[str, t.Any] = field(default_factory=dict)
    layout: t.Mapping[str, t.Any] = field(default_factory=dict)
    nodes: int = 1
    expected_nodes: int = 1
    pinned: bool = False
    address: str = ""
    unit: str = ""
    siblings: frozenset[str] = frozenset()
    user: str = ""
    home: str = ""
    env: t.Mapping[str, str] = field(default_factory=dict)
    args: t.Mapping[str, t.Any] = field(default_factory=dict)
    vllm_bin: str = ""
    utilization: float = 0.0
    weights_dest: str = ""
    weights_bytes: int = 0
    p2p_test: bool = False
    p2p_timeout: int = 60

    @property
    def gpus(self) -> list[dict[str, t.Any]]:
        """The GPUs of the node."""
        return list(self.gpu_info.get("gpus") or [])

    @property
    def visible(self) -> str | None:
        """CUDA_VISIBLE_DEVICES of the instance, None when it is not set."""
        value = self.env.get("CUDA_VISIBLE_DEVICES")
        return None if value is None else str(value)

    @property
    def used_gpus(self) -> list[dict[str, t.Any]]:
        """The GPUs that the instance will use: the visible ones, as many of them as the layout has; all without one."""
        gpus = self.gpus
        if self.visible is not None:
            numbers = [int(part) for part in self.visible.split(",") if part.strip().isdigit()]
            gpus = [g for n in numbers for g in gpus if g["index"] == n]
        wanted = int(self.layout.get("gpus") or len(gpus))
        return gpus[: max(1, wanted // max(1, self.nodes))]

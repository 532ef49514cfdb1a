# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""How one model is laid over GPUs: tensor, pipeline, data and expert parallel sizes, replicas, and the ranks that share
one KV cache."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .values import truth, whole, whole_or_none

_ID_FORM = "tp8, tp8-ep, tp4-r2, tp4-dp2-ep, tp8-pp2, tp8-dcp8"
_PART = re.compile(r"(tp|pp|dp|dcp|r)(\d+)|(ep)(\d*)")
_KEYS = ("tp", "pp", "dp", "dcp", "replicas")


@dataclass(frozen=True, order=True)
class Layout:
    """One way to use GPUs: ``replicas`` independent engines of ``tp * pp * dp`` GPUs each.

    ``dcp`` (decode context parallelism) takes no GPUs of its own: that many tensor parallel ranks share one KV cache.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False
    replicas: int = 1
    dcp: int = 1

    @property
    def world(self) -> int:
        """GPUs of one engine."""
        return self.tp * self.pp * self.dp

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.world * self.replicas

    @property
    def ep_size(self) -> int:
        """Ranks that the experts are spread over: TP x DP with expert parallelism, else 1.

        vLLM 0.32 ``layers/fused_moe/config.py`` FusedMoEParallelConfig.make.
        """
        return self.tp * self.dp if self.ep else 1

    @property
    def moe_tp(self) -> int:
        """Ranks that each expert is cut over: without EP vLLM folds DP into it (same source)."""
        return 1 if self.ep else self.tp * self.dp

    @property
    def id(self) -> str:
        """The canonical id, for example ``tp4-dp2-ep``."""
        parts = [f"tp{self.tp}"]
        parts += [f"pp{self.pp}"] if self.pp > 1 else []
        parts += [f"dp{self.dp}"] if self.dp > 1 else []
        parts += [f"dcp{self.dcp}"] if self.dcp > 1 else []
        parts += ["ep"] if self.ep else []
        parts += [f"r{self.replicas}"] if self.replicas > 1 else []
        return "-".join(parts)

    @classmethod
    def parse(cls, value: t.Any) -> Layout:
        """A layout from its id or from a mapping with tp, pp, dp, ep, dcp and replicas.

        :raises ModelopsError: when the id or a key is not understood.
        """
        if isinstance(value, Layout):
            return value
        if isinstance(value, str):
            return cls._from_id(value)
        if isinstance(value, t.Mapping):
            return cls._from_mapping(value)
        raise ModelopsError(
            f"layout {value!r} is neither an id nor a mapping.",
            f"Give an id such as {_ID_FORM}, or a mapping with tp, pp, dp, ep, dcp and replicas.",
        )

    @classmethod
    def _from_id(cls, text: str) -> Layout:
        sizes: dict[str, int] = {}
        for part in text.strip().lower().split("-"):
            match = _PART.fullmatch(part)
            key = (match[1] or match[3]) if match else ""
            if match is None or key in sizes:
                raise ModelopsError(
                    f"layout {text!r} is not a layout id: {part!r} is not understood.",
                    f"Ids look like {_ID_FORM}.",
                )
            sizes[key] = int(match[2] or match[4] or 1)
        if 0 in sizes.values():
            raise ModelopsError(f"layout {text!r} has a size of 0.", "Sizes start at 1.")
        tp, pp, dp, replicas, dcp = (sizes.get(k, 1) for k in ("tp", "pp", "dp", "r", "dcp"))
        layout = cls(tp, pp, dp, "ep" in sizes, replicas, dcp)
        # "ep8" is how people write it; the size is not free in vLLM, so a wrong one is refused.
        if sizes.get("ep", 1) not in (1, layout.ep_size):
            raise ModelopsError(
                f"layout {text!r} asks for {sizes['ep']} expert parallel ranks, vLLM always uses TP x DP = "
                f"{layout.ep_size}.",
                f"Write {layout.id}.",
            )
        return layout

    @classmethod
    def _from_mapping(cls, value: t.Mapping[str, t.Any]) -> Layout:
        # nnodes may stand beside the sizes in a request; how many nodes there are is an option of its own.
        unknown = sorted(set(value) - {"id", "ep", "nnodes", "nodes", *_KEYS})
        if unknown or not value:
            raise ModelopsError(
                f"layout {dict(value)!r} has {'unknown keys ' + ', '.join(unknown) if unknown else 'no keys'}.",
                "Give tp, pp, dp, ep, dcp and replicas.",
            )
        if "id" in value and not set(value) & {"ep", *_KEYS}:
            return cls._from_id(str(value["id"]))
        size = {k: whole_or_none(value.get(k), f"layout {k}") or 1 for k in _KEYS}
        return cls(ep=truth(value.get("ep", False), "layout ep"), **size)


def enumerate_layouts(gpus: int, nodes: int = 1, moe: bool | None = None) -> list[Layout]:
    """All layouts that make sense for ``gpus`` a node on ``nodes`` nodes, valid for the model or not.

    Sizes are powers of two and the divisors of the machine. Each engine size comes once alone and once
    with as many replicas as fit. Data parallelism comes with EP only: without it vLLM cuts the experts
    over DP as well, and a dense model is better served by replicas. DCP is judged where it is asked for.
    """
    total = whole(gpus, "gpus.count") * whole(nodes, "nodes")
    powers = {2**i for i in range(total.bit_length()) if 2**i <= total}
    sizes = sorted(powers | {n for n in range(1, total + 1) if total % n == 0})
    found: set[Layout] = set()
    for tp in sizes:
        for pp in (s for s in sizes if tp * s <= total):
            variants = [Layout(tp, pp)]
            if moe is not False:
                variants += [Layout(tp, pp, ep=True)] if tp > 1 else []
                variants += [Layout(tp, 1, dp, True) for dp in sizes if pp == 1 and dp > 1 and tp * dp <= total]
            for one in variants:
                fit = max_replicas(one, gpus, nodes)
                found.add(one)
                if fit > 1:
                    found.add(Layout(one.tp, one.pp, one.dp, one.ep, fit))
    return sorted(found, key=lambda x: (-x.tp, x.pp, x.dp, x.ep, x.replicas))


def max_replicas(layout: Layout, gpus: int, nodes: int) -> int:
    """How many engines of this layout fit: whole ones in each node, or groups of nodes for one engine."""
    if layout.world <= gpus:
        return gpus // layout.world * nodes
    return nodes // -(-layout.world // gpus)

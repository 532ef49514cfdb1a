# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Which valid layout to take: a small cost model, good for an order, not for a promise.

One decode step of an engine reads the active weights and the KV of its requests, and waits for its
all-reduces::

    step = (weight bytes + KV bytes) / memory bandwidth + all-reduces * (latency + bytes / link bandwidth)

- ``latency`` takes the shortest step for one request,
- ``throughput`` the most requests a second of steps with LOAD_SEQUENCES requests on the machine,
- ``capacity`` the most KV tokens of all engines.

Layouts within TIE of the best are ties, which only a measurement tells apart.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from .compat import EXTRA_ALL_REDUCES
from .gpus import Gpus
from .layout import Layout
from .memory import Parts, split_layers
from .shape import ModelShape

OBJECTIVES = ("latency", "throughput", "capacity")
LOAD_SEQUENCES = 128
CONTEXT_TOKENS = 4096
TIE = 0.10

# Memory bandwidth in GB/s by the start of the device name. Source: vendor data sheets.
BANDWIDTH_GB_S: tuple[tuple[str, float], ...] = (
    ("NVIDIA RTX PRO 6000", 1792), ("NVIDIA RTX 6000 Ada", 960), ("NVIDIA H200", 4800), ("NVIDIA H20", 4000),
    ("NVIDIA H100 NVL", 3938), ("NVIDIA H100 PCIe", 2039), ("NVIDIA H100", 3350), ("NVIDIA GH200", 4900),
    ("NVIDIA B200", 8000), ("NVIDIA GB200", 8000), ("NVIDIA B300", 8000), ("NVIDIA GB300", 8000),
    ("NVIDIA A100", 2039), ("NVIDIA A800", 2039), ("NVIDIA L40S", 864), ("NVIDIA L40", 864), ("NVIDIA GB10", 273),
)  # fmt: skip
DEFAULT_BANDWIDTH_GB_S = 2000.0


@dataclass(frozen=True)
class Link:
    """An all-reduce over a link: seconds for each rank beyond the first, and GB/s of a rank."""

    hop_s: float
    gb_s: float


# PCIe is set so that logged single streams come out: M2.5 at TP4 84-116 tokens/s (122 here), Kimi-K2.5 at TP8
# 60-101 (80 here). The others are assumed.
LINKS: t.Mapping[str, Link] = {"nvlink": Link(2e-6, 350.0), "pcie": Link(12e-6, 35.0), "network": Link(20e-6, 20.0)}


@dataclass(frozen=True)
class Sized:
    """A layout with the sizes that the plan computed."""

    layout: Layout
    weights: float
    kv_per_token: int
    kv_tokens: int


def score(shape: ModelShape, parts: Parts, gpus: Gpus, sized: Sized, objective: str) -> float:
    """How good a layout is for an objective; only the order and the ratio of two scores mean something."""
    layout = sized.layout
    engines = layout.dp * layout.replicas
    if objective == "capacity":
        return float(sized.kv_tokens * engines)
    if objective == "latency":
        return 1.0 / _step(shape, parts, gpus, sized, 1)
    running = min(LOAD_SEQUENCES / engines, sized.kv_tokens / CONTEXT_TOKENS)
    return running * engines / _step(shape, parts, gpus, sized, max(running, 1e-3))


def _step(shape: ModelShape, parts: Parts, gpus: Gpus, sized: Sized, running: float) -> float:
    """Seconds in which each of the running requests of a DP rank gets one token.

    Pipeline stages work on different requests, so a stage sees its part of them and a token takes all stages.
    """
    layout = sized.layout
    requests = max(running / layout.pp, min(running, 1.0))
    bandwidth = next((b for n, b in BANDWIDTH_GB_S if gpus.name.startswith(n)), DEFAULT_BANDWIDTH_GB_S) * 1e9
    layers = max(split_layers(shape.layers or 1, layout.pp))
    moe_layers = max(0, (shape.layers or 1) - shape.dense_layers) * layers / (shape.layers or 1) if shape.experts else 0
    held = moe_layers * parts.experts / (layout.ep_size if layout.ep else layout.moe_tp)
    read = sized.weights - held * (1 - _touched(shape, layout, requests * layout.dp))
    read += requests * CONTEXT_TOKENS * sized.kv_per_token
    seconds = read / bandwidth
    # Attention waits for its TP ranks; the MLP for all ranks that hold a part of it.
    extra = EXTRA_ALL_REDUCES.get(shape.architecture, 0)
    seconds += layers * (1 + extra) * _all_reduce(shape, gpus, layout.tp, requests)
    wide = layout.tp * (layout.dp if shape.experts else 1)
    seconds += layers * _all_reduce(shape, gpus, wide, requests * (wide // layout.tp))
    return seconds * layout.pp


def _touched(shape: ModelShape, layout: Layout, tokens: float) -> float:
    """The part of its experts that the busiest rank reads for that many tokens."""
    count, active = shape.experts or 0, shape.experts_per_token or 8
    if not count:
        return 1.0
    mean = 1 - math.pow(1 - min(1.0, active / count), tokens)
    if not layout.ep:
        return mean
    # The busiest of several ranks has more than its share while there are few tokens (M2.5 at TP8 with EP: 8
    # experts of one token on 8 ranks leave about 2.5 on the busiest).
    draws = tokens * active / layout.ep_size
    busiest = mean * (1 + 1.5 / math.sqrt(max(draws, 1.0)) if layout.ep_size > 1 else 1)
    return min(1.0, busiest)


def _all_reduce(shape: ModelShape, gpus: Gpus, ranks: int, tokens: float) -> float:
    """Seconds of one all-reduce of the hidden states (bfloat16) of that many tokens."""
    if ranks == 1:
        return 0.0
    link = LINKS["network" if ranks > gpus.count else gpus.link or "pcie"]
    size = tokens * (shape.hidden or 0) * 2 * 2 * (ranks - 1) / ranks
    return (ranks - 1) * link.hop_s + size / (link.gb_s * 1e9)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What is asked of the planner, and its answer on one layout."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from .._errors import ModelopsError
from .._findings import Finding, as_dicts, has_errors
from . import memory
from .case import Flags
from .cost import OBJECTIVES
from .gpus import GIB, Gpus
from .layout import Layout
from .memory import Parts
from .shape import ModelShape
from .values import Version


@dataclass(frozen=True)
class Request:
    """What is asked. ``utilization`` and ``max_model_len`` are None for vLLM's own defaults; ``measured`` is what the
    shards of a snapshot say, None when sizes are computed from the config."""

    shape: ModelShape
    gpus: Gpus | None = None
    nodes: int = 1
    version: Version | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    utilization: float | None = None
    objective: str = "throughput"
    flags: Flags = field(default_factory=Flags)
    measured: Parts | None = None

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ModelopsError(f"objective is {self.objective!r}.", f"Use one of {', '.join(OBJECTIVES)}.")
        if self.utilization is not None and not 0 < self.utilization <= 1:
            raise ModelopsError(
                f"gpu_memory_utilization is {self.utilization:g}, it is a part of the memory of a GPU.",
                "Give a number above 0 and up to 1, for example 0.92.",
            )
        known = {"auto", *memory.KV_DTYPES, *memory.MLA_ENTRIES}
        if self.flags.kv_cache_dtype not in known:
            raise ModelopsError(
                f"kv_cache_dtype is {self.flags.kv_cache_dtype!r}, whose size this version does not know.",
                f"Use one of {', '.join(sorted(known))}.",
            )

    @property
    def share(self) -> float:
        """The part of the memory of a GPU that vLLM may use."""
        return self.utilization or memory.default_utilization(self.version)

    @cached_property
    def parts(self) -> Parts | None:
        """The weights by how they spread, measured before computed."""
        return self.measured or memory.parts(self.shape)


@dataclass(frozen=True)
class Verdict:
    """One layout, judged and sized. Sizes are bytes of one GPU, None where the config or the GPUs do not tell.

    ``room`` and ``overheads`` are (least, most); ``attention`` and ``moe`` the backends in the order of vLLM's tries.
    """

    layout: Layout
    findings: tuple[Finding, ...]
    weights: float | None = None
    overhead: float | None = None
    kv_per_token: int | None = None
    kv_tokens: int | None = None
    fits_len: int | None = None
    context: int | None = None
    idle: int | None = None
    room: tuple[float, float] | None = None
    overheads: tuple[float, float] | None = None
    attention: list[str] | None = None
    moe: list[str] | None = None
    tuned_moe: bool | None = None

    @property
    def valid(self) -> bool:
        """True when nothing speaks against it."""
        return not has_errors(self.findings)

    def as_dict(self) -> dict[str, t.Any]:
        """The form that layout_info returns."""
        engines = self.layout.dp * self.layout.replicas
        per_engine = round(self.kv_tokens / self.context, 2) if self.kv_tokens is not None and self.context else None
        return {
            "id": self.layout.id,
            "tp": self.layout.tp,
            "pp": self.layout.pp,
            "dp": self.layout.dp,
            "dcp": self.layout.dcp,
            "ep": self.layout.ep,
            "replicas": self.layout.replicas,
            "gpus": self.layout.gpus,
            "idle_gpus": self.idle,
            "valid": self.valid,
            "findings": as_dicts(self.findings),
            "weights_gib_per_gpu": None if self.weights is None else round(self.weights / GIB, 2),
            "overhead_gib_per_gpu": None if self.overhead is None else round(self.overhead / GIB, 2),
            "overhead_gib_range": None if self.overheads is None else [round(x / GIB, 2) for x in self.overheads],
            "kv_bytes_per_token": self.kv_per_token,
            "kv_tokens": self.kv_tokens,
            "kv_tokens_range": self._tokens_range(),
            "kv_tokens_total": None if self.kv_tokens is None else self.kv_tokens * engines,
            "max_concurrency": per_engine,
            "max_concurrency_total": None if per_engine is None else round(per_engine * engines, 2),
            "max_model_len_fit": self.fits_len,
            "attention_backends": self.attention,
            "moe_backends": self.moe,
            "tuned_moe_config": self.tuned_moe,
        }

    def _tokens_range(self) -> list[int] | None:
        if self.room is None or not self.kv_per_token:
            return None
        return [max(0, math.floor(room / self.kv_per_token)) for room in self.room]

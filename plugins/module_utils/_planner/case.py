# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One layout to judge: what every rule gets."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from .._findings import Finding
from .gpus import Gpus
from .layout import Layout
from .shape import ModelShape
from .values import Version, truth, version_text, whole_or_none

Findings = t.Iterator[Finding]

ENCODER_MODES = ("weights", "data")
DATA_PARALLEL_BACKENDS = ("mp", "ray")


@dataclass(frozen=True)
class Flags:
    """Arguments of ``vllm serve`` that decide whether a layout works, under their names there.

    ``attention_backend`` and ``moe_backend`` are empty for vLLM's own choice. ``trust_remote_code`` is None when it
    was not said, and then not judged.
    """

    kv_cache_dtype: str = "auto"
    attention_backend: str = ""
    moe_backend: str = ""
    eplb: bool = False
    redundant_experts: int = 0
    mm_encoder_tp_mode: str = "weights"
    data_parallel_backend: str = "mp"
    trust_remote_code: bool | None = None

    @classmethod
    def parse(cls, options: t.Mapping[str, t.Any]) -> Flags:
        """From options, where None and the empty string stand for "not given".

        :raises ModelopsError: when one is not among its choices.
        """

        def word(name: str, default: str, choices: tuple[str, ...] = ()) -> str:
            value = str(options.get(name) or default).strip()
            if choices and value not in choices:
                raise ModelopsError(f"{name} is {value!r}.", f"Use one of {', '.join(choices)}.")
            return value

        attention, moe = word("attention_backend", "").upper(), word("moe_backend", "").lower()
        trust = options.get("trust_remote_code")
        return cls(
            kv_cache_dtype=word("kv_cache_dtype", "auto"),
            attention_backend="" if attention == "AUTO" else attention,
            moe_backend="" if moe == "auto" else moe,
            eplb=truth(options.get("eplb") or False, "eplb"),
            redundant_experts=whole_or_none(options.get("redundant_experts"), "redundant_experts", 0) or 0,
            mm_encoder_tp_mode=word("mm_encoder_tp_mode", "weights", ENCODER_MODES),
            data_parallel_backend=word("data_parallel_backend", "mp", DATA_PARALLEL_BACKENDS),
            trust_remote_code=None if trust is None or trust == "" else truth(trust, "trust_remote_code"),
        )


@dataclass(frozen=True)
class Case:
    """One layout to judge: of which model, on which GPUs, for which vLLM (None is "not known"), with which flags."""

    shape: ModelShape
    layout: Layout
    gpus: Gpus | None = None
    nodes: int = 1
    version: Version | None = None
    flags: Flags = field(default_factory=Flags)

    @property
    def vllm(self) -> str:
        """The version in a sentence."""
        return f"vLLM {version_text(self.version)}" if self.version else "vLLM (version not given)"

    @property
    def family(self) -> int | None:
        """The GPU family, which is the major number of the compute capability: 9 Hopper, 10 and 12 two Blackwells."""
        return self.gpus.compute_cap[0] if self.gpus and self.gpus.compute_cap else None

    @property
    def capability(self) -> str:
        """The compute capability in a sentence."""
        return ".".join(map(str, self.gpus.compute_cap)) if self.gpus and self.gpus.compute_cap else "not known"

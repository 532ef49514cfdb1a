# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The GPUs of one node as the planner needs them."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .._findings import Finding, info, warning
from .values import parse_compute_cap, truth, whole, whole_or_none

GIB = 1 << 30

# What the driver keeps for itself, rounded up: nvidia-smi says 97887 MiB where torch sees 94.97 GiB, 638 MiB less
# (RTX PRO 6000), and 143771 MiB of which 616 MiB are "reserved" (H200, driver 580).
DRIVER_RESERVE_MIB = 648

LINKS = ("nvlink", "pcie")


@dataclass(frozen=True)
class Gpus:
    """``count`` equal GPUs of one node; what is not known is None.

    ``partial`` names MIG and vGPU slices. ``free_mib`` is what is free now where GPU and system share their memory
    (``unified``).
    """

    count: int
    name: str = ""
    memory_mib: int | None = None
    compute_cap: tuple[int, int] | None = None
    link: str | None = None
    unified: bool = False
    partial: tuple[str, ...] = ()
    free_mib: int | None = None

    @property
    def is_cpu(self) -> bool:
        """True for the CPU build of vLLM, whose "GPUs" are ranks on one machine."""
        return self.name.strip().lower() == "cpu"

    @property
    def usable_bytes(self) -> int | None:
        """Bytes that torch can see on one GPU."""
        if self.memory_mib is None:
            return None
        reserve = 0 if self.is_cpu or self.unified else DRIVER_RESERVE_MIB
        return max(0, self.memory_mib - reserve) << 20

    @classmethod
    def parse(cls, raw: t.Any) -> tuple[Gpus | None, list[Finding]]:
        """From a ``gpu_info`` result or its list, or a mapping with count, name, memory_mib, compute_cap, link.

        :raises ModelopsError: when a value makes no sense.
        """
        if isinstance(raw, str) and raw.strip()[:1] in ("{", "["):
            try:
                raw = json.loads(raw)
            except ValueError as e:
                raise ModelopsError(f"gpus is not valid JSON: {e}.", "Give a list or a mapping.") from e
        if raw is None or raw in ("", {}):
            return None, []
        if isinstance(raw, t.Mapping) and isinstance(raw.get("gpus"), list):
            raw = raw["gpus"]
        if isinstance(raw, t.Mapping):
            return cls._from_mapping(raw)
        if isinstance(raw, list):
            return cls._from_list(raw)
        raise ModelopsError(
            f"gpus is {raw!r}, which is neither a list nor a mapping.",
            "Give the list that gpu_info returns, or count, name, memory_mib, compute_cap and link.",
        )

    @classmethod
    def _from_mapping(cls, raw: t.Mapping[str, t.Any]) -> tuple[Gpus, list[Finding]]:
        if raw.get("count") in (None, ""):
            raise ModelopsError(f"gpus {dict(raw)!r} has no count.", "Say how many GPUs one node has.")
        link = str(raw.get("link") or "").strip().lower() or None
        if link is not None and link not in LINKS:
            raise ModelopsError(f"gpus.link is {link!r}.", f"Use one of {', '.join(LINKS)}, or leave it out.")
        gpus = cls(
            count=whole(raw["count"], "gpus.count"),
            name=str(raw.get("name") or ""),
            memory_mib=whole_or_none(raw.get("memory_mib"), "gpus.memory_mib"),
            compute_cap=parse_compute_cap(raw.get("compute_cap")),
            link=link,
            unified=truth(raw.get("unified_memory") or False, "gpus.unified_memory"),
            free_mib=whole_or_none(raw.get("memory_free_mib"), "gpus.memory_free_mib", 0),
        )
        return gpus, gpus._remarks()

    @classmethod
    def _from_list(cls, raw: list[t.Any]) -> tuple[Gpus, list[Finding]]:
        if not raw:
            raise ModelopsError("gpus is an empty list: the node shows no GPU.", "Look at the status of gpu_info.")
        parsed = [cls._from_mapping({**g, "count": 1})[0] for g in raw if isinstance(g, t.Mapping)]
        if len(parsed) != len(raw):
            raise ModelopsError("gpus has entries that are not mappings.", "Give the list that gpu_info returns.")
        memory = [g.memory_mib for g in parsed if g.memory_mib is not None]
        caps = [g.compute_cap for g in parsed if g.compute_cap is not None]
        gpus = cls(
            count=len(parsed),
            name=parsed[0].name,
            memory_mib=min(memory) if len(memory) == len(parsed) else None,
            compute_cap=min(caps) if len(caps) == len(parsed) else None,
            link=parsed[0].link if len({g.link for g in parsed}) == 1 else None,
            unified=any(g.unified for g in parsed),
            free_mib=min((g.free_mib for g in parsed if g.unified and g.free_mib is not None), default=None),
            partial=tuple(str(g.get("index", i)) for i, g in enumerate(raw) if g.get("mig") or g.get("virtual")),
        )
        findings = gpus._remarks()
        kinds = sorted({f"{g.name} {g.memory_mib} MiB {g.compute_cap}" for g in parsed})
        if len(kinds) > 1:
            text = f"The node has {len(kinds)} kinds of GPU ({'; '.join(kinds)}); planned with the smallest memory"
            findings.append(
                warning("gpus-mixed", f"{text} and the lowest compute capability.", "Use equal GPUs.", kinds=kinds)
            )
        return gpus, findings

    def _remarks(self) -> list[Finding]:
        """What a reader of the plan must know about these GPUs."""
        if self.is_cpu:
            return [
                info(
                    "accelerator-cpu",
                    "The accelerator is a CPU, its ranks share one machine. Rules on compute capability do not apply, "
                    "and the size of the KV cache is set by hand or by VLLM_CPU_KVCACHE_SPACE.",
                    count=self.count,
                )
            ]
        unknown = [k for k in ("memory_mib", "compute_cap") if getattr(self, k) is None]
        if not unknown:
            return []
        return [
            info(
                "gpus-unknown",
                f"{' and '.join(unknown)} of the GPUs is not known: what depends on it is not judged.",
                "Give it, or pass the list that gpu_info returns.",
                unknown=unknown,
            )
        ]

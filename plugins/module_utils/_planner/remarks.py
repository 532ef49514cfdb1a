# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What is to be said about the options and about the whole plan, besides its layouts."""

from __future__ import annotations

import math
import typing as t

from .._findings import Finding, error, info, warning
from . import architectures
from .cost import TIE
from .gpus import Gpus
from .recommend import Choice
from .request import Request, Verdict
from .values import version_text

# Above this vLLM may pass its own check and then run out of memory in CUDA graph capture (A20, vllm#57475).
UTILIZATION_WARN = 0.95


def on_options(request: Request) -> t.Iterator[Finding]:
    """Options that are wrong with every layout."""
    longest, wanted = request.shape.max_position, request.max_model_len
    if longest and wanted and wanted > longest:
        yield error(
            "max-model-len",
            f"max_model_len {wanted} is greater than the {longest} positions of the model.",
            f"Use at most {longest}.",
            max_model_len=wanted,
            max_position=longest,
        )
    if request.utilization and request.utilization > UTILIZATION_WARN:
        yield warning(
            "gpu-memory-utilization",
            f"gpu_memory_utilization {request.utilization:g} is above {UTILIZATION_WARN}: CUDA graph capture may run "
            "out of memory after the KV cache was sized.",
            "Lower it, lower max_num_seqs, or serve with --enforce-eager.",
            utilization=request.utilization,
        )


def on_plan(request: Request, choice: Choice, verdicts: t.Sequence[Verdict]) -> t.Iterator[Finding]:
    """What holds for the whole plan."""
    yield from _on_model(request)
    yield from _on_machine(request)
    if not any(v.valid for v in verdicts):
        yield error("no-valid-layout", "None of the layouts is valid.", "Read the findings of the layouts.")
    yield from _on_choice(choice)


def _on_model(request: Request) -> t.Iterator[Finding]:
    shape = request.shape
    names = ("layers", "hidden", "heads", "kv_heads", "experts", "vocab", "max_position")
    unknown = [n for n in names if getattr(shape, n) is None and not (n == "kv_heads" and shape.mla)]
    if unknown:
        yield info(
            "config-partial",
            f"Not in the config: {', '.join(unknown)}. The rules that need it are not judged.",
            "Give the whole config.json.",
            unknown=unknown,
        )
    if shape.architecture and shape.architecture not in architectures.FIRST_READ:
        yield info(
            "architecture-unknown",
            f"{shape.architecture} is in none of the releases of vLLM that the tables were read from.",
            "Check the spelling; vLLM may serve it through Transformers, or need a plugin.",
            architecture=shape.architecture,
        )
    if shape.unsized:
        what = "The KV cache" if request.measured else "Memory"
        yield warning("model-unsized", f"{what} is not computed for this model: {shape.unsized}.", "Measure it.")
    elif request.parts is None and not unknown:
        yield warning("model-unsized", "Memory is not computed: the config lacks sizes or the quantization is unknown.")
    if shape.hybrid:
        yield info(
            "kv-estimate",
            f"{shape.full_layers} of {shape.layers} layers keep the whole context, the others a window of "
            f"{shape.sliding_window}: KV tokens are a low estimate.",
            "vLLM's log line `GPU KV cache size` has the number.",
            full_layers=shape.full_layers,
        )


def _on_machine(request: Request) -> t.Iterator[Finding]:
    gpus, version = request.gpus, request.version
    if gpus is None:
        yield info("gpus-not-given", "No GPUs were given: memory and GPU rules are not judged.", "Give gpus.")
    elif gpus.unified and gpus.memory_mib:
        yield _unified(request, gpus, gpus.memory_mib)
    elif gpus.link == "pcie" and gpus.count > 1:
        yield info(
            "pcie-all-reduce",
            "The GPUs are joined by PCIe: vLLM's own all-reduce works with two ranks only, more go through NCCL.",
            "If the first all-reduce hangs (IOMMU, ACS; NVIDIA/nccl#1999), set NCCL_P2P_DISABLE=1 together with "
            "--disable-custom-all-reduce.",
            link="pcie",
        )
    if version is None:
        yield info("version-not-given", "vllm_version was not given: the strictest version of each rule was used.")
    elif version > architectures.READ[-1]:
        yield warning(
            "version-new",
            f"vLLM {version_text(version)} is newer than the newest that the rules were read from "
            f"({version_text(architectures.READ[-1])}).",
        )


def _unified(request: Request, gpus: Gpus, memory_mib: int) -> Finding:
    """GPU and system share one memory (GB10): what vLLM takes, the system does not have."""
    takes, total = memory_mib * request.share / 1024, memory_mib / 1024
    numbers: dict[str, t.Any] = {
        "total_gib": round(total, 1),
        "takes_gib": round(takes, 1),
        "utilization": request.share,
    }
    text = (
        f"GPU and system share {total:.1f} GiB: vLLM takes {request.share:g} of it, {takes:.1f} GiB, which must be "
        f"free when it starts, and leaves {total - takes:.1f} GiB to the system."
    )
    remedy = "Set gpu_memory_utilization to what is free, with some GiB to spare."
    if gpus.free_mib is not None:
        most = math.floor(100 * gpus.free_mib / memory_mib) / 100
        numbers.update(free_gib=round(gpus.free_mib / 1024, 1), most_utilization=most)
        text += f" Free now: {gpus.free_mib / 1024:.1f} GiB."
        remedy = f"Set gpu_memory_utilization to at most {most:g}, or stop what holds the memory."
    return warning("memory-unified", text, remedy, **numbers)


def _on_choice(choice: Choice) -> t.Iterator[Finding]:
    if choice.ties:
        yield info(
            "recommendation-tie",
            f"Within {TIE:.0%} of the recommended layout by the cost model: {', '.join(choice.ties)}.",
            "Measure them on the node.",
            ties=list(choice.ties),
        )
    if choice.assumed:
        yield info(
            "recommendation-confidence",
            f"The recommendation assumes {' and '.join(choice.assumed)}.",
            "Give name and link of the GPUs as gpu_info shows them where they are missing, and measure.",
            assumed=list(choice.assumed),
        )

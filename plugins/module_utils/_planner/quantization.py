# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""How a checkpoint is quantized, read from quantization_config and hf_quant_config.json."""

from __future__ import annotations

import fnmatch
import re
import typing as t
from dataclasses import dataclass, replace

from .values import whole_or_none

# Parts of a model whose weights are stored alike, each with the modules that stand for it. An exclusion
# pattern that meets one of them takes the whole part out of the quantization.
PARTS: t.Mapping[str, tuple[str, ...]] = {
    "experts": ("mlp.experts.0.down_proj", "block_sparse_moe.experts.0.w2"),
    "shared": ("mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj"),
    "dense": ("mlp.down_proj",),
    "attention": ("self_attn.o_proj", "self_attn.q_proj", "self_attn.q_b_proj"),
}

# ModelOpt's names of FP8 in blocks of 128 x 128. Source: vLLM 0.32.0 layers/quantization/modelopt.py.
_MODELOPT_BLOCK_FP8 = ("FP8_PB_WO", "FP8_BLOCK_SCALES")


@dataclass(frozen=True)
class Quantization:
    """The storage of the quantized linear layers.

    ``scheme`` is none, fp8-block, fp8-channel, mxfp8, nvfp4, mxfp4, group (INT4/INT8 with groups) or unknown.
    ``bytes_per_weight`` counts the scales; ``block`` is [block_n, block_k] of fp8-block, ``group`` the number of
    input values that share a scale; ``skipped`` the :data:`PARTS` that stay in the dtype of the model.
    """

    scheme: str = "none"
    bytes_per_weight: float = 2.0
    block: tuple[int, int] | None = None
    group: int | None = None
    skipped: frozenset[str] = frozenset()
    kv_cache_fp8: bool = False

    def covers(self, part: str) -> bool:
        """True when the weights of this part are quantized."""
        return self.scheme != "none" and part not in self.skipped


def parse_quantization(
    config: t.Mapping[str, t.Any], hf_quant: t.Mapping[str, t.Any] | None, layers: int | None
) -> Quantization:
    """The quantization of a checkpoint; ``hf_quant`` is hf_quant_config.json of ModelOpt, which may stand alone."""
    quant = dict(config.get("quantization_config") or config.get("compression_config") or {})
    modelopt = dict((hf_quant or {}).get("quantization") or {})
    if not quant and not modelopt:
        return Quantization()
    method = str(quant.get("quant_method") or ("modelopt" if modelopt else "")).lower()
    algo = str(quant.get("quant_algo") or modelopt.get("quant_algo") or "").upper()
    weights = _weight_args(quant)
    block = _block(quant.get("weight_block_size") or weights.get("block_structure"))
    group = whole_or_none(
        quant.get("group_size") or modelopt.get("group_size") or weights.get("group_size"), "group_size", -1
    )
    bits = whole_or_none(quant.get("bits") or quant.get("w_bit") or weights.get("num_bits"), "bits")
    skipped = _skipped(quant, modelopt, layers, method)
    kv_fp8 = bool(quant.get("kv_cache_scheme")) or "FP8" in str(
        quant.get("kv_cache_quant_algo") or modelopt.get("kv_cache_quant_algo") or ""
    )

    is_float = str(weights.get("type", "")).lower() == "float"
    usable = group if group and group > 0 else None  # -1 is "one scale a channel"
    if algo in _MODELOPT_BLOCK_FP8:
        block = block or (128, 128)
    if block and (method == "fp8" or is_float or algo in _MODELOPT_BLOCK_FP8):
        made = Quantization("fp8-block", 1 + 4 / (block[0] * block[1]), block=block)  # one float32 scale a block
    elif "NVFP4" in algo or (bits == 4 and is_float and group == 16):
        made = Quantization("nvfp4", 0.5 + 1 / 16, group=16)  # one FP8 scale for 16 values
    elif algo == "MXFP8" or (bits == 8 and is_float and group == 32):
        made = Quantization("mxfp8", 1 + 1 / 32, group=32)  # one E8M0 scale for 32 values
    elif method == "mxfp4" or (bits == 4 and is_float and group == 32):
        made = Quantization("mxfp4", 0.5 + 1 / 32, group=32)  # one E8M0 scale for 32 values
    elif method in ("fp8", "fbgemm_fp8") or algo.startswith("FP8") or (bits == 8 and is_float):
        made = Quantization("fp8-channel", 1.0)  # scales a channel or a tensor: < 0.1 %
    elif bits in (4, 8) and (group or method in ("gptq", "awq", "compressed-tensors")):
        made = Quantization("group", bits / 8 + (2 / usable if usable else 0), group=usable)  # 16 bit scales
    else:
        made = Quantization("unknown")
    return replace(made, skipped=skipped, kv_cache_fp8=kv_fp8)


def _weight_args(quant: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The weights part of the first group of a compressed-tensors or ModelOpt config."""
    for group in (quant.get("config_groups") or {}).values():
        if isinstance(group, t.Mapping) and isinstance(group.get("weights"), t.Mapping):
            return dict(group["weights"])
    return {}


def _block(value: t.Any) -> tuple[int, int] | None:
    if isinstance(value, str) and "x" in value:
        value = value.split("x")
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    n, k = (whole_or_none(v, "weight_block_size") for v in value)
    return (n, k) if n and k else None


def _skipped(
    quant: t.Mapping[str, t.Any], modelopt: t.Mapping[str, t.Any], layers: int | None, method: str
) -> frozenset[str]:
    patterns: list[str] = []
    for key in ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"):
        for source in (quant, modelopt):
            value = source.get(key)
            if isinstance(value, (list, tuple)):
                patterns += [str(v) for v in value]
    # MXFP4 is a quantization of the experts only (gpt-oss), whatever the list says.
    base = {"shared", "dense", "attention"} if method == "mxfp4" else set()
    middle = (layers or 2) // 2
    for part, modules in PARTS.items():
        # Layer 0 is where dense MLPs are, a layer in the middle is where everything else is.
        names = [f"model.layers.{0 if part == 'dense' else middle}.{m}" for m in modules]
        if any(_meets(p, name) for p in patterns for name in names):
            base.add(part)
    return frozenset(base)


def _meets(pattern: str, name: str) -> bool:
    """Does an exclusion pattern take this module out? Regexes start with ``re:``, globs have a star, the rest
    are names or runs of name components: "gate" is the router and never gate_proj."""
    pattern = re.sub(r"^(?:language_model\.)", "", pattern)
    if pattern.startswith("re:"):
        try:
            return re.match(pattern[3:], name) is not None
        except re.error:
            return False
    if "*" in pattern:
        return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"*.{pattern.lstrip('*.')}")
    return f".{pattern}." in f".{name}."

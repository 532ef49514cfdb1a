# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The shape of a model, read from config.json: the numbers that decide how it can be cut."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from .compat import ARCHITECTURE_OF
from .quantization import Quantization, parse_quantization
from .values import whole_or_none

# One thing has many names in config.json. First the names that vLLM 0.32 reads itself
# (transformers_utils/model_arch_config_convertor.py), then those of the model classes named in the comment.
ALIASES: t.Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups"),
    "head_dim": ("head_dim", "hidden_size_per_head"),
    "experts": ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts"),
    "experts_per_token": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "top_k_experts",
        "moe_topk",
        "moe_top_k",
        "experts_per_token",  # gpt-oss
    ),
    "moe_intermediate": ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size"),
    "intermediate": ("intermediate_size", "ffn_dim", "n_inner"),
    "shared_intermediate": (
        "shared_expert_intermediate_size",  # Qwen2-MoE, Qwen3-Next
        "shared_intermediate_size",  # MiniMax
    ),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "first_dense": ("first_k_dense_replace", "moe_layer_start_index"),
    "vocab": ("vocab_size",),
    "max_position": ("max_position_embeddings", "max_sequence_length", "n_positions", "seq_length"),
}
# The vision tower: Qwen-VL and GLM-4.5V say depth and num_heads, Kimi-K2.5 puts vt_ before, most others use the names
# of language models.
VISION_HEADS = ("num_heads", "num_attention_heads", "vt_num_attention_heads")
VISION_HIDDEN = ("hidden_size", "embed_dim", "vt_hidden_size")
VISION_LAYERS = ("depth", "num_hidden_layers", "vt_num_hidden_layers")
VISION_INTERMEDIATE = ("intermediate_size", "vt_intermediate_size")

# An entry of a table of shapes (shape/quantization) in the words of config.json.
_ENTRY: t.Mapping[str, str] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "attention_heads": "num_attention_heads",
    "config_num_key_value_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "experts": "num_experts",
    "experts_per_token": "num_experts_per_tok",
    "shared_experts": "n_shared_experts",
    "moe_intermediate": "moe_intermediate_size",
    "dense_intermediate": "intermediate_size",
    "first_k_dense": "first_k_dense_replace",
    "vocab": "vocab_size",
    "max_position": "max_position_embeddings",
    "sliding_window": "sliding_window",
    "rope": "rope_scaling",
}


@dataclass(frozen=True)
class Mla:
    """Multi-head latent attention: one latent KV vector a token instead of KV heads."""

    kv_lora_rank: int
    qk_rope_head_dim: int | None
    q_lora_rank: int | None
    qk_nope_head_dim: int | None
    v_head_dim: int | None


@dataclass(frozen=True)
class Dsa:
    """The indexer of DeepSeek sparse attention; ``topk`` positions are attended."""

    topk: int
    heads: int | None
    head_dim: int | None


@dataclass(frozen=True)
class ModelShape:
    """What the planner knows of a model. None is "not in the config", and is never replaced by a guess.

    ``experts`` is 0 for a model that is known to be dense. ``shared_intermediate`` is the width of all shared
    experts together, ``dense_layers`` the number of layers with a dense MLP in front of the MoE layers,
    ``full_layers`` of ``layers`` keep KV of the whole context (the others have a window or no KV).
    ``unsized`` says why weights and KV cannot be computed from the shape, or is empty. ``vision_weights`` is how many
    weights the vision tower has, near enough. ``auto_map`` is True when the config names code of the repository.
    """

    architecture: str = ""
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    mla: Mla | None = None
    dsa: Dsa | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    moe_intermediate: int | None = None
    shared_intermediate: int | None = None
    dense_intermediate: int | None = None
    dense_layers: int = 0
    vocab: int | None = None
    max_position: int | None = None
    vision_heads: int | None = None
    vision_weights: int | None = None
    sliding_window: int | None = None
    full_layers: int | None = None
    tied_embeddings: bool = False
    unsized: str = ""
    auto_map: bool = False
    quant: Quantization = field(default_factory=Quantization)

    @property
    def is_moe(self) -> bool | None:
        """None when the config is too thin to say."""
        return None if self.experts is None else self.experts > 0

    @property
    def hybrid(self) -> bool:
        """True when not every layer keeps the KV of every token."""
        return self.full_layers is not None and self.full_layers != self.layers

    @classmethod
    def from_config(cls, config: t.Mapping[str, t.Any], hf_quant: t.Mapping[str, t.Any] | None = None) -> ModelShape:
        """Read config.json (or an entry with ``shape`` and ``quantization``).

        :param hf_quant: hf_quant_config.json, which ModelOpt checkpoints have beside or instead of
            quantization_config.
        :raises ModelopsError: when a number is not one.
        """
        if not isinstance(config, t.Mapping):
            raise ModelopsError(f"config is {config!r}, not a mapping.", "Give the content of config.json.")
        if isinstance(config.get("shape"), t.Mapping):
            config = _from_entry(config)
        if isinstance(config.get("hf_quant_config"), t.Mapping) and hf_quant is None:
            hf_quant = config["hf_quant_config"]
        text = _text_config(config)
        read = _Reader(text)
        layers, hidden, heads = read("layers"), read("hidden"), read("heads")
        complete = None not in (layers, hidden, heads)
        experts = read("experts", least=0)
        if experts is None and complete:
            experts = 0  # vLLM's own default for a config that names no experts
        mla = _mla(text)
        moe_intermediate = read("moe_intermediate") or (read("intermediate") if experts else None)
        full_layers, window = _attention_layers(text, layers)
        model_type = str(config.get("model_type") or text.get("model_type") or "")
        named = config.get("architectures") or text.get("architectures") or [ARCHITECTURE_OF.get(model_type, "")]
        return cls(
            architecture=str(named[0]),
            layers=layers,
            hidden=hidden,
            heads=heads,
            # Without the key every head has its own KV (vLLM's default too), unless the config is a fragment.
            kv_heads=1 if mla else read("kv_heads") or (heads if complete else None),
            head_dim=None if mla else read("head_dim") or (hidden // heads if complete and hidden and heads else None),
            mla=mla,
            dsa=_dsa(text),
            experts=experts,
            experts_per_token=read("experts_per_token"),
            moe_intermediate=moe_intermediate,
            shared_intermediate=_shared(read, moe_intermediate),
            dense_intermediate=read("intermediate"),
            dense_layers=_dense_layers(text, read, layers, experts),
            vocab=read("vocab"),
            max_position=_max_position(text, read),
            vision_heads=_vision_heads(config),
            vision_weights=_vision_weights(config, hidden),
            sliding_window=window,
            full_layers=full_layers,
            tied_embeddings=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
            unsized=_unsized(text),
            auto_map=bool(config.get("auto_map")),
            quant=parse_quantization(_with_quantization(config, text), hf_quant, layers),
        )


class _Reader:
    """Reads one number under any of its names."""

    def __init__(self, config: t.Mapping[str, t.Any]) -> None:
        self._config = config

    def __call__(self, what: str, least: int = 1) -> int | None:
        for name in ALIASES[what]:
            value = self._config.get(name)
            if isinstance(value, list):  # Ernie lists one equal number a modality
                value = value[0] if value else None
            if value is not None and value != 0:
                return whole_or_none(value, f"config.{name}", least)
            if value == 0 and least == 0:
                return 0
        return None


def _text_config(config: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    """The language model of a multimodal config; keys of the outer level fill its gaps (A11 is nested so)."""
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        inner = config.get(key)
        if isinstance(inner, t.Mapping) and inner:
            return {**{k: v for k, v in config.items() if k != key}, **_text_config(inner)}
    return config


def _with_quantization(config: t.Mapping[str, t.Any], text: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    return config if config.get("quantization_config") else text


def _mla(text: t.Mapping[str, t.Any]) -> Mla | None:
    rank = whole_or_none(text.get("kv_lora_rank"), "config.kv_lora_rank")
    if rank is None:
        return None
    names = ("qk_rope_head_dim", "q_lora_rank", "qk_nope_head_dim", "v_head_dim")
    return Mla(rank, *(whole_or_none(text.get(n) or None, f"config.{n}") for n in names))


def _dsa(text: t.Mapping[str, t.Any]) -> Dsa | None:
    topk = whole_or_none(text.get("index_topk"), "config.index_topk")
    if topk is None:
        return None
    return Dsa(topk, *(whole_or_none(text.get(n), f"config.{n}") for n in ("index_n_heads", "index_head_dim")))


def _shared(read: _Reader, moe_intermediate: int | None) -> int | None:
    width = read("shared_intermediate", least=0)
    if width:
        return width
    count = read("shared_experts", least=0)
    return count * moe_intermediate if count and moe_intermediate else None


def _dense_layers(text: t.Mapping[str, t.Any], read: _Reader, layers: int | None, experts: int | None) -> int:
    """How many layers have a dense MLP although the model has experts."""
    if not experts or layers is None:
        return 0
    first = min(read("first_dense", least=0) or 0, layers)
    listed = text.get("mlp_only_layers")  # Qwen-MoE
    step = whole_or_none(text.get("decoder_sparse_step") or text.get("interleave_moe_layer_step"), "moe step") or 1
    dense = {i for i in range(layers) if i < first or (i + 1) % step}
    return len(dense | set(listed if isinstance(listed, list) else []))


def _attention_layers(text: t.Mapping[str, t.Any], layers: int | None) -> tuple[int | None, int | None]:
    """(layers that keep the KV of the whole context, window in tokens of the others)."""
    kinds = text.get("layer_types")
    window = text.get("sliding_window")
    # Qwen2 and Qwen3 configs carry a window that is switched off.
    if not isinstance(window, int) or text.get("use_sliding_window") is False:
        window = None
    if isinstance(kinds, list) and kinds:
        return sum("full" in str(k) or str(k) == "attention" for k in kinds), window
    if isinstance(kinds, str) and "alternating" in kinds and layers:
        return layers - layers // 2, window
    if not window or not layers:
        return layers, None
    pattern = whole_or_none(text.get("sliding_window_pattern"), "config.sliding_window_pattern")  # Gemma
    return (layers // pattern if pattern else 0), window


def _max_position(text: t.Mapping[str, t.Any], read: _Reader) -> int | None:
    """The longest context that vLLM derives from the config (config/model.py _get_and_verify_max_len)."""
    rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
    base = read("max_position")
    if not isinstance(rope, t.Mapping):
        return base
    kind = str(rope.get("rope_type") or rope.get("type") or "default")
    factor = rope.get("factor")
    if base is None or kind not in ("linear", "dynamic") or not isinstance(factor, (int, float)):
        return base
    return int(base * factor)


def _vision(config: t.Mapping[str, t.Any], names: t.Sequence[str]) -> int | None:
    vision = config.get("vision_config")
    if isinstance(vision, t.Mapping):
        for name in names:
            if vision.get(name):
                return whole_or_none(vision[name], f"vision_config.{name}")
    return None


def _vision_heads(config: t.Mapping[str, t.Any]) -> int | None:
    return _vision(config, VISION_HEADS)


def _vision_weights(config: t.Mapping[str, t.Any], text_hidden: int | None) -> int | None:
    """Weights of a vision transformer and its projector: four square projections and two MLP matrices a layer, then a
    projector of two layers over merged patches (Kimi-K2.5: 0.93 GB in bfloat16, as its notes say)."""
    hidden, layers = _vision(config, VISION_HIDDEN), _vision(config, VISION_LAYERS)
    if hidden is None or layers is None:
        return None
    width = _vision(config, VISION_INTERMEDIATE) or 4 * hidden
    merged = hidden * (_vision(config, ("spatial_merge_size",)) or 2) ** 2
    out = _vision(config, ("out_hidden_size", "text_hidden_size")) or text_hidden or 0
    return layers * (4 * hidden * hidden + 2 * hidden * width) + merged * merged + merged * out


def _unsized(text: t.Mapping[str, t.Any]) -> str:
    """Why the formulas of memory.py do not hold for this model, or nothing."""
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and any("linear" in str(k) or "mamba" in str(k) for k in kinds):
        return "it has linear attention or Mamba layers"
    for key, what in (
        ("full_attention_interval", "it has linear attention layers"),
        ("hybrid_override_pattern", "it has Mamba layers"),
        ("block_configs", "its layers differ from each other"),
        ("compress_ratios", "it compresses its KV cache layer by layer"),
    ):
        if text.get(key):
            return what
    return ""


def _from_entry(entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """An entry with ``shape`` and ``quantization`` as a config.json."""
    shape = entry["shape"]
    config: dict[str, t.Any] = {hf: shape[key] for key, hf in _ENTRY.items() if shape.get(key) is not None}
    config.update({k: v for key in ("mla", "dsa") for k, v in (shape.get(key) or {}).items()})
    if shape.get("layer_types") is not None:
        config["layer_types"] = shape["layer_types"]
    if entry.get("architecture"):
        config["architectures"] = [entry["architecture"]]
    quant = dict(entry.get("quantization") or {})
    if not quant.get("method"):
        return config
    ignored = [str(p) for p in quant.get("ignored") or []]
    config["quantization_config"] = {
        "quant_method": quant["method"],
        "quant_algo": quant.get("algo"),
        "weight_block_size": quant.get("weight_block_size"),
        "bits": quant.get("bits"),
        "group_size": quant.get("group_size"),
        "kv_cache_scheme": quant.get("kv_cache_scheme"),
        # The entries of such a table are short words: "dense mlp", "self_attn (all projections, indexer)".
        "ignore": [r"re:.*\.mlp\.down_proj" if p == "dense mlp" else p.split(" (")[0] for p in ignored],
        "config_groups": {}
        if quant.get("bits") or quant["method"] != "compressed-tensors"
        else {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
    }
    return config

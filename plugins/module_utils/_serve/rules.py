# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Error lines that arguments, layout, memory, weights and kernels cause, as vLLM prints them.

Sources: the code of vLLM 0.32.0 (and the wording of 0.10 to 0.33 where it changed), and logs of its CPU build started
with each fault that a CPU can show (tests/unit/fixtures/vllm_logs). The line that says most comes first: one failure
prints several of them.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

# fatal: the start is lost, whatever else happens.
# hint: explains a start that has ended; by itself it proves nothing (vLLM goes on when it cannot write a cache).
# wrapper: says that something failed, not what.
Kind: t.TypeAlias = t.Literal["fatal", "hint", "wrapper"]


@dataclass(frozen=True)
class Rule:
    """A pattern of an error line, and what it means for the start."""

    id: str
    pattern: re.Pattern[str]
    remedy: str
    kind: Kind


# pydantic indents what it says about a field.
PYDANTIC: t.Final = (
    r"^  (?:Value error|Assertion failed|Input should be|Extra inputs are|Unexpected keyword argument|Field required)"
)


def rule(id_: str, pattern: str, remedy: str, kind: Kind = "fatal") -> Rule:
    """A rule of the table."""
    return Rule(id_, re.compile(pattern), remedy, kind)


ARGUMENT_RULES: t.Final[tuple[Rule, ...]] = (
    rule(
        "unknown-flag",
        r"error: (unrecognized arguments|ambiguous option)",
        "Remove the flag, or install the vLLM version that has it; vllm serve --help=all lists what there is.",
    ),
    rule(
        "bad-flag-value",
        r"error: (argument |the following arguments are required)|^TypeError: Error: --",
        "Correct the value of the flag that the line names. A flag that takes JSON takes a mapping in serve_args.",
    ),
    rule(
        "bad-environment",
        r"Invalid value '.*' (for|in) \w+\. Valid options|VLLM_PORT '|Unknown vLLM environment variable",
        "Correct or remove the variable that the line names in serve_env.",
    ),
    rule(
        "args-file-unreadable",
        r"Config file must be of a yaml/yml type|yaml\.(scanner|parser|constructor)\.\w+Error"
        r"|No model specified! Please specify",
        "The args file below /etc/vllm was changed by hand or written by halves: deploy the instance again.",
    ),
    rule(
        "tool-parser-unknown",
        r"invalid (tool call|reasoning) parser|[Rr]easoning parser '.*' not found|tool parser '.*' not found",
        "Use a parser name that the installed vLLM lists in vllm serve --help=all.",
    ),
    rule(
        "chat-template-missing",
        r"looks like a file path, but it failed to be opened",
        "The file of chat-template in serve_args does not exist for the service user. Most models bring their own:"
        " leave the flag out.",
    ),
)

LAYOUT_RULES: t.Final[tuple[Rule, ...]] = (
    rule(
        "heads-not-divisible",
        r"attention heads \(\d+\) must be divisible by tensor parallel size",
        "Choose a tensor parallel size that divides the attention heads; layout_info lists the valid layouts.",
    ),
    rule(
        "kv-heads-not-divisible",
        r"assert .*(kv_heads|num_heads).* % .*(tp_size|tensor_model_parallel|self\.total_num_kv_heads)",
        "The attention or KV heads do not fit this tensor parallel size; layout_info lists the valid layouts.",
    ),
    rule(
        "quant-block-not-divisible",
        r"is not divisible by weight quantization|in features size is not multiple of 16"
        r"|requires (in|input size|hidden_size|intermediate_size_per_partition) divisible by|must evenly divide both",
        "Use a smaller tensor parallel size or expert parallelism (a layout with -ep); layout_info lists valid ones.",
    ),
    rule(
        "expert-parallel-on-dense",
        r"Number of experts in the model must be greater than 0",
        "The model has no experts: choose a layout without -ep.",
    ),
    rule(
        "data-parallel-on-dense",
        r"Offline data parallel mode is not supported|Non-MoE models do not support external data parallel",
        "The model has no experts: choose a layout with replicas (-r2) and not with data parallel ranks (-dp2).",
    ),
    rule(
        "pipeline-parallel-unsupported",
        r"Pipeline parallelism is not supported for this model",
        "Choose a layout without pipeline stages; over several nodes data and expert parallelism (-dp2-ep).",
    ),
    rule(
        "pipeline-partition",
        r"Invalid partition string|len\(partitions\)=|sum\(partitions\)=",
        "VLLM_PP_LAYER_PARTITION in serve_env must have one number for each stage, and all layers of the model.",
    ),
    rule(
        "context-parallel",
        r"[Dd]ecode[ -]context[ -]parallel|must be divisible by dcp_size",
        "Use a decode context parallel size that layout_info lists for this model, or none.",
    ),
    rule(
        "eplb",
        r"EPLB (currently only|requires|is not enabled)|to use EPLB|[Ee]xpert parallelism load balancing is only",
        "Take enable-eplb and eplb-config out of serve_args, or choose a layout with -ep that they allow.",
    ),
    rule(
        "several-nodes",
        r"nnodes > 1 can only be set|requires `--data-parallel-backend mp`|`--nnodes \S+` must evenly|nnodes \(\d+\)",
        "Over several nodes vLLM takes the mp backend and a layout that all of them share evenly.",
    ),
    rule(
        "not-divisible",
        r"must be divisible by|to be divisible by|is not divisible by"
        r"|Tensor parallel size \d+ is greater than the number of experts",
        "Choose another layout; layout_info lists the valid ones with the numbers.",
    ),
    rule(
        "gpu-ids-not-integers",
        r"invalid literal for int\(\) with base 10: '(MIG|GPU)-|Non-integer device ID",
        "This vLLM takes GPU numbers in CUDA_VISIBLE_DEVICES and no UUIDs; MIG slices cannot serve one model together.",
    ),
    rule(
        "too-few-gpus",
        r"larger than the number of available GPUs|invalid device ordinal|device ordinal \d+ is out of range"
        r"|--device-ids provides|Error computing (device indices|assigned_physical_gpu_ids)",
        "Choose a layout with no more ranks than the node has GPUs, and check CUDA_VISIBLE_DEVICES in serve_env.",
    ),
)

MEMORY_RULES: t.Final[tuple[Rule, ...]] = (
    rule(
        "gpu-memory-occupied",
        r"Free memory on device .* is less than|Externally held weights on device",
        "Another process holds GPU memory: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv names it."
        " Stop it, or lower serve_gpu_memory_utilization.",
    ),
    rule(
        "host-memory-occupied",
        r"Available memory on node .* is less than",
        "The CPU build takes this part of the memory of the node: lower serve_gpu_memory_utilization or"
        " kv-cache-memory-bytes, or stop what uses the memory.",
    ),
    rule(
        "gpu-memory-changed",
        r"Error in memory profiling",
        "Another process gave GPU memory back while vLLM measured it: wait until the GPUs are free, then start again.",
    ),
    rule(
        "kv-cache-too-small",
        r"To serve at least one request with the model's max seq len",
        "Set serve_max_model_len to no more than the estimated maximum in the line, or raise"
        " serve_gpu_memory_utilization, or use serve_kv_cache_dtype fp8.",
    ),
    rule(
        "no-kv-cache-memory",
        r"No available memory for the cache blocks|Cannot auto-fit max_model_len",
        "The weights leave no memory for the KV cache: use more GPUs per replica or a smaller quantization.",
    ),
    rule(
        "max-model-len-too-long",
        r"is greater than the derived max_model_len|VLLM_ALLOW_LONG_MAX_MODEL_LEN=1",
        "Lower serve_max_model_len to the derived value in the line.",
    ),
    rule(
        "batch-limits",
        r"max_num_batched_tokens \(\d+\)|max_num_seqs \(\d+\)|maximum number of sequences"
        r"|max_num_scheduled_tokens is set|max_tokens_per_mm_item",
        "Set serve_max_num_seqs and max-num-batched-tokens so that the condition in the line holds.",
    ),
    rule(
        "gpu-out-of-memory",
        r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|CUDA (driver )?error: out of memory"
        r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED",
        "Lower serve_gpu_memory_utilization, serve_max_num_seqs or serve_max_model_len, or set enforce-eager.",
    ),
)

MODEL_RULES: t.Final[tuple[Rule, ...]] = (
    rule(
        "weights-missing",
        r"Weight files referenced in index but missing|Cannot find any model weights",
        "The snapshot is incomplete: run the role modelops.vllm.weights again.",
    ),
    rule(
        "weights-corrupt",
        r"SafetensorError|Error while deserializing header|MetadataIncompleteBuffer|HeaderTooLarge",
        "A weight file is damaged: run the role modelops.vllm.weights again, which verifies every byte.",
    ),
    rule(
        "weights-do-not-fit-model",
        r"There is no module or parameter named|Following weights were not initialized from checkpoint"
        r"|Attempted to load weight|Tried to load weights of size|size mismatch for",
        "The weights are not those of this architecture or version: check repo_id and revision.",
    ),
    rule(
        "model-path-missing",
        r"Repo id must be in the form|is not a local folder and is not a valid model identifier|OfflineModeIsEnabled"
        r"|LocalEntryNotFoundError|couldn't connect to 'https?://",
        "The model directory does not exist for the service user: check serve_model_dir and its permissions.",
    ),
    rule(
        "model-config-unreadable",
        r"Unrecognized model in |is not a valid JSON file|Could not detect config format",
        "config.json of the model directory is missing or damaged: run the role modelops.vllm.weights again.",
    ),
    rule(
        "tokenizer-unreadable",
        r"Can't load tokenizer for|Couldn't instantiate the backend tokenizer|Unable to load vocabulary"
        r"|data did not match any variant of untagged enum",
        "The files of the tokenizer are missing, damaged or newer than the installed transformers: run the role"
        " modelops.vllm.weights again, or install the vLLM version that the model asks for.",
    ),
    # Python quotes with ' or, where the path has one, with "; safetensors always with ". A missing tool is a hint, and
    # of the JSON files only those of a model count: those of caches and tuned kernels may be missing.
    rule(
        "model-file-missing",
        r"FileNotFoundError: .*No such file or directory: ['\"][^\"]*(\.(safetensors|bin|model|jinja)"
        r"|/([\w.-]*config|[\w.-]+\.index|tokenizer|vocab|added_tokens|special_tokens_map|params|tekken)\.json)['\"]"
        r"|^(OSError|Exception): No such file or directory \(os error 2\)",
        "A file of the model is missing: run the role modelops.vllm.weights again, and check the paths in serve_args.",
    ),
    rule(
        "remote-code-refused",
        r"contains custom code which must be executed|trust_remote_code=True|--trust-remote-code",
        "The model needs its own Python code: set serve_trust_remote_code after reading it, with a pinned revision.",
    ),
    rule(
        "architecture-unknown",
        r"Model architectures \[.*\] are not supported|does not recognize this architecture|has no vLLM implementation",
        "Install a vLLM version that knows the model.",
    ),
    rule(
        "model-not-generative",
        r"does not support `--runner generate`|The model is not multimodal",
        "The model makes no text (it may be an embedding or a draft model): check repo_id.",
    ),
    rule(
        "quantization-mismatch",
        r"does not match the quantization method specified|Unknown quantization method",
        "Take quantization out of serve_args: vLLM reads the method from the config of the model.",
    ),
    rule(
        "quantization-unsupported",
        r"is not supported for the current GPU|is not supported for quantization method|fp8e4nv not supported"
        r"|quantization is currently not supported in|Bfloat16 is only supported on GPUs|only support SM\d+",
        "These GPUs cannot compute in this format: take another quantization of the model; layout_info tells which.",
    ),
    rule(
        "no-attention-backend",
        r"No valid (\w+ )?(attention|MLA prefill) backend|Selected backend .* is not valid"
        r"|is not valid for this configuration|attention backends share no supported|does not support attention sinks",
        "This vLLM has no attention kernel for the model on these GPUs: install a newer one (sparse MLA on compute"
        " capability 12.x needs 0.24), or take attention-backend out of serve_args.",
    ),
    rule(
        "no-moe-backend",
        r"MoE backend.* (supports the deployment|does not support|is disabled)|moe_backend=\S+ (is|cannot)",
        "No kernel for the experts takes this quantization in this layout on these GPUs: take moe-backend out of"
        " serve_args, or choose another layout.",
    ),
    rule(
        "speculative-decoding",
        r"^(ValueError: |  Value error, ).*(num_speculative_tokens|[Ss]peculative|draft_|[Dd]raft model)",
        "Correct or remove speculative-config in serve_args.",
    ),
    rule(
        "config-invalid",
        PYDANTIC + r"|^ValueError: (Error: |Invalid data-parallel launch options: )?`?--[a-z]",
        "vLLM refuses the combination of args: correct what the line names in serve_args or the layout.",
    ),
)

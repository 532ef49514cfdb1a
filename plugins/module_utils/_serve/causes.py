# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Why an instance does not come up, read from its log: a table of patterns, and the rule which lines may speak.

Sources of the patterns: the code of vLLM 0.32.0, and logs of its CPU build started with each fault that a CPU can
show. The line that says most comes first in the table: one failure prints several of them.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One reason: a stable id, the log line that shows it, what to do."""

    id: str
    line: str
    remedy: str

    def as_dict(self) -> dict[str, str]:
        return {"id": self.id, "line": self.line, "remedy": self.remedy}


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


def _rule(id_: str, pattern: str, remedy: str, kind: Kind = "fatal") -> Rule:
    return Rule(id_, re.compile(pattern), remedy, kind)


RULES: t.Final[tuple[Rule, ...]] = (
    _rule(
        "unknown-flag",
        r"error: (unrecognized arguments|ambiguous option)",
        "Remove the flag, or install the vLLM version that has it; vllm serve --help=all lists what there is.",
    ),
    _rule(
        "bad-flag-value",
        r"error: (argument |the following arguments are required)|^TypeError: Error: --",
        "Correct the value of the flag that the line names.",
    ),
    _rule(
        "tool-parser-unknown",
        r"invalid (tool call|reasoning) parser|[Rr]easoning parser '.*' not found|tool parser '.*' not found",
        "Use a parser name that the installed vLLM lists in vllm serve --help=all.",
    ),
    _rule(
        "heads-not-divisible",
        r"attention heads \(\d+\) must be divisible by tensor parallel size",
        "Choose a tensor parallel size that divides the attention heads; layout_info lists the valid layouts.",
    ),
    _rule(
        "quant-block-not-divisible",
        r"not divisible by weight quantization block|is not divisible by weight quantization",
        "Use a smaller tensor parallel size or expert parallelism (a layout with -ep); layout_info lists valid ones.",
    ),
    _rule(
        "expert-parallel-on-dense",
        r"Number of experts in the model must be greater than 0",
        "The model has no experts: choose a layout without -ep.",
    ),
    _rule(
        "not-divisible",
        r"must be divisible by|is not divisible by|Tensor parallel size \d+ is greater than the number of experts",
        "Choose another layout; layout_info lists the valid ones with the numbers.",
    ),
    _rule(
        "too-few-gpus",
        r"larger than the number of available GPUs",
        "Choose a layout with no more ranks than the node has GPUs, and check CUDA_VISIBLE_DEVICES in serve_env.",
    ),
    _rule(
        "gpu-memory-occupied",
        r"Free memory on device .* is less than desired",
        "Another process holds GPU memory: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv names it."
        " Stop it, or lower serve_gpu_memory_utilization.",
    ),
    _rule(
        "kv-cache-too-small",
        r"To serve at least one request with the model's max seq len",
        "Set serve_max_model_len to no more than the estimated maximum in the line, or raise"
        " serve_gpu_memory_utilization, or use serve_kv_cache_dtype fp8.",
    ),
    _rule(
        "no-kv-cache-memory",
        r"No available memory for the cache blocks",
        "The weights leave no memory for the KV cache: use more GPUs per replica or a smaller quantization.",
    ),
    _rule(
        "max-model-len-too-long",
        r"is greater than the derived max_model_len",
        "Lower serve_max_model_len to the derived value in the line.",
    ),
    _rule(
        "gpu-out-of-memory",
        r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|CUDA error: out of memory",
        "Lower serve_gpu_memory_utilization, serve_max_num_seqs or serve_max_model_len, or set enforce-eager.",
    ),
    _rule(
        "port-in-use",
        r"\[Errno 98\]|[Aa]ddress already in use",
        "Another process listens on the port: ss -ltnp names it. Stop it or set serve_port.",
    ),
    _rule(
        "weights-missing",
        r"Weight files referenced in index but missing|Cannot find any model weights",
        "The snapshot is incomplete: run the role modelops.vllm.weights again.",
    ),
    _rule(
        "weights-corrupt",
        r"SafetensorError|Error while deserializing header|MetadataIncompleteBuffer|HeaderTooLarge",
        "A weight file is damaged: run the role modelops.vllm.weights again, which verifies every byte.",
    ),
    _rule(
        "weights-do-not-fit-model",
        r"There is no module or parameter named|Following weights were not initialized from checkpoint",
        "The weights are not those of this architecture or version: check repo_id and revision.",
    ),
    _rule(
        "model-path-missing",
        r"Repo id must be in the form|is not a local folder and is not a valid model identifier",
        "The model directory does not exist for the service user: check serve_model_dir and its permissions.",
    ),
    _rule(
        "remote-code-refused",
        r"contains custom code which must be executed|trust_remote_code=True|--trust-remote-code",
        "The model needs its own Python code: set serve_trust_remote_code after reading it, with a pinned revision.",
    ),
    _rule(
        "architecture-unknown",
        r"Model architectures \[.*\] (are not supported|failed to be inspected)"
        r"|does not recognize this architecture|has no vLLM implementation",
        "Install a vLLM version that knows the model.",
    ),
    _rule(
        "no-attention-backend",
        r"No valid attention backend",
        "This vLLM has no attention kernel for the model on these GPUs: install a newer one (sparse MLA on compute"
        " capability 12.x needs 0.24), or take attention-backend out of serve_args.",
    ),
    _rule(
        "no-kernel-for-gpu",
        r"no kernel image is available",
        "The installed build has no code for this GPU: install a vLLM and torch built for its compute capability.",
    ),
    _rule(
        "nccl",
        r"NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError",
        "Set NCCL_DEBUG=INFO in serve_env. On PCIe nodes check IOMMU and ACS, or set NCCL_P2P_DISABLE=1 together with"
        " disable-custom-all-reduce.",
    ),
    _rule(
        "illegal-memory-access",
        r"illegal memory access",
        "Set compilation-config to {cudagraph_mode: PIECEWISE} in serve_args and report it to vLLM.",
    ),
    _rule(
        "gpu-driver",
        r"No CUDA GPUs are available|Failed to infer device type|CUDA driver version is insufficient"
        r"|CUDA unknown error",
        "vLLM sees no GPU: check nvidia-smi, the driver version and CUDA_VISIBLE_DEVICES.",
    ),
    _rule(
        "shared-memory-too-small",
        r"/dev/shm|[Ss]hared memory .*(required|insufficient|free)",
        "/dev/shm is too small or full: df /dev/shm; remove stale nccl-* files while nothing runs, in containers raise"
        " the shm size.",
        "hint",
    ),
    _rule(
        "disk-full",
        r"No space left on device",
        "A file system is full: df shows which; the caches are below serve_state_dir.",
        "hint",
    ),
    _rule(
        "permission-denied",
        r"PermissionError: \[Errno 13\]",
        "Make the path in the line readable (caches: writable) for serve_user.",
        "hint",
    ),
    _rule(
        "engine-start-timeout",
        r"Timed out waiting for engine core",
        "Set VLLM_ENGINE_READY_TIMEOUT_S in serve_env to serve_ready_timeout: several API servers count the load.",
    ),
    _rule(
        "engine-args-differ",
        r"Configuration mismatch detected for engine",
        "All ranks must run with the same args and the same vLLM.",
    ),
    _rule(
        "python-package-broken",
        r"^(ModuleNotFoundError|ImportError): |undefined symbol|cannot open shared object file",
        "The vLLM installation is incomplete: install it anew into an empty venv.",
        "hint",
    ),
    _rule(
        "host-out-of-memory",
        r"killed by the OOM killer|result 'oom-kill'",
        "The node ran out of memory: free some, or lower what the host caches (cpu-offload-gb, swap, KV offload).",
        "hint",
    ),
    _rule(
        "native-crash",
        r"Fatal Python error: (Segmentation fault|Aborted)|^Segmentation fault|died unexpectedly \(exit code: -?[1-9]",
        "A kernel crashed: the lines before it say where; try enforce-eager and another attention-backend.",
        "hint",
    ),
    _rule(
        "engine-core-failed",
        r"Engine core initialization failed|WorkerProc initialization failed|EngineCore failed to start"
        r"|WorkerProc failed to start|died unexpectedly \(exit code: None\)",
        "The cause stands earlier in the journal of the unit.",
        "wrapper",
    ),
    _rule(
        "engine-dead",
        r"EngineDeadError|EngineCore encountered an issue|EngineCore encountered a fatal error",
        "The engine died while serving: the lines before it say why.",
        "wrapper",
    ),
)

# "(EngineCore pid=7) ERROR 11-30 03:10:24 [core.py:1510] text"; the process tag and the level may be missing.
_PREFIX = re.compile(
    r"^(?:\([\w-]+(?: pid=\d+)?\)\s*)*(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:.]+ \[[^\]]*\] ?)?"
)
# What an error looks like where no logger prefixed it: the last line of a traceback, argparse, pydantic, the runtime.
_RAW_ERROR = re.compile(
    r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b|Exception: |\S+(?: \S+)?: error: |  Value error, "
    r"|Fatal Python error|Segmentation fault|terminate called"
    r"|(?:\S+: )+(?:A process of this unit has been killed|Failed with result 'oom-kill'))"
)
_NOISE = re.compile(r"Traceback \(most recent call last\)|During handling of the above|The above exception was")
_LOGGED_ERROR = ("ERROR", "CRITICAL")
_LINE_LIMIT = 2000


def error_text(line: str) -> str | None:
    """The text of a line that may report an error, without its prefix; None for every other line.

    A warning may quote the very words of a fatal line (vLLM warns of "OSError: [Errno 24]" at each start where
    the limit of open files is low), so logged lines below ERROR never count, and plain lines must look like one.
    """
    match = _PREFIX.match(line)
    level = match["level"] if match else None
    text = line[match.end() :] if match else line
    if level is None:
        return text if _RAW_ERROR.match(text) else None
    if level not in _LOGGED_ERROR or _NOISE.match(text) or not text.strip():
        return None
    return text if not text.startswith(" ") or text.startswith("  Value error, ") else None


def _rank(text: str, kind: Kind) -> int | None:
    return next((i for i, rule in enumerate(RULES) if rule.kind == kind and rule.pattern.search(text)), None)


def _best(texts: t.Iterable[str], kind: Kind) -> Cause | None:
    """The first line of the rule that stands first in the table."""
    best: tuple[int, str] | None = None
    for text in texts:
        rank = _rank(text, kind)
        if rank is not None and (best is None or rank < best[0]):
            best = (rank, text)
    return None if best is None else _cause(RULES[best[0]], best[1])


def _cause(rule: Rule, text: str) -> Cause:
    return Cause(rule.id, text.strip()[:_LINE_LIMIT], rule.remedy)


def fatal(lines: t.Iterable[str]) -> Cause | None:
    """The cause of a start that is lost, while it still runs."""
    return _best(filter(None, map(error_text, lines)), "fatal")


def wrapper(lines: t.Iterable[str]) -> Cause | None:
    """A line that says that the engine failed; the line that says why may still come."""
    return _best(filter(None, map(error_text, lines)), "wrapper")


def postmortem(lines: t.Iterable[str]) -> Cause | None:
    """Why a start that has ended did so: a fatal line, else the last error that is no mere wrapper, else that one."""
    texts = [text for text in map(error_text, lines) if text]
    found = _best(texts, "fatal")
    if found is not None:
        return found
    last = next((text for text in reversed(texts) if _rank(text, "wrapper") is None), None)
    if last is None:
        return _best(texts, "wrapper")
    rank = _rank(last, "hint")
    if rank is not None:
        return _cause(RULES[rank], last)
    return Cause("unclassified", last.strip()[:_LINE_LIMIT], "No rule knows this error: the journal has its traceback.")

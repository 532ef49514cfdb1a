# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What vLLM says about itself while it starts: the real figures, to be returned and compared with the plan."""

from __future__ import annotations

import re
import typing as t

# name and pattern; several ranks and engines (DP) log a line each, see _SMALLEST
_FIGURES: t.Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    # GiB of one GPU, every rank logs it
    ("weights_gib", re.compile(r"Model loading took ([\d.]+) GiB")),
    ("weights_load_seconds", re.compile(r"Loading weights took ([\d.]+) seconds")),
    ("kv_cache_gib", re.compile(r"Available KV cache memory: ([\d.]+) GiB")),
    # "GPU KV cache size: 1,234 tokens", of one engine; the CPU build says CPU, 0.32 puts the concurrency behind it
    ("kv_tokens", re.compile(r"KV cache size: ([\d,]+) tokens")),
    ("max_concurrency", re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")),
    # with --max-model-len auto the engine shortens it later
    ("max_model_len", re.compile(r"(?:Using max model len|Auto-fit max_model_len: reduced from \d+ to) (\d+)")),
    ("init_seconds", re.compile(r"init engine \([^)]*\) took ([\d.]+) s")),
    ("compile_seconds", re.compile(r"torch\.compile took ([\d.]+) s in total")),
    ("graph_capture_seconds", re.compile(r"Graph capturing finished in ([\d.]+) secs")),
)
_INTEGERS: t.Final = frozenset({"kv_tokens", "max_model_len"})
# The scarcest rank limits the engine; for times and weights the largest rank counts.
_SMALLEST: t.Final = frozenset({"kv_cache_gib", "kv_tokens", "max_concurrency", "max_model_len"})
_VERSION = re.compile(r"Initializing a V1 LLM engine \(v([^)\s]+)\)")


def figures(lines: t.Iterable[str]) -> dict[str, int | float | str]:
    """The figures that the log holds; a key is missing where the log has no such line.

    Over several ranks: the smallest KV cache, the largest weights and times.
    """
    found: dict[str, list[float]] = {}
    result: dict[str, int | float | str] = {}
    for line in lines:
        for name, pattern in _FIGURES:
            match = pattern.search(line)
            if match is not None:
                found.setdefault(name, []).append(float(match[1].replace(",", "")))
        version = _VERSION.search(line)
        if version is not None:
            result["vllm_version"] = version[1]
    for name, values in found.items():
        value = min(values) if name in _SMALLEST else max(values)
        result[name] = int(value) if name in _INTEGERS else value
    return result

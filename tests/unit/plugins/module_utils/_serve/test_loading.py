# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a start is, as its log says it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve.loading import stage

# In the order in which vLLM 0.32.0 prints them
LINES = [
    ("(APIServer pid=1) INFO 01-02 03:04:05 [model.py:2152] Using max model len 196608", "reading the configuration"),
    (
        "(EngineCore pid=2) INFO 01-02 03:04:05 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: x",
        "starting the engine",
    ),
    ("(Worker_TP0 pid=3) INFO 01-02 03:04:05 [r.py:5040] Starting to load model /srv/models/m...", "making the model"),
    (
        "Loading safetensors checkpoint shards:  45% Completed | 57/126 [01:10<01:24,  1.22s/it]",
        "loading weights: 57 of 126 shards (45 %)",
    ),
    (
        "Multi-thread loading shards: 100% Completed | 8/8 [00:00<00:00, 239.90it/s]",
        "loading weights: 8 of 8 shards (100 %)",
    ),
    ("(Worker_TP0 pid=3) INFO x [d.py:501] Loading weights took 61.20 seconds", "weights read in 61.20 s"),
    ("(Worker_TP0 pid=3) INFO x Model loading took 53.75 GiB memory and 61.2 seconds", "weights loaded: 53.75 GiB"),
    ("(Worker_TP0 pid=3) INFO x Using cache directory: /c/x for vLLM's torch.compile", "compiling kernels"),
    ("(Worker_TP0 pid=3) INFO x torch.compile took 41.07 s in total", "kernels compiled in 41.07 s"),
    ("(Worker_TP0 pid=3) INFO x Available KV cache memory: 23.62 GiB", "memory profiled: 23.62 GiB for the KV cache"),
    ("(EngineCore pid=2) INFO x GPU KV cache size: 399,616 tokens, Maximum", "KV cache made: 399,616 tokens"),
    (
        "Capturing CUDA graphs (decode, FULL):  46%|####6     | 16/35 [00:02<00:02,  8.02it/s]",
        "capturing CUDA graphs: 16 of 35",
    ),
    ("(Worker_TP0 pid=3) INFO x Graph capturing finished in 21 secs, took 0.84 GiB", "CUDA graphs captured in 21 s"),
    (
        "(EngineCore pid=2) INFO x init engine (profile, create kv cache, warmup model) took 88.31 s",
        "the engine is up, the API server starts",
    ),
    ("INFO:     Application startup complete.", "the API server is up"),
]


@pytest.mark.parametrize("count", range(1, len(LINES) + 1))
def test_the_last_line_that_says_something_counts(count: int) -> None:
    lines = [line for line, _text in LINES[:count]]
    assert LINES[count - 1][1] in stage([*lines, "", "(Worker pid=1) WARNING x something else"])


def test_a_log_that_says_nothing() -> None:
    assert stage([]) == ""
    assert stage(["Triton is installed, but doesn't include CPU backend. Disabling Triton."]) == ""


def test_a_real_log(load_fixture: t.Callable[[str], str]) -> None:
    lines = load_fixture("vllm_logs/good.txt").splitlines()
    seen = [stage(lines[: i + 1]) for i in range(len(lines))]
    assert list(dict.fromkeys(seen)) == [
        "",
        "reading the configuration of the model",
        "starting the engine",
        "making the model",
        "loading weights: 0 of 8 shards (0 %)",
        "loading weights: 8 of 8 shards (100 %)",
        "weights read in 0.04 s",
        "KV cache made: 32,768 tokens",
        "the engine is up, the API server starts",
        "the API server is up",
    ]

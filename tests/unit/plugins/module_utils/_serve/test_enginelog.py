# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of the log."""

from __future__ import annotations

import typing as t

from ansible_collections.modelops.vllm.plugins.module_utils._serve.enginelog import figures


def test_a_real_start_on_cpu(load_fixture: t.Callable[[str], str]) -> None:
    assert figures(load_fixture("vllm_logs/good.txt").splitlines()) == {
        "vllm_version": "0.32.0",
        "max_model_len": 1024,
        "weights_load_seconds": 0.04,
        "kv_tokens": 32768,
        "max_concurrency": 32.0,
        "init_seconds": 0.21,
    }


def test_the_scarcest_rank_limits_and_the_largest_weighs() -> None:
    # The wording of vLLM 0.32.0's GPU workers (v1/worker/gpu_model_runner.py, gpu_worker.py, kv_cache_utils.py).
    lines = [
        "(Worker_TP0 pid=1) INFO x Model loading took 53.75 GiB memory and 61.2 seconds",
        "(Worker_TP1 pid=2) INFO x Model loading took 53.7 GiB memory and 60.0 seconds",
        "(Worker_TP0 pid=1) INFO x Available KV cache memory: 23.62 GiB",
        "(Worker_TP1 pid=2) INFO x Available KV cache memory: 23.5 GiB",
        "(EngineCore pid=3) INFO x GPU KV cache size: 399,616 tokens,"
        " Maximum concurrency for 196,608 tokens per request: 2.03x",
        "(Worker_TP0 pid=1) INFO x torch.compile took 41.07 s in total",
        "(Worker_TP0 pid=1) INFO x Graph capturing finished in 21 secs, took 0.84 GiB",
        "(EngineCore pid=3) INFO x init engine (profile, create kv cache, warmup model) took 88.31 s",
    ]
    assert figures(lines) == {
        "weights_gib": 53.75,
        "kv_cache_gib": 23.5,
        "kv_tokens": 399616,
        "max_concurrency": 2.03,
        "compile_seconds": 41.07,
        "graph_capture_seconds": 21.0,
        "init_seconds": 88.31,
    }


def test_a_context_that_vllm_fitted_to_the_memory_counts() -> None:
    lines = [
        "(APIServer pid=1) INFO x [model.py:2152] Using max model len 196608",
        "(EngineCore pid=3) INFO x Auto-fit max_model_len: reduced from 196608 to 131072 to fit in 20 GiB",
    ]
    assert figures(lines) == {"max_model_len": 131072}


def test_an_empty_log_has_none() -> None:
    assert figures([]) == {}

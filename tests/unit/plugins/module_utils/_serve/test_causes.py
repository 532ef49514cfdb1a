# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes of failed starts, from the logs of vLLM 0.32.0 (CPU) started with each fault (fixtures/vllm_logs)."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import causes

Load = t.Callable[[str], str]


@pytest.mark.parametrize(
    ("log", "id_"),
    [
        ("unknown_flag", "unknown-flag"),
        ("heads", "heads-not-divisible"),
        ("unknown_parser", "tool-parser-unknown"),
        ("max_model_len", "max-model-len-too-long"),
        ("kv_too_small", "kv-cache-too-small"),
        ("missing_path", "model-path-missing"),
        ("missing_shard", "weights-missing"),
        ("truncated_shard", "weights-corrupt"),
        ("expert_parallel_on_dense", "expert-parallel-on-dense"),
        ("unknown_architecture", "architecture-unknown"),
        ("port_taken", "port-in-use"),
    ],
)
def test_the_log_of_a_fault_names_its_cause(load_fixture: Load, log: str, id_: str) -> None:
    found = causes.fatal(load_fixture(f"vllm_logs/{log}.txt").splitlines())
    assert found is not None
    assert found.id == id_
    assert found.remedy
    assert not found.line.startswith("(")


def test_the_log_of_a_good_start_names_none(load_fixture: Load) -> None:
    lines = load_fixture("vllm_logs/good.txt").splitlines()
    assert "[Errno 24] Too many open files" in "\n".join(lines)  # quoted by a warning
    assert causes.fatal(lines) is None
    assert causes.wrapper(lines) is None
    assert causes.postmortem(lines) is None


# One line a rule: what vLLM 0.32.0, torch, NCCL and systemd print (texts from their sources).
LINES = {
    "unknown-flag": "vllm: error: unrecognized arguments: --swap-space 4",
    "bad-flag-value": "vllm serve: error: argument --seed: invalid int value: 'x'",
    "quant-block-not-divisible": "ValueError: Weight output_partition_size = 192 is not divisible by weight"
    " quantization block_n = 128.",
    "not-divisible": "(Worker_TP0 pid=9) ERROR 01-02 03:04:05 [x.py:1] AssertionError: 6 is not divisible by 4",
    "too-few-gpus": "  Value error, World size (8) is larger than the number of available GPUs (4) in this node.",
    "gpu-memory-occupied": "(EngineCore pid=7) ERROR 01-02 03:04:05 [c.py:9] ValueError: Free memory on device"
    " cuda:0 (3.1/94.97 GiB) on startup is less than desired GPU memory utilization (0.92, 87.4 GiB).",
    "no-kv-cache-memory": "ValueError: No available memory for the cache blocks. Try increasing it.",
    "gpu-out-of-memory": "(Worker_TP3 pid=9) ERROR 01-02 03:04:05 [w.py:1] torch.OutOfMemoryError: CUDA out of memory.",
    "weights-do-not-fit-model": "ValueError: There is no module or parameter named 'x' in M",
    "remote-code-refused": "ValueError: The repository /m contains custom code which must be executed to load it.",
    "no-attention-backend": "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig()",
    "no-kernel-for-gpu": "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    "nccl": "torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.hpp:1, unhandled cuda error, NCCL 2.27",
    "illegal-memory-access": "RuntimeError: CUDA error: an illegal memory access was encountered",
    "gpu-driver": "RuntimeError: Failed to infer device type, please set VLLM_LOGGING_LEVEL=DEBUG",
    "engine-start-timeout": "TimeoutError: Timed out waiting for engine core processes to start.",
    "engine-args-differ": "RuntimeError: Configuration mismatch detected for engine 1.",
}


@pytest.mark.parametrize(("id_", "line"), LINES.items())
def test_each_fatal_rule_knows_its_line(id_: str, line: str) -> None:
    found = causes.fatal([line])
    assert found is not None
    assert found.id == id_


@pytest.mark.parametrize(
    ("id_", "line"),
    [
        ("host-out-of-memory", "systemd: vllm-main.service: A process of this unit has been killed by the OOM killer."),
        ("permission-denied", "PermissionError: [Errno 13] Permission denied: '/.cache'"),
        ("disk-full", "OSError: [Errno 28] No space left on device"),
        (
            "shared-memory-too-small",
            "RuntimeError: Insufficient space in /dev/shm for x: 160 MiB required, 62 MiB free.",
        ),
        ("python-package-broken", "ModuleNotFoundError: No module named 'torch'"),
        ("native-crash", "Fatal Python error: Segmentation fault"),
        ("unclassified", "RuntimeError: something new"),
    ],
)
def test_hints_explain_an_end_and_never_cause_one(id_: str, line: str) -> None:
    assert causes.fatal([line]) is None
    found = causes.postmortem([line])
    assert found is not None
    assert found.id == id_


def test_the_last_error_counts_and_no_wrapper_around_it() -> None:
    prefix = "(Worker pid=1) ERROR 01-02 03:04:05 [a.py:1] "
    lines = [
        prefix + "PermissionError: [Errno 13] Permission denied: '/cache'",  # vLLM goes on without that cache
        prefix + "WorkerProc failed to start.",
        prefix + "Traceback (most recent call last):",
        prefix + '  File "x.py", line 1, in f',
        prefix + "ZeroDivisionError: division by zero",
        prefix + "Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor.",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]
    found = causes.postmortem(lines)
    assert found is not None
    assert (found.id, found.line) == ("unclassified", "ZeroDivisionError: division by zero")
    only_wrapper = causes.postmortem(lines[-1:])
    assert only_wrapper is not None
    assert only_wrapper.id == "engine-core-failed"


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore pid=1) WARNING 01-02 03:04:05 [a.py:1] CUDA out of memory, retrying with a smaller batch",
        "(Worker pid=1) INFO 01-02 03:04:05 [a.py:1] Address already in use, trying the next port",
        "(EngineCore pid=1) INFO 01-02 03:04:05 [a.py:1] No available shared memory broadcast block found",
        "(Worker pid=1) WARNING 01-02 03:04:05 [a.py:1] Using default MoE config. Performance might be sub-optimal!",
        '    raise ValueError("must be divisible by")',
        'INFO:     127.0.0.1:1 - "GET /must-be-divisible-by HTTP/1.1" 404 Not Found',
        "",
    ],
)
def test_harmless_lines_name_none(line: str) -> None:
    assert causes.fatal([line]) is None
    assert causes.postmortem([line]) is None


def test_every_rule_has_a_remedy_and_an_id_of_its_own() -> None:
    ids = [rule.id for rule in causes.RULES]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9-]+", i) for i in ids)
    assert all(rule.remedy.endswith(".") for rule in causes.RULES)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes of failed starts, from the logs of vLLM 0.32.0 (CPU) started with each fault (fixtures/vllm_logs)."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import causes

FIXTURES = Path(__file__).parents[3] / "fixtures"
Load = t.Callable[[str], str]


LOGS = {
    "unknown_flag": "unknown-flag",
    "heads": "heads-not-divisible",
    "unknown_parser": "tool-parser-unknown",
    "max_model_len": "max-model-len-too-long",
    "kv_too_small": "kv-cache-too-small",
    "missing_path": "model-path-missing",
    "missing_shard": "weights-missing",
    "truncated_shard": "weights-corrupt",
    "expert_parallel_on_dense": "expert-parallel-on-dense",
    "unknown_architecture": "architecture-unknown",
    "port_taken": "port-in-use",
    "config_damaged": "model-config-unreadable",
}


@pytest.mark.parametrize(("log", "id_"), LOGS.items())
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


LOGGED = "(Worker_TP0 pid=9) ERROR 01-02 03:04:05 [x.py:1] "


def pairs(name: str) -> list[tuple[str, str]]:
    """The causes and lines of a file in tests/unit/fixtures."""
    rows = (FIXTURES / name).read_text(encoding="utf-8").splitlines()
    return [(id_, line) for id_, tab, line in (row.partition("\t") for row in rows) if tab and not id_.startswith("#")]


FATAL_LINES, HINT_LINES = pairs("causes_fatal.tsv"), pairs("causes_hints.tsv")


@pytest.mark.parametrize(("id_", "line"), FATAL_LINES)
def test_each_fatal_rule_knows_its_line(id_: str, line: str) -> None:
    found = causes.fatal([line])
    assert found is not None
    assert found.id == id_


TAGS = (
    "(APIServer pid=3) ",
    "(EngineCore_DP0 pid=3) ",
    "(Worker_DP1_TP0_EP4 pid=3) ",
    "(VllmWorker TP0 pid=3) ",
    "(VllmWorker rank=0 pid=3) ",
    "(EngineCore pid=3) (Worker_TP0 pid=7) ",
    "[rank0]: ",
    "(Worker_TP0 pid=3) [rank12]: ",
)
# What vLLM does not log, but prints: argparse, pydantic, tracebacks. Lines of torch's C++ code have their own tag.
PRINTED = [(id_, line) for id_, line in FATAL_LINES if not re.match(r"\(|\[|ERROR \d|systemd:|time=", line)]
ASSERTION = (
    "Traceback (most recent call last):",
    '  File "/opt/vllm/lib/vllm/model_executor/models/minimax_m2.py", line 162, in __init__',
    "    assert self.total_num_kv_heads % tp_size == 0",
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    "AssertionError",
)


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize(("id_", "line"), PRINTED)
def test_a_line_that_its_process_has_tagged_is_known_as_the_plain_one(id_: str, line: str, tag: str) -> None:
    found, plain = causes.fatal([tag + line]), causes.fatal([line])
    assert found == plain
    assert found is not None
    assert found.id == id_


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("tag", TAGS)
def test_a_whole_log_with_other_tags_names_the_same_cause(load_fixture: Load, log: str, tag: str) -> None:
    lines = load_fixture(f"vllm_logs/{log}.txt").splitlines()
    bare = [re.sub(r"^(?:\(\w+ pid=\d+\) )?(?:(?:ERROR|CRITICAL) [\d-]+ [\d:]+ \[[^\]]*\] ?)?", "", x) for x in lines]
    found, plain = causes.fatal(lines), causes.fatal([tag + line for line in bare])
    assert found is not None
    assert plain is not None
    assert (plain.id, plain.line) == (found.id, found.line)


@pytest.mark.parametrize("tag", TAGS)
def test_a_bare_assertion_of_a_tagged_process_is_shown_with_its_source(tag: str) -> None:
    found = causes.fatal([tag + line for line in ASSERTION])
    assert found is not None
    assert found.id == "kv-heads-not-divisible"
    assert found.line == "AssertionError (minimax_m2.py:162: assert self.total_num_kv_heads % tp_size == 0)"


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_makes_no_error_of_a_line_that_is_none(tag: str) -> None:
    quiet = ['    raise ValueError("must be divisible by")', "WARNING: CUDA out of memory", "", "loading (1 of 2)"]
    assert causes.postmortem([tag + line for line in quiet]) is None


@pytest.mark.parametrize(("id_", "line"), HINT_LINES)
def test_hints_explain_an_end_and_never_cause_one(id_: str, line: str) -> None:
    assert causes.fatal([line]) is None
    found = causes.postmortem([line])
    assert found is not None
    assert found.id == id_


def test_every_rule_has_a_line_here_or_in_a_log() -> None:
    known = {id_ for id_, _line in [*FATAL_LINES, *HINT_LINES]} | set(LOGS.values())
    assert {rule.id for rule in causes.RULES} - known == set()


def test_a_start_that_was_told_to_end_was_stopped() -> None:
    # vLLM 0.32.0 with SIGTERM while it loads
    lines = [
        "(EngineCore pid=3) INFO 11-30 10:30:10 [core.py:1454] [shutdown] EngineCore: trigger received signal=SIGTERM",
        "(EngineCore pid=3) ERROR 11-30 10:30:10 [core.py:1510] EngineCore failed to start.",
        "Exception: WorkerProc initialization failed due to an exception in a background process.",
    ]
    found = causes.postmortem(lines)
    assert found is not None
    assert (found.id, found.line) == ("stopped", lines[0])
    stopped = causes.postmortem(["systemd: Stopping vllm-main.service - vLLM..."])
    assert stopped is not None
    assert stopped.id == "stopped"
    other = causes.postmortem([*lines, "RuntimeError: something new"])
    assert other is not None
    assert other.id == "unclassified"


def test_how_a_process_ended_says_less_than_what_it_printed() -> None:
    ended = "systemd: vllm-main.service: Main process exited, code=killed, status=9/KILL"
    found = causes.postmortem(["RuntimeError: something new", ended])
    assert found is not None
    assert (found.id, found.line) == ("unclassified", "RuntimeError: something new")
    plain = ["systemd: vllm-main.service: Main process exited, code=exited, status=1/FAILURE"]
    assert causes.postmortem([*plain, "systemd: vllm-main.service: Failed with result 'exit-code'."]) is None


def test_an_exception_without_a_message_is_shown_with_the_line_that_raised_it() -> None:
    other = "(Worker_TP1 pid=8) ERROR 01-02 03:04:05 [x.py:1] "
    lines = [
        LOGGED + "Traceback (most recent call last):",
        LOGGED + '  File "/opt/vllm/lib/vllm/model_executor/models/minimax_m2.py", line 162, in __init__',
        other + '  File "/opt/vllm/lib/vllm/v1/worker.py", line 1, in f',
        other + "    something_else()",
        LOGGED + "    assert self.total_num_kv_heads % tp_size == 0",
        LOGGED + "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        LOGGED + "AssertionError",
    ]
    found = causes.fatal(lines)
    assert found is not None
    assert found.id == "kv-heads-not-divisible"
    assert found.line == "AssertionError (minimax_m2.py:162: assert self.total_num_kv_heads % tp_size == 0)"
    alone = causes.postmortem(["ValueError:"])
    assert alone is not None
    assert alone.line == "ValueError:"


@pytest.mark.parametrize(
    "head",
    [
        "NVLink detection failed. This is normal if your machine has no NVLink equipped.",
        "Error saving model info cache.",
        "Weight cache IPC loading failed; falling back to disk loading",
        "JIT kernel warmup failed after 3.20s.",
        "Failed to initialize FlashInfer Allreduce norm fusion workspace with backend=trtllm",
        "Failed to load NCCL library from libnccl.so.2. It is expected if you are not running on NVIDIA/AMD GPUs.",
    ],
)
def test_errors_that_vllm_goes_on_after_say_nothing_with_all_their_traceback(head: str) -> None:
    lines = [
        LOGGED + head,
        LOGGED + "Traceback (most recent call last):",
        LOGGED + '  File "x.py", line 1, in f',
        LOGGED + "RuntimeError: CUDA error: out of memory",
    ]
    assert causes.fatal(lines) is None
    assert causes.postmortem(lines) is None
    found = causes.fatal(
        [*lines, "(Worker_TP0 pid=9) ERROR 01-02 03:04:06 [y.py:7] RuntimeError: CUDA error: out of memory"]
    )
    assert found is not None
    assert found.id == "gpu-out-of-memory"


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


def test_a_worker_that_crashes_says_more_than_the_engine_that_misses_it() -> None:
    # vLLM 0.32.0 on CPUs, expert parallelism, at its first request
    lines = [
        'INFO:     127.0.0.1:42026 - "GET /v1/models HTTP/1.1" 200 OK',
        "!!!!!!! Segfault encountered !!!!!!!",
        '  File "/tmp/vllm/csrc/cpu/cpu_fused_moe.cpp", line 709, in operator()',
        "(EngineCore pid=7) ERROR 01-02 03:04:05 [multiproc_executor.py:315] Worker proc VllmWorker-1 died unexpectedly"
        " (exit code: None), shutting down executor.",
        "(EngineCore pid=7) ERROR 01-02 03:04:05 [dump_input.py:72] Dumping input data for V1 LLM engine (v0.32.0)",
        '(EngineCore pid=7) ERROR 01-02 03:04:05 [core.py:1512]     raise RuntimeError("cancelled")',
        "(EngineCore pid=7) ERROR 01-02 03:04:05 [core.py:1512] RuntimeError: cancelled",
        "(APIServer pid=6) ERROR 01-02 03:04:05 [async_llm.py:1] vllm.v1.engine.exceptions.EngineDeadError: EngineCore",
    ]
    assert causes.fatal(lines) is None
    found = causes.postmortem(lines)
    assert found is not None
    assert (found.id, found.line) == ("native-crash", "!!!!!!! Segfault encountered !!!!!!!")


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore pid=1) WARNING 01-02 03:04:05 [a.py:1] CUDA out of memory, retrying with a smaller batch",
        "(Worker pid=1) INFO 01-02 03:04:05 [a.py:1] Address already in use, trying the next port",
        "(EngineCore pid=1) INFO 01-02 03:04:05 [a.py:1] No available shared memory broadcast block found",
        "(Worker pid=1) WARNING 01-02 03:04:05 [a.py:1] Using default MoE config. Performance might be sub-optimal!",
        '    raise ValueError("must be divisible by")',
        "[rank0]:[W1130 03:08:50.169418363 ProcessGroupNCCL.cpp:1505] destroy_process_group() was not called",
        "[W1130 10:05:32.729697192 socket.cpp:494] [c10d] waitForInput: socket timed out after 3000ms",
        'time="2026-11-30T10:09:11Z" level=warning msg="Failed, retrying in 1s ... (1/3). Error: pinging x"',
        "systemd: Started vllm-main.service - vLLM.",
        'INFO:     127.0.0.1:1 - "GET /must-be-divisible-by HTTP/1.1" 404 Not Found',
        "",
    ],
)
def test_harmless_lines_name_none(line: str) -> None:
    assert causes.fatal([line]) is None
    assert causes.postmortem([line]) is None


@pytest.mark.parametrize(
    "line",
    [
        "(Worker_TP0 pid=9) WARNING 01-02 03:04:05 [x.py:1] Using default MoE config. Performance might be sub-optimal!"
        " Config file not found at /opt/vllm/configs/E=256,N=192,device_name=NVIDIA.json",
        "(APIServer pid=9) WARNING 01-02 03:04:05 [x.py:1] FileNotFoundError: [Errno 2] No such file or directory:"
        " '/m/generation_config.json'",
        "(APIServer pid=9) INFO 01-02 03:04:05 [x.py:1] No such file or directory: '/m/chat_template.jinja'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/srv/cache/triton/ABC/__grp__fused_moe_kernel.json'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/opt/tuned/E=256,N=192,device_name=NVIDIA.json'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'numactl'",
    ],
)
def test_a_file_that_may_be_missing_ends_no_wait(line: str) -> None:
    assert causes.fatal([line]) is None


def test_every_rule_has_a_remedy_and_an_id_of_its_own() -> None:
    ids = [rule.id for rule in causes.RULES]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9-]+", i) for i in ids)
    assert all(rule.remedy.endswith(".") for rule in causes.RULES)

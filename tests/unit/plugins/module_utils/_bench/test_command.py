# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client's command line and environment."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import command
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import Measurement, Point
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError

TARGET = command.Target("http://127.0.0.1:8000", "served", "/models/m")
MEASUREMENT = Measurement(Point(8, 512, 128, 80), repeat=2, seed=42)


def value(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


@pytest.mark.case("endpoint-mismatch", "auth-models-lookup", "ignore-eos-missing", "readiness-default-off")
def test_nothing_is_left_to_a_default() -> None:
    arguments = command.bench_arguments(TARGET, MEASUREMENT, "/tmp/x", "python")
    assert arguments[:2] == ["bench", "serve"]
    # endpoint-mismatch, auth-models-lookup: both always together with backend and model
    expected = {
        "--backend": "openai",
        "--endpoint": "/v1/completions",
        "--base-url": "http://127.0.0.1:8000",
        "--model": "served",
        "--tokenizer": "/models/m",
        "--dataset-name": "random",
        "--random-input-len": "512",
        "--random-output-len": "128",
        "--random-range-ratio": "0",
        "--num-prompts": "80",
        "--max-concurrency": "8",
        "--request-rate": "inf",
        "--temperature": "0",
        "--seed": "42",
        "--ready-check-timeout-sec": "0",
        "--result-filename": "c8-i512-o128-n80-r2.json",
    }
    assert {flag: value(arguments, flag) for flag in expected} == expected
    assert {"--ignore-eos", "--save-result", "--save-detailed"} <= set(arguments)


@pytest.mark.case("warmup-uses-first-prompt")
def test_the_first_prompt_is_never_used_for_a_warm_up() -> None:
    # warmup-uses-first-prompt
    assert "--num-warmups" not in command.bench_arguments(TARGET, MEASUREMENT, "/tmp/x", "python")


def test_the_rust_client_sends_token_ids() -> None:
    assert "--prompt-token-ids" in command.bench_arguments(TARGET, MEASUREMENT, "/tmp/x", "rust")
    assert "--prompt-token-ids" not in command.bench_arguments(TARGET, MEASUREMENT, "/tmp/x", "python")


def test_code_of_the_tokenizer_runs_only_when_asked() -> None:
    trusted = command.Target("http://h", "m", "/t", trust_remote_code=True)
    assert "--trust-remote-code" in command.bench_arguments(trusted, MEASUREMENT, "/tmp/x", "python")
    assert "--trust-remote-code" not in command.bench_arguments(TARGET, MEASUREMENT, "/tmp/x", "python")


def test_the_environment_is_explicit_and_carries_the_key() -> None:
    inherited = {"PATH": "/bin", "http_proxy": "http://proxy", "VLLM_USE_V1": "0", "HF_TOKEN": "hf_x", "HOME": "/root"}
    environment = command.bench_environment(inherited, "10.0.0.5", "key-1")
    assert environment["PATH"] == "/bin"
    assert environment["OPENAI_API_KEY"] == "key-1"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["NO_PROXY"] == environment["no_proxy"] == "10.0.0.5"
    assert not {"http_proxy", "VLLM_USE_V1", "HF_TOKEN"} & set(environment)
    assert "OPENAI_API_KEY" not in command.bench_environment(inherited, "h", None)


@pytest.mark.parametrize(
    ("text", "version"),
    [("0.32.0+cpu", (0, 32, 0)), ("0.12.0rc1", (0, 12, 0)), ("0.12.1.dev5+gabc", (0, 12, 1)), ("1.0", (1, 0))],
)
def test_versions_are_read_by_their_numbers(text: str, version: tuple[int, ...]) -> None:
    assert command.parse_version(text) == version


def test_an_old_or_unreadable_client_is_refused() -> None:
    command.check_version("0.12.0")
    with pytest.raises(ModelopsError, match=r"0\.11\.2 is too old"):
        command.check_version("0.11.2")
    with pytest.raises(ModelopsError, match="not readable"):
        command.check_version("dev")


@pytest.mark.case("request-rate-burst", "client-queue-excluded")
@pytest.mark.parametrize("engine", ["python", "rust"])
def test_a_rate_has_no_limit_of_streams(engine: command.Engine) -> None:
    point = Point(None, 512, 128, 600, rate=10.0)
    arguments = command.bench_arguments(TARGET, Measurement(point, 1, 1), "/tmp/x", engine)
    assert value(arguments, "--request-rate") == "10"
    assert "--max-concurrency" not in arguments


def test_prompts_of_a_file_are_sent_as_they_are() -> None:
    arguments = command.bench_arguments(TARGET, MEASUREMENT, "/tmp/x", "rust", prompts_file="/tmp/p.jsonl")
    expected = {"--dataset-name": "custom", "--dataset-path": "/tmp/p.jsonl", "--custom-output-len": "128"}
    assert {flag: value(arguments, flag) for flag in expected} == expected
    assert "--skip-chat-template" in arguments
    assert not {"--random-input-len", "--prompt-token-ids"} & set(arguments)


@pytest.mark.case("sweep-owns-server")
@pytest.mark.parametrize("engine", ["python", "rust"])
def test_the_client_is_never_the_one_that_starts_and_kills_servers(engine: command.Engine) -> None:
    arguments = command.bench_arguments(TARGET, MEASUREMENT, "/tmp/x", engine)
    assert arguments[:2] == ["bench", "serve"]
    assert not [a for a in arguments if "sweep" in a or "serve-cmd" in a]


@pytest.mark.case("skip-tokenizer-one-token")
def test_the_tokenizer_is_never_skipped() -> None:
    arguments = command.bench_arguments(TARGET, MEASUREMENT, "/tmp/x", "python", prompts_file="/tmp/p.jsonl")
    assert "--skip-tokenizer-init" not in arguments
    assert value(arguments, "--tokenizer") == "/models/m"


@pytest.mark.case("role-chunk-as-first-token", "reasoning-not-counted")
@pytest.mark.parametrize("engine", ["python", "rust"])
def test_completions_are_asked_for_where_every_event_is_a_token(engine: command.Engine) -> None:
    """No roles and no reasoning apart: the chat clients take the first event for the first token."""
    arguments = command.bench_arguments(TARGET, MEASUREMENT, "/tmp/x", engine)
    assert (value(arguments, "--backend"), value(arguments, "--endpoint")) == ("openai", "/v1/completions")

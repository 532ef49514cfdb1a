# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets do not reach results; everything else does."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench.identity import build, redact, scrub


def test_secrets_go_by_name_value_and_form() -> None:
    given = {
        "layout": "tp8",
        "max_num_batched_tokens": 8192,
        "tokenizer": "/models/m",
        "api_key": "abcdef",
        "env": {"HF_TOKEN": "xyz", "VLLM_API_KEY": "123", "NCCL_P2P_LEVEL": "SYS"},
        "argv": ["serve", "--api-key", "topsecret", "--port", "8000"],
        "command": "vllm serve m --api-key topsecret --port 8000",
        "note": "used hf_abcdefghijklmnopqrstuv and key-77",
        "empty_token": "",
    }
    assert scrub(given, ["key-77"]) == {
        "layout": "tp8",
        "max_num_batched_tokens": 8192,
        "tokenizer": "/models/m",
        "api_key": "***",
        "env": {"HF_TOKEN": "***", "VLLM_API_KEY": "***", "NCCL_P2P_LEVEL": "SYS"},
        "argv": ["serve", "--api-key", "***", "--port", "8000"],
        "command": "vllm serve m --api-key *** --port 8000",
        "note": "used *** and ***",
        "empty_token": "",
    }


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        pytest.param(
            ["serve", "m", "--api-key", "one", "two", "--port", "8000"],
            ["serve", "m", "--api-key", "***", "***", "--port", "8000"],
            id="argv-several-values",
        ),
        pytest.param(
            ["model: /m", "api-key:", "- one", "- two", "port: 8000"],
            ["model: /m", "api-key:", "***", "***", "port: 8000"],
            id="yaml-list",
        ),
        pytest.param(
            ["api-key: [one, two]", 'hf-token: "one two"', "port: 8000"],
            ["api-key: ***", "hf-token: ***", "port: 8000"],
            id="yaml-flow-list-and-quotes",
        ),
        pytest.param(
            ["api-key: >", "folded one", "two", "port: 8000"],
            ["api-key: ***", "***", "***", "port: 8000"],
            id="yaml-block",
        ),
        pytest.param(
            "port: 8000\napi-key:\n  - one\n  - two\nmodel: m",
            "port: 8000\napi-key:\n***\n***\nmodel: m",
            id="yaml-text",
        ),
        pytest.param(
            ["--kv-transfer-config", '{"port": 1, "extra": {"api_key": "one two", "accessToken": ["three"]}}'],
            ["--kv-transfer-config", '{"port": 1, "extra": {"api_key": "***", "accessToken": "***"}}'],
            id="json-argument",
        ),
        pytest.param('--hf-overrides={"x.token": "one"}', '--hf-overrides={"x.token": "***"}', id="json-after-equals"),
        pytest.param('{"rope":  [1,2]}', '{"rope":  [1,2]}', id="json-without-secrets-as-it-was"),
        pytest.param(["--a.extra.token", "one"], ["--a.extra.token", "***"], id="dotted-flag"),
        pytest.param({"env": {"API_KEYS": ["a", "b"], "max_tokens": 5}}, {"env": {"API_KEYS": "***", "max_tokens": 5}}),
        pytest.param(
            {"env": {"HTTPS_PROXY": "http://me:one@proxy:3128/x"}}, {"env": {"HTTPS_PROXY": "http://***@proxy:3128/x"}}
        ),
    ],
)
def test_secrets_go_from_arguments_files_and_json(given: t.Any, clean: t.Any) -> None:
    assert scrub(given) == clean
    assert scrub(clean) == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("HF_TOKEN=abc next", "HF_TOKEN=*** next"),
        ("vllm serve m --api-key one two --port 8000", "vllm serve m --api-key *** --port 8000"),
        ("args ['--api-key', 'one', 'two', '--port', '8000']", "args ['--api-key', ***, '--port', '8000']"),
        ("args: {'api_key': ['one', 'two'], 'port': 8000}", "args: {'api_key': ***, 'port': 8000}"),
        ('--kv-transfer-config \'{"token": "a b", "n": 1}\'', '--kv-transfer-config \'{"token": ***, "n": 1}\''),
        ('{\\"api_key\\": \\"a b\\"}', '{\\"api_key\\": ***}'),
        ("VLLM_API_KEY=a,b next", "VLLM_API_KEY=*** next"),
        ("api-key: 'never closed", "api-key: ***"),
        ("redis://:pw@host:6379 and https://user:p@w@host/a@b", "redis://***@host:6379 and https://***@host/a@b"),
        ("first token: 3 ms, eos_tokens: 2", "first token: 3 ms, eos_tokens: 2"),
        ("--max-num-batched-tokens 8192", "--max-num-batched-tokens 8192"),
        ("32 tokens instead of 20", "32 tokens instead of 20"),
    ],
)
def test_texts_lose_secrets_and_keep_figures(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_a_budget_of_failures_is_part_of_what_was_measured() -> None:
    def load(max_failures: int) -> dict[str, t.Any]:
        found = build(
            {},
            [],
            model="m",
            server_version=None,
            max_model_len=None,
            sample=None,
            client={},
            api="/v1/completions",
            gpus=None,
            max_failures=max_failures,
        )
        return t.cast(dict[str, t.Any], found["load"])

    assert load(3)["max_failures"] == 3
    # Older results have no such key, and are still compared.
    assert "max_failures" not in load(0)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("OPENAI_KEY=abc NGC_KEY: def port=1", "OPENAI_KEY=*** NGC_KEY: *** port=1"),
        ("SSH_PASS=abc", "SSH_PASS=***"),
        ("--ngc-key abc --port 8", "--ngc-key *** --port 8"),
        ("GET http://h/x?token=SECRET HTTP/1.1", "GET http://h/x?token=*** HTTP/1.1"),
        ("http://h/x?a=b&token=SECRET", "http://h/x?a=b&token=***"),
        # Nothing is opened by these.
        ('{"key": "x"} bypass=1 monkey=2 key=3 pass=4', '{"key": "x"} bypass=1 monkey=2 key=3 pass=4'),
    ],
)
def test_keys_and_passes_go_by_what_they_open(text: str, clean: str) -> None:
    assert redact(text) == clean
    assert scrub({"OPENAI_KEY": "a", "SSH_PASS": "b", "key": "c", "monkey": "d"}) == {
        "OPENAI_KEY": "***",
        "SSH_PASS": "***",
        "key": "c",
        "monkey": "d",
    }

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets do not reach results; everything else does."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench.identity import redact, scrub


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
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("HF_TOKEN=abc next", "HF_TOKEN=*** next"),
        ("--max-num-batched-tokens 8192", "--max-num-batched-tokens 8192"),
        ("32 tokens instead of 20", "32 tokens instead of 20"),
    ],
)
def test_texts_lose_secrets_and_keep_figures(text: str, clean: str) -> None:
    assert redact(text) == clean

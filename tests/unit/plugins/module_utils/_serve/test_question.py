# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The question as it is kept with a release. What it asks is tested with vllm_ready."""

from __future__ import annotations

import json

from ansible_collections.modelops.vllm.plugins.module_utils._serve.question import Question

FULL = Question(
    "http://127.0.0.1:8000",
    model="minimax-m2.5",
    api_key="unit-test-key-0815",
    smoke=True,
    tool_call=True,
    reasoning="split",
    completion_timeout=60,
)


def test_a_stored_question_asks_the_same_and_has_no_key() -> None:
    stored = json.dumps(FULL.as_dict())
    assert "0815" not in stored
    assert Question.from_dict(json.loads(stored), "unit-test-key-0815") == FULL


def test_a_question_of_another_version_is_understood() -> None:
    old = {"url": "http://127.0.0.1:8000", "model": "m", "smoke": False, "api_key": "x", "of_a_newer_version": 1}
    assert Question.from_dict(old) == Question("http://127.0.0.1:8000", "m", smoke=False)


def test_the_key_is_in_no_text() -> None:
    assert "0815" not in repr(FULL)


def test_nobody_there_is_no_cause() -> None:
    answer = Question("http://127.0.0.1:9").ask(5)
    assert (answer.stage, answer.cause) == ("connect", None)
    assert answer.detail.startswith("/health: ")

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sense and nonsense."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve.smoke import judge, message_text


@pytest.mark.parametrize("text", ["5", "2+3 = 5.", "<think>2 and 3 make</think>5", "It is five.", "5 5 5"])
def test_answers_with_sense(text: str) -> None:
    assert judge(text) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        pytest.param("\u0e1a#@ the the \ufffd\ufffd 5", "replacement", id="A32"),
        ("5 " * 20, "repeats"),
        ("5" * 20, "repeats"),
        ("I like trains", "does not hold 5"),
    ],
)
def test_answers_without(text: str, words: str) -> None:
    assert words in judge(text)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        # append_think leaves the thinking in the content
        pytest.param({"content": "<think>x</think>4", "reasoning_content": None}, "<think>x</think>4", id="A22"),
        ({"content": "4", "reasoning": "2+2"}, "2+2 4"),
        ({"content": None, "reasoning_content": "so 5"}, "so 5"),
    ],
)
def test_thinking_counts_wherever_the_parser_puts_it(message: dict[str, t.Any], text: str) -> None:
    assert message_text({"choices": [{"message": message}]}) == text


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": None}, {"choices": ["x"]}])
def test_bodies_without_an_answer(body: dict[str, t.Any]) -> None:
    assert message_text(body) == ""


def test_a_plain_completion_has_text() -> None:
    assert message_text({"choices": [{"text": "A: 5"}]}) == "A: 5"

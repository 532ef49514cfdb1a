# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sense and nonsense, thinking in its place, and calls of a tool."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import smoke
from ansible_collections.modelops.vllm.plugins.module_utils._serve.smoke import Said, judge, judge_tool_call, said

THINKING = "The user asks for 2 + 3. I add them up. "


def fault(answer: Said, reasoning: smoke.Reasoning = "none") -> str:
    found = judge(answer, reasoning)
    return "" if found is None else f"{found.id}: {found.text}"


@pytest.mark.parametrize(
    "text",
    [
        "5",
        "2+3 = 5.",
        "<think>2 and 3 make</think>5",
        "It is five.",
        "FIVE",
        "5 5 5",
        "The result:\n\n----------------\n\n**5**",
        "5\n----------",
        "\u7b54\u6848\u662f5\u3002",
        "One and one and one and one and one is 5.",
        "2+3=5",
        "5.0",
        "The answer is $\\boxed{5}$",
        "_5_",
        "2, 3, 5",
        "It is (5), not 15.",
    ],
)
def test_answers_with_sense(text: str) -> None:
    assert fault(Said(text)) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the answer is empty"),
        (" \n ", "the answer is empty"),
        pytest.param("\u0e1a#@ the the \ufffd\ufffd 5", "replacement characters", id="A32"),
        ("5 " * 20, "repeats '5'"),
        ("5" * 20, "repeats '5'"),
        ("The sum is 5. " + "!" * 60, "repeats '!'"),
        ("5 " + "no, wait, let me see " * 8, "repeats 'no, wait, let me see'"),
        ("2+3=5 " + "\u662f\u7684\uff0c" * 30, "repeats"),
        ("I like trains", "does not hold 5"),
        ("fiveteen", "does not hold 5"),
        ("The answer is 15.", "does not hold 5"),
        ("52", "does not hold 5"),
        ("3.14159 kk##", "does not hold 5"),
        ("It is 3.5", "does not hold 5"),
        ("It is 2,5.", "does not hold 5"),
        ("It is 5.5", "does not hold 5"),
        ("kk5## 5th", "does not hold 5"),
    ],
)
def test_answers_without(text: str, words: str) -> None:
    assert fault(Said(text)).startswith("smoke-nonsense: ")
    assert words in fault(Said(text))


def test_a_thinking_that_was_cut_off_is_judged_by_what_it_holds() -> None:
    assert fault(Said(reasoning=THINKING, cut_off=True)) == ""
    assert fault(Said("two plus three is, hm", cut_off=True)) == ""
    assert "does not hold 5" in fault(Said(reasoning=THINKING))
    assert "does not hold 5" in fault(Said("colour gable the runs", cut_off=True))
    # The last character may have lost bytes, the last word letters.
    assert fault(Said(THINKING + "\ufffd", cut_off=True)) == ""
    assert "replacement" in fault(Said(THINKING + "\ufffd and so", cut_off=True))
    assert "repeats 'once more'" in fault(Said(THINKING + "once more " * 12 + "onc", cut_off=True))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        # append_think leaves the thinking in the content
        ({"content": "<think>x</think>4", "reasoning_content": None}, "<think>x</think>4"),
        ({"content": "4", "reasoning": "2+2"}, "2+2 4"),
        ({"content": None, "reasoning_content": "so 5"}, "so 5"),
        ({"content": [{"type": "text"}]}, ""),
    ],
)
def test_thinking_counts_wherever_the_parser_puts_it(message: dict[str, t.Any], text: str) -> None:
    assert said({"choices": [{"message": message}]}).text == text


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": None}, {"choices": ["x"]}])
def test_bodies_without_an_answer(body: dict[str, t.Any]) -> None:
    assert said(body) == Said()


def test_a_plain_completion_has_text() -> None:
    assert said({"choices": [{"text": "A: 5", "finish_reason": "length"}]}) == Said("A: 5", cut_off=True)


# MiniMax-M2.x with minimax_m2_append_think, and with minimax_m2 in the field of either version
APPENDED = {"content": "<think>2 and 3</think>5", "reasoning_content": None}
SPLIT = ({"content": "5", "reasoning": "2 and 3"}, {"content": "5", "reasoning_content": "2 and 3", "reasoning": None})


@pytest.mark.case("A22")
def test_thinking_in_the_content_is_refused_only_where_it_must_be_split() -> None:
    appended = said({"choices": [{"message": APPENDED}]})
    assert (fault(appended, "append"), fault(appended, "none")) == ("", "")
    assert fault(appended, "split").startswith("reasoning-not-split: the content holds '<think>'")
    for message in SPLIT:
        assert fault(said({"choices": [{"message": message}]}), "split") == ""
    assert fault(Said("5"), "split").startswith("reasoning-not-split: the answer has no reasoning of its own")


@pytest.mark.parametrize("reasoning", ["none", "split", "append"])
@pytest.mark.parametrize(
    "message",
    [
        {"content": "", "reasoning": "2 + 3 is 5."},
        {"content": None, "reasoning_content": "2 + 3 is 5."},
        {"content": " \n", "reasoning": "2 + 3 is 5."},
        {"content": "So it is.", "reasoning": "2 + 3 is 5."},
        {"content": "2 + 3 is 5.</think>\n"},
        {"content": "<mm:think>2 + 3 is 5.</mm:think>"},
    ],
)
def test_an_answer_that_counts_as_thinking_reaches_no_client(
    message: dict[str, t.Any], reasoning: smoke.Reasoning
) -> None:
    choice = {"message": message, "finish_reason": "stop"}
    assert fault(said({"choices": [choice]}), reasoning).startswith("reasoning-swallows-answer: the thinking holds 5, ")
    assert "reasoning-swallows-answer" not in fault(
        said({"choices": [{**choice, "finish_reason": "length"}]}), reasoning
    )


def test_thinking_before_the_answer_is_no_answer_and_no_harm() -> None:
    assert fault(Said("<think>15? No.</think>\n\n5")) == ""
    assert fault(Said("5", reasoning="15? No.")) == ""
    assert Said("<think>a</think>b</think>c").answer == "c"
    assert Said("no mark").answer == "no mark"


@pytest.mark.parametrize(
    "tag",
    [
        "<think>",
        "</think>",
        "<mm:think>",
        "</seed:think>",
        "<|START_THINKING|>",
        "[THINK]",
        "\u25c1think\u25b7",
        "<|channel|>",
        "<|channel>",
        "</ifm|think_fast>",
    ],
)
def test_the_marks_of_thinking_that_parsers_know(tag: str) -> None:
    assert smoke.think_tag(Said(f"{tag}so 5")) == tag


@pytest.mark.parametrize("text", ["I think: 5", "<b>5</b>", "a < think > b", "THINK 5"])
def test_words_that_mark_no_thinking(text: str) -> None:
    assert smoke.think_tag(Said(text)) == ""


def call(arguments: t.Any = '{"city": "Paris"}', name: str = "get_weather") -> Said:
    return said({"choices": [{"message": {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}}]})


def test_a_call_of_the_offered_tool() -> None:
    assert judge_tool_call(call()) is None
    assert judge_tool_call(call('{"city": "Paris, France", "unit": "C"}')) is None
    assert judge_tool_call(call('{"city": "paris (Paris, FR)"}')) is None


@pytest.mark.parametrize(
    ("answer", "id_", "words"),
    [
        (Said("It is sunny."), "tool-call-missing", "the model answered with text: 'It is sunny.'"),
        (Said(), "tool-call-missing", "the model answered with text: ''"),
        (
            Said('<minimax:tool_call><invoke name="get_weather">'),
            "tool-call-missing",
            "the parser did not read '<minimax:tool_call>'",
        ),
        (Said("<tool_calls>x"), "tool-call-missing", "did not read '<tool_calls>'"),
        (Said("[TOOL_CALLS]x"), "tool-call-missing", "did not read '[TOOL_CALLS]'"),
        (Said(tool_calls=("x",)), "tool-call-invalid", "None was called"),
        (call(name="other"), "tool-call-invalid", "the tool 'other' was called; get_weather was offered"),
        (call('{"city": Paris'), "tool-call-invalid", "are '{\"city\": Paris', no JSON with a city"),
        (call('{"city": ""}'), "tool-call-invalid", 'are \'{"city": ""}\', and the city is Paris'),
        (call('{"city": "London"}'), "tool-call-invalid", "and the city is Paris"),
        (call('{"city": "Parisian"}'), "tool-call-invalid", "and the city is Paris"),
        (call('{"city": "Paris Paris Paris Paris"}'), "tool-call-invalid", "and the city is Paris"),
        (call('{"city": "Paris\ufffd"}'), "tool-call-invalid", "which hold replacement characters"),
        (call('{"city": "Paris", "\\ufffd": 1}'), "tool-call-invalid", "which hold replacement characters"),
        (call('["Paris"]'), "tool-call-invalid", "no JSON with a city"),
        (call('{"town": "Paris"}'), "tool-call-invalid", "no JSON with a city"),
        (call({"city": "Paris"}), "tool-call-invalid", "no JSON with a city"),  # the API wants a string
    ],
)
def test_answers_that_are_no_call(answer: Said, id_: str, words: str) -> None:
    found = judge_tool_call(answer)
    assert found is not None
    assert found.id == id_
    assert words in found.text

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Does an answer make sense? HTTP 200 does not say so: a broken layout answers with garbage.

Judges what a chat or a completion returned: the text, where the thinking stands, and a tool call.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

QUESTION: t.Final = "What is 2+3? Answer with the number."
ANSWER: t.Final = "5"
# Thinking models write some hundred tokens before such an answer; 2048 take a minute at 35 tokens/s.
MAX_TOKENS: t.Final = 2048

TOOL_NAME: t.Final = "get_weather"
TOOL_QUESTION: t.Final = f"Call the tool {TOOL_NAME} for the city of Paris. Do not answer in words."
TOOLS: t.Final[tuple[dict[str, t.Any], ...]] = (
    {
        "type": "function",
        "function": {
            "name": TOOL_NAME,
            "description": "The weather in a city now.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Name of the city."}},
                "required": ["city"],
            },
        },
    },
)

Reasoning: t.TypeAlias = t.Literal["none", "split", "append"]

# How models mark their thinking, by the reasoning parsers of vLLM 0.32.0 (vllm/reasoning, vllm/parser).
_THINK_TAG: t.Final = re.compile(
    r"</?(?:mm:|seed:)?think>|</?ifm\|think(?:_fast|_faster)?>|<\|(?:START|END)_THINKING\|>|<\|content_thinking\|>"
    r"|<\|plamo:(?:begin|end)_think:plamo\|>|<\|?channel\|?>|\[/?THINK\]|\u25c1/?think\u25b7"
)
# How models mark a tool call; in the text of an answer it is one that the parser did not read.
_TOOL_TAG: t.Final = re.compile(
    r"<(?:minimax:)?tool_calls?>|<\|tool_calls?(?:_section)?_begin\|>|<\uff5ctool\u2581calls?\u2581begin\uff5c>"
    r"|\[TOOL_CALLS\]|<function[=_]|<\|python_tag\|>"
)
# What ends a thinking that stays in the content; the answer stands behind it.
_THOUGHT_END: t.Final = re.compile(
    r"</(?:mm:|seed:)?think>|</ifm\|think(?:_fast|_faster)?>|<\|END_THINKING\|>|<\|plamo:end_think:plamo\|>|\[/THINK\]"
    r"|\u25c1/think\u25b7"
)
# The number by itself, no part of 15, 3.5 or a word. Letters are those of ASCII: Chinese has no spaces around it.
_ANSWERED: t.Final = re.compile(r"(?<![0-9a-z])(?<![0-9][.,])5(?:\.0+)?(?![0-9a-z]|[.,][0-9])|\bfive\b", re.IGNORECASE)
_CITY: t.Final = re.compile(r"\bparis\b", re.IGNORECASE)
# "Paris (Paris, France)" is a city; more often is a loop.
_CITY_TIMES: t.Final = 2
# A text that was cut off before the answer is one about the question.
_ASKED: t.Final = re.compile(r"\b(?:2|two)\s*(?:\+|and|plus)\s*(?:3|three)\b", re.IGNORECASE)
_REPLACEMENT = "\ufffd"

# A text that ends in a loop: up to so many words (characters, for scripts without spaces) again and again.
_LONGEST_CYCLE = 12
_TIMES = 4
# Loops shorter than this may be meant ("5 5 5", a ruled line); one that is the whole text needs less.
_LOOP_WORDS, _LOOP_CHARACTERS, _WHOLE = 16, 48, 8


@dataclass(frozen=True)
class Said:
    """The first choice of a chat or a completion."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[t.Any, ...] = ()
    cut_off: bool = False
    """Whether it ended at max_tokens."""

    @property
    def text(self) -> str:
        """Everything that the model wrote, thinking included.

        A parser that leaves the thinking in the content (minimax_m2_append_think) is as good as one that splits it off.
        """
        text = " ".join(part for part in (self.reasoning, self.content) if part)
        # The bytes of the last character may be missing where the text was cut off.
        return text.rstrip(_REPLACEMENT) if self.cut_off else text

    @property
    def answer(self) -> str:
        """What clients read as the answer: the content, without a thinking in front of it."""
        return _THOUGHT_END.split(self.content)[-1]


@dataclass(frozen=True)
class Fault:
    """What is wrong with an answer: the id of the cause, and a sentence."""

    id: str
    text: str


def choice_of(body: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any] | None:
    """The first choice in a response body; None when there is none."""
    choices = body.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def said(body: t.Mapping[str, t.Any]) -> Said:
    """The answer in a response body; an empty one where there is none."""
    choice = choice_of(body)
    if choice is None:
        return Said()
    cut_off = choice.get("finish_reason") == "length"
    message = choice.get("message")
    if not isinstance(message, dict):
        return Said(content=_string(choice.get("text")), cut_off=cut_off)
    calls = message.get("tool_calls")
    return Said(
        content=_string(message.get("content")),
        # vLLM 0.32 calls the field reasoning; it was reasoning_content in earlier versions.
        reasoning=_string(message.get("reasoning")) or _string(message.get("reasoning_content")),
        tool_calls=tuple(calls) if isinstance(calls, list) else (),
        cut_off=cut_off,
    )


def _string(value: t.Any) -> str:
    return value if isinstance(value, str) else ""


def judge(answer: Said, reasoning: Reasoning = "none") -> Fault | None:
    """What is wrong with an answer to ``QUESTION``; None when it makes sense and the thinking stands where it should.

    An answer that was cut off while the model thought is no nonsense when it is about the question.
    """
    text = answer.text
    fault = ""
    if not text.strip():
        fault = "the answer is empty"
    elif _REPLACEMENT in text:
        fault = "the answer holds replacement characters"
    elif loop := _loop(text, answer.cut_off):
        fault = f"the answer repeats {loop[:40]!r}"
    elif not _ANSWERED.search(text) and not (answer.cut_off and _ASKED.search(text)):
        fault = f"the answer to {QUESTION!r} does not hold {ANSWER}"
    if fault:
        return Fault("smoke-nonsense", f"{fault}: {_excerpt(text)}")
    if not answer.cut_off and not _ANSWERED.search(answer.answer):
        told = f"the thinking holds {ANSWER}, and the answer behind it is {_excerpt(answer.answer)}"
        return Fault("reasoning-swallows-answer", f"{told}: {_excerpt(text)}")
    return _judge_split(answer) if reasoning == "split" else None


def _judge_split(answer: Said) -> Fault | None:
    tag = think_tag(answer)
    if tag:
        return Fault("reasoning-not-split", f"the content holds {tag!r}: {_excerpt(answer.content)}")
    if not answer.reasoning.strip():
        return Fault("reasoning-not-split", f"the answer has no reasoning of its own: {_excerpt(answer.content)}")
    return None


def think_tag(answer: Said) -> str:
    """The first mark of thinking in the content; empty when there is none."""
    match = _THINK_TAG.search(answer.content)
    return match[0] if match else ""


def tool_tag(answer: Said) -> str:
    """The first mark of a tool call in the content; empty when there is none."""
    match = _TOOL_TAG.search(answer.content)
    return match[0] if match else ""


def judge_tool_call(answer: Said) -> Fault | None:
    """What is wrong with an answer to ``TOOL_QUESTION``; None when it is a call of the tool for that city."""
    if not answer.tool_calls:
        tag = tool_tag(answer)
        unread = f"the parser did not read {tag!r} in the text" if tag else "the model answered with text"
        return Fault("tool-call-missing", f"no tool was called, {unread}: {_excerpt(answer.text)}")
    function = answer.tool_calls[0].get("function") if isinstance(answer.tool_calls[0], dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if name != TOOL_NAME:
        return Fault("tool-call-invalid", f"the tool {name!r} was called; {TOOL_NAME} was offered")
    try:
        decoded = json.loads(arguments) if isinstance(arguments, str) else None
    except ValueError:
        decoded = None
    city = decoded.get("city") if isinstance(decoded, dict) else None
    fault = ""
    if not isinstance(city, str):
        fault = "no JSON with a city"
    elif _REPLACEMENT in str(decoded):
        fault = "which hold replacement characters"
    elif not 1 <= len(_CITY.findall(city)) <= _CITY_TIMES:
        fault = "and the city is Paris"
    if fault:
        return Fault("tool-call-invalid", f"the arguments of the call are {_excerpt(str(arguments))}, {fault}")
    return None


def _excerpt(text: str) -> str:
    return repr(text.strip()[:300])


def _loop(text: str, cut_off: bool) -> str:
    """What a text repeats until its end; empty when it does not."""
    words = text.split()
    if cut_off:
        del words[-1:]  # perhaps a part of a word
    return " ".join(_cycle(words, _LOOP_WORDS)) or "".join(_cycle(text.strip(), _LOOP_CHARACTERS))


def _cycle(parts: t.Sequence[str], least: int) -> t.Sequence[str]:
    """The shortest cycle that the parts end in, over ``least`` of them or more, or over all of them; empty if none."""
    for period in range(1, min(_LONGEST_CYCLE, len(parts) // 2) + 1):
        covered = period
        while covered < len(parts) and parts[-covered - 1] == parts[-covered - 1 + period]:
            covered += 1
        enough = _WHOLE if covered == len(parts) else least
        if covered >= max(enough, _TIMES * period):
            return parts[-period:]
    return ()

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Does an answer make sense? HTTP 200 does not say so (a broken layout answers with garbage)."""

from __future__ import annotations

import typing as t

QUESTION: t.Final = "What is 2+3? Answer with the number."
ANSWER: t.Final = "5"
# Enough for a reasoning model to come to the number while it thinks.
MAX_TOKENS: t.Final = 256
_REPLACEMENT = "\ufffd"
# One word over and over: this many words, this few different ones.
_REPEAT_WORDS = 8


def judge(text: str) -> str:
    """An empty string when ``text`` answers the question sensibly, else what is wrong with it.

    ``text`` is everything that the model wrote, thinking included: a parser that leaves the tags of the thinking in
    the content (minimax_m2_append_think) is as good as one that splits it off.
    """
    words = text.split()
    if not words:
        return "the answer is empty"
    if _REPLACEMENT in text:
        return "the answer holds replacement characters"
    if len(words) >= _REPEAT_WORDS and len(set(words)) == 1:
        return f"the answer repeats {words[0][:40]!r}"
    if len(text.strip()) >= _REPEAT_WORDS and len(set(text.strip())) == 1:
        return f"the answer repeats {text.strip()[0]!r}"
    if ANSWER not in text and "five" not in text.lower():
        return f"the answer to {QUESTION!r} does not hold {ANSWER}"
    return ""


def message_text(body: t.Mapping[str, t.Any]) -> str:
    """All text of the first choice of a (chat) completion: reasoning, under the name of either version, and content."""
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return ""
    message = choices[0].get("message")
    if not isinstance(message, dict):
        return str(choices[0].get("text") or "")
    parts = (message.get(key) for key in ("reasoning", "reasoning_content", "content"))
    return " ".join(part for part in parts if isinstance(part, str))

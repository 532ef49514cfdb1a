# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Streamed answers that are not what they seem, event by event."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench.answers import judge, read_requests
from ansible_collections.modelops.vllm.plugins.module_utils._bench.streams import (
    Answer,
    EventReader,
    Stream,
    arrays,
    request_body,
)

USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
DONE = "[DONE]"


def text(content: str, reason: str | None = None) -> dict[str, t.Any]:
    return {"choices": [{"index": 0, "text": content, "finish_reason": reason}]}


def delta(content: dict[str, t.Any], reason: str | None = None) -> dict[str, t.Any]:
    return {"choices": [{"index": 0, "delta": content, "finish_reason": reason}]}


def stream(*events: t.Any, tokens: int = 3) -> Stream:
    """The stream of these events, of which the first comes after 1 s, the next after 2 s..."""
    read = Stream(status=200)
    for number, event in enumerate(events, 1):
        if not read.take(event if isinstance(event, str) else json.dumps(event), float(number)):
            break
    return read.close(tokens)


@pytest.mark.case("sse-comment-glue")
def test_comments_of_their_own_lose_no_event() -> None:
    reader = EventReader()
    pieces = [b": ping\n\n", b"data: 1\n\n", b": ping\r\n\r\n", b"data:2\r\n\r\n", b"data: a\ndata: b\n"]
    assert [reader.feed(piece) for piece in pieces] == [[], ["1"], [], ["2"], []]
    assert reader.feed(b"", last=True) == ["a\nb"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_whole_however_the_bytes_are_cut(size: int) -> None:
    # U+2028 and U+0085 are legal inside of JSON, and end a line for str.splitlines().
    data = 'data: {"a": "\u2028\u0085ü"}\r\n\r\n: x\n\ndata: 2\n\n'.encode()
    reader = EventReader()
    events = [event for i in range(0, len(data), size) for event in reader.feed(data[i : i + size])]
    assert events == ['{"a": "\u2028\u0085ü"}', "2"]


def test_a_whole_completion_counts_by_its_usage() -> None:
    read = stream(text("a"), text("b"), text("c", "length"), USAGE, DONE)
    assert (read.kind, read.times, read.ttft_s, read.latency_s) == ("", [1.0, 2.0, 3.0], 1.0, 3.0)
    assert (read.prompt_tokens, read.completion_tokens, read.tokens_per_event) == (7, 3, 1.0)
    assert read.ttfo_s is None


@pytest.mark.case("empty-text-error")
def test_tokens_without_text_count() -> None:
    read = stream(text(""), text(""), text("", "length"), USAGE, DONE)
    assert (read.kind, read.events) == ("", 3)


def test_a_finish_reason_in_an_event_of_its_own_is_no_token() -> None:
    read = stream(text("a"), text("b"), text("c"), text("", "length"), USAGE, DONE)
    assert (read.kind, read.times) == ("", [1.0, 2.0, 3.0])


@pytest.mark.case("role-chunk-as-first-token")
@pytest.mark.parametrize("role", [{"role": "assistant"}, {"role": "assistant", "content": ""}])
def test_the_role_of_a_chat_is_no_token(role: dict[str, t.Any]) -> None:
    content = (delta({"content": word}) for word in "ab")
    read = stream(delta(role), *content, delta({"content": "c"}, "length"), USAGE, DONE)
    assert (read.kind, read.times, read.ttft_s, read.ttfo_s) == ("", [2.0, 3.0, 4.0], 2.0, 2.0)


def test_a_role_that_comes_with_content_is_a_token() -> None:
    first = delta({"role": "assistant", "content": "a"})
    read = stream(first, delta({"content": "b"}), delta({"content": "c"}, "length"), USAGE, DONE)
    assert (read.ttft_s, read.events) == (1.0, 3)


@pytest.mark.case("reasoning-not-counted")
@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_the_first_token_and_no_output(name: str) -> None:
    read = stream(
        delta({"role": "assistant", "content": ""}),
        delta({name: "hm", "content": None}),
        delta({name: "hm"}),
        delta({"content": "yes"}, "length"),
        USAGE,
        DONE,
    )
    assert (read.kind, read.ttft_s, read.ttfo_s, read.events) == ("", 2.0, 4.0, 3)


def test_a_tool_call_is_output() -> None:
    call = {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}
    read = stream(
        delta({"role": "assistant"}), delta({"reasoning": "hm"}), delta(call), delta(call, "length"), USAGE, DONE
    )
    assert (read.ttft_s, read.ttfo_s) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("events", "kind", "words"),
    [
        ([text("a"), {"error": {"message": "out of memory"}}, DONE], "error-event", "out of memory"),
        ([text("a"), {"object": "error", "message": "gone", "code": 500}], "error-event", "gone"),
        ([text("a"), text("b")], "stream-cut", "after 2 events with no finish reason"),
        ([text("a"), text("b", "length"), USAGE], "stream-cut", r"no \[DONE\]"),
        ([text("a"), text("b"), text("c", "length"), DONE], "no-usage", "no usage"),
        ([text("a", "stop"), {"usage": {"completion_tokens": 1}}, DONE], "output-length", "1 tokens instead of 3"),
        ([delta({"role": "assistant"}), delta({}, "length"), USAGE, DONE], "no-events", "no event"),
        (["<html>"], "bad-event", "no JSON object: <html>"),
        (["[1]"], "bad-event", "no JSON object"),
        (["[" * 100000], "bad-event", "no JSON object"),
        (['{"choices":[null]}'], "bad-event", r"choices that are none: \{"),
        (['{"choices":{"text":"a"}}'], "bad-event", "choices that are none"),
        (['{"choices":[{"delta":"x"}]}'], "bad-event", "choices that are none"),
        (['{"choices":[{"text":"a","finish_reason":["length"]}]}'], "bad-event", "choices that are none"),
        (['{"choices":[],"usage":"x"}'], "bad-event", "a usage that is no count"),
        (['{"choices":[],"usage":[1]}'], "bad-event", "a usage that is no count"),
        (['{"choices":[],"usage":{"prompt_tokens":"3"}}'], "bad-event", "a usage that is no count"),
        (['{"choices":[],"usage":{"completion_tokens":NaN}}'], "bad-event", "a usage that is no count"),
        (['{"choices":[],"usage":{"completion_tokens":-1}}'], "bad-event", "a usage that is no count"),
        (['{"choices":[],"usage":{"completion_tokens":true}}'], "bad-event", "a usage that is no count"),
        ([text("a"), {"message": "gone", "type": "InternalServerError", "code": 500}], "error-event", "gone"),
        ([text("a"), text("b"), text("c", "abort"), USAGE, DONE], "error-event", "finish reason abort"),
        ([text("a"), text("b"), text("c", "error"), USAGE, DONE], "error-event", "finish reason error"),
    ],
)
@pytest.mark.case("error-event-counted-success", "truncated-stream-counted-success")
def test_a_broken_rule_is_named(events: list[t.Any], kind: str, words: str) -> None:
    read = stream(*events)
    assert read.kind == kind
    assert re.search(words, read.problem)


def test_all_that_decides_is_sent() -> None:
    body = request_body("completions", "m", [1, 2], 20)
    assert body["prompt"] == [1, 2]
    assert (body["max_tokens"], body["temperature"], body["ignore_eos"], body["stream"]) == (20, 0, True, True)
    assert body["stream_options"] == {"include_usage": True}
    chat = request_body("chat", "m", "hello", 20)
    assert chat["messages"] == [{"role": "user", "content": "hello"}]
    assert chat["max_completion_tokens"] == 20
    assert not {"prompt", "max_tokens"} & set(chat)


def test_arrays_are_in_the_order_of_the_prompts_and_a_lost_request_failed() -> None:
    whole = stream(text("a"), text("b"), text("c", "length"), USAGE, DONE)
    cut = stream(text("a"))
    raw = arrays([Answer(2, 11.0, cut, 0.5), Answer(0, 10.0, whole)], 3)
    assert raw["completed"] == 1
    assert raw["itls"] == [[1.0, 1.0], [], []]
    assert raw["start_times"] == [10.0, 10.0, 11.0]
    assert raw["queue_times"] == [None, None, 0.5]
    assert raw["kinds"] == ["", "no-answer", "stream-cut"]
    assert raw["duration"] == 3.0
    requests = read_requests(raw, 3)
    assert {f.index: f.kind for f in judge(requests, 3)} == {1: "no-answer", 2: "stream-cut"}

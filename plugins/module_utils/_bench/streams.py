# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Streamed answers, read strictly. Pure.

Bytes are kept as they come, comments are skipped, and a stream counts only when it ended with a finish reason, the
usage and ``[DONE]``. Tokens are counted by the usage; events tell when they came.
"""

from __future__ import annotations

import codecs
import itertools
import json
import typing as t
from dataclasses import dataclass, field

Endpoint = t.Literal["completions", "chat"]

PATHS: t.Final[dict[Endpoint, str]] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}

# Parts of a chat delta that are tokens. vLLM calls reasoning so since 0.12, reasoning_content before.
_OUTPUT: t.Final = ("content", "tool_calls", "refusal")
_REASONING: t.Final = ("reasoning", "reasoning_content")

# Reasons with which the server ends what it could not finish, whatever the usage says.
_BROKEN_OFF: t.Final = ("abort", "error")


def request_body(endpoint: Endpoint, model: str, prompt: str | t.Sequence[int], max_tokens: int) -> dict[str, t.Any]:
    """A greedy, streamed request of exactly ``max_tokens``; ``prompt`` is text or, for completions, token ids."""
    asked: dict[str, t.Any] = {"prompt": prompt, "max_tokens": max_tokens}
    if endpoint == "chat":
        asked = {"messages": [{"role": "user", "content": prompt}], "max_completion_tokens": max_tokens}
    return {
        "model": model,
        **asked,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


class EventReader:
    """Cuts bytes, in whatever pieces they come, into the data of server-sent events."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._parts: list[str] = []

    def feed(self, data: bytes, last: bool = False) -> list[str]:
        """The data of each event that these bytes complete; comments (keep-alives) and other fields are skipped.

        ``last`` closes the stream: an event whose empty line never came is given out, too.
        """
        # Only these two end a line: the separators that splitlines() knows are legal inside of JSON.
        text = self._rest + self._decoder.decode(data, last)
        *lines, self._rest = text.replace("\r\n", "\n").split("\n")
        if last:
            lines += [self._rest, ""]
            self._rest = ""
        done = []
        for line in lines:
            if line.startswith("data:"):
                self._parts.append(line[5:].removeprefix(" "))
            elif not line and self._parts:
                done.append("\n".join(self._parts))
                self._parts = []
        return done


@dataclass
class Stream:
    """How one streamed answer went. Times in seconds since it was asked for; ``problem`` is empty when every rule was
    kept, else ``kind`` is its stable name.

    ``times`` are those of the events that carried tokens; ``ttfo_s`` that of the first one with output, which is not
    reasoning, in a chat.
    """

    times: list[float] = field(default_factory=list)
    ttfo_s: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    done: bool = False
    status: int = 0
    kind: str = ""
    problem: str = ""
    # Events without any text, by their place in times: a token may have none, but it may also be no token.
    _bare: list[int] = field(default_factory=list, repr=False)

    @property
    def events(self) -> int:
        """Stream events that carried tokens."""
        return len(self.times)

    @property
    def ttft_s(self) -> float:
        """To the first token of any kind; 0 without one."""
        return self.times[0] if self.times else 0.0

    @property
    def latency_s(self) -> float:
        """To the last token; 0 without one."""
        return self.times[-1] if self.times else 0.0

    @property
    def tokens_per_event(self) -> float:
        """Tokens in one stream event on average."""
        return (self.completion_tokens or 0) / self.events if self.events else 0.0

    def fail(self, kind: str, problem: str) -> Stream:
        """Note the first rule that was broken."""
        if not self.kind:
            self.kind, self.problem = kind, problem
        return self

    def take(self, data: str, at: float) -> bool:
        """Enter one event that came at ``at``; False when the stream is over."""
        if data.strip() == "[DONE]":
            self.done = True
            return False
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        fault = _malformed(event)
        if fault:
            self.fail("bad-event", f"an event {fault}: {data[:200]}")
            return False
        # vLLM has these forms: under the key, and the object alone, with and without its name.
        alone = event.get("object") == "error" or ("code" in event and "choices" not in event)
        if event.get("error") or alone:
            told = event.get("error") or event.get("message")
            self.fail("error-event", f"the stream holds an error: {json.dumps(told)[:300]}")
            return False
        for choice in event.get("choices") or []:
            self._choice(choice, at)
        usage = event.get("usage")
        if usage:
            self.prompt_tokens = usage.get("prompt_tokens")
            self.completion_tokens = usage.get("completion_tokens")
        return True

    def _choice(self, choice: t.Mapping[str, t.Any], at: float) -> None:
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = choice.get("delta")
        if delta is None:
            carries, text = True, bool(choice.get("text"))
        else:
            output = any(delta.get(name) for name in _OUTPUT)
            text = output or any(delta.get(name) for name in _REASONING)
            # The role comes before the first token, as early as the server likes.
            carries = text or ("role" not in delta and any(name in delta for name in (*_OUTPUT, *_REASONING)))
            if output and self.ttfo_s is None:
                self.ttfo_s = at
        if carries:
            if not text:
                self._bare.append(len(self.times))
            self.times.append(at)

    def close(self, max_tokens: int) -> Stream:
        """Judge the whole stream, of which ``max_tokens`` were asked."""
        # More events than tokens: those without a text, the last ones first, were none.
        while self._bare and self.completion_tokens is not None and self.events > self.completion_tokens:
            del self.times[self._bare.pop()]
        if self.finish_reason in _BROKEN_OFF:
            self.fail("error-event", f"the stream ended with the finish reason {self.finish_reason}")
        if self.kind:
            return self
        if not self.finish_reason or not self.done:
            lacks = "no finish reason" if not self.finish_reason else "no [DONE]"
            return self.fail("stream-cut", f"the stream ended after {self.events} events with {lacks}")
        if self.completion_tokens is None:
            return self.fail("no-usage", "the stream holds no usage, so its tokens cannot be counted")
        if self.completion_tokens != max_tokens:
            return self.fail(
                "output-length",
                f"{self.completion_tokens} tokens instead of {max_tokens} (finish reason {self.finish_reason})",
            )
        if not self.times:
            return self.fail("no-events", f"no event of the stream carried one of its {max_tokens} tokens")
        return self


def _malformed(event: t.Any) -> str:
    """What is wrong with the form of an event; empty when it can be read."""
    if not isinstance(event, dict):
        return "is no JSON object"
    choices, usage = event.get("choices") or [], event.get("usage") or {}
    if not isinstance(choices, list) or not all(map(_is_choice, choices)):
        return "has choices that are none"
    counts = (
        [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else [usage]
    )
    return "" if all(map(_is_count, counts)) else "has a usage that is no count"


def _is_count(value: t.Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _is_choice(choice: t.Any) -> bool:
    return (
        isinstance(choice, dict)
        and isinstance(choice.get("delta"), (dict, type(None)))
        and isinstance(choice.get("finish_reason"), (str, type(None)))
    )


@dataclass
class Answer:
    """One request of a load: when it was sent on the client's clock, how long it waited there, and its stream."""

    index: int
    start_s: float
    stream: Stream
    queue_s: float | None = None


def arrays(answers: t.Iterable[Answer], num_prompts: int) -> dict[str, t.Any]:
    """The arrays of ``vllm bench serve --save-detailed``, in the order of the prompts, with two of our own.

    ``kinds`` names the broken rule of a request, and ``ttfos`` the time to its first output token. A request that left
    no answer is one that failed.
    """
    by_index = {answer.index: answer for answer in answers}
    rows = []
    for index in range(num_prompts):
        answer = by_index.get(index)
        if answer is None:
            answer = Answer(index, 0.0, Stream().fail("no-answer", "the client left no record of this request"))
        rows.append(answer)
    known = [a for a in rows if a.start_s]
    begin = min((a.start_s for a in known), default=0.0)
    for answer in rows:
        answer.start_s = answer.start_s or begin
    return {
        "completed": sum(not a.stream.kind for a in rows),
        "duration": max((a.start_s + a.stream.latency_s for a in known), default=0.0) - begin,
        "input_lens": [a.stream.prompt_tokens or 0 for a in rows],
        "output_lens": [a.stream.completion_tokens or 0 for a in rows],
        "ttfts": [a.stream.ttft_s for a in rows],
        "ttfos": [a.stream.ttfo_s for a in rows],
        "itls": [_gaps(a.stream.times) for a in rows],
        "latencies": [a.stream.latency_s for a in rows],
        "start_times": [a.start_s for a in rows],
        "queue_times": [a.queue_s for a in rows],
        "errors": [a.stream.problem for a in rows],
        "kinds": [a.stream.kind for a in rows],
    }


def _gaps(times: t.Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(times)]

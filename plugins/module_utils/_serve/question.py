# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What an instance is asked to prove that it serves: health, the served name, a completion, a sensible answer."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field

from .._findings import Finding, info, warning
from . import smoke
from .causes import Cause
from .probe import Answer, Reply, Request, requester
from .smoke import Reasoning

_HTTP_OK = 200
_HTTP_NOT_FOUND = 404
_REFUSED = (401, 403)
_SMOKE = "smoke test"
# The two that vLLM answers without its engine: it is up to them to be quick.
_LOOK_SECONDS = 5.0
# The best guess first, then as the model's own generation_config.json says: some thinking models never come to an
# end without sampling, and a model that talks sense in one of the two ways is not broken.
_SAMPLING: t.Final[tuple[dict[str, t.Any], ...]] = ({"temperature": 0}, {})

REMEDIES: t.Final[t.Mapping[str, str]] = {
    "api-key-refused": "Give the key that the server was started with (serve_api_key).",
    "not-vllm": "Another program answers on this port: check the url and ss -ltnp.",
    "served-name-missing": "Set model to a served name, or serve_served_name of the instance.",
    "completion-timeout": "The server is healthy and does not answer: look at nvidia-smi and the journal of the unit.",
    "completion-failed": "The server is healthy and cannot serve: the journal of the unit has the traceback.",
    "smoke-nonsense": "The model does not talk sense: check the layout (EP with TP and DP), the quantization and the"
    " weights. A model that cannot answer a sum is accepted with smoke=false.",
    "reasoning-swallows-answer": "Clients get no answer, since it counts as thinking: check reasoning-parser in"
    " serve_args. Some take all of an answer without marks for thinking; a model that does not think needs none.",
    "chat-missing": "Tool calls and split reasoning need a chat: give the model its chat template (chat-template in"
    " serve_args), or leave tool_call and reasoning out.",
    "reasoning-not-split": "Set the reasoning parser of this model in serve_args (reasoning-parser; MiniMax-M2.x:"
    " minimax_m2). With minimax_m2_append_think the thinking stays in the content: that is reasoning=append.",
    "tool-call-missing": "Either the parser is not that of the model, or the chat template does not show the model its"
    " tools: check tool-call-parser and enable-auto-tool-choice in serve_args, and take chat-template out of them for a"
    " model that brings its own.",
    "tool-call-invalid": "The parser reads the call wrongly, or the model does not talk sense: check tool-call-parser"
    " and chat-template in serve_args, the layout and the weights.",
}


def cause(id_: str, line: str) -> Cause:
    """A cause of ``REMEDIES``."""
    return Cause(id_, line, REMEDIES[id_])


@dataclass(frozen=True)
class Question:
    """What one instance has to answer, and how.

    ``completion_timeout`` bounds each completion, in seconds. Without ``smoke`` a completion of one token is enough:
    ``tool_call`` and ``reasoning`` are parts of the smoke test.
    """

    url: str
    model: str = ""
    api_key: str | None = field(default=None, repr=False)
    smoke: bool = True
    tool_call: bool = False
    reasoning: Reasoning = "none"
    completion_timeout: float = 300

    def as_dict(self) -> dict[str, t.Any]:
        """The question as data, without the key."""
        return {name: getattr(self, name) for name in _STORED}

    @classmethod
    def from_dict(cls, data: t.Mapping[str, t.Any], api_key: str | None = None) -> Question:
        """The question that ``as_dict`` stored; what an older version did not store has its default."""
        return cls(api_key=api_key, **{name: data[name] for name in _STORED if name in data})

    def ask(self, left: float) -> Answer:
        """Ask once. ``left`` are the seconds that all of it may take, at least one for each request.

        A completion that fails on a healthy server is a cause: several broken layouts are healthy and die with the
        first request.
        """
        return _Asking(self, requester(self.url, self.api_key), time.monotonic() + left).ask()


_STORED: t.Final = ("url", "model", "smoke", "tool_call", "reasoning", "completion_timeout")


class _Asking:
    def __init__(self, question: Question, request: Request, deadline: float) -> None:
        self._question, self._request, self._deadline = question, request, deadline
        self._model = question.model
        self._tokens = smoke.MAX_TOKENS

    def _left(self, most: float) -> float:
        return max(1.0, min(most, self._deadline - time.monotonic()))

    def ask(self) -> Answer:
        health = self._request("/health", None, self._left(_LOOK_SECONDS))
        if health.status != _HTTP_OK:
            return Answer("connect" if health.status == 0 else "health", f"/health: {health.status or health.body}")
        return self._models() or self._complete() or (self._smoke() if self._question.smoke else Answer("ready"))

    def _models(self) -> Answer | None:
        reply = self._request("/v1/models", None, self._left(_LOOK_SECONDS))
        if reply.status in _REFUSED:
            return Answer("models", cause=cause("api-key-refused", f"/v1/models: HTTP {reply.status}"))
        if reply.status == 0:
            return Answer("models", f"/v1/models: {reply.body}")
        data = reply.json().get("data")
        cards = {str(m.get("id")): m for m in data if isinstance(m, dict)} if isinstance(data, list) else {}
        if reply.status != _HTTP_OK or not cards:
            return Answer("models", cause=cause("not-vllm", f"/v1/models: {reply.text}"))
        if self._model and self._model not in cards:
            served = ", ".join(cards)
            return Answer(
                "models", cause=cause("served-name-missing", f"the server serves {served} and not {self._model}")
            )
        self._model = self._model or next(iter(cards))
        context = cards[self._model].get("max_model_len")
        if isinstance(context, int) and context > 1:
            # vLLM refuses a request whose answer does not fit behind the question.
            self._tokens = min(self._tokens, context // 2)
        return None

    def _post(self, path: str, body: dict[str, t.Any]) -> Reply:
        return self._request(path, {"model": self._model, **body}, self._left(self._question.completion_timeout))

    def _complete(self) -> Answer | None:
        reply = self._post("/v1/completions", {"prompt": "Hello", "max_tokens": 1, "temperature": 0})
        body = reply.json()
        usage = body.get("usage")
        tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
        # Its text may be empty: a token can be a mark that is not shown.
        told = isinstance(tokens, int) and tokens > 0 and smoke.choice_of(body) is not None
        answered = reply.status == _HTTP_OK and told
        return None if answered else _no_completion("/v1/completions", reply)

    # The smoke test

    def _smoke(self) -> Answer:
        said, failed = self._twice(self._ask_sum, lambda said: smoke.judge(said, self._question.reasoning))
        findings = [*self._notes(said)]
        if failed is None and self._question.tool_call:
            said, failed = self._twice(self._ask_tool, smoke.judge_tool_call)
            if failed is not None and _undecided(said):
                findings.append(self._tool_note())
                failed = None
        return failed or Answer("ready", findings=tuple(findings))

    def _twice(
        self,
        post: t.Callable[[dict[str, t.Any]], Reply],
        judge: t.Callable[[smoke.Said], smoke.Fault | None],
    ) -> tuple[smoke.Said, Answer | None]:
        """What was said without a fault; without that what was said last, and how the test ends."""
        said, failed = smoke.Said(), None
        for sampling in _SAMPLING:
            reply = post(sampling)
            if reply.status != _HTTP_OK:
                return smoke.Said(), _no_completion(_SMOKE, reply)
            said = smoke.said(reply.json())
            fault = judge(said)
            if fault is None:
                return said, None
            failed = Answer("smoke", fault.text, cause(fault.id, fault.text))
        return said, failed

    def _ask_sum(self, sampling: dict[str, t.Any]) -> Reply:
        reply = self._chat(smoke.QUESTION, sampling)
        if not _without_chat(reply) or self._question.tool_call or self._question.reasoning == "split":
            return reply
        # A base model has no chat template: it goes on with a text instead.
        body = {"prompt": f"Q: {smoke.QUESTION}\nA:", "max_tokens": self._tokens, **sampling}
        return self._post("/v1/completions", body)

    def _ask_tool(self, sampling: dict[str, t.Any]) -> Reply:
        return self._chat(smoke.TOOL_QUESTION, {"tools": list(smoke.TOOLS), "tool_choice": "auto", **sampling})

    def _chat(self, question: str, more: dict[str, t.Any]) -> Reply:
        messages = [{"role": "user", "content": question}]
        return self._post("/v1/chat/completions", {"messages": messages, "max_tokens": self._tokens, **more})

    def _notes(self, said: smoke.Said) -> t.Iterator[Finding]:
        if said.cut_off:
            yield info(
                "smoke-cut-off",
                f"The answer of the smoke test was cut off at {self._tokens} tokens; what it holds makes sense.",
                max_tokens=self._tokens,
            )
        tag = smoke.think_tag(said)
        if tag and self._question.reasoning == "none":
            yield info(
                "think-tag-in-content",
                f"The content of the answer holds {tag!r}: clients see the thinking of the model as its answer.",
                "A reasoning-parser in serve_args splits it off. If it is meant to stay, set reasoning to append.",
            )

    def _tool_note(self) -> Finding:
        return warning(
            "tool-call-undecided",
            f"The model had not come to an end after {self._tokens} tokens when a tool was offered to it.",
            "Send a request with tools by hand.",
            max_tokens=self._tokens,
        )


def _without_chat(reply: Reply) -> bool:
    return reply.status == _HTTP_NOT_FOUND or (reply.status != _HTTP_OK and "chat template" in reply.body)


def _no_completion(what: str, reply: Reply) -> Answer:
    """The answer for a completion that did not come. A connection that was lost is tried again: its unit tells more."""
    line = f"{what}: {reply.text}"
    if reply.status == 0:
        return Answer("completion", line, cause("completion-timeout", line) if reply.timed_out else None)
    if _without_chat(reply) and what == _SMOKE:
        return Answer("smoke", line, cause("chat-missing", line))
    if "tool choice" in reply.body:  # the server was started without a parser
        return Answer("smoke", line, cause("tool-call-missing", line))
    return Answer("completion", line, cause("completion-failed", line))


def _undecided(said: smoke.Said) -> bool:
    """Whether the model was cut off before it could call anything."""
    return said.cut_off and not said.tool_calls and not smoke.tool_tag(said)

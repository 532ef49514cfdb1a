# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Asks a running server whether it serves: health, the served name, a completion, a sensible answer."""

from __future__ import annotations

import json
import time
import typing as t
from dataclasses import dataclass
from urllib.error import HTTPError, URLError

from ansible.module_utils.urls import open_url

from . import smoke
from .causes import Cause

Stage: t.TypeAlias = t.Literal["connect", "health", "models", "completion", "smoke", "ready"]
_HTTP_OK = 200
_HTTP_NOT_FOUND = 404
_REFUSED = (401, 403)
_BODY_LIMIT = 1 << 20


@dataclass(frozen=True)
class Answer:
    """How far a server came. ``cause`` is set when waiting longer cannot help."""

    stage: Stage
    detail: str = ""
    cause: Cause | None = None


@dataclass(frozen=True)
class Reply:
    """One HTTP reply; status 0 when there was none."""

    status: int
    body: str

    def json(self) -> dict[str, t.Any]:
        """The body as an object; empty when it is none."""
        try:
            decoded = json.loads(self.body)
        except ValueError:
            return {}
        return decoded if isinstance(decoded, dict) else {}


Request: t.TypeAlias = t.Callable[[str, "dict[str, t.Any] | None", float], Reply]


def requester(url: str, api_key: str | None) -> Request:
    """A function ``(path, body, seconds) -> Reply`` for this server. The key travels in a header only."""
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"

    def request(path: str, body: dict[str, t.Any] | None, seconds: float) -> Reply:
        data = None if body is None else json.dumps(body)
        try:
            with open_url(
                url.rstrip("/") + path,
                data=data,
                headers=headers,
                method="GET" if body is None else "POST",
                timeout=seconds,
                use_proxy=False,
                follow_redirects="none",
            ) as response:
                return Reply(response.getcode(), response.read(_BODY_LIMIT).decode("utf-8", "replace"))
        except HTTPError as e:
            return Reply(e.code, e.read(_BODY_LIMIT).decode("utf-8", "replace") if e.fp else "")
        except TimeoutError:
            return Reply(0, f"no answer within {seconds:.0f} s")
        except (URLError, OSError, ValueError) as e:
            reason = getattr(e, "reason", e)
            timed_out = isinstance(reason, TimeoutError) or "timed out" in str(reason)
            return Reply(0, f"no answer within {seconds:.0f} s" if timed_out else str(reason))

    return request


def ask(request: Request, model: str, *, want_sense: bool, seconds: float) -> Answer:
    """Health, models, a completion of one token and, with ``want_sense``, the smoke question.

    ``seconds`` bounds each completion; /health and /v1/models get 5 seconds each. A completion that fails on a
    healthy server is a cause: several broken layouts are healthy and die with the first request.
    """
    health = request("/health", None, min(seconds, 5))
    if health.status != _HTTP_OK:
        return Answer("connect" if health.status == 0 else "health", f"/health: {health.status or health.body}")
    models = request("/v1/models", None, min(seconds, 5))
    if models.status in _REFUSED:
        return Answer("models", cause=_cause("api-key-refused", f"/v1/models: HTTP {models.status}"))
    if models.status == 0:
        return Answer("models", f"/v1/models: {models.body}")
    names = [str(m.get("id")) for m in models.json().get("data", []) if isinstance(m, dict)]
    if models.status != _HTTP_OK or not names:
        return Answer("models", cause=_cause("not-vllm", f"/v1/models: HTTP {models.status} {models.body[:200]!r}"))
    if model and model not in names:
        return Answer(
            "models", cause=_cause("served-name-missing", f"the server serves {', '.join(names)} and not {model}")
        )
    return _complete(request, model or names[0], want_sense=want_sense, seconds=seconds)


def _complete(request: Request, model: str, *, want_sense: bool, seconds: float) -> Answer:
    one = {"model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    started = time.monotonic()
    reply = request("/v1/completions", one, seconds)
    if reply.status == 0:
        waited = time.monotonic() - started >= seconds - 1
        line = f"/v1/completions: {reply.body}"
        return Answer("completion", line, _cause("completion-timeout", line) if waited else None)
    usage = reply.json().get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if reply.status != _HTTP_OK or not isinstance(tokens, int) or tokens < 1:
        line = f"/v1/completions: HTTP {reply.status} {reply.body[:300]!r}"
        return Answer("completion", line, _cause("completion-failed", line))
    if not want_sense:
        return Answer("ready")
    return _smoke(request, model, seconds)


def _smoke(request: Request, model: str, seconds: float) -> Answer:
    limits = {"model": model, "max_tokens": smoke.MAX_TOKENS, "temperature": 0}
    chat = {**limits, "messages": [{"role": "user", "content": smoke.QUESTION}]}
    reply = request("/v1/chat/completions", chat, seconds)
    if reply.status == _HTTP_NOT_FOUND or (reply.status != _HTTP_OK and "chat template" in reply.body):
        # A base model has no chat template: it goes on with a text instead.
        reply = request("/v1/completions", {**limits, "prompt": "Q: " + smoke.QUESTION + "\nA:"}, seconds)
    if reply.status != _HTTP_OK:
        line = f"smoke test: HTTP {reply.status} {reply.body[:300]!r}"
        return Answer("smoke", line, _cause("completion-failed" if reply.status else "completion-timeout", line))
    text = smoke.message_text(reply.json())
    fault = smoke.judge(text)
    if fault:
        return Answer("smoke", fault, _cause("smoke-nonsense", f"{fault}: {text[:300]!r}"))
    return Answer("ready")


_REMEDIES: t.Final[t.Mapping[str, str]] = {
    "api-key-refused": "Give the key that the server was started with (serve_api_key).",
    "not-vllm": "Another program answers on this port: check the url and ss -ltnp.",
    "served-name-missing": "Set model to a served name, or serve_served_name of the instance.",
    "completion-timeout": "The server is healthy and does not answer: look at nvidia-smi and the journal of the unit.",
    "completion-failed": "The server is healthy and cannot serve: the journal of the unit has the traceback.",
    "smoke-nonsense": "The model does not talk sense: check the layout (EP with TP and DP), the quantization and the"
    " weights. A model that cannot answer a sum is accepted with smoke=false.",
}


def _cause(id_: str, line: str) -> Cause:
    return Cause(id_, line, _REMEDIES[id_])

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The few requests that this collection sends itself: readiness, warm-up, model list, counters.

Standard library only. The streams are read strictly: bytes are kept as they come, comments are skipped, and a stream
counts only when it ended with a finish reason, the usage and ``[DONE]``.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import typing as t
import urllib.parse
from dataclasses import dataclass, field

from .._errors import ModelopsError

# Enough for an error text; a page of counters of a large server has a few hundred KiB.
_MAX_ERROR_BYTES: t.Final = 2000
_MAX_PAGE_BYTES: t.Final = 32 * 2**20


@dataclass(frozen=True)
class Server:
    """Where requests go. ``api_key`` is sent as a bearer token and shown nowhere, not even in a repr."""

    url: str
    api_key: str | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        """The name or address in the URL."""
        return urllib.parse.urlsplit(self.url).hostname or ""

    @property
    def loopback(self) -> bool:
        """True when the server is on this machine by its address."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def normalise_url(url: str) -> str:
    """The server's root: without a trailing slash and without ``/v1``. Raises ModelopsError for anything else than
    an absolute http(s) URL, and for one that carries a password."""
    parts = urllib.parse.urlsplit(url.strip())
    try:
        port_ok = parts.port is None or 0 < parts.port < 65536
    except ValueError:
        port_ok = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok or parts.query or parts.fragment:
        shown = f"{parts.scheme}://{parts.hostname or ''}"
        raise ModelopsError(
            f"url must be the server's root, but is {shown}...", "Use for example http://127.0.0.1:8000."
        )
    if parts.username or parts.password:
        raise ModelopsError("url holds a user name or a password, which would end up in logs.", "Use api_key.")
    path = parts.path.rstrip("/")
    path = path[: -len("/v1")] if path.endswith("/v1") else path
    return f"{parts.scheme}://{parts.netloc}{path}"


def _open(server: Server, timeout: float) -> tuple[http.client.HTTPConnection, str]:
    parts = urllib.parse.urlsplit(server.url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context), parts.path
    return http.client.HTTPConnection(host, parts.port, timeout=timeout), parts.path


def _headers(server: Server) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}


def get(server: Server, path: str, timeout: float = 10.0) -> tuple[int, str]:
    """Status and text of a GET; status 0 and the reason when there was no answer."""
    connection, prefix = _open(server, timeout)
    try:
        connection.request("GET", prefix + path, headers=_headers(server))
        response = connection.getresponse()
        return response.status, response.read(_MAX_PAGE_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as e:
        return 0, f"{type(e).__name__}: {e}"
    finally:
        connection.close()


def get_json(server: Server, path: str, timeout: float = 10.0) -> tuple[int, t.Any]:
    """Status and document of a GET; the document is None when the body is no JSON."""
    status, text = get(server, path, timeout)
    try:
        return status, json.loads(text)
    except ValueError:
        return status, None


@dataclass
class Stream:
    """How one streamed completion went. Times in seconds; ``problem`` is empty when every rule was kept."""

    events: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    done: bool = False
    ttft_s: float = 0.0
    latency_s: float = 0.0
    status: int = 0
    kind: str = ""
    problem: str = ""

    @property
    def tokens_per_event(self) -> float:
        """Tokens in one stream event on average."""
        return (self.completion_tokens or 0) / self.events if self.events else 0.0

    def fail(self, kind: str, problem: str) -> Stream:
        """Note the first rule that was broken."""
        if not self.kind:
            self.kind, self.problem = kind, problem
        return self


def complete(server: Server, model: str, prompt: str, max_tokens: int, timeout: float) -> Stream:
    """Send one greedy streamed completion and read it to the end; never raises for what the server does."""
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    stream = Stream()
    connection, prefix = _open(server, timeout)
    begin = time.perf_counter()
    try:
        headers = {"Content-Type": "application/json", **_headers(server)}
        connection.request("POST", f"{prefix}/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        stream.status = response.status
        if response.status != 200:
            text = response.read(_MAX_ERROR_BYTES).decode("utf-8", "replace")
            return stream.fail("http-error", f"HTTP {response.status} {response.reason}: {text[:300]}")
        for data in sse_data(_until(response, begin + timeout)):
            if not _take(stream, data, time.perf_counter() - begin):
                break
    except (OSError, http.client.HTTPException) as e:
        return stream.fail("no-answer", f"{type(e).__name__}: {e}")
    finally:
        connection.close()
    return _judge(stream, max_tokens)


def _until(lines: t.Iterable[bytes], deadline: float) -> t.Iterator[bytes]:
    """The lines, as long as the time lasts; keep-alives would hold a reader for ever."""
    for line in lines:
        if time.perf_counter() > deadline:
            raise TimeoutError("the stream was not complete in time")
        yield line


def sse_data(lines: t.Iterable[bytes]) -> t.Iterator[str]:
    """The data of each server-sent event; comments (keep-alives) and other fields are skipped."""
    parts: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if parts:
                yield "\n".join(parts)
            parts = []
        elif line.startswith("data:"):
            parts.append(line[5:].removeprefix(" "))
    if parts:
        yield "\n".join(parts)


def _take(stream: Stream, data: str, elapsed: float) -> bool:
    """Enter one event into ``stream``; False when the stream is over."""
    if data.strip() == "[DONE]":
        stream.done = True
        return False
    try:
        event = json.loads(data)
    except ValueError:
        stream.fail("bad-event", f"an event is no JSON: {data[:200]}")
        return False
    if "error" in event:
        stream.fail("error-event", f"the stream holds an error: {json.dumps(event['error'])[:300]}")
        return False
    choices = event.get("choices") or []
    if choices:
        stream.events += 1
        stream.latency_s = elapsed
        stream.ttft_s = stream.ttft_s or elapsed
        stream.finish_reason = choices[0].get("finish_reason") or stream.finish_reason
    usage = event.get("usage")
    if usage:
        stream.prompt_tokens = usage.get("prompt_tokens")
        stream.completion_tokens = usage.get("completion_tokens")
    return True


def _judge(stream: Stream, max_tokens: int) -> Stream:
    if stream.kind:
        return stream
    if not stream.finish_reason or not stream.done:
        lacks = "no finish reason" if not stream.finish_reason else "no [DONE]"
        return stream.fail("stream-cut", f"the stream ended after {stream.events} events with {lacks}")
    if stream.completion_tokens is None:
        return stream.fail("no-usage", "the stream holds no usage, so its tokens cannot be counted")
    if stream.completion_tokens != max_tokens:
        return stream.fail(
            "output-length",
            f"{stream.completion_tokens} tokens instead of {max_tokens} (finish reason {stream.finish_reason})",
        )
    return stream

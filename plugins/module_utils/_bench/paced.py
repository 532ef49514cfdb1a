# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""A server on loopback that sends tokens at a set pace, and notes when: what a client says about it can be checked.

It must be faster than any client, so it writes bytes that were made before, from timers, without a task a stream.
"""

from __future__ import annotations

import array
import asyncio
import functools
import json
import statistics
import threading
import typing as t

from .stats import percentile

# A client may open all its connections at once.
_BACKLOG: t.Final = 4096
_HEAD: t.Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_NOT_FOUND: t.Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"
# What vLLM sends beside the text, so that an event is as long as one of its.
_ENVELOPE: t.Final = {"id": f"cmpl-{'0' * 32}", "created": 1800000000, "model": "paced"}

# The paths that are answered, and the form of a token in their streams.
_DELTAS: t.Final[dict[bytes, t.Callable[[str], dict[str, t.Any]]]] = {
    b"/v1/completions": lambda text: {"text": text, "logprobs": None},
    b"/v1/chat/completions": lambda text: {"delta": {"content": text}, "logprobs": None},
}


class Truth(t.NamedTuple):
    """What the server did. Rates in tokens/s, times in ms; ``late_p99_ms`` is how late it was itself with a token."""

    requests: int
    tokens_per_s: float
    ttft_ms: float
    tpot_ms: float
    late_p99_ms: float


class PacedServer:
    """Streams completions: the first token after ``first_token_s``, each further one after ``token_s``.

    As a context manager it serves from a thread of its own; ``url`` is its root. What it did is whole after its end.
    """

    def __init__(self, first_token_s: float, token_s: float) -> None:
        self.first_token_s = first_token_s
        self.token_s = token_s
        self.url = ""
        self.tokens = 0
        self.begin: float | None = None
        self.end = 0.0
        # For each request: seconds to the first token as really sent, and seconds a further token.
        self.first_tokens_s: list[float] = []
        self.gaps_s: list[float] = []
        self.late_s = array.array("d")
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> PacedServer:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_args: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def truth(self) -> Truth | None:
        """The figures of all requests so far; None when there was none."""
        if not self.gaps_s or self.begin is None:
            return None
        return Truth(
            requests=len(self.gaps_s),
            tokens_per_s=self.tokens / (self.end - self.begin),
            ttft_ms=1000 * statistics.median(self.first_tokens_s),
            tpot_ms=1000 * statistics.median(self.gaps_s),
            late_p99_ms=1000 * percentile(self.late_s, 99),
        )

    def _serve(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        listen = loop.create_server(functools.partial(_Connection, self, loop), "127.0.0.1", 0, backlog=_BACKLOG)
        server = loop.run_until_complete(listen)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        loop.run_forever()
        server.close()
        loop.close()


class _Connection(asyncio.Protocol):
    """All requests of one connection, one after the other; a client that asks for what cannot be read is cut off."""

    def __init__(self, server: PacedServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server, self._loop = server, loop
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = t.cast(asyncio.Transport, transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        arrived = self._loop.time()
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        try:
            length = _content_length(head)
            if not separator or len(body) < length or self._transport is None:
                return
            self._buffer = body[length:]
            path = head.split(b" ", 2)[1]
            if path in _DELTAS:
                _Stream(self._server, self._transport, path, json.loads(body[:length]), arrived).start(self._loop)
            else:
                # The Python client asks for other paths, too (/tokenize), and does without when there are none.
                self._transport.write(_NOT_FOUND)
        except (ValueError, LookupError, TypeError):
            if self._transport:
                self._transport.close()


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


class _Stream:
    """One answer."""

    def __init__(
        self, server: PacedServer, transport: asyncio.Transport, path: bytes, request: dict[str, t.Any], arrived: float
    ) -> None:
        self._server, self._transport, self._arrived = server, transport, arrived
        self._delta = _DELTAS[path]
        self._tokens = int(request.get("max_tokens") or request["max_completion_tokens"])
        # Token ids, text, or messages: a number of the right magnitude, which nobody reads.
        self._prompt_tokens = len(request.get("prompt") or request["messages"])
        self._event = _event(path, self._delta(" word"))
        self._path = path
        self._sent = 0
        self._first = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send the head now, and the tokens when they are due."""
        self._server.begin = self._server.begin or self._arrived
        self._transport.write(_HEAD)
        loop.call_at(self._due(), self._send, loop)

    def _due(self) -> float:
        # Deadlines, not pauses: what one token is late does not add up.
        return self._arrived + self._server.first_token_s + self._sent * self._server.token_s

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._transport.is_closing():
            return
        due = self._due()
        self._sent += 1
        last = self._sent == self._tokens
        self._transport.write(self._end() if last else self._event)
        now = loop.time()
        self._server.late_s.append(now - due)
        if self._sent == 1:
            self._first = now
        if last:
            self._note(now)
        else:
            loop.call_at(self._due(), self._send, loop)

    def _end(self) -> bytes:
        usage = {"prompt_tokens": self._prompt_tokens, "completion_tokens": self._tokens}
        total = _chunk({**_ENVELOPE, "choices": [], "usage": usage})
        return (
            _event(self._path, self._delta(" word"), "length") + total + _raw_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        )

    def _note(self, now: float) -> None:
        server = self._server
        server.first_tokens_s.append(self._first - self._arrived)
        server.gaps_s.append((now - self._first) / max(1, self._tokens - 1))
        server.tokens += self._tokens
        server.end = now


def _event(path: bytes, delta: dict[str, t.Any], reason: str | None = None) -> bytes:
    kind = "text_completion" if path == b"/v1/completions" else "chat.completion.chunk"
    choice = {"index": 0, **delta, "finish_reason": reason, "stop_reason": None}
    return _chunk({**_ENVELOPE, "object": kind, "choices": [choice], "usage": None})


def _chunk(payload: dict[str, t.Any]) -> bytes:
    return _raw_chunk(f"data: {json.dumps(payload, separators=(',', ':'))}\n\n".encode())


def _raw_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""A server on loopback that sends tokens at a set pace, and notes when: what a client says about it can be checked."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import typing as t

# A client may open all its connections at once.
_BACKLOG: t.Final = 4096
_HEAD: t.Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_NOT_FOUND: t.Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"


class PacedServer:
    """Streams completions: the first token after ``first_token_s``, each further one after ``token_s``.

    As a context manager it serves from a thread of its own; ``url`` is its root. ``first_tokens_s`` holds, for each
    request, the seconds after which its first token was really sent; ``begin`` and ``end`` are the moments of the first
    request and of the last token.
    """

    def __init__(self, first_token_s: float, token_s: float) -> None:
        self.first_token_s = first_token_s
        self.token_s = token_s
        self.first_tokens_s: list[float] = []
        self.tokens = 0
        self.begin: float | None = None
        self.end = 0.0
        self.url = ""
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

    def _serve(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=_BACKLOG))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """All requests of one connection; a client that goes away, or asks for what cannot be read, ends it."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").lower().split("\r\n")
                lengths = [line.partition(":")[2] for line in lines if line.startswith("content-length:")]
                body = await reader.readexactly(int(lengths[0])) if lengths else b""
                # The Python client asks for other paths, too (/tokenize), and does without when there are none.
                if lines[0].startswith("post /v1/completions "):
                    await self._complete(json.loads(body), writer)
                else:
                    writer.write(_NOT_FOUND)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, ValueError, KeyError, TypeError):
            pass
        finally:
            writer.close()

    async def _complete(self, request: dict[str, t.Any], writer: asyncio.StreamWriter) -> None:
        arrived = time.perf_counter()
        self.begin = self.begin or arrived
        tokens = int(request["max_tokens"])
        writer.write(_HEAD)
        for number in range(tokens):
            # Deadlines, not pauses: what one token is late does not add up.
            due = arrived + self.first_token_s + number * self.token_s
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            reason = "length" if number == tokens - 1 else None
            writer.write(_event({"choices": [{"index": 0, "text": " a", "finish_reason": reason}]}))
            if not number:
                self.first_tokens_s.append(time.perf_counter() - arrived)
        self.tokens += tokens
        self.end = time.perf_counter()
        prompt = request["prompt"]
        usage = {"prompt_tokens": len(prompt), "completion_tokens": tokens, "total_tokens": len(prompt) + tokens}
        writer.write(_event({"choices": [], "usage": usage}) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


def _event(payload: t.Any) -> bytes:
    return _chunk(f"data: {json.dumps(payload)}\n\n".encode())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The client of the engine builtin: a program of its own, which is copied beside its plan and run there.

It sends, and writes down what came when. It reads no event while the load runs: what the answers say, and whether they
count, is found out afterwards by :mod:`builtin`, so that no parsing delays the reading of a first token.

It imports nothing of this collection. ``python builtin_client.py DIRECTORY`` reads ``plan.json`` and ``bodies.jsonl``
(one request body a line) there and writes ``stream.bin`` and ``ends.jsonl``; the key is in OPENAI_API_KEY.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import json
import os
import struct
import sys
import time
import typing as t

# In stream.bin before the bytes of each read: seconds on the client's clock, number of the request, number of bytes.
HEADER: t.Final = struct.Struct("<dII")

# The lines that vLLM's clients print around the load.
BEGIN: t.Final = "Starting main benchmark run"
END: t.Final = "Serving Benchmark Result"

_SPOOL_BUFFER: t.Final = 2**20
_CONNECT_TIMEOUT_S: t.Final = 30.0
_ERROR_BYTES: t.Final = 2000


class Turns:
    """Lets one request be sent in each pass of the event loop, so that answers are read between two of them.

    A wave of streams that end together would else be sent in one go, and first tokens be read only after it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()

    def take(self) -> asyncio.Future[None]:
        """A future that is done when it is the caller's turn."""
        turn = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)
        return turn

    def _next(self) -> None:
        self._waiting[0].set_result(None)
        self._loop.call_soon(self._after)

    def _after(self) -> None:
        self._waiting.popleft()
        if self._waiting:
            self._next()


class Load:
    """The requests of one measurement: what is sent, and what is written down."""

    def __init__(self, session: t.Any, plan: dict[str, t.Any], bodies: list[bytes], spool: t.BinaryIO) -> None:
        self._session, self._plan, self._bodies, self._spool = session, plan, bodies, spool
        self._url = plan["url"]
        self.ends: list[dict[str, t.Any]] = []

    async def run(self) -> None:
        """Send all requests: so many at a time, or at the moments of the plan."""
        self._turns = Turns(asyncio.get_running_loop())
        if self._plan["concurrency"]:
            numbers = iter(range(len(self._bodies)))
            await asyncio.gather(*(self._stream(numbers) for _stream in range(self._plan["concurrency"])))
        else:
            begin = time.perf_counter()
            await asyncio.gather(*(self._arrive(i, begin + at) for i, at in enumerate(self._plan["arrivals_s"])))

    async def _stream(self, numbers: t.Iterator[int]) -> None:
        for number in numbers:
            await self._turns.take()
            await self._request(number, None)

    async def _arrive(self, number: int, due: float) -> None:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await self._turns.take()
        await self._request(number, due)

    async def _request(self, number: int, due: float | None) -> None:
        spool, pack, clock = self._spool, HEADER.pack, time.perf_counter
        end: dict[str, t.Any] = {"index": number, "status": 0, "error": ""}
        begin = clock()
        try:
            async with self._session.post(self._url, data=self._bodies[number]) as response:
                end["status"] = response.status
                if response.status != 200:
                    text = (await response.content.read(_ERROR_BYTES)).decode("utf-8", "replace")
                    end["error"] = f"{response.reason}: {text[:300]}"
                else:
                    async for data in response.content.iter_any():
                        spool.write(pack(clock(), number, len(data)))
                        spool.write(data)
        except Exception as e:
            end["error"] = f"{type(e).__name__}: {e}"
        # Seconds that a request of an open loop waited here after its time had come.
        end.update(start=begin, end=clock(), queue=None if due is None else max(0.0, begin - due))
        self.ends.append(end)


def _say(word: str) -> None:
    """Tell the process that has started this one."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


async def measure(directory: str) -> None:
    """Run the plan of this directory."""
    import aiohttp  # noqa: PLC0415  (only the process that measures has it)

    with open(os.path.join(directory, "plan.json"), encoding="utf-8") as f:
        plan = json.load(f)
    with open(os.path.join(directory, "bodies.jsonl"), "rb") as f:
        bodies = f.read().splitlines()
    headers = {"Content-Type": "application/json"}
    if os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {os.environ['OPENAI_API_KEY']}"
    with open(os.path.join(directory, "stream.bin"), "wb", buffering=_SPOOL_BUFFER) as spool:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        ) as session:
            load = Load(session, plan, bodies, spool)
            # A pass of the collector over all that was imported would be a pause of tens of milliseconds.
            gc.collect()
            gc.freeze()
            _say(BEGIN)
            await load.run()
            _say(END)
    with open(os.path.join(directory, "ends.jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(end) + "\n" for end in load.ends)


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1]))

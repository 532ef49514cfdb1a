# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The engine builtin: runs builtin_client.py with aiohttp, and reads what it wrote down.

For hosts without vLLM, and for chats. It needs no tokenizer: lengths and tokens are the server's own.
"""

from __future__ import annotations

import itertools
import json
import os
import pkgutil
import random
import struct
import sys
import typing as t

from . import builtin_client, vllm_client
from .builtin_client import HEADER
from .points import Measurement, derive_seed
from .process import Command
from .streams import Answer, EventReader, Stream, arrays

_PROGRAM: t.Final = "builtin_client.py"
_ASK: t.Final = "import importlib.metadata as m; print(m.version('aiohttp'))"


def find(installation: vllm_client.Installation | None) -> tuple[str, str] | None:
    """An interpreter that has aiohttp, and the version of that: vLLM's own, else the module's. None without one."""
    if installation and installation.aiohttp:
        return installation.python, installation.aiohttp
    answered = vllm_client.ask([sys.executable, "-I", "-c", _ASK], 30)
    return (sys.executable, answered.stdout.strip()) if answered.returncode == 0 else None


def arrivals(measurement: Measurement) -> list[float]:
    """When each request of an open loop is sent, in seconds: at random moments, and as many a second as asked."""
    rate = measurement.point.rate or 1.0
    rng = random.Random(derive_seed(measurement.seed, "arrivals"))
    moments = list(itertools.accumulate(rng.expovariate(rate) for _request in range(measurement.point.num_prompts)))
    # Few random gaps have a mean of their own; scaled, the rate is the one that was asked for.
    scale = len(moments) / rate / moments[-1]
    return [moment * scale for moment in moments]


def prepare(
    python: str, url: str, measurement: Measurement, bodies: t.Sequence[t.Mapping[str, t.Any]], work_dir: str
) -> Command:
    """Put the program, its plan and the request bodies for ``url`` into ``work_dir``."""
    point = measurement.point
    plan = {
        "url": url,
        "concurrency": point.concurrency,
        "arrivals_s": [] if point.concurrency else arrivals(measurement),
    }
    with open(os.path.join(work_dir, "plan.json"), "w", encoding="utf-8") as f:
        json.dump(plan, f)
    with open(os.path.join(work_dir, "bodies.jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(body) + "\n" for body in bodies)
    # This collection may be in an archive of Ansible's, which only the module's own process can import from.
    with open(os.path.join(work_dir, _PROGRAM), "wb") as f:
        f.write(pkgutil.get_data(__package__, _PROGRAM) or b"")
    argv = [python, "-I", _PROGRAM, "."]
    return Command(argv, builtin_client.BEGIN.lower(), builtin_client.END.lower())


def collect(measurement: Measurement, work_dir: str) -> dict[str, t.Any] | None:
    """The arrays of all requests; None when the client did not come to its end."""
    try:
        with open(os.path.join(work_dir, "ends.jsonl"), encoding="utf-8") as f:
            ends = {end["index"]: end for end in map(json.loads, f)}
        with open(os.path.join(work_dir, "stream.bin"), "rb") as spool:
            streams = _read(spool, {index: end["start"] for index, end in ends.items()})
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None
    point = measurement.point
    answers = []
    for index, end in ends.items():
        stream = streams.get(index) or Stream()
        stream.status = end["status"]
        if end["error"] and not stream.done:
            told = f"HTTP {end['status']} {end['error']}" if end["status"] not in (0, 200) else end["error"]
            kinds = {0: "no-answer", 200: "stream-cut"}
            stream.fail(kinds.get(end["status"], "http-error"), told)
        answers.append(Answer(index, end["start"], stream.close(point.output_len), end["queue"]))
    return arrays(answers, point.num_prompts)


def _read(spool: t.BinaryIO, starts: t.Mapping[int, float]) -> dict[int, Stream]:
    """The streams by request, out of the pieces in the order in which they came."""
    streams: dict[int, Stream] = {}
    readers: dict[int, EventReader] = {}
    while header := spool.read(HEADER.size):
        at, index, size = HEADER.unpack(header)
        stream, reader = streams.setdefault(index, Stream()), readers.setdefault(index, EventReader())
        for event in reader.feed(spool.read(size)):
            if stream.done or stream.kind:
                break
            stream.take(event, at - starts[index])
    return streams

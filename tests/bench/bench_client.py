# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each benchmark client says about a server whose pace is known, beside the truth.

The server and the client get a core each, where there are two, and run before everything else, where they may: on a
machine with other work the figures would be that work's. The truth is what the server really sent; a run in
which the server itself was late, or busy most of its core, is told and judges no client. A client that is not on this
machine is a line that says so: vLLM's Rust client comes with its CUDA wheel (VLLM_RS), aiperf from PyPI (AIPERF).
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import shutil
import statistics
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from ansible_collections.modelops.vllm.plugins.module_utils._bench import command, engine, process, vllm_client
from ansible_collections.modelops.vllm.plugins.module_utils._bench.answers import judge, read_requests
from ansible_collections.modelops.vllm.plugins.module_utils._bench.metrics import compute
from ansible_collections.modelops.vllm.plugins.module_utils._bench.paced import PacedServer, Truth
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import Measurement, Point
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / ".cache/hub/modelops/demo-moe"

# What a client must keep: error of the throughput, and of the medians of TTFT and TPOT.
RATE_ERROR, TIME_ERROR_MS = 0.01, 3.0
# How busy and how late the server may be for its run to say something about a client.
SERVER_CPU, SERVER_LATE_MS = 0.75, 10.0

FIRST_TOKEN_S = 0.05
PROMPT_TOKENS, REPEATS, TIMEOUT_S, PRIORITY = 64, 3, 120.0, 10


@dataclasses.dataclass(frozen=True)
class Regime:
    """A concurrency, the output tokens/s that the server offers at it, tokens of an answer, and waves of streams."""

    concurrency: int
    rate: int
    tokens: int
    waves: int

    @property
    def token_s(self) -> float:
        return self.concurrency / self.rate


REGIMES = (Regime(128, 5000, 128, 3), Regime(512, 10000, 64, 2))


@dataclasses.dataclass(frozen=True)
class Result:
    """One run: what the client said, what the server did, CPU seconds a second of both."""

    rate: float
    ttft_ms: float
    tpot_ms: float
    truth: Truth
    client_cpu: float | None
    server_cpu: float

    @property
    def server_kept_up(self) -> bool:
        return self.server_cpu <= SERVER_CPU and self.truth.late_p99_ms <= SERVER_LATE_MS


@contextlib.contextmanager
def apart(cores: set[int]) -> t.Iterator[None]:
    """On these cores, and in real time when this user may; children take it over."""
    everywhere, policy, priority = os.sched_getaffinity(0), os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setaffinity(0, cores)
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)
        os.sched_setaffinity(0, everywhere)


def serve(regime: Regime, pipe: multiprocessing.connection.Connection, cores: set[int]) -> None:
    """The server's process: tells its address, and after a word the truth and its CPU share while it was loaded."""
    with apart(cores), PacedServer(FIRST_TOKEN_S, regime.token_s) as server:
        pipe.send(server.url)
        pipe.recv()
        before = time.process_time()
        pipe.send("ready")
        pipe.recv()
        used = time.process_time() - before
        lasted = server.end - (server.begin or 0.0)
        pipe.send((server.truth(), used / lasted if lasted else 0.0))


def measure(client: engine.Client, regime: Regime, number: int, cores: list[set[int]]) -> Result:
    """Run the client once. Raises ModelopsError when it brings no valid figures."""
    point = Point(regime.concurrency, PROMPT_TOKENS, regime.tokens, regime.waves * regime.concurrency)
    mine, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(regime, theirs, cores[0]), daemon=True)
    server.start()
    try:
        target = command.Target(mine.recv(), "paced", str(TOKENIZER))
        mine.send("begin")
        mine.recv()
        with apart(cores[1]), tempfile.TemporaryDirectory(prefix="bench-client-") as work:
            ran = engine.run_client(
                client,
                target,
                Measurement(point, number, number),
                work,
                environment=command.bench_environment(os.environ, "127.0.0.1", None),
                timeout=TIMEOUT_S,
                prompts=None if client.is_vllm else [list(range(100, 100 + PROMPT_TOKENS))] * point.num_prompts,
            )
        mine.send("end")
        truth, server_cpu = mine.recv()
    finally:
        server.terminate()
        server.join()
    if ran.raw is None or truth is None:
        raise ModelopsError(f"status {ran.rc}: {' | '.join(ran.log.splitlines()[-3:])[-200:]}")
    requests = read_requests(ran.raw, point.num_prompts)
    failed = judge(requests, point.output_len)
    if failed:
        raise ModelopsError(f"{len(failed)} requests failed: {failed[0].kind}, {failed[0].detail}")
    figures = compute(requests, 0, point.concurrency)
    return Result(
        figures["output_tokens_per_s"],
        figures["ttft_ms"]["median"],
        figures["tpot_ms"]["median"],
        truth,
        ran.cpu_share,
        server_cpu,
    )


def clients() -> dict[str, engine.Client | str]:
    """Each engine's client, or why there is none."""
    vllm = os.path.join(os.environ.get("VLLM_VENV", ""), "bin", "vllm")
    target = command.Target("http://127.0.0.1:9", "paced", str(TOKENIZER))
    found: dict[str, engine.Client | str] = {}
    for name in ("python", "rust", "aiperf", "builtin"):
        try:
            found[name] = engine.find_client(vllm, name, target, aiperf_path=os.environ.get("AIPERF", "aiperf"))
        except ModelopsError as e:
            found[name] = e.message
    rust = shutil.which(os.environ.get("VLLM_RS", ""))
    if rust and not vllm_client.rust_lacks(rust, target):
        found["rust"] = engine.Client("rust", rust, "of VLLM_RS")
    return found


def line(name: str, results: list[Result]) -> tuple[str, bool]:
    """The median of the repeats beside the truth, and whether it keeps the rule; each repeat has its own truth."""
    rate = statistics.median(r.rate / r.truth.tokens_per_s - 1 for r in results)
    ttft = statistics.median(r.ttft_ms - r.truth.ttft_ms for r in results)
    tpot = statistics.median(r.tpot_ms - r.truth.tpot_ms for r in results)
    kept = abs(rate) <= RATE_ERROR and abs(ttft) <= TIME_ERROR_MS and abs(tpot) <= TIME_ERROR_MS
    middle = sorted(results, key=lambda r: r.rate)[len(results) // 2]
    cpu = [r.client_cpu for r in results if r.client_cpu is not None]
    cells = (
        f"{name:<8}",
        f"{middle.rate:8.0f} of {middle.truth.tokens_per_s:6.0f} {rate:+7.2%}",
        f"{middle.ttft_ms:7.1f} of {middle.truth.ttft_ms:5.1f} {ttft:+7.1f}",
        f"{middle.tpot_ms:7.2f} of {middle.truth.tpot_ms:5.2f} {tpot:+7.2f}",
        f"{statistics.median(cpu):5.2f}" if cpu else "    -",
        f"{max(r.server_cpu for r in results):5.2f} {max(r.truth.late_p99_ms for r in results):6.1f}",
        "kept" if kept else "NOT KEPT",
    )
    return "  ".join(cells), kept


def main() -> None:
    process.raise_file_limit(2 * max(regime.concurrency for regime in REGIMES))
    usable = sorted(os.sched_getaffinity(0))
    # Where there are more cores, a client may use all but the server's.
    cores = [{usable[0]}, set(usable[1:]) or {usable[0]}]
    found = clients()
    print(f"server on core {usable[0]}, client on {sorted(cores[1])}; medians of {REPEATS} runs of each client")
    print(f"rule: throughput within {RATE_ERROR:.0%}, median TTFT and TPOT within {TIME_ERROR_MS:g} ms of the truth")
    builtin_kept = True
    for regime in REGIMES:
        print(
            f"\nC = {regime.concurrency}, {regime.rate} tokens/s, {regime.waves} waves of {regime.tokens} tokens\n"
            f"{'client':<8}  {'tokens/s: client, truth':<26}  {'TTFT, ms':<22}  {'TPOT, ms':<24}  "
            f"{'CPU':>5}  {'server CPU, late ms':<12}"
        )
        for name, client in found.items():
            if isinstance(client, str):
                print(f"{name:<8}  not here: {client}")
                continue
            results: list[Result] = []
            problem = ""
            for number in range(1, REPEATS + 1):
                try:
                    results.append(measure(client, regime, number, cores))
                except ModelopsError as e:
                    problem = e.message
            good = [r for r in results if r.server_kept_up]
            if not good:
                print(f"{name:<8}  no figure: {problem or 'the server could not keep its own pace'}")
                continue
            text, kept = line(name, good)
            print(text + (f"  ({len(good)} of {REPEATS} runs count)" if len(good) < REPEATS else ""), flush=True)
            builtin_kept = builtin_kept and (kept or name != "builtin")
    if not builtin_kept:
        sys.exit("the builtin client does not keep the rule on this machine")


if __name__ == "__main__":
    main()

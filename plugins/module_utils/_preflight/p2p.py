# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Does peer access between two GPUs really work? Topology raises the suspicion, only an all-reduce decides.

``nvidia-smi topo -p2p`` said OK on machines whose first all-reduce hung (NVIDIA/nccl#1999, vllm#33041).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import tempfile
import time
import typing as t
from dataclasses import dataclass

from .._findings import Finding, error, info, warning
from .._gpu.checks import NO_P2P
from .._gpu.parse import farthest_pair
from .question import Question

# What topology and kernel say against peer access, until it has been tried.
SUSPICIONS = ("iommu-translated", "acs-redirect", "gpu-bar1-small")

_MARK = "MODELOPS-P2P "
# One rank. It sends 64 MiB, as a large all-reduce of a prefill does, and checks what comes back.
_RANK = """
import json, os, time
def say(**what):
    print("MODELOPS-P2P " + json.dumps(what), flush=True)
    os._exit(0)  # the end of a process group may hang as well
try:
    import torch
    import torch.distributed as dist
except ImportError as e:
    say(unavailable=str(e))
seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
if seen < 2 or not dist.is_nccl_available():
    say(unavailable="PyTorch sees %d GPUs, NCCL is %s" % (seen, dist.is_nccl_available()))
rank = int(os.environ["RANK"])
try:
    torch.cuda.set_device(rank)
    ones = torch.full((16777216,), float(rank + 1), device="cuda")
except torch.cuda.OutOfMemoryError as e:
    say(unavailable=str(e).splitlines()[0])
dist.init_process_group("nccl", init_method="file://" + os.environ["MODELOPS_STORE"], rank=rank, world_size=2)
right = True
for step in range(6):
    if step == 1:
        torch.cuda.synchronize()
        start = time.perf_counter()
    total = ones.clone()
    dist.all_reduce(total)
    right = right and bool((total == 3).all())
torch.cuda.synchronize()
say(right=right, gb_per_second=round(5 * total.nbytes / (time.perf_counter() - start) / 1e9, 1))
"""


@dataclass(frozen=True)
class Verdict:
    """``state`` is works, broken or unavailable; ``detail`` says why, ``gb_per_second`` (10^9 bytes) how fast."""

    state: t.Literal["works", "broken", "unavailable"]
    detail: str = ""
    gb_per_second: float | None = None


def peer_access(question: Question) -> list[Finding] | None:
    """The functional test, when it is asked for; and a peer access that is switched off by half."""
    findings = _half_disabled(question)
    if not question.p2p_test or len(question.used_gpus) < 2:
        return findings or (None if not question.p2p_test else [])
    matrix = question.gpu_info.get("topology") or {}
    used = {f"GPU{g['index']}" for g in question.used_gpus}
    pair = farthest_pair({a: {b: c for b, c in row.items() if b in used} for a, row in matrix.items() if a in used})
    pair = pair or (question.used_gpus[0]["index"], question.used_gpus[1]["index"])
    python = os.path.join(os.path.dirname(question.vllm_bin), "python")
    return [*findings, _finding(probe(python, pair, question.env, question.p2p_timeout), pair, question.p2p_timeout)]


def soften(findings: t.Sequence[Finding]) -> list[Finding]:
    """A test that passed clears the suspicions: they become information."""
    if not any(f.id == "p2p-works" for f in findings):
        return list(findings)
    return [
        dataclasses.replace(f, severity="info", message=f"{f.message} But the test with two ranks passed.")
        if f.id in SUSPICIONS
        else f
        for f in findings
    ]


def _half_disabled(question: Question) -> list[Finding]:
    """At two ranks vLLM has an all-reduce of its own, which NCCL's variable does not reach (vllm#51513)."""
    off = str(question.env.get("NCCL_P2P_DISABLE", "0")) not in ("", "0")
    args = {name.replace("_", "-"): value for name, value in question.args.items()}
    if not off or args.get("disable-custom-all-reduce") or question.layout.get("tp") != 2:
        return []
    return [
        warning(
            "p2p-half-disabled",
            "NCCL_P2P_DISABLE is set, and with two ranks vLLM's own all-reduce uses peer access all the same.",
            "Set disable-custom-all-reduce in serve_args too.",
        )
    ]


def _finding(verdict: Verdict, pair: tuple[int, int], timeout: int) -> Finding:
    between = f"between GPU {pair[0]} and GPU {pair[1]}"
    if verdict.state == "works":
        speed = "" if verdict.gb_per_second is None else f", {verdict.gb_per_second} GB/s"
        message = f"An all-reduce of two ranks {between} works{speed}."
        return info("p2p-works", message, gpus=list(pair), gb_per_second=verdict.gb_per_second)
    if verdict.state == "broken":
        return error(
            "p2p-broken",
            f"An all-reduce of two ranks {between} failed: {verdict.detail}.",
            f"{NO_P2P}, or boot with iommu=pt and ACS off, and test again.",
            gpus=list(pair),
            timeout_s=timeout,
        )
    return warning(
        "p2p-test-unavailable",
        f"The test of peer access {between} could not be made: {verdict.detail}.",
        "Run it after vLLM was installed and while the GPUs are free, or set preflight_p2p_test to false.",
        gpus=list(pair),
    )


def command(python: str) -> list[str]:
    """The argv of one rank."""
    return [python, "-c", _RANK]


def environment(env: t.Mapping[str, str], pair: tuple[int, int], rank: int, store: str) -> dict[str, str]:
    """That of the instance, so that its NCCL settings are tested, with the two GPUs."""
    return {
        **os.environ,
        "NCCL_SOCKET_IFNAME": "lo",
        **{name: str(value) for name, value in env.items()},
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": f"{pair[0]},{pair[1]}",
        "RANK": str(rank),
        "MODELOPS_STORE": store,
    }


def probe(python: str, pair: tuple[int, int], env: t.Mapping[str, str], timeout: int) -> Verdict:
    """Run two ranks for ``timeout`` seconds at most. Ends only the processes that it started."""
    if not os.access(python, os.X_OK):
        return Verdict("unavailable", f"{python} is no executable file")
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        ranks = []
        for rank in (0, 1):
            path = os.path.join(folder, f"out{rank}")
            out = stack.enter_context(open(path, "w+", encoding="utf-8", errors="replace"))
            process = subprocess.Popen(  # pylint: disable=consider-using-with
                command(python),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment(env, pair, rank, os.path.join(folder, "store")),
                start_new_session=True,
                cwd="/",
            )
            stack.callback(_end, process)
            ranks.append((process, out))
        late = not _wait([process for process, _out in ranks], deadline)
        texts = []
        for process, out in ranks:
            out.seek(0)
            texts.append((process.poll(), out.read()))
        return decide(texts, timeout if late else None)


def _wait(ranks: t.Sequence[subprocess.Popen[bytes]], deadline: float) -> bool:
    """Until both have ended, or one has failed, for which the other would wait in vain. False at the deadline."""
    while time.monotonic() < deadline:
        states = [process.poll() for process in ranks]
        if None not in states or any(states):
            return True
        time.sleep(0.05)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a rank. A rank that hangs in the driver is left behind rather than waited for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=2)


def decide(ranks: t.Sequence[tuple[int | None, str]], timed_out: int | None) -> Verdict:
    """The verdict on (exit status, output) of each rank. A test that did not end is "broken", never "unknown"."""
    said = [_said(text) for _status, text in ranks]
    unavailable = next((s["unavailable"] for s in said if "unavailable" in s), None)
    if unavailable is not None:
        return Verdict("unavailable", str(unavailable))
    failed = next(((status, text) for status, text in ranks if status), None)
    if failed is not None:
        line = _last_line(failed[1])
        state: t.Literal["broken", "unavailable"] = "unavailable" if "out of memory" in line.lower() else "broken"
        return Verdict(state, line or f"exit status {failed[0]}")
    if timed_out is not None:
        return Verdict("broken", f"it did not end in {timed_out} s")
    for (_status, text), result in zip(ranks, said, strict=True):
        if not result:
            return Verdict("broken", _last_line(text) or "it said nothing")
        if not result.get("right"):
            return Verdict("broken", "the sum that came back is wrong")
    return Verdict("works", gb_per_second=min(float(s["gb_per_second"]) for s in said))


def _said(text: str) -> dict[str, t.Any]:
    for line in text.splitlines():
        if line.startswith(_MARK):
            with contextlib.suppress(ValueError):
                return dict(json.loads(line.removeprefix(_MARK)))
    return {}


def _last_line(text: str) -> str:
    """The line that tells most: the last one about an error, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line]
    return (errors or lines or [""])[-1].rstrip(".")

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast weights are verified, as ratios to what an engineer would use instead, side by side in one run.

Every contender reads the same files from the page cache; the rounds are interleaved, so that a noisy machine is as
noisy for all of them, and the best round of each counts.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import RemoteFile, check_many

SHARDS, SHARD_BYTES, ROUNDS = 8, 64 << 20, 5


def one_thread(paths: list[Path]) -> None:
    """What a loop over hashlib does."""
    for path in paths:
        with path.open("rb") as f:
            hashlib.file_digest(f, "sha256")


def sha256sum(paths: list[Path]) -> None:
    """coreutils."""
    subprocess.run(["sha256sum", *map(str, paths)], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="modelops-bench-") as folder:
        paths = [Path(folder, f"model-{i:05d}-of-{SHARDS:05d}.bin") for i in range(SHARDS)]
        for path in paths:
            path.write_bytes(os.urandom(SHARD_BYTES))
        wanted = [RemoteFile(p.name, SHARD_BYTES, hashlib.sha256(p.read_bytes()).hexdigest()) for p in paths]

        def ours(_paths: list[Path]) -> None:
            wrong = [c.name for c in check_many(folder, wanted, "sha256").values() if not c.ok]
            if wrong:
                sys.exit(f"the verifier rejects good files: {wrong}")

        contenders: dict[str, Callable[[list[Path]], None]] = {
            "hf_snapshot (sha256, all cores)": ours,
            "hashlib, one thread": one_thread,
            "sha256sum": sha256sum,
        }
        best = dict.fromkeys(contenders, float("inf"))
        for _round in range(ROUNDS):
            for name, run in contenders.items():
                start = time.perf_counter()
                run(paths)
                best[name] = min(best[name], time.perf_counter() - start)
    ours_s, total = best["hf_snapshot (sha256, all cores)"], SHARDS * SHARD_BYTES
    print(f"verifying {SHARDS} shards of {SHARD_BYTES >> 20} MiB on {os.cpu_count()} cores, best of {ROUNDS} rounds")
    for name, seconds in best.items():
        print(f"  {name:34} {total / seconds / 1e9:5.2f} GB/s   ours is {seconds / ours_s:4.2f} x as fast")


if __name__ == "__main__":
    main()

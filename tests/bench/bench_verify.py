# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast weights are verified, beside what an engineer would use instead: 8 GB from the page cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import RemoteFile, check_many
from contest import contest, goal
from loopback_hub import Hub

SHARDS, SHARD_BYTES, ROUNDS = 16, 500_000_000, 3
REPO = "org/model"


def hashlib_alone(paths: list[Path]) -> None:
    """What a loop over hashlib does."""
    for path in paths:
        with path.open("rb") as f:
            hashlib.file_digest(f, "sha256")


def write(folder: Path) -> list[Path]:
    """The shards; their bytes are random in blocks of 1 MB that repeat, which is all the same to a hash."""
    block = os.urandom(1_000_000)
    paths = [folder / f"model-{i:05d}-of-{SHARDS:05d}.bin" for i in range(SHARDS)]
    for i, path in enumerate(paths):
        with path.open("wb") as f:
            f.write(i.to_bytes(8, "little") + block[8:])
            for _rest in range(SHARD_BYTES // len(block) - 1):
                f.write(block)
    return paths


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="modelops-bench-", dir=os.environ.get("MODELOPS_BENCH_DIR")) as name:
        folder = Path(name, "snapshot")
        folder.mkdir()
        paths = write(folder)
        hub = Hub().start()
        commit = hub.commit(REPO, {p.name: p for p in paths})
        entries = hub.repos[REPO].commits[commit]
        wanted = [RemoteFile(p.name, SHARD_BYTES, entries[p.name].sha256) for p in paths]
        env = {**os.environ, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(Path(name, "home"))}
        cli = [str(Path(sys.executable).parent / "hf"), "cache", "verify", REPO]

        def ours() -> None:
            wrong = [c.name for c in check_many(str(folder), wanted, "sha256").values() if not c.ok]
            if wrong:
                sys.exit(f"the verifier rejects good files: {wrong}")

        def verify() -> None:
            subprocess.run(
                [*cli, "--revision", commit, "--local-dir", str(folder)], env=env, check=True, capture_output=True
            )

        best = contest(
            f"verifying {SHARDS} shards of {SHARD_BYTES // 1_000_000} MB on {os.cpu_count()} cores",
            {
                "hf_snapshot (sha256, all cores)": ours,
                "hashlib, one thread": lambda: hashlib_alone(paths),
                "hf cache verify": verify,
                "sha256sum": lambda: subprocess.run(
                    ["sha256sum", *map(str, paths)], check=True, stdout=subprocess.DEVNULL
                ),
            },
            ROUNDS,
        )
        hub.stop()
    ours_s, alone, cli_s, _sum = best.values()
    print(f"  {SHARDS * SHARD_BYTES / ours_s / 1e9:.2f} GB/s")
    goal("of cores x hashlib", alone / ours_s / (os.cpu_count() or 1), 0.95, at_most=False)
    goal("of hf cache verify", cli_s / ours_s, 2.0, at_most=False)


if __name__ == "__main__":
    main()

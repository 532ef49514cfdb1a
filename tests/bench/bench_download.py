# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A download with proof beside one without: 2 GB from a loopback Hub, which shares the cores with its client."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from contest import contest, goal
from hub_testing import REPO, Snapshot
from loopback_hub import Hub
from peers import hf_snapshot, snapshot_download


def download(folder: Path) -> None:
    """40 shards of 50 MB."""
    block = os.urandom(1_000_000)
    source = folder / "source"
    source.mkdir()
    names = [f"model-{i:05d}-of-00040.safetensors" for i in range(40)]
    for i, name in enumerate(names):
        size = 50 * len(block)
        head = json.dumps({f"t{i}": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
        with (source / name).open("wb") as f:
            f.write(struct.pack("<Q", len(head)) + head + i.to_bytes(8, "little") + block[8:])
            for _rest in range(49):
                f.write(block)
    index = {"weight_map": {f"t{i}": name for i, name in enumerate(names)}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    (source / "config.json").write_text("{}")
    # The Hub is another process, as it is on another machine in life.
    root = folder / "root"
    (root / "org").mkdir(parents=True)
    source.rename(root / REPO)
    command = [sys.executable, str(Path(__file__).parents[1] / "support" / "loopback_hub.py"), "--seconds", "900"]
    server = subprocess.Popen([*command, "--root", str(root)], stdout=subprocess.PIPE, text=True)
    try:
        told = json.loads(t.cast("t.TextIO", server.stdout).readline())
        commit = told["repos"][REPO]["main"]
        dest, bare = folder / "dest", folder / "bare"
        hub = Hub()
        hub.endpoint = told["endpoint"]
        snapshot = Snapshot(hub, dest, sys.executable)
        memory: list[int] = []

        def ours() -> None:
            result, peak = hf_snapshot(snapshot, revision=commit)
            memory.append(peak)
            if result.get("failed") or result["verified"] != "sha256":
                sys.exit(f"not a proven download: {result}")

        def peer() -> None:
            snapshot_download(hub.endpoint, REPO, commit, bare, folder / "home")

        def peer_durable() -> None:
            peer()
            subprocess.run(["sync", "-f", str(bare)], check=True)

        def prepare() -> None:
            for path in (dest, bare):
                shutil.rmtree(path, ignore_errors=True)
            os.sync()

        best = contest(
            "downloading 40 files of 50 MB",
            {
                "hf_snapshot (proven, on the disk)": ours,
                "snapshot_download (unproven)": peer,
                "snapshot_download (unproven), then sync": peer_durable,
            },
            3,
            prepare,
        )
    finally:
        server.terminate()
        server.wait()
    ours_s, peer_s, _durable = best.values()
    goal("of snapshot_download", ours_s / peer_s, 1.10)
    goal("memory of the module", max(memory) / 1e6, 300, unit=" MB")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="modelops-bench-", dir=os.environ.get("MODELOPS_BENCH_DIR")) as name:
        download(Path(name))


if __name__ == "__main__":
    main()

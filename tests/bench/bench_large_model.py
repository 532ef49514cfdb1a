# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of hf_snapshot costs with nothing to do, and to judge a model by its headers.

The model has the shape of MiniMax-M2.5 (126 shards and 33 other files, 230 GB, 96 000 tensors) and sparse files, which
stat and header checks cannot tell from whole ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from pathlib import Path

from ansible_collections.modelops.vllm.plugins.module_utils._weights import manifest as manifests
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import Stamp
from ansible_collections.modelops.vllm.plugins.module_utils._weights.manifest import Manifest, Record, Selection
from contest import contest, goal
from hub_testing import REPO, Snapshot
from loopback_hub import Hub
from peers import hf_snapshot, snapshot_download

SHARDS, OTHERS, TENSORS, TENSOR_BYTES = 126, 33, 762, 2_395_000
COMMIT = hashlib.sha1(b"bench").hexdigest()


def large_model(dest: Path) -> None:
    """The sparse model, with the manifest that hf_snapshot would have written and the notes of huggingface_hub."""
    notes = dest / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    (dest / ".modelops").mkdir()
    shards = [f"model-{i:05d}-of-{SHARDS:05d}.safetensors" for i in range(SHARDS)]
    where = {}
    for i, name in enumerate(shards):
        header, at = {}, 0
        for j in range(TENSORS):
            tensor = f"model.layers.{i % 62}.block_sparse_moe.experts.{i}.{j}.weight"
            header[tensor] = {"dtype": "F8_E4M3", "shape": [TENSOR_BYTES], "data_offsets": [at, at + TENSOR_BYTES]}
            at += TENSOR_BYTES
            where[tensor] = name
        head = json.dumps(header).encode()
        (dest / name).write_bytes(struct.pack("<Q", len(head)) + head)
        os.truncate(dest / name, 8 + len(head) + at)
    (dest / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    others = ["model.safetensors.index.json", "config.json", *(f"notes-{i}.txt" for i in range(OTHERS - 2))]
    for name in others[1:]:
        (dest / name).write_text("{}")
    records = {}
    for name in (*shards, *others):
        st = Stamp.of(str(dest / name))
        sha = hashlib.sha256(name.encode()).hexdigest()
        records[name] = Record(st.size, st.mtime_ns, st.ctime_ns, st.inode, sha, None, "sha256")
        (notes / f"{name}.metadata").write_text(f"{COMMIT}\n{sha}\n{time.time() + 5}\n")
    manifests.save(str(dest), Manifest(REPO, COMMIT, COMMIT, Selection(), "sha256", tuple(shards), records))


def nothing_to_do(folder: Path) -> None:
    """The second run of a play."""
    dest = folder / "large"
    large_model(dest)
    hub = Hub().start()
    hub.commit(REPO, {"config.json": b"{}"})
    hub.repos[REPO].commits[COMMIT] = hub.repos[REPO].commits[hub.repos[REPO].refs["main"]]
    snapshot = Snapshot(hub, dest, sys.executable)
    inside: list[float] = []

    def ours() -> None:
        result = snapshot(revision=COMMIT)
        if result["changed"] or result["shards"]["present"] != SHARDS:
            sys.exit(f"not a no-op: {result}")
        inside.append(result["seconds"])

    contest(
        f"nothing to do, {SHARDS + OTHERS} files, 230 GB, each in a process of its own",
        {
            "hf_snapshot": lambda: hf_snapshot(snapshot, revision=COMMIT),
            "snapshot_download": lambda: snapshot_download(hub.endpoint, REPO, COMMIT, dest, folder / "home"),
        },
        5,
    )
    hub.clear()
    for _round in range(5):
        ours()
    goal("inside of the module", min(inside), 0.25, unit=" s")
    goal("requests with a pinned commit", len(hub.requests()), 0)
    hub.stop()


def headers(folder: Path) -> None:
    """A verdict without manifest and network."""
    dest = folder / "large"
    snapshot = Snapshot(Hub(), dest, sys.executable)
    cpu: list[float] = []
    shutil.rmtree(dest / ".modelops")
    for _round in range(5):
        start = time.process_time()
        seen = snapshot.info()
        cpu.append(time.process_time() - start)
        if not (seen["complete"] and seen["verified"] == "header"):
            sys.exit(f"the headers are not right: {seen['findings']}")
    print(f"\nindex and headers of {SHARDS} shards, {SHARDS * TENSORS} tensors")
    goal("CPU", min(cpu), 0.3, unit=" s")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="modelops-bench-", dir=os.environ.get("MODELOPS_BENCH_DIR")) as name:
        nothing_to_do(Path(name))
        headers(Path(name))


if __name__ == "__main__":
    main()

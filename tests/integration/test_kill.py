# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that are killed at random moments: what they leave is never a wrong manifest, and the next run mends it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
from hub_testing import REPO, Snapshot, every_client, flip, start_process
from loopback_hub import Hub
from tiny_files import model, shard_name

MOMENTS = 20
SHARDS = 6


def manifest_is_right(snapshot: Snapshot) -> bool:
    """Whether each file whose stamp the manifest knows has the recorded SHA-256: read and hashed here, not there."""
    path = snapshot.dest / ".modelops" / "manifest.json"
    if not path.exists():
        return True
    for name, record in json.loads(path.read_text())["files"].items():
        file = snapshot.dest / name
        if not file.exists():
            continue
        st = file.stat()
        stamp = (st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino)
        if stamp != tuple(record[k] for k in ("size", "mtime_ns", "ctime_ns", "inode")):
            continue
        if hashlib.sha256(file.read_bytes()).hexdigest() != record["sha256"]:
            return False
    return True


@every_client
def test_killed_at_random_moments_a_run_leaves_nothing_wrong(snapshot: Snapshot, hub: Hub) -> None:
    """[no-resume-since-1.18]"""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    content = model(SHARDS, size=400_000)
    hub.commit(REPO, content)
    started = time.monotonic()
    snapshot()
    whole = time.monotonic() - started
    for _moment in range(MOMENTS):
        # Some shards are gone, one is damaged, and sometimes the manifest is too: download and verification both.
        for i in chance.sample(range(SHARDS), 3):
            (snapshot.dest / shard_name(i, SHARDS)).unlink(missing_ok=True)
        left = list(snapshot.dest.glob("model-*.safetensors"))
        if left:
            flip(chance.choice(left))
        if chance.random() < 0.2:
            (snapshot.dest / ".modelops" / "manifest.json").unlink(missing_ok=True)
        hub.fault("/cdn/", "slow", bps=2_000_000, times=3)
        run = start_process(snapshot)
        time.sleep(chance.uniform(0, 1.3 * whole))
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
        hub.clear()
        assert manifest_is_right(snapshot)
        seen = snapshot.info()
        if seen["verdict"] == "complete" and seen["verified"] == "sha256":
            assert snapshot.holds(content) or leftovers_only(snapshot, content)
    result = snapshot()
    assert result["verified"] == "sha256"
    assert snapshot.holds(content)
    assert snapshot.info(verify="sha256")["complete"]
    assert os.listdir(snapshot.dest / ".modelops") == ["manifest.json"]
    assert not [p for p in snapshot.dest.rglob("*") if p.name.endswith(".incomplete")]


def leftovers_only(snapshot: Snapshot, content: dict[str, bytes]) -> bool:
    """Whether every wanted file is right, whatever else is there."""
    return all((snapshot.dest / name).read_bytes() == data for name, data in content.items())


@pytest.mark.parametrize("option", ["reverify", "header"])
def test_killed_while_it_verifies_a_run_leaves_the_manifest(snapshot: Snapshot, hub: Hub, option: str) -> None:
    hub.commit(REPO, model(3, size=30_000_000))
    snapshot()
    before = Path(snapshot.dest / ".modelops" / "manifest.json").read_bytes()
    options: dict[str, object] = {"reverify": True} if option == "reverify" else {"reverify": True, "verify": "header"}
    for delay in (0.15, 0.3, 0.45):
        run = start_process(snapshot, **options)
        time.sleep(delay)
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
        after = json.loads((snapshot.dest / ".modelops" / "manifest.json").read_bytes())
        assert after["files"] == json.loads(before)["files"]
    assert snapshot(**options)["verified"] == "sha256"

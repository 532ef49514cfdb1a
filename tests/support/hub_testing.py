# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of hf_snapshot have in common."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from call_module import call
from loopback_hub import Hub

REPO = "org/model"
PYTHONS = os.environ.get("MODELOPS_HUB_PYTHONS", sys.executable).split(":")

every_client = pytest.mark.parametrize(
    "python", PYTHONS, ids=[f"client{i}" for i in range(len(PYTHONS))], indirect=True
)


class Snapshot:
    """hf_snapshot on one destination of one Hub, with patience that suits a test."""

    def __init__(self, hub: Hub, dest: Path, python: str) -> None:
        self.hub, self.dest, self.python = hub, dest, python

    def params(self, **options: t.Any) -> dict[str, t.Any]:
        """The parameters of a call."""
        return {
            "repo_id": REPO,
            "dest": str(self.dest),
            "endpoint": self.hub.endpoint,
            "python": self.python,
            "min_free": "1MB",
            "retries": 1,
            "stall_timeout": 20,
            **options,
        }

    def __call__(self, check: bool = False, diff: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """The result of a call that must succeed."""
        result = call("hf_snapshot", self.params(**options), check, diff)
        assert not result.get("failed"), result
        return result

    def fails(self, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """The result of a call that must fail."""
        result = call("hf_snapshot", self.params(**options), check)
        assert result.get("failed"), result
        return result

    def info(self, **options: t.Any) -> dict[str, t.Any]:
        """What hf_snapshot_info says about the destination."""
        return call("hf_snapshot_info", {"dest": str(self.dest), **options})

    def holds(self, content: t.Mapping[str, bytes]) -> bool:
        """Whether exactly these files are there, byte for byte."""
        here = {
            p.relative_to(self.dest).as_posix(): p.read_bytes()
            for p in self.dest.rglob("*")
            if p.is_file() and ".modelops" not in p.parts
        }
        return here == dict(content)


def start_process(snapshot: Snapshot, **options: t.Any) -> subprocess.Popen[str]:
    """A call in a process of its own, which a test can kill; its result is the last line that it prints."""
    run = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "call_module.py"), "hf_snapshot"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    stdin = t.cast("t.TextIO", run.stdin)
    stdin.write(json.dumps(snapshot.params(**options)))
    stdin.close()
    run.stdin = None
    return run


def ids(result: t.Mapping[str, t.Any]) -> set[str]:
    """The ids of all findings."""
    return {f["id"] for f in result["findings"]}


def finding(result: t.Mapping[str, t.Any], id_: str) -> dict[str, t.Any]:
    """The last finding with an id."""
    found = [f for f in result["findings"] if f["id"] == id_]
    assert found, f"no {id_} in {result['findings']}"
    return t.cast("dict[str, t.Any]", found[-1])


def flip(path: Path, at: int = -1, keep_mtime: bool = False) -> None:
    """Change one byte of a file."""
    st = path.stat()
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
    if keep_mtime:
        os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Everything below a folder with inode, mtime and size: equal trees were not written to."""
    return {
        str(p.relative_to(folder)): (p.lstat().st_ino, p.lstat().st_mtime_ns, p.lstat().st_size)
        for p in [folder, *folder.rglob("*")]
    }

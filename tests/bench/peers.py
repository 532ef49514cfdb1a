# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_snapshot and huggingface_hub's own download, each as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from hub_testing import Snapshot

_SUPPORT = Path(__file__).parents[1] / "support"

_DOWNLOAD = """
import sys
from huggingface_hub import snapshot_download
snapshot_download(sys.argv[1], revision=sys.argv[2], local_dir=sys.argv[3], token=False)
"""


def hf_snapshot(snapshot: Snapshot, **options: t.Any) -> tuple[dict[str, t.Any], int]:
    """The result, and the most memory that the process of the module had, in bytes."""
    with tempfile.TemporaryFile("w+") as params, tempfile.TemporaryFile("w+") as out:
        json.dump(snapshot.params(**options), params)
        params.seek(0)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        run = subprocess.Popen(
            [sys.executable, str(_SUPPORT / "call_module.py"), "hf_snapshot"], stdin=params, stdout=out, env=env
        )
        _pid, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        # Linux counts what this process had when it started the other one, so this one had better be small.
        return json.loads(out.read().splitlines()[-1]), usage.ru_maxrss * 1024


def snapshot_download(endpoint: str, repo: str, commit: str, dest: Path, home: Path) -> None:
    """What an engineer would run instead, by plain HTTP as from a mirror."""
    env = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    subprocess.run([sys.executable, "-c", _DOWNLOAD, repo, commit, str(dest)], env=env, check=True)

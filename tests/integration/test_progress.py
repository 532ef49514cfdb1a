# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A long download as an operator sees it: lines while it goes on, a job that outlives the play, a run that joins it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hub_testing import REPO, Snapshot
from loopback_hub import Hub
from tiny_files import model

from tests.support.leftovers import leftovers

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^localhost: org/model: [\d.]+ MB of 24\.0 MB fetched \(\d+ %\), \d of 9 files proven", re.MULTILINE)


@pytest.fixture
def content(hub: Hub) -> dict[str, bytes]:
    """Six shards of 4 MB that arrive at 1 MB/s each, two at a time."""
    files = model(6, size=4_000_000)
    hub.commit(REPO, files)
    hub.fault("/cdn/", "slow", bps=1_000_000, times=-1)
    return files


def start(snapshot: Snapshot, tmp_path: Path, **options: object) -> subprocess.Popen[str]:
    """hf_snapshot by Ansible, with its jobs and temporary files in the test's folder."""
    params = snapshot.params(max_workers=2, progress_interval=2, **options)
    command = [str(Path(sys.executable).parent / "ansible"), "localhost", "-m", "modelops.vllm.hf_snapshot"]
    env = {
        **os.environ,
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_ASYNC_DIR": str(tmp_path / "async"),
        "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
        "LC_ALL": "C.UTF-8",
    }
    return subprocess.Popen(
        [*command, "-a", json.dumps(params)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=env,
        start_new_session=True,
    )


def wait_for_progress(snapshot: Snapshot) -> dict[str, object]:
    """The progress of the run on the destination, once it tells some."""
    path = snapshot.dest / ".modelops" / "progress.json"
    for _try in range(300):
        if path.exists():
            return json.loads(path.read_text())
        time.sleep(0.1)
    pytest.fail("no progress in 30 s")


def test_lines_tell_how_far_it_is_and_stdout_stays_the_callbacks(snapshot, hub, content, tmp_path) -> None:
    out, err = start(snapshot, tmp_path).communicate(timeout=120)
    assert "CHANGED" in out
    assert "fetched (" not in out
    assert len(LINE.findall(err)) >= 2, err
    assert "MB/s" in err
    assert "left" in err
    assert snapshot.holds(content)
    assert os.listdir(snapshot.dest / ".modelops") == ["manifest.json"]
    assert os.listdir(tmp_path / "async") == []
    assert leftovers(tmp_path / "remote") == []


def test_a_download_outlives_its_play_and_the_next_run_joins_it(snapshot, hub, content, tmp_path) -> None:
    first = start(snapshot, tmp_path)
    job = wait_for_progress(snapshot)["pid"]
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    out, err = start(snapshot, tmp_path).communicate(timeout=120)
    assert "SUCCESS" in out
    assert '"changed": false' in out.replace("changed: false", '"changed": false')
    assert f"(by process {job}, which started before)" in err
    assert snapshot.holds(content)
    assert len(hub.requests(role="cdn")) == 6


def test_a_job_that_is_killed_is_told_and_the_next_run_ends_it(snapshot, hub, content, tmp_path) -> None:
    run = start(snapshot, tmp_path)
    state = wait_for_progress(snapshot)
    marker = str(state["run"])
    for entry in Path("/proc").iterdir():
        # The module, and Ansible's wrapper around it, as when a node goes down.
        if entry.name.isdigit() and marker in _command(entry):
            os.kill(int(entry.name), signal.SIGKILL)
    out, _err = run.communicate(timeout=60)
    assert "FAILED" in out
    assert "has ended without a result" in out
    assert not snapshot.info()["complete"]
    hub.clear()
    assert snapshot()["shards"]["present"] == 6
    assert snapshot.holds(content)
    assert os.listdir(snapshot.dest / ".modelops") == ["manifest.json"]


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""

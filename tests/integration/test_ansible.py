# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_snapshot as Ansible runs it: packed into an archive, with a token that must not leak."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hub_testing import Snapshot
from loopback_hub import Hub

ROOT = Path(__file__).parents[2]


def ansible(snapshot: Snapshot, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """An ad-hoc call of the module on this machine."""
    params = json.dumps(snapshot.params(**options))
    command = [
        str(Path(sys.executable).parent / "ansible"),
        "localhost",
        "-m",
        "modelops.vllm.hf_snapshot",
        "-a",
        params,
    ]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, env=_env())


def _env() -> dict[str, str]:
    return {**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "LC_ALL": "C.UTF-8"}


def test_the_worker_is_found_in_the_archive_and_the_token_nowhere(
    snapshot: Snapshot, hub: Hub, files: dict[str, bytes]
) -> None:
    hub.token = "hf_s3cr3t"
    hub.repos["org/model"].gated = True
    run = ansible(snapshot, "-vvvv", "--diff", token="hf_s3cr3t")
    assert "CHANGED" in run.stdout, run.stdout[-3000:]
    assert snapshot.holds(files)
    assert "hf_s3cr3t" not in run.stdout + run.stderr


def test_a_refused_token_is_not_in_the_failure(snapshot: Snapshot, hub: Hub, files: dict[str, bytes]) -> None:
    hub.token = "hf_right"
    hub.repos["org/model"].gated = True
    run = ansible(snapshot, "-vvvv", token="hf_wr0ng")
    assert "FAILED" in run.stdout
    assert "does not accept" in run.stdout
    assert "hf_wr0ng" not in run.stdout + run.stderr


@pytest.mark.parametrize("where", ["token_file", "environment"])
def test_a_token_of_a_file_or_the_environment_is_nowhere(snapshot, hub, files, tmp_path, monkeypatch, where) -> None:
    hub.token, hub.repos["org/model"].gated = "hf_s3cr3t", True
    hub.fault("/cdn/", "delay", seconds=2, times=-1)
    options = {}
    if where == "token_file":
        (tmp_path / "token").write_text("hf_s3cr3t\n")
        options = {"token_file": str(tmp_path / "token")}
    else:
        monkeypatch.setenv("HF_TOKEN", "hf_s3cr3t")
    seen: dict[str, bytes] = {}
    done = threading.Event()
    watcher = threading.Thread(target=_watch_workers, args=(seen, done))
    watcher.start()
    run = ansible(snapshot, "-vvvv", "--diff", **options)
    done.set()
    watcher.join()
    assert "CHANGED" in run.stdout, run.stdout[-3000:]
    assert snapshot.holds(files)
    assert "hf_s3cr3t" not in run.stdout + run.stderr
    assert {"cmdline", "environ"} <= {key.split("/")[1] for key in seen}, "a worker was seen"
    assert not [key for key, data in seen.items() if b"hf_s3cr3t" in data]
    assert not any(b"hf_s3cr3t" in p.read_bytes() for p in snapshot.dest.rglob("*") if p.is_file())


def _watch_workers(seen: dict[str, bytes], done: threading.Event) -> None:
    """Collect the command line and the environment of each process that runs our worker."""
    while not done.wait(0.05):
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if b"worker.py" in (folder / "cmdline").read_bytes():
                    for name in ("cmdline", "environ"):
                        seen[f"{folder.name}/{name}"] = (folder / name).read_bytes()


def test_check_mode_on_a_bare_node_works(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    run = ansible(snapshot, "--check", python="/opt/nowhere/bin/python")
    assert "CHANGED" in run.stdout
    assert "no-hub-client" in run.stdout


def role(snapshot: Snapshot, tmp_path: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    """The role weights on this machine, with variables as AWX sends them."""
    play = [{"hosts": "localhost", "gather_facts": False, "roles": [{"role": "modelops.vllm.weights"}]}]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    given = {
        "weights_repo_id": "org/model",
        "weights_dest": str(snapshot.dest),
        "weights_endpoint": snapshot.hub.endpoint,
        "weights_python": snapshot.python,
        "weights_min_free": "1MB",
        "ansible_python_interpreter": sys.executable,
        **variables,
    }
    # Not on the command line, which -vvvv shows.
    (tmp_path / "vars.json").write_text(json.dumps(given))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), str(tmp_path / "play.yml"), "-c", "local"]
    return subprocess.run(
        [*command, "-i", "localhost,", "-vvvv", "-e", f"@{tmp_path}/vars.json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=_env(),
    )


def test_the_role_takes_a_token_file_and_the_blanks_of_a_survey(snapshot, hub, files, tmp_path) -> None:
    hub.token = "hf_fr0mfile"
    hub.repos["org/model"].gated = True
    (tmp_path / "token").write_text("hf_fr0mfile\n")
    blanks = {
        "weights_allow_patterns": [""],
        "weights_ignore_patterns": "",
        "weights_source_dir": "",
        "weights_source_checksums": "",
        "weights_token": "",
        "weights_strict": "false",
        "weights_max_workers": "4",
    }
    run = role(snapshot, tmp_path, weights_token_file=str(tmp_path / "token"), **blanks)
    assert "failed=0" in run.stdout, run.stdout[-2000:]
    assert "changed=1" in run.stdout
    assert snapshot.holds(files)
    assert "hf_fr0mfile" not in run.stdout + run.stderr
    assert "changed=0" in role(snapshot, tmp_path, weights_token_file=str(tmp_path / "token"), **blanks).stdout


def test_two_tokens_are_refused_and_not_shown(snapshot, hub, files, tmp_path) -> None:
    run = role(snapshot, tmp_path, weights_token="hf_tw0", weights_token_file="/run/token")
    assert "are mutually exclusive" in run.stdout
    assert "hf_tw0" not in run.stdout + run.stderr

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_snapshot from the mirror of another node, with each huggingface_hub that is at hand."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import typing as t
import uuid
from dataclasses import asdict
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._hub import mirror
from ansible_collections.modelops.vllm.plugins.module_utils._weights.manifest import load
from hub_testing import REPO, Snapshot, every_client, flip, ids
from loopback_hub import Hub

ROOT = Path(__file__).parents[2]
TOKEN = "0neT1meT0kenOfThisTest"
NOWHERE = "http://127.0.0.1:9"


@contextlib.contextmanager
def mirrored(folder: Path, **changes: t.Any) -> t.Iterator[str]:
    """The address of a mirror of a verified folder, run as systemd runs it: one file, its job on standard input."""
    found = load(str(folder))
    assert found
    job = {
        "token": TOKEN,
        "address": "127.0.0.1",
        "port": 0,
        "repo": found.repo,
        "commit": found.commit,
        "revision": found.revision,
        "folder": str(folder),
        "files": {name: asdict(record) for name, record in found.files.items()},
        **changes,
    }
    name = f"modelops-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{name}")
        systemd.settimeout(20)
        process = subprocess.Popen(
            [sys.executable, "-I", mirror.__file__],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"NOTIFY_SOCKET": f"@{name}"},
        )
        try:
            process.stdin.write(json.dumps(job).encode())
            process.stdin.close()
            ready, status = systemd.recv(4096).decode().splitlines()
            assert ready == "READY=1"
            yield status.rpartition(" ")[2]
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def first(hub: Hub, files: dict[str, bytes], tmp_path: Path, python: str) -> Snapshot:
    """The first node of a site: it has the snapshot from the Hub, which then forgets what it was asked."""
    snapshot = Snapshot(hub, tmp_path / "first", python)
    snapshot()
    hub.clear()
    return snapshot


@pytest.fixture
def second(hub: Hub, tmp_path: Path, python: str) -> Snapshot:
    """Another node, with nothing yet."""
    return Snapshot(hub, tmp_path / "second", python)


def commit(first: Snapshot) -> str:
    """What the first node has."""
    found = load(str(first.dest))
    assert found
    return found.commit


@every_client
def test_another_node_gets_and_proves_all_of_it_and_the_hub_is_not_asked(
    first: Snapshot, second: Snapshot, hub: Hub, files: dict[str, bytes]
) -> None:
    with mirrored(first.dest) as url:
        result = second(endpoint=url, revision=commit(first), token=TOKEN)
    assert result["changed"]
    assert (result["commit"], result["verified"], result["files"]) == (commit(first), "sha256", len(files))
    assert second.holds(files)
    assert hub.requests() == []


def test_the_mirror_knows_the_commit_also_by_the_name_under_which_it_was_fetched(
    first: Snapshot, second: Snapshot, files: dict[str, bytes]
) -> None:
    with mirrored(first.dest) as url:
        assert second(endpoint=url, revision="main", token=TOKEN)["commit"] == commit(first)
    assert second.holds(files)


def test_the_second_run_needs_no_mirror(first: Snapshot, second: Snapshot) -> None:
    with mirrored(first.dest) as url:
        second(endpoint=url, revision=commit(first), token=TOKEN)
    result = second(endpoint=NOWHERE, revision=commit(first))
    assert (result["changed"], result["attempts"]) == (False, 0)


def test_damage_on_another_node_is_mended_from_the_first(
    first: Snapshot, second: Snapshot, hub: Hub, files: dict[str, bytes]
) -> None:
    with mirrored(first.dest) as url:
        options = {"endpoint": url, "revision": commit(first), "token": TOKEN}
        second(**options)
        name = next(n for n in files if n.endswith(".safetensors"))
        flip(second.dest / name)
        result = second(**options)
    assert result["fetched"] == [name]
    assert second.holds(files)
    assert hub.requests() == []


def test_damage_on_the_first_node_does_not_spread(first: Snapshot, second: Snapshot, files: dict[str, bytes]) -> None:
    name = next(n for n in files if n.endswith(".safetensors"))
    with mirrored(first.dest) as url:
        flip(first.dest / name)
        result = second.fails(endpoint=url, revision=commit(first), token=TOKEN)
    assert name in result["shards"]["missing"]
    assert "file-not-found" in ids(result)
    assert not (second.dest / name).exists()


def test_bytes_that_change_on_the_way_from_the_disk_are_noticed(
    first: Snapshot, second: Snapshot, files: dict[str, bytes]
) -> None:
    """As a disk does that reads something else than was written: no stamp tells of it."""
    name = next(n for n in files if n.endswith(".safetensors"))
    found = load(str(first.dest))
    assert found
    path = first.dest / name
    flip(path)
    st = os.stat(path)
    records = {n: asdict(r) for n, r in found.files.items()}
    records[name] |= {"mtime_ns": st.st_mtime_ns, "ctime_ns": st.st_ctime_ns, "inode": st.st_ino}
    with mirrored(first.dest, files=records) as url:
        result = second.fails(endpoint=url, revision=found.commit, token=TOKEN)
    assert "corrupt" in ids(result)
    assert second.info()["complete"] is False


def test_without_the_token_nothing_is_told(first: Snapshot, second: Snapshot) -> None:
    with mirrored(first.dest) as url:
        result = second.fails(endpoint=url, revision=commit(first), token="n0tTheT0kenOfThisTest")
    assert "token-refused" in ids(result)
    assert TOKEN not in json.dumps(result)


def test_another_commit_is_not_to_be_had(first: Snapshot, second: Snapshot) -> None:
    with mirrored(first.dest) as url:
        result = second.fails(endpoint=url, revision="0" * 40, token=TOKEN)
    assert "revision-not-found" in ids(result)


def test_another_repository_is_not_to_be_had(first: Snapshot, second: Snapshot) -> None:
    with mirrored(first.dest) as url:
        result = second.fails(endpoint=url, repo_id="org/other", revision=commit(first), token=TOKEN)
    assert "repo-not-found" in ids(result)
    assert f"This mirror has {REPO} only" in result["msg"]


def compared(first: Snapshot, folder: Path, **changes: t.Any) -> subprocess.CompletedProcess[str]:
    """The end of the role's way from the first node: what is here, against the hashes that the controller knows."""
    found = load(str(first.dest))
    assert found
    checksums = {name: record.sha256 for name, record in found.files.items()} | changes
    facts = {
        "weights_result": {"manifest": str(first.dest / ".modelops" / "manifest.json")},
        "_weights_mirror": {"url": "http://10.0.0.1:8791", "checksums": {n: c for n, c in checksums.items() if c}},
        "weights_dest": str(first.dest),
    }
    task = {"ansible.builtin.include_role": {"name": "modelops.vllm.weights", "tasks_from": "compare"}, "vars": facts}
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"name": "Compare", **task}]}]
    (folder / "play.yml").write_text(json.dumps(play))
    return subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), str(folder / "play.yml")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"},
    )


def test_the_proof_stands_when_the_controller_knows_the_same_hashes(first: Snapshot, tmp_path: Path) -> None:
    run = compared(first, tmp_path)
    assert run.returncode == 0, run.stdout
    assert "changed=0" in run.stdout
    assert first.info()["complete"]


@pytest.mark.parametrize("name", ["config.json", "nothing.json", "model.safetensors.index.json"])
def test_the_proof_is_taken_back_when_they_differ(first: Snapshot, tmp_path: Path, name: str) -> None:
    other = {"config.json": "0" * 64, "nothing.json": "0" * 64, "model.safetensors.index.json": None}
    run = compared(first, tmp_path, **{name: other[name]})
    assert run.returncode == 2
    assert "somebody else answered there" in " ".join(run.stdout.split() + run.stderr.split())
    assert load(str(first.dest)) is None

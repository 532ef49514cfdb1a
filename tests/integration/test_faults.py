# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_snapshot against a Hub, a CDN and a node that fail: never a wrong "complete", never an endless run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hub_testing import REPO, Snapshot, every_client, finding, ids, tree
from loopback_hub import Hub
from loopback_repo import Entry
from tiny_files import HTML, model, safetensors, shard_name

SHARD = shard_name(2, 4)


@every_client
@pytest.mark.parametrize(
    ("pattern", "kind", "options"),
    [
        pytest.param("/cdn/", "status", {"code": 503}, id="cdn-5xx-not-retried"),
        pytest.param("/api/models", "status", {"code": 500}, id="api-500"),
        pytest.param("/api/models", "status", {"code": 429, "headers": {"Retry-After": "1"}}, id="rate-limit-429"),
        pytest.param("/resolve/.*config", "status", {"code": 429}, id="resolve-429"),
        pytest.param("/cdn/", "cut", {"after": 1000}, id="cut"),
        pytest.param("/cdn/", "drop", {}, id="drop"),
        pytest.param("/cdn/", "nolength", {}, id="no-length"),
        pytest.param("/cdn/", "status", {"code": 403}, id="expired-link"),
        pytest.param("/cdn/", "corrupt", {"at": 2000}, id="cdn-corrupt-same-size"),
        pytest.param("/cdn/", "status", {"code": 200, "body": HTML, "ctype": "text/html"}, id="html-page"),
        pytest.param("/resolve/.*safetensors$", "wrongsize", {"delta": 10}, id="consistency-check-size"),
    ],
)
def test_what_passes_is_waited_for(snapshot, hub, files, pattern, kind, options) -> None:
    fault = hub.fault(pattern, kind, **options)
    result = snapshot()
    assert fault.hits == 1
    assert snapshot.holds(files)
    assert result["shards"]["present"] == 4
    assert snapshot.info(verify="sha256")["complete"]


@every_client
@pytest.mark.parametrize(
    ("pattern", "kind", "options", "id_"),
    [
        pytest.param("/api/", "status", {"code": 500}, "hub-busy", id="false-success-5xx"),
        pytest.param("/api/", "drop", {}, "connection", id="hub-drops"),
        pytest.param("/cdn/", "corrupt", {"at": 2000}, "corrupt", id="always-corrupt"),
        pytest.param("/resolve/.*safetensors$", "wrongsize", {"delta": 10}, "download-failed", id="size-lie"),
        pytest.param("/resolve/.*safetensors$", "status", {"code": 404}, "file-not-found", id="mirror-hole"),
        pytest.param(
            "/resolve/",
            "status",
            {"code": 308, "headers": {"Location": "http://127.0.0.2:1/x"}},
            None,
            id="mirror-308-redirect",
        ),
    ],
)
def test_what_does_not_pass_fails_and_names_it(snapshot, hub, files, pattern, kind, options, id_) -> None:
    snapshot()
    (snapshot.dest / SHARD).unlink()
    (snapshot.dest / "config.json").unlink()
    hub.fault(pattern, kind, times=-1, **options)
    result = snapshot.fails()
    if id_:
        assert finding(result, id_)["severity"] == "error"
    if pattern != "/api/":
        assert result["shards"]["missing"] == [SHARD]
    assert result["attempts"] <= 3
    assert not (snapshot.dest / SHARD).exists()
    assert not snapshot.info()["complete"]
    hub.clear()
    assert snapshot()["shards"]["present"] == 4
    assert snapshot.holds(files)


@every_client
def test_a_file_that_cannot_be_asked_for_is_not_called_absent(snapshot, hub, files, tmp_path) -> None:
    """huggingface_hub wraps every failure in an error whose base class says that the Hub lacks the file."""
    # The library's own retries take 20 s with their pauses.
    snapshot.python = _patched(snapshot.python, tmp_path, "import time; time.sleep = lambda *_: None")
    commit = snapshot()["commit"]
    (snapshot.dest / "tokenizer.json").unlink()
    result = snapshot.fails(revision=commit, endpoint="http://127.0.0.1:9")
    assert ids(result) == {"retried", "connection"}
    assert result["attempts"] == 2
    hub.fault("/resolve/.*tokenizer", "drop", times=-1)
    assert ids(snapshot.fails(retries=0)) == {"connection"}
    hub.clear()
    snapshot()
    assert snapshot.holds(files)


@pytest.mark.case("cdn-5xx-not-retried")
def test_a_cdn_that_stays_down_is_a_failure(snapshot, hub, files) -> None:
    hub.fault("/cdn/", "status", code=503, times=-1)
    result = snapshot.fails()
    assert "503" in finding(result, "hub-busy")["message"]
    assert result["shards"]["present"] == 0
    assert snapshot.info()["verdict"] == "absent"


def test_an_unreachable_hub_fails_with_its_address(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    result = snapshot.fails(endpoint="http://127.0.0.1:9", retries=0)
    assert "http://127.0.0.1:9" in result["msg"]
    assert finding(result, "connection")


@every_client
@pytest.mark.case("no-resume-since-1.18")
def test_a_stalled_transfer_is_ended_and_started_again(snapshot, hub, files) -> None:
    """The retry starts at the first byte, and the part of the first attempt does not stay."""
    fault = hub.fault("/cdn/", "hang", after=1000, seconds=20)
    result = snapshot(stall_timeout=2)
    assert fault.hits == 1
    assert result["seconds"] < 15
    assert snapshot.holds(files)


@every_client
def test_a_stall_that_stays_is_a_failure(snapshot, hub, files) -> None:
    hub.fault("/cdn/", "hang", after=1000, seconds=30, times=-1)
    result = snapshot.fails(stall_timeout=1, retries=0)
    assert finding(result, "stalled")["severity"] == "error"
    assert result["seconds"] < 10


# Access


@every_client
@pytest.mark.case("gated-403-fine-grained")
def test_who_may_read_is_told_apart(snapshot, hub, files, capfd) -> None:
    hub.token = "hf_right"
    hub.repos[REPO].gated = True
    assert finding(snapshot.fails(), "gated")["message"].count("no token") == 1
    result = snapshot.fails(token="hf_wrong")
    assert finding(result, "token-refused")
    assert "hf_wrong" not in json.dumps(result)
    hub.repos[REPO].gated, hub.repos[REPO].private = False, True
    assert finding(snapshot.fails(), "repo-not-found")["message"].count("private") == 1
    hub.repos[REPO].disabled = hub.repos[REPO].private = True
    assert finding(snapshot.fails(token="hf_right"), "disabled")
    hub.repos[REPO].disabled = False
    assert finding(snapshot.fails(repo_id="org/none"), "repo-not-found")
    assert "v9" in finding(snapshot.fails(revision="v9", token="hf_right"), "revision-not-found")["message"]
    assert not snapshot.dest.exists()
    assert len(hub.requests()) < 20
    hub.repos[REPO].gated = True
    assert snapshot(token=" hf_right\n")["shards"]["present"] == 4
    assert "hf_right" not in capfd.readouterr().out
    assert not any(b"hf_right" in p.read_bytes() for p in snapshot.dest.rglob("*") if p.is_file())


def test_a_token_with_a_line_break_is_not_quoted(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    result = snapshot.fails(token="hf_first\nhf_second")
    assert "token" in result["msg"]
    assert "hf_" not in result["msg"]


# What a listing may say


@pytest.mark.case("path-traversal-mirror")
def test_names_that_leave_the_folder_are_refused(snapshot: Snapshot, hub: Hub) -> None:
    for name in ("../evil.json", "/etc/evil", "a/../../evil", "a\\evil", ".modelops/manifest.json"):
        hub.commit(REPO, {"config.json": b"{}", "model.safetensors": safetensors({"t": 8}), name: b"x"})
        assert finding(snapshot.fails(), "unsafe-name")
    assert not snapshot.dest.exists()


@pytest.mark.case("index-names-absent-shards")
def test_an_index_that_names_absent_shards_is_upstreams_fault(snapshot: Snapshot, hub: Hub) -> None:
    content = model()
    del content[SHARD]
    hub.commit(REPO, content)
    result = snapshot.fails()
    assert SHARD in finding(result, "upstream-inconsistent")["message"]
    assert result["shards"]["missing"] == [SHARD]
    assert not snapshot.dest.exists()
    assert not hub.requests(role="cdn")


def test_what_is_broken_as_published_is_said_and_not_fetched_again(snapshot: Snapshot, hub: Hub) -> None:
    content = model()
    content[SHARD] = content[SHARD][:-100]
    hub.commit(REPO, content)
    for _run in range(2):
        result = snapshot.fails()
        assert finding(result, "upstream-inconsistent")["severity"] == "error"
        assert len(hub.requests(role="cdn")) == 4
    assert snapshot.info()["verdict"] == "upstream-inconsistent"


def test_an_index_that_does_not_fit_its_shards_is_a_warning_on_every_run(snapshot: Snapshot, hub: Hub) -> None:
    content = model()
    content[SHARD] = safetensors({"layer.2.a": 100, "other": 50})
    hub.commit(REPO, content)
    for _run in range(2):
        assert finding(snapshot(), "upstream-inconsistent")["numbers"] == {"file": SHARD, "tensors": 1}
    assert finding(snapshot.fails(strict=True), "upstream-inconsistent")


@pytest.mark.case("http-50gb-limit")
def test_a_large_file_without_xet_is_refused_before_the_first_byte(snapshot: Snapshot, hub: Hub) -> None:
    large = Entry("model.safetensors", safetensors({"t": 8}))
    large.size = 50_000_000_001
    hub.commit(REPO, {"config.json": b"{}", "model.safetensors": large})
    assert "model.safetensors" in finding(snapshot.fails(), "file-too-large")["message"]
    assert not hub.requests("/resolve/|/cdn/")


@pytest.mark.case("disk-full-only-warns")
def test_a_disk_that_is_too_small_is_named_before_the_first_byte(snapshot, hub, files) -> None:
    result = snapshot.fails(min_free="900TB")
    numbers = finding(result, "disk-space")["numbers"]
    assert numbers["needed"] == sum(map(len, files.values()))
    assert numbers["short"] == numbers["needed"] + 900 * 10**12 - numbers["free"]
    assert not hub.requests(role="cdn")
    assert not snapshot.dest.exists()
    snapshot()
    assert not snapshot(min_free="900TB")["changed"], "nothing is missing, so no space is needed"


# Runs that meet, and runs that are killed


@pytest.mark.case("flock-noop-corruption")
def test_a_second_run_waits_and_finds_the_work_done(snapshot, hub, files) -> None:
    hub.fault("/cdn/", "delay", seconds=2, times=4)
    results = []
    runs = [_process(snapshot) for _run in range(2)]
    results = [json.loads(p.communicate(timeout=60)[0]) for p in runs]
    assert sorted(r["changed"] for r in results) == [False, True], results
    assert len(hub.requests(role="cdn")) == 4
    assert snapshot.holds(files)


@every_client
@pytest.mark.case("flock-noop-corruption")
def test_two_runs_where_flock_locks_nothing(snapshot, hub, files, tmp_path) -> None:
    """Some network file systems grant every flock. huggingface_hub relies on it, our lock does not."""
    snapshot.python = _patched(snapshot.python, tmp_path, "import fcntl; fcntl.flock = lambda *_: None")
    hub.fault("/cdn/", "delay", seconds=1, times=4)
    runs = [_process(snapshot) for _run in range(2)]
    results = [json.loads(p.communicate(timeout=60)[0]) for p in runs]
    assert sorted(r["changed"] for r in results) == [False, True], results
    assert len(hub.requests(role="cdn")) == 4
    assert snapshot.holds(files)


@pytest.mark.case("lock-wait-forever")
def test_a_held_lock_is_waited_for_with_a_bound_and_its_holder_named(snapshot, files) -> None:
    snapshot()
    (snapshot.dest / SHARD).unlink()
    lock = snapshot.dest / ".modelops" / "lock"
    lock.write_text(json.dumps({"pid": 4242, "host": "elsewhere x", "token": "t", "since": time.time() - 60}))
    result = snapshot.fails(lock_timeout=1)
    assert "4242" in result["msg"]
    assert "elsewhere" in result["msg"]
    assert lock.exists()


def _patched(python: str, folder: Path, patch: str) -> str:
    """An interpreter that runs a line of Python before the worker."""
    program = f"{patch}; import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {python} -c "{program}" "$@"\n')
    wrapper.chmod(0o755)
    return str(wrapper)


def test_an_old_client_is_named_and_does_not_keep_check_mode_from_planning(snapshot, files, tmp_path) -> None:
    snapshot.python = _patched(snapshot.python, tmp_path, "import huggingface_hub as h; h.__version__ = '0.34.1'")
    planned = snapshot(check=True)
    assert planned["fetched"] == sorted(files)
    assert "0.34.1" in finding(planned, "no-hub-client")["message"]
    assert "0.34.1" in finding(snapshot.fails(), "no-hub-client")["message"]
    assert not snapshot.dest.exists()


def _process(snapshot: Snapshot, **options: object) -> subprocess.Popen[str]:
    support = Path(__file__).parents[1] / "support" / "call_module.py"
    run = subprocess.Popen(
        [sys.executable, str(support), "hf_snapshot"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    run.stdin.write(json.dumps(snapshot.params(**options)))
    run.stdin.close()
    run.stdin = None
    return run


def test_no_worker_outlives_the_module(snapshot, hub, files) -> None:
    hub.fault("/cdn/", "hang", after=10, seconds=30, times=-1)
    run = _process(snapshot)
    deadline = time.monotonic() + 20
    while not (workers := _workers(run.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    while any(os.path.exists(f"/proc/{pid}") for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert workers
    assert not [pid for pid in workers if os.path.exists(f"/proc/{pid}")]


def _workers(parent: int) -> list[str]:
    children = Path(f"/proc/{parent}/task/{parent}/children")
    return children.read_text().split() if children.exists() else []


@pytest.mark.case("xet-oom")
def test_a_worker_killed_for_memory_is_explained_and_replaced_by_a_smaller_one(snapshot, hub, files) -> None:
    hub.fault("/cdn/", "hang", after=10, seconds=5, times=4)
    results: list[dict[str, object]] = []
    thread = threading.Thread(target=lambda: results.append(snapshot()))
    thread.start()
    deadline = time.monotonic() + 20
    while not hub.requests("/resolve/.*safetensors$") and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in _all_children():
        os.kill(int(pid), signal.SIGKILL)
    thread.join(30)
    assert "signal 9" in finding(results[0], "fewer-workers")["message"]
    assert snapshot.holds(files)


def _all_children() -> list[str]:
    return [c for task in Path(f"/proc/{os.getpid()}/task").iterdir() for c in (task / "children").read_text().split()]


def test_nothing_is_written_when_the_hub_refuses(snapshot: Snapshot, hub: Hub, tmp_path: Path) -> None:
    before = tree(tmp_path)
    snapshot.fails(repo_id="org/none")
    assert tree(tmp_path) == before
    assert ids(snapshot.fails(repo_id="org/none")) == {"repo-not-found"}

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One engine on two nodes, with a real vLLM: it serves, it is restarted as one, and it switches all or none.

The dense model runs on unpatched vLLM. MiniMax-M2 with expert parallelism runs on PATCHED vLLM (the shim).
"""

from __future__ import annotations

import json
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
import testinfra

from tests.support.scenario import ROLLBACK, run_playbook

UNIT, WATCH = "vllm-main.service", "vllm-main-watch.service"
KEY = "molecule-api-key-0815"
CONVERGE = Path(__file__).parents[1] / "converge.yml"
# How long a restart of the group may take: a stop, the pause of systemd, and a start of two ranks on a busy machine.
BACK_SECONDS = 600
SHIM = {"TORCHDYNAMO_DISABLE": "1", "PYTHONPATH": "/opt/vllm-cpu-shim", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}

ASK = """
import json, urllib.request
body = json.dumps({"model": "demo", "prompt": "The quick brown fox", "max_tokens": 8, "temperature": 0,
                   "ignore_eos": True, "logprobs": 1}).encode()
headers = {"Content-Type": "application/json", "Authorization": "Bearer molecule-api-key-0815"}
req = urllib.request.Request("http://127.0.0.1:8000/v1/completions", body, headers)
print(json.dumps(json.load(urllib.request.urlopen(req, timeout=60))["choices"][0]["logprobs"]["tokens"]))
"""
BOARD = "import urllib.request; print(urllib.request.urlopen('http://{}:29510/group', timeout=10).read().decode())"


@pytest.fixture(scope="module")
def head() -> t.Any:
    return testinfra.get_host("podman://nodes-head")


@pytest.fixture(scope="module")
def worker() -> t.Any:
    return testinfra.get_host("podman://nodes-worker")


def play(*arguments: str, **variables: t.Any) -> subprocess.CompletedProcess[str]:
    """Run the play of the scenario again, on both nodes, with other variables."""
    return run_playbook(CONVERGE, *arguments, **variables)


def show(host: t.Any, name: str, unit: str = UNIT) -> str:
    return host.check_output("systemctl show --value -p %s %s", name, unit)


def starts(*hosts: t.Any) -> list[str]:
    return [show(host, "InvocationID") for host in hosts]


def tokens(host: t.Any) -> list[str]:
    """What the engine answers; an empty list when it does not."""
    out = host.run("python3 -c %s", ASK)
    return json.loads(out.stdout) if out.rc == 0 else []


def eventually(condition: t.Callable[[], bool]) -> bool:
    end = time.monotonic() + BACK_SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(2)
    return True


def journal(host: t.Any, unit: str) -> str:
    return host.run("journalctl -u %s -n 60 --no-pager", unit).stdout


def address(host: t.Any) -> str:
    return host.check_output("hostname -I").split()[0]


def current(host: t.Any) -> str:
    return host.check_output("readlink /var/lib/vllm/instances/main/current")


def test_the_head_answers_for_both_and_the_worker_serves_no_http(head: t.Any, worker: t.Any) -> None:
    assert len(tokens(head)) == 8, journal(head, UNIT)
    assert head.service(UNIT).is_enabled
    assert worker.service(UNIT).is_enabled
    assert not worker.socket("tcp://127.0.0.1:8000").is_listening
    assert "Worker_TP0" in head.check_output("ps axo args")
    assert "Worker_TP1" in worker.check_output("ps axo args")


def test_the_ranks_share_one_args_file_and_differ_in_their_units_only(head: t.Any, worker: t.Any) -> None:
    assert head.file("/etc/vllm/main.yaml").sha256sum == worker.file("/etc/vllm/main.yaml").sha256sum
    starts_head, starts_worker = (show(host, "ExecStart") for host in (head, worker))
    assert "--node-rank=0" in starts_head
    assert "--headless" not in starts_head
    assert "--node-rank=1" in starts_worker
    assert "--headless" in starts_worker


def test_each_rank_is_pinned_to_its_address_and_interface(head: t.Any, worker: t.Any) -> None:
    for host in (head, worker):
        pid = show(host, "MainPID")
        environ = host.check_output("runuser -u vllm -- cat /proc/%s/environ", pid).split("\0")
        assert f"VLLM_HOST_IP={address(host)}" in environ
        assert "GLOO_SOCKET_IFNAME=eth0" in environ
        assert "NCCL_SOCKET_IFNAME==eth0" in environ


def test_each_node_is_watched_and_shows_no_secret(head: t.Any, worker: t.Any) -> None:
    digests = set()
    for host, other in ((head, worker), (worker, head)):
        assert host.service(WATCH).is_running
        assert host.service(WATCH).is_enabled
        text = host.check_output("python3 -c %s", BOARD.format(address(other)))
        assert KEY not in text
        state = json.loads(text)
        assert (state["kind"], state["phase"], state["epoch"]) == ("watch", "up", 0)
        digests.add(state["digest"])
    assert len(digests) == 1


def test_a_second_run_changes_nothing(head: t.Any, worker: t.Any) -> None:
    before = starts(head, worker)
    run = play()
    assert run.returncode == 0, run.stdout[-3000:]
    assert run.stdout.count("changed=0") == 2, run.stdout[-3000:]
    assert starts(head, worker) == before


def test_a_limit_that_leaves_a_rank_out_is_refused_with_its_name(head: t.Any, worker: t.Any) -> None:
    before = starts(head, worker)
    run = play("--limit", "nodes-head")
    assert run.returncode != 0
    assert "Not in this play, or failed in it: nodes-worker" in run.stdout, run.stdout[-3000:]
    assert starts(head, worker) == before


def restarted_as_one(head: t.Any, worker: t.Any, before: list[str], answer: list[str]) -> None:
    assert eventually(lambda: all(a != b for a, b in zip(starts(head, worker), before, strict=True))), journal(
        head, WATCH
    )
    assert eventually(lambda: tokens(head) == answer), journal(head, UNIT) + journal(worker, UNIT)
    # Once each: nobody follows whom it has taken along.
    after = starts(head, worker)
    time.sleep(10)
    assert starts(head, worker) == after


def test_a_worker_that_dies_is_restarted_with_its_head(head: t.Any, worker: t.Any) -> None:
    before, answer = starts(head, worker), tokens(head)
    worker.check_output("pkill -9 -f '[V]LLM::Worker'")
    restarted_as_one(head, worker, before, answer)


def test_a_head_that_dies_is_restarted_with_its_worker(head: t.Any, worker: t.Any) -> None:
    before, answer = starts(head, worker), tokens(head)
    head.check_output("pkill -9 -f '[V]LLM::EngineCore'")
    restarted_as_one(head, worker, before, answer)


def test_a_release_that_fails_on_the_worker_gives_both_nodes_back(head: t.Any, worker: t.Any) -> None:
    before, answer = [current(head), current(worker)], tokens(head)
    # The shard is there for the checks, and cannot be read when the worker loads it.
    worker.check_output("cp -r /srv/models/dense /srv/models/torn")
    head.check_output("cp -r /srv/models/dense /srv/models/torn")
    worker.check_output("chmod 0600 /srv/models/torn/model-00002-of-00004.safetensors")
    run = play(serve_model_dir="/srv/models/torn")
    assert run.returncode != 0
    assert run.stdout.count("failed=1") == 2, run.stdout[-5000:]
    assert "The last good release serves again" in run.stdout, run.stdout[-5000:]
    assert "NOTHING SERVES" not in run.stdout, run.stdout[-5000:]
    # What the worker found is told on the head too, whichever of them noticed first that something was wrong.
    assert "rank 1 (nodes-worker) failed" in run.stdout, run.stdout[-5000:]
    assert [current(head), current(worker)] == before
    assert tokens(head) == answer
    assert all(host.service(WATCH).is_running for host in (head, worker))


def test_what_fails_on_one_node_before_the_stop_stops_nothing_on_the_other(head: t.Any, worker: t.Any) -> None:
    before = starts(head, worker)
    run = play(serve_model_dir="/srv/models/nowhere")
    assert run.returncode != 0
    assert starts(head, worker) == before


def test_minimax_with_expert_parallelism_on_patched_vllm_and_back(head: t.Any, worker: t.Any) -> None:
    dense = tokens(head)
    run = play(serve_model_dir="/srv/models/minimax", serve_layout="tp2-ep", test_env=SHIM)
    assert run.returncode == 0, run.stdout[-5000:]
    assert "enable-expert-parallel: true" in worker.file("/etc/vllm/main.yaml").content_string
    assert len(tokens(head)) == 8
    back = run_playbook(ROLLBACK, vllm_hosts="engine")
    assert back.returncode == 0, back.stdout[-5000:]
    assert tokens(head) == dense
    assert "/srv/models/dense" in worker.file("/etc/vllm/main.yaml").content_string

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two replicas behind a router: who answers, what a dead one costs, and what a change of the router touches."""

from __future__ import annotations

import json
import subprocess
import time
import typing as t
from pathlib import Path

from tests.support.scenario import run_playbook

ROUTER = "vllm-router-main.service"
REPLICAS = {"vllm-main-r0.service": 8001, "vllm-main-r1.service": 8002}
FIRST = "vllm-main-r0.service"
KEY = "molecule-api-key-4711"
CONVERGE = Path(__file__).parents[1] / "converge.yml"
FRONT = Path(__file__).parents[1] / "front.yml"

# Prints the status of each of N requests that clients send to the router.
ASK = """
import json, sys, urllib.error, urllib.request
body = json.dumps({"model": "demo", "prompt": "The quick brown fox", "max_tokens": 2, "ignore_eos": True}).encode()
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + sys.argv[2]}
for _i in range(int(sys.argv[1])):
    req = urllib.request.Request("http://127.0.0.1:8000/v1/completions", body, headers)
    try:
        with urllib.request.urlopen(req, timeout=60) as reply:
            print(reply.status if json.load(reply)["usage"]["completion_tokens"] == 2 else "short")
    except urllib.error.HTTPError as e:
        print(e.code)
    except OSError as e:
        print(e)
"""
READ = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"


def deploy(*arguments: str, **variables: t.Any) -> subprocess.CompletedProcess[str]:
    """Run the scenario's play again with other variables."""
    return run_playbook(CONVERGE, *arguments, **variables)


def ask(host: t.Any, count: int, key: str = KEY) -> list[str]:
    """The status of each request."""
    return host.check_output("python3 -c %s %s %s", ASK, str(count), key).split()


def served(host: t.Any, unit: str) -> int:
    """How many requests a replica has answered since it was started."""
    text = host.check_output("python3 -c %s %s", READ, f"http://127.0.0.1:{REPLICAS[unit]}/metrics")
    rows = [row for row in text.splitlines() if row.startswith("vllm:request_success_total")]
    assert rows
    return int(sum(float(row.rpartition(" ")[2]) for row in rows))


def pids(host: t.Any) -> dict[str, str]:
    return {unit: host.check_output("systemctl show --value -p MainPID %s", unit) for unit in [*REPLICAS, ROUTER]}


def healthy(host: t.Any) -> int:
    run = host.run("python3 -c %s http://127.0.0.1:8000/readiness", READ)
    return json.loads(run.stdout)["healthy_workers"] if run.rc == 0 else 0


def wait_until_healthy(host: t.Any, count: int) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end and healthy(host) != count:
        time.sleep(1)
    assert healthy(host) == count


def test_everything_is_started_at_boot(host: t.Any) -> None:
    for unit in [*REPLICAS, ROUTER]:
        assert host.service(unit).is_running, unit
        assert host.service(unit).is_enabled, unit


def test_requests_are_spread_over_both_replicas(host: t.Any) -> None:
    before = {unit: served(host, unit) for unit in REPLICAS}
    assert ask(host, 10) == ["200"] * 10
    assert [served(host, unit) - before[unit] for unit in REPLICAS] == [5, 5]


def test_clients_need_the_key_of_the_replicas(host: t.Any) -> None:
    assert ask(host, 2, "wrong") == ["401", "401"]


def test_the_key_is_in_no_readable_place(host: t.Any) -> None:
    readable = "cat /proc/*/cmdline /etc/vllm/*.yaml /etc/systemd/system/vllm-* | tr -d '\\0'"
    assert KEY not in host.check_output(readable)
    assert KEY not in host.check_output("journalctl --no-pager")
    assert host.file("/etc/vllm/main-r0.env").mode == 0o600
    assert KEY not in host.check_output("systemctl show %s", ROUTER)


def test_the_router_can_write_nowhere(host: t.Any) -> None:
    pid = pids(host)[ROUTER]
    assert host.file(f"/proc/{pid}").user == "vllm-router"
    mounts = host.check_output("cat /proc/%s/mounts", pid).splitlines()
    root = next(line.split() for line in mounts if line.split()[1] == "/")
    assert "ro" in root[3].split(",")


def test_a_second_run_changes_nothing_and_shows_no_secret(host: t.Any) -> None:
    before = pids(host)
    run = deploy("-vvvv", "--diff")
    assert run.returncode == 0, run.stdout[-3000:]
    assert "changed=0" in run.stdout
    assert pids(host) == before
    assert KEY not in run.stdout


def test_requests_go_on_while_a_replica_is_gone_and_use_it_when_it_is_back(host: t.Any) -> None:
    wait_until_healthy(host, 2)
    host.check_output("systemctl stop %s", FIRST)
    assert ask(host, 10) == ["200"] * 10  # tried again elsewhere, before any health check has seen it
    wait_until_healthy(host, 1)
    assert ask(host, 10) == ["200"] * 10
    host.check_output("systemctl start %s", FIRST)
    wait_until_healthy(host, 2)
    # It is healthy, and has failed so often that the router's circuit breaker leaves it alone for a minute, and then
    # wants three answers before it trusts it again.
    end = time.monotonic() + 180
    while served(host, FIRST) < 3 and time.monotonic() < end:
        assert ask(host, 2) == ["200"] * 2
        time.sleep(1)
    before = served(host, FIRST)
    assert ask(host, 10) == ["200"] * 10
    assert served(host, FIRST) == before + 5


def test_a_replica_that_is_killed_comes_back_by_itself(host: t.Any) -> None:
    host.check_output("systemctl kill -s KILL %s", FIRST)
    assert ask(host, 10) == ["200"] * 10
    wait_until_healthy(host, 1)
    wait_until_healthy(host, 2)
    assert ask(host, 4) == ["200"] * 4


def test_a_policy_that_the_router_does_not_know_is_refused_before_anything_is_touched(host: t.Any) -> None:
    before = pids(host)
    run = deploy(router_policy="fastest")
    assert run.returncode != 0
    assert "invalid choice: 'fastest'" in run.stdout, run.stdout[-3000:]
    assert pids(host) == before


def test_another_policy_restarts_the_router_alone(host: t.Any) -> None:
    before = pids(host)
    run = deploy(router_policy="cache_aware")
    assert run.returncode == 0, run.stdout[-3000:]
    after = pids(host)
    assert [after[unit] for unit in REPLICAS] == [before[unit] for unit in REPLICAS]
    assert after[ROUTER] != before[ROUTER]
    assert ask(host, 4) == ["200"] * 4


def test_a_router_that_does_not_answer_gives_way_to_the_last_good_one(host: t.Any) -> None:
    # Its parser takes this value, and the program behind it does not.
    run = deploy(router_args={"cb-failure-threshold": 0})
    assert run.returncode != 0
    assert "serves again" in run.stdout, run.stdout[-3000:]
    assert "threshold" not in host.file(f"/etc/systemd/system/{ROUTER}").content_string
    assert ask(host, 4) == ["200"] * 4


def test_the_role_alone_asks_its_backends_first_and_leaves_other_instances_alone(host: t.Any) -> None:
    before = pids(host)
    run = run_playbook(
        FRONT, router_backends=["http://127.0.0.1:8001", "http://127.0.0.1:8999"], router_ready_timeout=5
    )
    assert run.returncode != 0
    assert "Connection refused" in run.stdout, run.stdout[-3000:]
    assert not host.file("/etc/systemd/system/vllm-router-front.service").exists
    run = run_playbook(FRONT)
    assert run.returncode == 0, run.stdout[-3000:]
    front = host.service("vllm-router-front.service")
    assert front.is_running
    assert front.is_enabled
    assert "changed=0" in run_playbook(FRONT).stdout
    assert pids(host) == before


def test_a_layout_without_replicas_takes_their_port_and_gives_it_back_when_it_fails(host: t.Any) -> None:
    too_small = {"dtype": "bfloat16", "enforce-eager": True, "kv-cache-memory-bytes": 65536}
    run = deploy(serve_layout="tp1", serve_args=too_small)
    assert run.returncode != 0
    assert "serves again" in run.stdout, run.stdout[-3000:]
    assert ask(host, 4) == ["200"] * 4
    for unit in [*REPLICAS, ROUTER]:
        assert host.service(unit).is_enabled, unit
    run = deploy(serve_layout="tp1")
    assert run.returncode == 0, run.stdout[-3000:]
    assert ask(host, 4) == ["200"] * 4
    assert host.service("vllm-main.service").is_enabled
    for unit in [*REPLICAS, ROUTER]:
        assert not host.service(unit).is_running, unit
        assert not host.service(unit).is_enabled, unit

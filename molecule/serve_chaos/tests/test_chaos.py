# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is killed at whatever moment of a switch: after the next run a model serves, and the right one."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import boot
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release

from tests.support.scenario import ROLLBACK, command, environment, run_playbook

UNIT = "vllm-main.service"
OTHER_UNIT = "vllm-other.service"
NODE = "chaos-node"
KEY = "molecule-api-key-4711"
CONVERGE = Path(__file__).parents[1] / "converge.yml"
ROUNDS = int(os.environ.get("MODELOPS_CHAOS_N", "3"))
SEED = int(os.environ.get("MODELOPS_CHAOS_SEED", str(random.SystemRandom().randrange(10**6))))
# One kill in four falls into the checks before the switch, the others into the switch itself: it stops, loads for two
# seconds, asks, and goes back where the release is bad.
CHECKS, SWITCH = 8.0, 5.0
# A play takes half a minute, and several on a busy machine.
WAIT = 600.0
VICTIMS = ("play", "job", "service", "node")
FAULTS = ("", "", "exit", "die")

ASK = """
import json, sys, urllib.request
headers = {"Authorization": "Bearer " + sys.argv[1], "Content-Type": "application/json"}
def ask(path, body=None):
    request = urllib.request.Request("http://127.0.0.1:8000" + path, body, headers)
    return json.load(urllib.request.urlopen(request, timeout=10))
body = json.dumps({"model": ask("/v1/models")["data"][0]["id"], "prompt": "x", "max_tokens": 1}).encode()
print(ask("/v1/completions", body)["choices"][0]["text"])
"""


def deploy(**variables: t.Any) -> subprocess.CompletedProcess[str]:
    """Run the scenario's play again with other variables."""
    return run_playbook(CONVERGE, **variables)


def begin(**variables: t.Any) -> subprocess.Popen[bytes]:
    """The same play, which goes on beside the test."""
    return subprocess.Popen(
        command(CONVERGE, **variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment(),
    )


def lose(play: subprocess.Popen[bytes]) -> None:
    """The controller is gone, with all of its processes."""
    os.killpg(play.pid, signal.SIGKILL)
    play.wait()


def wait_for(host: t.Any, phase: str) -> None:
    """Until the switch of the node is in this phase."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        text = host.run("cat /var/lib/vllm/switch.json").stdout
        if f'"{phase}"' in text:
            return
        time.sleep(0.5)
    raise AssertionError(f"The switch is not {phase} after {WAIT:.0f} s: {text}")


def serving(host: t.Any) -> str:
    """The served name that answers a completion; empty for none."""
    run = host.run("python3 -c %s %s", ASK, KEY)
    return run.stdout.strip() if run.rc == 0 else ""


def wait_until_serves(host: t.Any, name: str) -> None:
    """Until the node serves this by itself, after its boot."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end and serving(host) != name:
        time.sleep(1)
    assert serving(host) == name, host.run("journalctl -b --no-pager -n 60").stdout


def journal(host: t.Any) -> str:
    return host.run("cat /var/lib/vllm/switch.json; journalctl -u %s -n 40 --no-pager", UNIT).stdout


def started(host: t.Any) -> str:
    """When the last switch began."""
    text = host.run("cat /var/lib/vllm/switch.json").stdout
    return json.loads(text)["started"] if text else ""


def kill_node() -> None:
    """As a power cut does: nothing is told, nothing is flushed but what was synced."""
    subprocess.run(["podman", "kill", NODE], check=True, capture_output=True)
    subprocess.run(["podman", "start", NODE], check=True, capture_output=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        state = subprocess.run(
            ["podman", "exec", NODE, "systemctl", "is-system-running"], check=False, capture_output=True, text=True
        ).stdout.strip()
        if state in ("running", "degraded"):
            return
        time.sleep(0.5)
    raise AssertionError(f"{NODE} did not come up again: {state}")


def strike(host: t.Any, victim: str, play: subprocess.Popen[bytes]) -> None:
    if victim == "play":
        os.killpg(play.pid, signal.SIGKILL)
    elif victim == "job":
        host.run("pkill -9 -f '[v]llm_switch'")
    elif victim == "service":
        host.run("systemctl kill --signal=SIGKILL %s", UNIT)
    else:
        kill_node()


def test_killed_at_random_moments_a_model_always_serves_after_the_next_run(host: t.Any) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}, {ROUNDS} rounds")
    now = "demo"
    for number in range(ROUNDS):
        victim, fault = chance.choice(VICTIMS), chance.choice(FAULTS)
        early = chance.random() < 1 / 4
        moment = chance.uniform(0, CHECKS if early else SWITCH)
        wanted = f"model-{number}"
        variables = {"serve_served_name": wanted, "serve_env": {"STUB_FAULT": fault} if fault else {}}
        when = f"{moment:.1f} s after the {'play' if early else 'switch'} began"
        story = f"seed {SEED}, round {number}: {victim} killed {when}, to a release that {fault or 'is good'}"
        before = started(host)
        play = begin(**variables)
        while not early and play.poll() is None and started(host) == before:
            time.sleep(0.5)  # each look costs a part of a core
        with contextlib.suppress(subprocess.TimeoutExpired):
            play.wait(moment)
        if play.poll() is None:
            strike(host, victim, play)
        # The controller is gone, or ends by itself, or the operator loses patience.
        try:
            play.wait(40)
        except subprocess.TimeoutExpired:
            lose(play)
        run = deploy(**variables)
        answers = serving(host)
        gap = re.search(r"([\d.]+) s without service", run.stdout)
        silent = f"{gap[1]} s without service" if gap else "nothing served before"
        print(f"{story}: then {answers} serves, status {run.returncode}, in that run {silent}")
        if fault:
            assert run.returncode != 0, story
            assert answers == now, story + run.stdout[-2000:] + journal(host)
        else:
            assert run.returncode == 0, story + run.stdout[-2000:] + journal(host)
            assert answers == wanted, story
            now = wanted
        assert host.service(UNIT).is_enabled, story
        units = host.check_output("systemctl list-units --all --plain --no-legend 'vllm-*'")
        assert len(units.splitlines()) == 1, story


@pytest.mark.parametrize(
    ("fault", "cause"),
    [("exit", "gpu-out-of-memory"), ("die", "unit-ended"), ("mute", "completion-timeout"), ("hang", "timeout")],
)
def test_each_way_to_fail_is_named_and_the_last_good_release_serves(host: t.Any, fault: str, cause: str) -> None:
    before = serving(host)
    assert before
    variables = {"serve_served_name": f"bad-{fault}", "serve_env": {"STUB_FAULT": fault}, "serve_ready_timeout": 15}
    run = deploy(**variables)
    assert run.returncode != 0
    assert f"[{cause}]" in run.stdout, run.stdout[-3000:]
    gap = re.search(r"serves again after ([\d.]+) s without service", run.stdout)
    assert gap, run.stdout[-3000:]
    print(f"{fault}: {before} serves again after {gap[1]} s")
    assert serving(host) == before


def test_a_switch_goes_on_without_its_controller(host: t.Any) -> None:
    variables = {"serve_served_name": "orphaned", "serve_env": {"STUB_LOAD_SECONDS": "12"}}
    play = begin(**variables)
    wait_for(host, "proving")
    lose(play)
    wait_for(host, "done")
    assert serving(host) == "orphaned", journal(host)
    run = deploy(**variables)
    assert run.returncode == 0
    assert "changed=0" in run.stdout, run.stdout[-2000:]


def test_a_node_that_loses_its_power_and_that_nobody_visits_serves_what_it_served(host: t.Any) -> None:
    before = serving(host)
    assert before
    bad = {"serve_served_name": "unproven", "serve_env": {"STUB_FAULT": "hang"}}
    play = begin(**bad)
    wait_for(host, "proving")
    assert serving(host) == ""
    kill_node()
    lose(play)
    wait_until_serves(host, before)
    assert host.file("/etc/systemd/system/modelops-vllm-way-back.service").exists
    # Whoever comes then finds it in order, and leaves no way back behind.
    assert deploy(serve_served_name="next").returncode == 0
    assert serving(host) == "next"
    assert host.run("ls /etc/systemd/system | grep way-back").stdout == ""


OTHER = """[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""


def test_a_power_cut_at_the_commit_starts_one_model_and_not_both(host: t.Any) -> None:
    """A new instance is enabled before the way back to the old one is taken off.

    The node has no GPUs for which an instance would have to make room, so the state of that moment is made by hand.
    """
    before = serving(host)
    assert before
    folder = host.check_output("readlink -f /var/lib/vllm/instances/main/current")
    old = Release(folder, json.loads(host.check_output("cat %s/release.json", folder)))
    new = Release("/var/lib/vllm/instances/other/releases/new", {**old.record, "instance": "other", "unit": OTHER_UNIT})
    new.record["files"] = []
    for name, text in ((boot.UNIT, boot.way_back_unit([old], [new], [new])), (OTHER_UNIT, OTHER)):
        host.check_output("printf %%s %s > /etc/systemd/system/%s", text, name)
        host.check_output("systemctl enable %s", name)
    kill_node()
    wait_until_serves(host, before)
    assert host.run("systemctl is-enabled %s", OTHER_UNIT).stdout == "disabled\n"
    # Not even for a moment.
    assert host.check_output("systemctl show --value -p ExecMainStartTimestampMonotonic %s", OTHER_UNIT) == "0"
    host.check_output("rm /etc/systemd/system/%s", OTHER_UNIT)
    assert deploy(serve_served_name="one").returncode == 0
    assert serving(host) == "one"


def test_two_operators_at_once_the_second_is_refused_and_the_first_wins(host: t.Any) -> None:
    play = begin(serve_served_name="first", serve_env={"STUB_FAULT": "wait"}, serve_ready_timeout=600)
    wait_for(host, "proving")
    second = deploy(serve_served_name="second")
    host.check_output("touch /opt/stub/go")
    assert second.returncode != 0
    assert "Another switch is going on on this node" in second.stdout, second.stdout[-2000:]
    assert play.wait(120) == 0
    assert serving(host) == "first"


def test_a_load_can_be_stopped(host: t.Any) -> None:
    # SIGTERM is swallowed while it loads; the next switch does not wait for the load.
    variables = {"serve_served_name": "slow", "serve_env": {"STUB_LOAD_SECONDS": "300"}}
    play = begin(**variables)
    wait_for(host, "proving")
    lose(play)
    host.run("pkill -9 -f '[v]llm_switch'")
    run = deploy(serve_served_name="quick")
    assert run.returncode == 0, run.stdout[-2000:]
    assert serving(host) == "quick"
    assert host.check_output("pgrep -fc '[V]LLM::Worker'") == "1"


def test_the_release_before_comes_back_by_the_playbook(host: t.Any) -> None:
    assert deploy(serve_served_name="one").returncode == 0
    assert deploy(serve_served_name="two").returncode == 0
    run = run_playbook(ROLLBACK, vllm_hosts="all")
    assert run.returncode == 0, run.stdout[-3000:]
    assert serving(host) == "one"
    # What was gone back to is what the next run of the same playbook compares with.
    assert "changed=0" in deploy(serve_served_name="one").stdout


def test_no_secret_in_any_place_that_others_read(host: t.Any) -> None:
    run = deploy(serve_served_name="one", serve_api_key=KEY)
    assert KEY not in run.stdout
    readable = host.check_output(
        "cat /proc/*/cmdline /etc/systemd/system/vllm-*.service /etc/vllm/*.yaml | tr -d '\\0'"
    )
    assert KEY not in readable
    assert KEY not in host.check_output("journalctl --no-pager")
    found = host.check_output("grep -rl %s /var/lib/vllm /etc/vllm /run/modelops-vllm /root", KEY).splitlines()
    assert all(path.endswith("secrets.env") or path == "/etc/vllm/main.env" for path in found), found
    assert all(host.file(path).mode == 0o600 for path in found)
    assert host.file("/var/lib/vllm/instances").mode == 0o700

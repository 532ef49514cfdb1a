# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running instance on a real vLLM: it serves, it comes back, and failed deployments leave it as it was."""

from __future__ import annotations

import subprocess
import time
import typing as t
from pathlib import Path

from tests.support.scenario import ROLLBACK, run_playbook

UNIT = "vllm-main.service"
KEY = "molecule-api-key-4711"
SECRET = 's3cr3t "b" 100% $HOME \\t `x` c'
PLAIN = 'a "b" 100% $HOME \\t c'
CONVERGE = Path(__file__).parents[1] / "converge.yml"

ASK = """
import json, sys, urllib.request
body = json.dumps({"model": sys.argv[1], "prompt": "The quick brown fox", "max_tokens": 8, "temperature": 0,
                   "ignore_eos": True}).encode()
headers = {"Content-Type": "application/json", "Authorization": "Bearer molecule-api-key-4711"}
req = urllib.request.Request("http://127.0.0.1:8000/v1/completions", body, headers)
print(json.load(urllib.request.urlopen(req, timeout=60))["usage"]["completion_tokens"])
"""


def deploy(*arguments: str, **variables: t.Any) -> subprocess.CompletedProcess[str]:
    """Run the scenario's play again with other variables."""
    return run_playbook(CONVERGE, *arguments, **variables)


def show(host: t.Any, name: str) -> str:
    return host.check_output("systemctl show --value -p %s %s", name, UNIT)


def tokens(host: t.Any, model: str = "demo") -> str:
    out = host.run("python3 -c %s %s", ASK, model)
    assert out.rc == 0, out.stderr + host.run("journalctl -u %s -n 60 --no-pager", UNIT).stdout
    return out.stdout.strip()


def files(host: t.Any) -> dict[str, str]:
    names = ["/etc/vllm/main.yaml", "/etc/vllm/main.env", f"/etc/systemd/system/{UNIT}"]
    return {name: host.file(name).sha256sum for name in names}


def test_it_serves_and_starts_at_boot(host: t.Any) -> None:
    assert tokens(host) == "8"
    assert host.service(UNIT).is_enabled
    assert show(host, "NRestarts") == "0"


def test_the_environment_arrives_unchanged_and_secrets_are_in_no_readable_place(host: t.Any) -> None:
    pid = show(host, "MainPID")
    # As the user of the service: root of a container may not look into other users' processes.
    environ = host.check_output("runuser -u vllm -- cat /proc/%s/environ", pid).split("\0")
    assert f"MODELOPS_TEST_SECRET={SECRET}" in environ
    assert f"MODELOPS_TEST_PLAIN={PLAIN}" in environ
    assert f"VLLM_API_KEY={KEY}" in environ
    assert host.file("/etc/vllm/main.env").mode == 0o600
    assert host.file("/etc/vllm/main.env").user == "root"
    readable = host.check_output("cat /proc/*/cmdline /etc/vllm/main.yaml /etc/systemd/system/%s | tr -d '\\0'", UNIT)
    journal = host.check_output("journalctl -u %s --no-pager", UNIT)
    for text in (readable, journal):
        assert KEY not in text
        assert "s3cr3t" not in text


def test_false_of_a_flag_reaches_the_engine(host: t.Any) -> None:
    assert "'enable_prefix_caching': False" in host.check_output("journalctl -u %s --no-pager", UNIT)


def test_the_service_runs_as_its_user_with_its_own_caches(host: t.Any) -> None:
    pid = show(host, "MainPID")
    assert host.file(f"/proc/{pid}").user == "vllm"
    assert host.file("/var/lib/vllm/home").user == "vllm"
    assert not host.file("/root/.cache/vllm").exists


def test_a_second_run_changes_nothing_and_shows_no_secret(host: t.Any) -> None:
    pid = show(host, "MainPID")
    run = deploy("-vvvv", "--diff")
    assert run.returncode == 0, run.stdout[-3000:]
    assert "changed=0" in run.stdout
    assert show(host, "MainPID") == pid
    for secret in (KEY, "s3cr3t"):
        assert secret not in run.stdout


def refused(host: t.Any, *words: str, **variables: t.Any) -> None:
    before, pid = files(host), show(host, "MainPID")
    run = deploy(**variables)
    assert run.returncode != 0
    for word in words:
        assert word in run.stdout, run.stdout[-3000:]
    assert files(host) == before
    assert show(host, "MainPID") == pid


def test_a_flag_that_this_vllm_does_not_have_is_refused_before_anything_is_touched(host: t.Any) -> None:
    refused(host, "swap-space", "not a flag of the installed vLLM", serve_args={"swap-space": 4})


def test_a_value_that_its_parser_refuses_is_refused_before_anything_is_touched(host: t.Any) -> None:
    refused(host, "invalid int value", serve_args={"seed": "often"})


def test_an_invalid_layout_is_refused_before_anything_is_touched(host: t.Any) -> None:
    refused(host, "tp3", serve_layout="tp3", serve_gpus={"count": 3, "name": "cpu", "memory_mib": 4096})


def test_a_taken_port_is_refused_and_its_owner_named(host: t.Any) -> None:
    # B16, B17: the owner stays alive.
    host.check_output("systemd-run --unit=other-owner python3 -m http.server 8123 --bind 127.0.0.1")
    try:
        time.sleep(1)
        refused(host, "8123", "other-owner.service", serve_port=8123)
        assert host.service("other-owner.service").is_running
    finally:
        host.run("systemctl stop other-owner.service")


def test_a_missing_shard_is_refused_before_anything_is_touched(host: t.Any) -> None:
    host.check_output("cp -r /srv/models/demo /srv/models/broken && rm /srv/models/broken/model-00003-of-*")
    refused(host, "not complete", "model-00003-of-", serve_model_dir="/srv/models/broken")


def test_an_engine_that_dies_comes_back(host: t.Any) -> None:
    pid = show(host, "MainPID")
    host.check_output("pkill -9 -f '[V]LLM::EngineCore'")
    end = time.monotonic() + 120
    while time.monotonic() < end and (show(host, "MainPID") in (pid, "0") or show(host, "SubState") != "running"):
        time.sleep(1)
    run = deploy()
    assert run.returncode == 0, run.stdout[-3000:]
    assert tokens(host) == "8"


def test_a_release_that_cannot_start_gives_the_node_back_to_the_last_good_one(host: t.Any) -> None:
    before = files(host)
    args = {"dtype": "bfloat16", "enforce-eager": True, "kv-cache-memory-bytes": 65536}
    run = deploy(serve_args=args)
    assert run.returncode != 0
    assert "kv-cache" in run.stdout
    assert "The last good release serves again" in run.stdout, run.stdout[-3000:]
    assert files(host) == before
    assert tokens(host) == "8"
    pid = show(host, "MainPID")
    assert deploy().returncode == 0
    assert show(host, "MainPID") == pid


def test_a_switch_and_the_way_back(host: t.Any) -> None:
    run = deploy(serve_served_name="other", serve_max_model_len="512")
    assert run.returncode == 0, run.stdout[-3000:]
    assert "s without service" in run.stdout
    assert tokens(host, "other") == "8"
    run = run_playbook(ROLLBACK, vllm_hosts="all")
    assert run.returncode == 0, run.stdout[-3000:]
    assert tokens(host) == "8"
    # What was gone back to is what the playbook wants: nothing to do.
    assert "changed=0" in deploy().stdout


def test_a_first_release_that_cannot_start_is_stopped(host: t.Any) -> None:
    args = {"dtype": "bfloat16", "enforce-eager": True, "kv-cache-memory-bytes": 65536}
    run = deploy(serve_args=args, serve_instance="second", serve_port=8001)
    assert run.returncode != 0
    assert "no earlier release to go back to" in run.stdout, run.stdout[-3000:]
    second = host.service("vllm-second.service")
    assert not second.is_running
    assert not second.is_enabled
    assert host.run("systemctl show --value -p SubState vllm-second.service").stdout.strip() != "auto-restart"
    assert tokens(host) == "8"

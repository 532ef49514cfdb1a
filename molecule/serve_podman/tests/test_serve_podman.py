# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real vLLM in a container that is a service: it serves, comes back, and failed deployments leave it as it was."""

from __future__ import annotations

import json
import subprocess
import time
import typing as t
from pathlib import Path

from tests.support.scenario import run_playbook

UNIT = "vllm-main.service"
FILE = "/etc/containers/systemd/vllm-main.container"
SERVICE = f"/etc/systemd/system/{UNIT}"
KEY = "molecule-api-key-4711"
SECRET = 's3cr3t "b" 100% $HOME \\t `x` c'
PLAIN = 'a "b" 100% $HOME \\t c'
CONVERGE = Path(__file__).parents[1] / "converge.yml"

ASK = """
import json, urllib.request
body = json.dumps({"model": "demo", "prompt": "The quick brown fox", "max_tokens": 8, "temperature": 0,
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


def tokens(host: t.Any) -> str:
    out = host.run("python3 -c %s", ASK)
    assert out.rc == 0, out.stderr + host.run("journalctl -u %s -n 60 --no-pager", UNIT).stdout
    return out.stdout.strip()


def vllm_pid(host: t.Any) -> str:
    return host.check_output("podman inspect --format {{.State.Pid}} vllm-main")


def refused(host: t.Any, *words: str, **variables: t.Any) -> None:
    before, pid = host.file(FILE).sha256sum, vllm_pid(host)
    run = deploy(**variables)
    assert run.returncode != 0
    for word in words:
        assert word in run.stdout, run.stdout[-3000:]
    assert host.file(FILE).sha256sum == before
    assert vllm_pid(host) == pid


def test_it_serves_below_its_unit_and_starts_at_boot(host: t.Any) -> None:
    assert tokens(host) == "8"
    assert show(host, "NRestarts") == "0"
    cgroup = host.check_output("cat /proc/%s/cgroup", vllm_pid(host))
    assert f"/system.slice/{UNIT}/libpod-payload-" in cgroup
    assert UNIT in host.check_output("systemctl show --value -p Wants multi-user.target")
    assert not host.file(SERVICE).exists


def test_the_image_was_pulled_by_its_digest(host: t.Any) -> None:
    wanted = json.loads(host.check_output("cat /srv/registry/index.json"))["manifests"][0]["digest"]
    assert host.check_output("podman inspect --format {{.ImageDigest}} vllm-main") == wanted


def test_its_log_is_in_the_journal_of_the_unit_s_invocation(host: t.Any) -> None:
    # The wait for readiness reads it there, whatever driver podman would use.
    invocation = show(host, "InvocationID")
    assert "vLLM" in host.check_output("journalctl --no-pager -o cat _SYSTEMD_INVOCATION_ID=%s", invocation)


def test_environment_and_secrets_arrive_unchanged_and_secrets_are_in_no_readable_place(host: t.Any) -> None:
    environ = host.check_output("cat /proc/%s/environ", vllm_pid(host)).split("\0")
    assert f"MODELOPS_TEST_SECRET={SECRET}" in environ
    assert f"MODELOPS_TEST_PLAIN={PLAIN}" in environ
    assert f"VLLM_API_KEY={KEY}" in environ
    places = f"/proc/*/cmdline /etc/vllm/main.yaml {FILE} /run/systemd/generator/{UNIT}"
    # The shell that reads names no secret itself.
    readable = host.check_output(f"cat {places} 2>/dev/null | tr -d '\\0'; true")
    journal = host.check_output("journalctl --no-pager")
    for text in (readable, journal):
        assert KEY not in text
        assert "s3cr3t" not in text
        assert "registry-password-0815" not in text


def test_the_process_has_the_user_of_the_service_and_no_rights(host: t.Any) -> None:
    status = dict(
        line.split(":\t", 1) for line in host.file(f"/proc/{vllm_pid(host)}/status").content_string.splitlines()
    )
    uid, gid = host.check_output("id -u vllm"), host.check_output("id -g vllm")
    assert set(status["Uid"].split()) == {uid}
    assert set(status["Gid"].split()) == {gid}
    assert int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Umask"] == "0027"
    assert host.run("podman exec vllm-main touch /srv/models/demo/x").rc != 0


def test_a_second_run_changes_nothing_and_shows_no_secret(host: t.Any) -> None:
    pid = vllm_pid(host)
    run = deploy("-vvvv", "--diff")
    assert run.returncode == 0, run.stdout[-3000:]
    assert "changed=0" in run.stdout
    assert vllm_pid(host) == pid
    for secret in (KEY, "s3cr3t", "registry-password-0815"):
        assert secret not in run.stdout


def test_an_image_without_a_digest_is_refused_before_anything_is_touched(host: t.Any) -> None:
    refused(host, "without a digest", "localhost:5000/vllm@sha256:...", serve_image="localhost:5000/vllm:latest")


def test_an_image_that_cannot_be_pulled_is_refused_before_anything_is_touched(host: t.Any) -> None:
    refused(host, "podman pull", serve_image=f"localhost:5000/vllm@sha256:{'0' * 64}")


def test_a_flag_that_the_vllm_of_the_image_does_not_have_is_refused_before_anything_is_touched(host: t.Any) -> None:
    refused(host, "swap-space", "not a flag of the installed vLLM", serve_args={"swap-space": 4})


def test_a_key_that_quadlet_does_not_have_is_refused_before_anything_is_touched(host: t.Any) -> None:
    overrides = {"Service": {"LimitNOFILE": 20000, "LimitMEMLOCK": None, "OOMScoreAdjust": None}}
    refused(host, "Misspelt", serve_unit_overrides={**overrides, "Container": {"Misspelt": "x"}})


def test_an_engine_that_dies_comes_back(host: t.Any) -> None:
    pid = vllm_pid(host)
    host.check_output("pkill -9 -f '[V]LLM::EngineCore'")
    end = time.monotonic() + 120
    while time.monotonic() < end and host.run("podman inspect --format {{.State.Pid}} vllm-main").stdout.strip() in (
        pid,
        "",
    ):
        time.sleep(1)
    run = deploy()
    assert run.returncode == 0, run.stdout[-3000:]
    assert vllm_pid(host) != pid
    assert tokens(host) == "8"


def test_a_release_that_cannot_start_gives_the_node_back_to_the_last_good_one(host: t.Any) -> None:
    before = host.file(FILE).sha256sum
    args = {"dtype": "bfloat16", "enforce-eager": True, "kv-cache-memory-bytes": 65536}
    run = deploy(serve_args=args)
    assert run.returncode != 0
    assert "kv-cache" in run.stdout
    assert "The last good release serves again" in run.stdout, run.stdout[-3000:]
    assert host.file(FILE).sha256sum == before
    assert tokens(host) == "8"


def test_the_unit_keeps_its_name_from_engine_to_engine_and_back(host: t.Any) -> None:
    run = deploy(serve_engine="venv", serve_vllm_bin="/opt/stand-in/bin/vllm", serve_manage_venv=False)
    assert run.returncode == 0, run.stdout[-3000:]
    assert host.file(SERVICE).exists
    assert not host.file(FILE).exists
    assert "/opt/stand-in/bin/vllm" in show(host, "ExecStart")
    assert host.check_output("systemctl is-enabled %s", UNIT) == "enabled"
    assert host.check_output("podman ps --all --quiet") == ""
    run = deploy()
    assert run.returncode == 0, run.stdout[-3000:]
    assert not host.file(SERVICE).exists
    assert host.file(FILE).exists
    assert UNIT in host.check_output("systemctl show --value -p Wants multi-user.target")
    assert tokens(host) == "8"

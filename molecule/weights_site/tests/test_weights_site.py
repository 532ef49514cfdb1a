# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three nodes of a site with one download: who asks whom, what damage costs, and what a node's failure costs others."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import typing as t
from pathlib import Path

import pytest
import testinfra

REPO = "modelops/demo-moe"
DEST = f"/srv/models/{REPO}"
SHARDS = [f"model-{i:05d}-of-00008.safetensors" for i in range(8)]
CONVERGE = Path(__file__).parents[1] / "converge.yml"
DOWNLOAD = Path(__file__).parents[3] / "playbooks" / "download.yml"
HUB_TOKEN = "hf_molecule4711"
SITE_TOKEN = "0neT1meT0kenOfTheSiteThatNobodyMaySee"

ASKED = "import urllib.request; print(urllib.request.urlopen('http://hub:8080/_ctl').read().decode())"
LOOK = "ps -ewwo args; cat /proc/[0-9]*/environ; systemctl show 'modelops-mirror-*'; systemctl cat 'modelops-mirror-*'"


class Deployed(t.NamedTuple):
    """A run of the scenario's play: its status, and its output in one line (the callback folds long ones)."""

    rc: int
    text: str

    def recap(self, node: str) -> str:
        """The line of the recap on a node."""
        return self.text.rpartition("PLAY RECAP")[2].partition(node)[2].partition("site-")[0]


def deploy(*arguments: str, playbook: Path = CONVERGE, **variables: t.Any) -> Deployed:
    """Run the scenario's play with other variables; no token may be in what it prints."""
    command = ["ansible-playbook", "-i", os.environ["MOLECULE_INVENTORY_FILE"], *arguments, str(playbook)]
    env = {
        **os.environ,
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_NOCOLOR": "1",
        "PY_COLORS": "0",
        "ANSIBLE_PIPELINING": "1",
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        # The first run has installed the Hub client. In a file, since -vvvv shows what stands on the command line.
        json.dump({"weights_python": "/opt/modelops/hub/bin/python", **variables}, f)
        f.flush()
        run = subprocess.run([*command, "-e", f"@{f.name}"], capture_output=True, text=True, env=env, check=False)
    text = run.stdout + run.stderr
    assert HUB_TOKEN not in text
    assert SITE_TOKEN not in text
    return Deployed(run.returncode, " ".join(text.split()))


@pytest.fixture(scope="module")
def nodes() -> list[t.Any]:
    """The three nodes, the first one first."""
    return [testinfra.get_host(f"podman://site-node{i}") for i in (1, 2, 3)]


def manifest(node: t.Any, dest: str = DEST) -> t.Any:
    """The manifest on a node."""
    return json.loads(node.file(f"{dest}/.modelops/manifest.json").content_string)


def asked(node: t.Any) -> list[t.Any]:
    """What the Hub and its CDN answered so far."""
    return [r for r in json.loads(node.check_output("python3 -c %s", ASKED))["requests"] if "_ctl" not in r["path"]]


def mirrors(node: t.Any) -> str:
    """What is left of mirrors on a node."""
    looks = ["systemctl list-units --all --plain --no-legend 'modelops-mirror-*'", "ls /run | grep modelops"]
    return node.check_output("; ".join([*looks, "pgrep -fa '[m]irror.py'", "true"]))


def test_each_node_has_proven_all_of_it(nodes: list[t.Any]) -> None:
    first = manifest(nodes[0])
    for node in nodes:
        record = manifest(node)
        assert (record["verified"], record["commit"], record["shards"]) == ("sha256", first["commit"], SHARDS)
        wanted = {s: first["files"][s]["sha256"] for s in SHARDS}
        assert {s: node.file(f"{DEST}/{s}").sha256sum for s in SHARDS} == wanted


def test_the_hub_has_sent_each_shard_once(nodes: list[t.Any]) -> None:
    sent = [r for r in asked(nodes[0]) if r["role"] == "cdn" and r["method"] == "GET"]
    large = [f for f in manifest(nodes[0])["files"].values() if f["blob_id"] is None]
    assert sorted(r["path"].partition("?")[0] for r in sent) == sorted(f"/cdn/{f['sha256']}" for f in large)
    assert sum(r["sent"] for r in sent) == sum(f["size"] for f in large)


def test_nothing_of_the_mirrors_is_left(nodes: list[t.Any]) -> None:
    assert mirrors(nodes[0]) == ""


def test_a_second_run_changes_nothing_and_starts_nothing(nodes: list[t.Any]) -> None:
    run = deploy("-vvvv", "--diff")
    assert run.rc == 0, run.text[-3000:]
    assert ["changed=0" in run.recap(f"site-node{i}") for i in (1, 2, 3)] == [True, True, True]
    assert "Started Mirror" not in nodes[0].check_output("journalctl --since=-5s --no-pager")


def test_damage_is_mended_by_the_first_node_and_no_token_is_to_be_seen(nodes: list[t.Any]) -> None:
    before, commit = asked(nodes[0]), manifest(nodes[0])["commit"]
    nodes[1].check_output("truncate -s 1000 %s/%s", DEST, SHARDS[3])
    seen: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            seen.append(nodes[0].run(LOOK).stdout + nodes[1].run("ps -ewwo args; cat /proc/[0-9]*/environ").stdout)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        # An extra variable comes before the one that the role makes: a token that the test can look for.
        run = deploy("-vvvv", site_serial="1", weights_revision=commit, _weights_mirror_token=SITE_TOKEN)
    finally:
        done.set()
        watcher.join()
    assert run.rc == 0, run.text[-3000:]
    assert f"1 of them fetched from site-node1 (919.7 kB): {SHARDS[3]}" in run.text
    assert nodes[1].file(f"{DEST}/{SHARDS[3]}").sha256sum == manifest(nodes[0])["files"][SHARDS[3]]["sha256"]
    assert "changed=0" in run.recap("site-node3")
    assert asked(nodes[0]) == before
    assert any("modelops-mirror-" in s for s in seen)
    assert not any(SITE_TOKEN in s for s in seen)
    assert mirrors(nodes[0]) == ""


def test_a_mirror_that_nobody_stops_is_nobody_and_ends_by_itself(nodes: list[t.Any]) -> None:
    options = {"dest": DEST, "token": SITE_TOKEN, "lifetime": 3}
    command = ["ansible", "-i", os.environ["MOLECULE_INVENTORY_FILE"], "site-node1", "-m", "modelops.vllm.hf_mirror"]
    subprocess.run([*command, "-a", json.dumps(options)], capture_output=True, check=True)
    assert nodes[0].check_output("ps -o user= -p $(pgrep -f '[m]irror.py')") == "nobody"
    assert "modelops-mirror-" in mirrors(nodes[0])
    nodes[0].check_output("timeout 20 sh -c 'while pgrep -f [m]irror.py; do sleep 0.2; done'")
    nodes[0].check_output(
        "timeout 20 sh -c 'while systemctl list-units --all | grep modelops-mirror; do sleep 0.2; done'"
    )
    assert mirrors(nodes[0]) == ""


def test_check_mode_of_the_playbook_tells_the_plan_of_each_node(nodes: list[t.Any]) -> None:
    run = deploy("--check", playbook=DOWNLOAD, model_profile="demo_moe", weights_dest="/srv/models/planned")
    assert run.rc == 0, run.text[-3000:]
    assert "site-node2 would fetch from site-node1 what it lacks" in run.text
    assert "site-node3 would fetch from site-node1 what it lacks" in run.text
    assert not any(node.file("/srv/models/planned").exists for node in nodes)


def test_the_others_name_a_first_node_that_failed() -> None:
    run = deploy(weights_dest="/srv/models/never", weights_endpoint="http://127.0.0.1:9", weights_retries="0")
    assert run.rc == 2
    assert f"site-node1 fetches for site-node2 and has not proven {REPO} in this run" in run.text
    assert f"site-node1 fetches for site-node3 and has not proven {REPO} in this run" in run.text


def test_a_node_that_cannot_reach_the_first_is_told_so_and_stops_no_other(nodes: list[t.Any]) -> None:
    address, dest = nodes[0].check_output("hostname -I").split()[0], "/srv/models/reached"
    nodes[1].check_output("rm -rf %s", dest)
    nodes[2].check_output("ip route add blackhole %s", address)
    try:
        # As from a disk that is in the first node only.
        commit = manifest(nodes[0])["commit"]
        run = deploy(weights_dest=dest, weights_source_dir=DEST, weights_revision=commit)
    finally:
        nodes[2].check_output("ip route del blackhole %s", address)
    assert run.rc == 2
    assert f"site-node3 does not reach http://{address}:8792 on site-node1. Open the port there" in run.text
    assert "failed=0" in run.recap("site-node2")
    assert manifest(nodes[1], dest)["verified"] == "sha256"
    assert not nodes[2].file(dest).exists
    assert mirrors(nodes[0]) == ""


def test_in_a_shared_folder_one_node_writes_and_each_verifies(nodes: list[t.Any]) -> None:
    dest, before = "/srv/shared/models/demo", asked(nodes[0])
    nodes[0].check_output("rm -rf %s", dest)
    variables = {"weights_dest": dest, "weights_source_dir": DEST, "weights_revision": manifest(nodes[0])["commit"]}
    run = deploy(**variables, weights_distribution="shared")
    assert run.rc == 0, run.text[-3000:]
    assert "changed=1" in run.recap("site-node1")
    assert ["changed=0" in run.recap(f"site-node{i}") for i in (2, 3)] == [True, True]
    assert run.text.count("verified by sha256; 0 of them fetched") == 2
    assert manifest(nodes[2], dest)["verified"] == "sha256"
    assert asked(nodes[0]) == before


def test_a_folder_that_is_not_shared_is_called_so() -> None:
    run = deploy(weights_dest="/srv/models/lonely", weights_distribution="shared", _weights_patience="2")
    assert run.rc == 2
    assert (
        "site-node2 does not see the manifest /srv/models/lonely/.modelops/manifest.json that site-node1 wrote"
        in run.text
    )
    assert "weights_dest is not shared" in run.text

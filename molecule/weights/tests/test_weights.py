# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with a proven snapshot: what is there, and what another run does after somebody damaged it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from tests.support.scenario import run_playbook

DEST = "/srv/models/modelops/demo-moe"
SHARDS = [f"model-{i:05d}-of-00008.safetensors" for i in range(8)]
CONVERGE = Path(__file__).parents[1] / "converge.yml"
TOKEN = "hf_molecule4711"

FLIP = """
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(-9, 2)
    byte = f.read(1)[0]
    f.seek(-9, 2)
    f.write(bytes([byte ^ 255]))
"""


def deploy(*arguments: str, **variables: t.Any) -> str:
    """Run the scenario's play again with other variables; what it printed."""
    run = run_playbook(CONVERGE, *arguments, **variables)
    assert run.returncode == 0, run.stdout[-4000:]
    assert TOKEN not in run.stdout
    return run.stdout


def sums(host: t.Any) -> dict[str, str]:
    """SHA-256 of each shard."""
    return {s: host.file(f"{DEST}/{s}").sha256sum for s in SHARDS}


def manifest(host: t.Any) -> t.Any:
    return json.loads(host.file(f"{DEST}/.modelops/manifest.json").content_string)


def test_every_shard_is_there_and_what_the_manifest_says(host: t.Any) -> None:
    record = manifest(host)
    assert record["shards"] == SHARDS
    assert sums(host) == {s: record["files"][s]["sha256"] for s in SHARDS}
    assert record["verified"] == "sha256"
    assert host.check_output("ls -A %s/.modelops", DEST) == "manifest.json"


def test_a_service_user_can_read_all_of_it(host: t.Any) -> None:
    assert host.check_output("runuser -u nobody -- find %s ! -readable", DEST) == ""


def test_a_second_run_changes_nothing_and_shows_no_token() -> None:
    assert "changed=0" in deploy("-vvvv", "--diff")


def test_check_mode_plans_and_touches_nothing(host: t.Any) -> None:
    host.check_output("rm %s/%s", DEST, SHARDS[1])
    assert f"{SHARDS[1]}: missing" in deploy("--check", "--diff")
    assert not host.file(f"{DEST}/{SHARDS[1]}").exists
    assert host.check_output("ls -A %s/.modelops", DEST) == "manifest.json"


def test_a_deleted_shard_and_nothing_else_is_fetched_again(host: t.Any) -> None:
    before = {s: host.check_output("stat -c %%i %s/%s", DEST, s) for s in SHARDS if s != SHARDS[1]}
    host.run("rm -f %s/%s", DEST, SHARDS[1])
    assert f"1 of them fetched (1.1 MB): {SHARDS[1]}" in deploy()
    assert sums(host) == {s: manifest(host)["files"][s]["sha256"] for s in SHARDS}
    assert {s: host.check_output("stat -c %%i %s/%s", DEST, s) for s in before} == before


def test_a_shard_with_a_flipped_byte_is_named_and_fetched_again(host: t.Any) -> None:
    path = f"{DEST}/{SHARDS[5]}"
    wanted = manifest(host)["files"][SHARDS[5]]["sha256"]
    mtime = host.file(path).mtime
    host.check_output("python3 -c %s %s", FLIP, path)
    # As a copy that keeps times leaves it: size and mtime say that nothing happened.
    host.check_output("touch -d %s %s", mtime.isoformat(), path)
    assert host.file(path).sha256sum != wanted
    out = deploy()
    assert f"{SHARDS[5]}: its size is right, its content is not what was published" in out
    assert f"1 of them fetched (1.2 MB): {SHARDS[5]}" in out
    assert host.file(path).sha256sum == wanted


def test_offline_the_manifest_is_enough() -> None:
    assert "changed=0" in deploy(weights_offline="true", weights_endpoint="http://127.0.0.1:9")

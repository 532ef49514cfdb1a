# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_snapshot_info against the Hub, a manifest and the structure of a folder, also where nothing can be written."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from call_module import call
from hub_testing import REPO, Snapshot, finding, flip, ids, tree
from loopback_hub import Hub
from tiny_files import HTML, POINTER, model, safetensors, shard_name

SHARD = shard_name(2, 4)


@pytest.fixture
def folder(snapshot: Snapshot, files: dict[str, bytes]) -> Path:
    """The files as another program left them, without a manifest."""
    snapshot.dest.mkdir(parents=True)
    for name, data in files.items():
        (snapshot.dest / name).write_bytes(data)
    return snapshot.dest


def judge(snapshot: Snapshot, **options: t.Any) -> dict[str, t.Any]:
    """The verdict against the Hub; nothing may be written, and no weight be fetched."""
    before = tree(snapshot.dest) if snapshot.dest.exists() else {}
    seen = snapshot.info(**{"against": "hub", "repo_id": REPO, "endpoint": snapshot.hub.endpoint, **options})
    assert not seen.get("failed"), seen
    assert not seen["changed"]
    assert (tree(snapshot.dest) if snapshot.dest.exists() else {}) == before
    assert not snapshot.hub.requests(role="cdn")
    return seen


def test_a_whole_folder_is_complete_at_the_level_that_was_asked_for(snapshot, hub, files, folder) -> None:
    for level, verdict, verified in (
        ("none", "unverified", "none"),
        ("header", "complete", "header"),
        ("sha256", "complete", "sha256"),
    ):
        seen = judge(snapshot, verify=level)
        assert (seen["verdict"], seen["verified"]) == (verdict, verified)
        assert seen["shards"] == {"expected": 4, "present": 4, "missing": [], "bad": []}
        assert (seen["commit"], seen["repo_id"]) == (hub.repos[REPO].refs["main"], REPO)
        assert (seen["files"], seen["bytes_total"]) == (7, sum(map(len, files.values())))


@pytest.mark.parametrize(
    ("damage", "verdict", "finding_id", "level"),
    [
        pytest.param(lambda p: p.unlink(), "incomplete", "missing", "none", id="verify-ignores-missing"),
        pytest.param(lambda p: os.truncate(p, 10), "corrupt", "truncated", "none", id="offline-truncated-passes"),
        pytest.param(lambda p: p.write_bytes(POINTER), "corrupt", "pointer", "none", id="lfs-pointer-text"),
        pytest.param(lambda p: p.write_bytes(HTML), "corrupt", "corrupt", "none", id="html-page"),
        pytest.param(lambda p: flip(p, keep_mtime=True), "corrupt", "corrupt", "sha256", id="mtime-preserved-damage"),
        pytest.param(lambda p: (p.unlink(), p.mkdir()), "corrupt", "corrupt", "none", id="folder-in-its-place"),
        pytest.param(lambda p: (p.unlink(), p.symlink_to("none")), "incomplete", "missing", "none", id="dangling"),
    ],
)
def test_each_kind_of_damage_has_its_name(snapshot, files, folder, damage, verdict, finding_id, level) -> None:
    damage(folder / SHARD)
    seen = judge(snapshot, verify=level)
    assert (seen["complete"], seen["verdict"]) == (False, verdict)
    assert SHARD in finding(seen, finding_id)["message"]
    assert seen["shards"]["missing" if verdict == "incomplete" else "bad"] == [SHARD]
    assert seen["shards"]["present"] == 3


def test_a_small_file_that_is_missing_or_another_counts_too(snapshot, files, folder) -> None:
    (folder / "tokenizer.json").unlink()
    assert judge(snapshot)["verdict"] == "incomplete"
    (folder / "tokenizer.json").write_bytes(b'{"version": "9.9"}')
    assert "tokenizer.json" in finding(judge(snapshot), "corrupt")["message"]
    (folder / "tokenizer.json").write_bytes(files["tokenizer.json"])
    (folder / "model.safetensors.index.json").write_bytes(HTML)
    assert judge(snapshot)["verdict"] == "corrupt"


@pytest.mark.case("verify-folders-missing")
def test_folders_are_no_files(snapshot: Snapshot, hub: Hub) -> None:
    content = {
        "model_index.json": b"{}",
        "unet/config.json": b"{}",
        "unet/w.safetensors": safetensors({"a": 50}),
        "vae/deep/er/w.safetensors": safetensors({"b": 50}),
    }
    hub.commit(REPO, content)
    for name, data in content.items():
        (snapshot.dest / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot.dest / name).write_bytes(data)
    seen = judge(snapshot, verify="sha256")
    assert (seen["verdict"], seen["files"], seen["shards"]["expected"]) == ("complete", 4, 2)
    (snapshot.dest / "vae/deep/er/w.safetensors").unlink()
    assert judge(snapshot)["shards"]["missing"] == ["vae/deep/er/w.safetensors"]


def test_weights_that_the_commit_does_not_have_are_stale(snapshot, folder) -> None:
    (folder / "old.safetensors").write_bytes(safetensors({"x": 10}))
    seen = judge(snapshot)
    assert seen["complete"]
    assert finding(seen, "stale")["numbers"]["files"] == ["old.safetensors"]


def test_a_gguf_model_without_one_of_its_parts_cannot_be_completed(snapshot: Snapshot, hub: Hub) -> None:
    names = ["q4-00001-of-00003.gguf", "q4-00002-of-00003.gguf"]
    hub.commit(REPO, {n: b"GGUF" + bytes(500) for n in names})
    seen = judge(snapshot)
    assert (seen["verdict"], seen["shards"]["missing"]) == ("upstream-inconsistent", ["q4-00003-of-00003.gguf"])
    failed = snapshot.fails()
    assert "upstream-inconsistent" in ids(failed)
    assert not failed["changed"]
    assert not snapshot.dest.exists()


def test_what_cannot_be_completed_upstream_is_a_verdict_of_its_own(snapshot, hub, folder, files) -> None:
    """Names shards that are not in the commit; holds the right bytes of a shard that is none; is itself no index."""
    hub.commit(REPO, {n: d for n, d in files.items() if n != SHARD})
    seen = judge(snapshot)
    assert (seen["verdict"], seen["shards"]["missing"]) == ("upstream-inconsistent", [SHARD])
    cut = {**files, SHARD: files[SHARD][:-100]}
    hub.commit(REPO, cut)
    (folder / SHARD).write_bytes(cut[SHARD])
    assert judge(snapshot, verify="sha256")["verdict"] == "upstream-inconsistent"
    hub.commit(REPO, {**files, "model.safetensors.index.json": b"{}"})
    assert judge(snapshot)["verdict"] == "upstream-inconsistent"


def test_another_model_or_commit_is_foreign(snapshot, hub, files) -> None:
    old = snapshot()["commit"]
    new = hub.commit(REPO, model(seed=5))
    hub.clear()
    # Without a word it is the commit of the manifest that the folder is compared with, not today's main.
    assert judge(snapshot, repo_id=None)["commit"] == old
    assert judge(snapshot)["verdict"] == "complete"
    seen = judge(snapshot, revision="main", verify="sha256")
    assert (seen["verdict"], seen["commit"]) == ("foreign", new)
    hub.commit("org/other", model(seed=6))
    assert judge(snapshot, repo_id="org/other")["verdict"] == "foreign"
    # The same without our manifest.
    (snapshot.dest / ".modelops" / "manifest.json").unlink()
    (snapshot.dest / ".modelops").rmdir()
    assert judge(snapshot, repo_id="org/other", verify="sha256")["verdict"] == "foreign"
    assert judge(snapshot, revision=old, verify="sha256")["verdict"] == "complete"


def test_patterns_are_those_of_the_task_or_of_the_manifest(snapshot, hub, files) -> None:
    snapshot(ignore_patterns=["tokenizer*"])
    hub.clear()
    assert judge(snapshot)["verdict"] == "complete"
    assert judge(snapshot, ignore_patterns=["config.json"])["verdict"] == "incomplete"
    assert judge(snapshot, allow_patterns=["*.safetensors"])["files"] == 5, "an index belongs to its shards"
    seen = snapshot.info(against="hub", endpoint=hub.endpoint, allow_patterns=["*.none"])
    assert finding(seen, "pattern-no-match")


def test_nothing_there_is_absent(snapshot, files) -> None:
    seen = judge(snapshot)
    assert (seen["verdict"], len(seen["shards"]["missing"])) == ("absent", 4)


def test_a_hub_that_does_not_answer_gives_no_verdict(snapshot, hub, folder, tmp_path) -> None:
    seen = snapshot.info(against="hub", endpoint=hub.endpoint)
    assert seen["failed"]
    assert "repo_id" in seen["msg"]
    hub.fault("/api/", "status", code=500, times=1)
    assert judge(snapshot)["complete"], "a Hub that is busy is asked again"
    hub.token, hub.repos[REPO].gated = "hf_right", True
    seen = snapshot.info(against="hub", repo_id=REPO, endpoint=hub.endpoint)
    assert seen["failed"]
    assert finding(seen, "gated")
    secret = tmp_path / "token"
    secret.write_text("hf_right\n")
    assert judge(snapshot, token_file=str(secret))["complete"]
    assert judge(snapshot, token="hf_right")["complete"]
    asked = {"against": "hub", "repo_id": REPO, "endpoint": hub.endpoint}
    assert "exclusive" in snapshot.info(**asked, token="a", token_file=str(secret))["msg"]


def test_the_manifest_or_the_structure_can_be_asked_for_alone(snapshot, hub, files) -> None:
    assert snapshot.info(against="manifest")["verdict"] == "absent"
    snapshot()
    assert snapshot.info(against="manifest", verify="sha256")["verdict"] == "complete"
    flip(snapshot.dest / SHARD)
    assert snapshot.info(against="manifest")["verdict"] == "corrupt"
    seen = snapshot.info(against="structure")
    assert (seen["verdict"], seen["verified"], seen["commit"]) == ("complete", "header", "")
    (snapshot.dest / ".modelops" / "manifest.json").unlink()
    seen = snapshot.info(against="manifest")
    assert (seen["verdict"], seen["complete"]) == ("unverified", False)
    assert "no-manifest" in ids(seen)


@pytest.mark.parametrize("manifest", [True, False])
def test_a_read_only_mount_is_judged_by_all_means(snapshot, hub, files, small_disk, manifest) -> None:
    disk = small_disk(8)
    snapshot.dest = disk / "model"
    snapshot()
    hub.clear()
    if not manifest:
        (snapshot.dest / ".modelops" / "manifest.json").unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(OSError, match="Read-only"):
        (disk / "probe").touch()
    for against in ("auto", "hub", "structure"):
        seen = snapshot.info(against=against, repo_id=REPO, endpoint=hub.endpoint)
        assert seen["complete"], seen
    assert judge(snapshot, verify="sha256")["verified"] == "sha256"
    # hf_snapshot itself has nothing to write when the snapshot is proven, and says what it cannot do otherwise.
    if manifest:
        assert not snapshot()["changed"]
        assert not snapshot(offline=True)["changed"]
    else:
        assert "Read-only file system" in snapshot.fails()["msg"]


def test_an_archive_and_links_are_followed(snapshot, hub, files, folder, tmp_path) -> None:
    link = tmp_path / "current"
    link.symlink_to(folder)
    for dest in (str(link), f"{folder}/"):
        seen = call("hf_snapshot_info", {"dest": dest, "against": "hub", "repo_id": REPO, "endpoint": hub.endpoint})
        assert seen["complete"]
    result = call("hf_snapshot", {**snapshot.params(), "dest": f"{link}/"})
    assert (result["changed"], result["fetched"]) == (True, [])
    assert link.is_symlink()
    assert json.loads((folder / ".modelops" / "manifest.json").read_text())["verified"] == "sha256"

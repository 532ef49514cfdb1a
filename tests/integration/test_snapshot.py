# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_snapshot against a Hub that works: what it fetches, what it leaves alone, what it finds on the disk."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from hub_testing import REPO, Snapshot, every_client, finding, flip, ids, tree
from loopback_hub import Hub
from loopback_repo import Entry
from tiny_files import HTML, POINTER, model, safetensors, shard_name

SHARD = shard_name(2, 4)


@every_client
def test_first_run_proves_every_file_and_leaves_nothing_else(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    result = snapshot()
    assert result["changed"]
    assert snapshot.holds(files)
    assert result["shards"] == {"expected": 4, "present": 4, "missing": [], "bad": []}
    assert (result["files"], result["bytes_total"]) == (7, sum(map(len, files.values())))
    assert result["bytes_fetched"] == result["bytes_total"]
    assert (result["verified"], result["attempts"], result["findings"]) == ("sha256", 1, [])
    assert sorted(p.name for p in (snapshot.dest / ".modelops").iterdir()) == ["lock", "manifest.json"][1:]
    manifest = json.loads(Path(result["manifest"]).read_text())
    assert (manifest["repo"], manifest["commit"]) == (REPO, result["commit"])
    assert set(manifest["files"]) == set(files)


@every_client
def test_second_run_asks_once_for_a_branch_and_never_for_a_commit(
    snapshot: Snapshot, hub: Hub, files: dict[str, bytes]
) -> None:
    commit = snapshot()["commit"]
    before = tree(snapshot.dest)
    hub.clear()
    assert not snapshot()["changed"]
    assert len(hub.requests()) == 1
    assert not snapshot(revision=commit)["changed"]
    assert len(hub.requests()) == 1
    assert tree(snapshot.dest) == before


def test_files_are_readable_by_a_service_whatever_the_umask(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    mask = os.umask(0o077)
    try:
        snapshot()
    finally:
        os.umask(mask)
    for path in [snapshot.dest, *snapshot.dest.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


@pytest.mark.parametrize(
    ("damage", "verdict"),
    [
        pytest.param(lambda p: p.unlink(), "missing", id="missing-shard-garbage"),
        pytest.param(lambda p: os.truncate(p, 1000), "truncated", id="truncated-shard-zeros"),
        pytest.param(lambda p: os.truncate(p, 0), "truncated", id="empty"),
        pytest.param(lambda p: p.write_bytes(p.read_bytes() + b"x" * 50), "corrupt", id="xet-stale-longer-incomplete"),
        pytest.param(flip, "corrupt", id="flipped-byte"),
        pytest.param(lambda p: flip(p, keep_mtime=True), "corrupt", id="mtime-preserved-damage"),
        pytest.param(lambda p: p.write_bytes(POINTER), "pointer", id="lfs-pointer-text"),
        pytest.param(lambda p: p.write_bytes(HTML), "corrupt", id="html-page"),
        pytest.param(lambda p: p.write_bytes(bytes(p.stat().st_size)), "corrupt", id="hole"),
    ],
)
def test_damage_is_named_and_only_the_damaged_file_is_fetched(snapshot, hub, files, damage, verdict) -> None:
    commit = snapshot()["commit"]
    hub.clear()
    damage(snapshot.dest / SHARD)
    seen = snapshot.info()
    assert not seen["complete"]
    assert seen["verdict"] == ("incomplete" if verdict == "missing" else "corrupt")
    assert verdict in ids(seen)

    planned = snapshot(check=True, revision=commit)
    result = snapshot(revision=commit)
    for each in (planned, result):
        assert each["changed"]
        assert each["fetched"] == [SHARD]
        assert each["bytes_fetched"] == len(files[SHARD])
        assert each["shards"]["bad"] == ([] if verdict == "missing" else [SHARD])
    assert planned["shards"]["present"] == 3
    assert result["shards"]["present"] == 4
    if verdict != "missing":
        assert finding(result, verdict)["severity"] == "warning"
    assert [r.path.split("?")[0].split("/")[1] for r in hub.requests(role="cdn")] == ["cdn"]
    assert snapshot.holds(files)
    assert not snapshot(revision=commit)["changed"]


def test_what_a_failing_disk_does_is_found_by_reverify(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    manifest = Path(snapshot()["manifest"])
    flip(snapshot.dest / SHARD)
    # A disk changes bytes without telling the file system: give the manifest the stamp of the changed file.
    st = (snapshot.dest / SHARD).stat()
    body = json.loads(manifest.read_text())
    body["files"][SHARD] |= {"mtime_ns": st.st_mtime_ns, "ctime_ns": st.st_ctime_ns, "inode": st.st_ino}
    manifest.write_text(json.dumps(body))
    assert not snapshot()["changed"]
    assert snapshot.info()["complete"]
    assert snapshot.info(verify="sha256")["verdict"] == "corrupt"
    result = snapshot(reverify=True)
    assert result["fetched"] == [SHARD]
    assert snapshot.holds(files)


def test_a_touched_file_is_hashed_again_and_nothing_else_happens(snapshot, hub, files) -> None:
    snapshot()
    os.utime(snapshot.dest / SHARD)
    hub.clear()
    assert not snapshot(check=True)["changed"]
    assert not snapshot()["changed"]
    assert not hub.requests(role="cdn")
    os.utime(snapshot.dest / SHARD)
    assert snapshot.info(verify="none")["verdict"] == "unverified"
    assert snapshot.info()["verdict"] == "complete"


@pytest.mark.case("dryrun-writes")
def test_check_mode_writes_nothing_and_plans_exactly(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    parent = snapshot.dest.parents[1]
    before = tree(parent)
    planned = snapshot(check=True, diff=True)
    assert tree(parent) == before
    assert planned["fetched"] == sorted(files)
    assert planned["shards"]["missing"] == [shard_name(i, 4) for i in range(4)]
    assert f"{SHARD}: missing\n" in planned["diff"]["before"]
    assert f"{SHARD}: ok\n" in planned["diff"]["after"]
    snapshot()
    before = tree(parent)
    assert not snapshot(check=True)["changed"]
    assert tree(parent) == before


@pytest.mark.parametrize("python", ["/nonexistent/bin/python", "/usr/bin/false"], indirect=True)
def test_a_bare_node_gets_an_exact_plan_and_a_run_that_touches_nothing(snapshot, hub, files, tmp_path) -> None:
    result = snapshot.fails()
    assert snapshot.python in result["msg"]
    assert not snapshot.dest.exists()
    before = tree(tmp_path)
    assert not hub.requests(role="cdn")
    result = snapshot(check=True)
    assert (result["changed"], result["fetched"]) == (True, sorted(files))
    assert result["bytes_fetched"] == sum(map(len, files.values()))
    assert [(f["id"], f["severity"]) for f in result["findings"]][-1][1] == "info"
    assert snapshot.python in result["findings"][-1]["message"]
    assert tree(tmp_path) == before


def test_an_own_download_of_the_same_model_is_adopted(snapshot: Snapshot, hub: Hub, files: dict[str, bytes]) -> None:
    snapshot.dest.mkdir(parents=True)
    for name, data in files.items():
        if name != SHARD:
            (snapshot.dest / name).write_bytes(data)
    result = snapshot()
    assert result["fetched"] == [SHARD]
    assert snapshot.holds(files)


@pytest.mark.parametrize("same_names", [True, False])
def test_another_model_is_never_overwritten(snapshot, hub, files, same_names) -> None:
    other = model(4 if same_names else 3, seed=7)
    hub.commit("org/other", other)
    snapshot(repo_id="org/other")
    before = tree(snapshot.dest)
    for check in (True, False):
        result = snapshot.fails(check=check)
        assert "org/other" in result["msg"]
        assert finding(result, "foreign")["severity"] == "error"
    assert snapshot.info(repo_id=REPO)["verdict"] == "foreign"
    # The same without our manifest: somebody else put it there.
    (snapshot.dest / ".modelops" / "manifest.json").unlink()
    (snapshot.dest / ".modelops").rmdir()
    before = tree(snapshot.dest)
    assert "foreign" in ids(snapshot.fails())
    assert snapshot.holds(other)
    assert set(tree(snapshot.dest)) == set(before)


def test_a_fine_tune_with_the_same_config_is_never_overwritten(snapshot, hub, files) -> None:
    tuned = {**files, **{n: d for n, d in model(seed=9).items() if n.startswith("model-")}}
    snapshot.dest.mkdir(parents=True)
    for name, data in tuned.items():
        (snapshot.dest / name).write_bytes(data)
    assert "foreign" in ids(snapshot.fails())
    assert snapshot.holds(tuned)


def test_unrelated_files_do_not_matter(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    (snapshot.dest / "lost+found").mkdir(parents=True)
    (snapshot.dest / "NOTES.txt").write_text("ours")
    snapshot()
    assert snapshot.holds({**files, "NOTES.txt": b"ours"})


@pytest.mark.case("stale-shards-after-reshard")
def test_a_new_commit_replaces_what_changed_and_names_what_is_stale(snapshot, hub, files) -> None:
    snapshot()
    new = model(2, size=8000)
    hub.commit(REPO, new)
    result = snapshot()
    assert "tokenizer.json" not in result["fetched"]
    assert finding(result, "stale")["numbers"]["files"] == [shard_name(i, 4) for i in range(4)]
    assert snapshot.holds({**files, **new})
    assert "stale" in ids(snapshot())
    assert "stale" in ids(snapshot.fails(strict=True))
    (snapshot.dest / "mine.safetensors").write_bytes(b"")
    pruned = snapshot(prune=True)
    assert pruned["changed"]
    assert snapshot.holds({**new, "mine.safetensors": b""})
    assert finding(snapshot(prune=True), "stale")["numbers"]["files"] == ["mine.safetensors"]


@every_client
@pytest.mark.case("update-deletes-first")
def test_an_update_that_fails_leaves_the_old_snapshot_whole(snapshot, hub, files) -> None:
    commit = snapshot()["commit"]
    new = hub.repos[REPO].commits[hub.commit(REPO, model(seed=5))]
    hub.fault(f"/cdn/{new[SHARD].sha256}", "corrupt", at=2000, times=-1)
    assert finding(snapshot.fails(retries=0), "corrupt")
    hub.clear()
    assert snapshot.info(revision=commit)["verdict"] == "complete"
    assert not snapshot(revision=commit)["changed"]
    assert {n: (snapshot.dest / n).read_bytes() for n in files} == files
    # What had arrived and was proven is not fetched again.
    assert snapshot()["fetched"] == [SHARD]
    assert snapshot.holds(model(seed=5))


@pytest.mark.parametrize("names", [("model-000001-of-000002", "model-000002-of-000002"), ("a/w", "b/w"), ("x", "y")])
@pytest.mark.case("zero-based-shards")
def test_shards_have_any_names(snapshot: Snapshot, hub: Hub, names: tuple[str, str]) -> None:
    shards = [f"{n}.safetensors" for n in names]
    content = {
        "config.json": b"{}",
        "model.safetensors.index.json": json.dumps({"weight_map": {"t0": shards[0], "t1": shards[1]}}).encode(),
        **{s: safetensors({f"t{i}": 100}) for i, s in enumerate(shards)},
    }
    hub.commit(REPO, content)
    assert snapshot()["shards"]["expected"] == 2
    (snapshot.dest / shards[1]).unlink()
    assert snapshot.info()["shards"]["missing"] == [shards[1]]
    (snapshot.dest / ".modelops" / "manifest.json").unlink()
    assert snapshot.info()["shards"]["missing"] == [shards[1]]
    assert snapshot()["fetched"] == [shards[1]]


def test_a_file_may_be_named_like_a_pattern(snapshot: Snapshot, hub: Hub) -> None:
    content = {"config.json": b"{}", "model.safetensors": safetensors({"t": 9}), "notes [1] #é.txt": b"x"}
    hub.commit(REPO, content)
    snapshot()
    assert snapshot.holds(content)


def test_level_header_proves_less_and_says_so(snapshot: Snapshot, hub: Hub, files: dict[str, bytes]) -> None:
    hub.fault(rf"/cdn/{hub.repos[REPO].commits[hub.repos[REPO].refs['main']][SHARD].sha256}", "corrupt", at=3000)
    result = snapshot(verify="header")
    assert result["verified"] == "header"
    assert snapshot.info()["verified"] == "header"
    # The manifest knows the Hub's hashes, so the level can be raised without the Hub.
    assert snapshot.fails(offline=True)["shards"]["bad"] == [SHARD]
    assert snapshot.info(verify="sha256")["verdict"] == "corrupt"
    proven = snapshot()
    assert proven["fetched"] == [SHARD]
    assert proven["verified"] == "sha256"
    # What was proven by hash is not believed for less later.
    flip(snapshot.dest / SHARD)
    assert snapshot(verify="header")["fetched"] == [SHARD]


@pytest.mark.case("offline-truncated-passes")
def test_offline_judges_by_the_manifest_and_sends_nothing(snapshot, hub, files) -> None:
    snapshot.fails(offline=True)
    assert not snapshot.dest.exists()
    commit = snapshot()["commit"]
    hub.clear()
    result = snapshot(offline=True)
    assert (result["changed"], result["commit"], result["verified"]) == (False, commit, "sha256")
    assert not snapshot(offline=True, revision=commit)["changed"]
    os.truncate(snapshot.dest / SHARD, 10)
    result = snapshot.fails(offline=True)
    assert SHARD in result["msg"]
    assert result["shards"]["bad"] == [SHARD]
    (snapshot.dest / SHARD).unlink()
    assert snapshot.fails(offline=True)["shards"]["missing"] == [SHARD]
    assert "foreign" in ids(snapshot.fails(offline=True, revision="0" * 40))
    assert not hub.requests()


def test_offline_without_a_manifest_never_claims_a_hash(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    snapshot()
    (snapshot.dest / ".modelops" / "manifest.json").unlink()
    assert "no-manifest" in ids(snapshot.fails(offline=True))
    result = snapshot(offline=True, verify="header")
    assert result["verified"] == "header"


@every_client
@pytest.mark.case("cache-copy-unverified", "hf-home-unwritable")
def test_the_environment_of_the_caller_does_not_matter(snapshot, hub, files, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", "/dev/null/x")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "0.5")
    monkeypatch.setenv("HF_HUB_ENABLE_HF_TRANSFER", "1")
    blob = (
        tmp_path
        / "cache"
        / "models--org--model"
        / "blobs"
        / hub.repos[REPO].commits[hub.repos[REPO].refs["main"]][SHARD].sha256
    )
    blob.parent.mkdir(parents=True)
    blob.write_bytes(files[SHARD][:1000])
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    snapshot()
    assert snapshot.holds(files)


@every_client
@pytest.mark.case("empty-metadata-crash")
def test_broken_notes_of_huggingface_hub_do_not_matter(snapshot, files) -> None:
    notes = snapshot.dest / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    for name in files:
        (notes / f"{name}.metadata").write_text("")
    (notes / "abc.123.incomplete").write_bytes(b"x" * 9000)
    result = snapshot()
    assert result["shards"]["present"] == 4
    assert finding(result, "partial-leftovers")["numbers"]["files"] == 1


@pytest.mark.case("readonly-rootfs-tmp")
def test_only_the_destination_is_written_to(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    snapshot.dest.mkdir(parents=True)
    beside = snapshot.dest.parent
    before = beside.stat().st_mtime_ns
    snapshot()
    assert beside.stat().st_mtime_ns == before
    assert [p.name for p in beside.iterdir()] == [snapshot.dest.name]


@every_client
@pytest.mark.case("xet-sparse-then-disable-xet")
def test_a_sparse_part_of_a_file_is_never_taken_for_the_file(snapshot, hub, files) -> None:
    """hf_xet 1.2 leaves parts of full size with holes, and huggingface_hub before 1.18 resumes behind their ends."""
    commit, entry = hub.repos[REPO].refs["main"], hub.repos[REPO].commits[hub.repos[REPO].refs["main"]][SHARD]
    short = base64.urlsafe_b64encode(hashlib.sha1(f"{SHARD}.metadata".encode()).digest()).decode()
    for root in (snapshot.dest / ".modelops" / "staging" / commit, snapshot.dest):
        part = root / ".cache" / "huggingface" / "download" / f"{short}.{entry.sha256}.incomplete"
        part.parent.mkdir(parents=True)
        with part.open("wb") as f:
            f.truncate(entry.size)
    result = snapshot(xet="off")
    assert f"/cdn/{entry.sha256}" in {r.path.split("?")[0] for r in hub.requests(role="cdn")}
    assert result["verified"] == "sha256"
    assert (snapshot.dest / SHARD).read_bytes() == files[SHARD]
    assert finding(result, "partial-leftovers")["numbers"]["files"] == 1, "those of others are named, not removed"


@pytest.mark.case("consolidated-duplicate")
def test_check_mode_tells_what_is_left_out_by_group(snapshot: Snapshot, hub: Hub) -> None:
    extra = {
        "consolidated.safetensors": safetensors({"a": 5000}),
        "original/consolidated.00.pth": b"p" * 3000,
        "original/params.json": b"{}",
        "pytorch_model.bin": b"b" * 2000,
    }
    content = model()
    hub.commit(REPO, {**content, **extra})
    planned = snapshot(check=True)
    assert planned["bytes_total"] == sum(map(len, content.values()))
    numbers = finding(planned, "left-out")["numbers"]
    assert numbers["groups"] == {
        "*.bin": 2000,
        "consolidated*": len(extra["consolidated.safetensors"]),
        "original/": 3002,
    }
    assert numbers["bytes"] == sum(map(len, extra.values()))
    snapshot()
    assert snapshot.holds(content)


def test_what_an_interrupted_run_proved_is_not_planned_again(snapshot: Snapshot, hub: Hub, files) -> None:
    entry = hub.repos[REPO].commits[hub.repos[REPO].refs["main"]][SHARD]
    hub.fault(f"/cdn/{entry.sha256}", "corrupt", at=2000, times=-1)
    snapshot.fails(retries=0)
    hub.clear()
    before = tree(snapshot.dest)
    planned = snapshot(check=True)
    assert tree(snapshot.dest) == before
    assert (planned["fetched"], planned["bytes_fetched"]) == ([SHARD], entry.size)
    result = snapshot()
    assert (result["fetched"], result["bytes_fetched"]) == ([SHARD], entry.size)
    assert len(hub.requests(role="cdn")) == 1


@pytest.mark.parametrize("there", ["model-00002-of-00004.safetensors/x", "sub"])
def test_what_stands_in_the_way_is_named_before_the_first_byte(snapshot, hub, there) -> None:
    content = {**model(), "sub/notes.txt": b"x"}
    hub.commit(REPO, content)
    snapshot()
    hub.clear()
    (snapshot.dest / SHARD).unlink()
    shutil.rmtree(snapshot.dest / "sub")
    (snapshot.dest / there).parent.mkdir(exist_ok=True)
    (snapshot.dest / there).write_text("mine")
    for check in (True, False):
        result = snapshot.fails(check=check)
        assert str(snapshot.dest / there.split("/")[0]) in result["msg"]
    assert not hub.requests(role="cdn")


@pytest.mark.parametrize("names", [("unet", "vae"), ("text_encoder", "transformer")])
def test_components_with_indices_of_their_own_are_complete_or_not(snapshot, hub, names) -> None:
    """As in repositories for diffusers: nothing in the root but a list of the components."""
    content = {"model_index.json": b"{}"}
    for i, part in enumerate(names):
        shards = {f"{part}/{shard_name(k, 2)}": safetensors({f"{part}.{k}": 200 + i}) for k in range(2)}
        index = {f"{part}.{k}": shard_name(k, 2) for k in range(2)}
        content |= {
            f"{part}/diffusion_pytorch_model.safetensors.index.json": json.dumps({"weight_map": index}).encode(),
            f"{part}/config.json": b"{}",
            **shards,
        }
    hub.commit(REPO, content)
    assert snapshot()["shards"] == {"expected": 4, "present": 4, "missing": [], "bad": []}
    assert snapshot.info(against="structure")["verdict"] == "complete"
    lost = f"{names[1]}/{shard_name(1, 2)}"
    (snapshot.dest / lost).unlink()
    for against in ("manifest", "structure", "hub"):
        seen = snapshot.info(against=against, repo_id=REPO, endpoint=hub.endpoint)
        assert (seen["verdict"], seen["shards"]["missing"]) == ("incomplete", [lost])
    # A pattern that matches a part of a component brings the whole component.
    shutil.rmtree(snapshot.dest)
    result = snapshot(allow_patterns=[f"{names[0]}/*00000-of*"])
    assert result["shards"]["expected"] == 2
    del content[lost]
    hub.commit(REPO, content)
    assert lost in finding(snapshot.fails(dest=str(snapshot.dest) + "2"), "upstream-inconsistent")["message"]


def edit_manifest(snapshot: Snapshot, **changes: object) -> None:
    """Change fields of the manifest by hand."""
    path = snapshot.dest / ".modelops" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_manifest_that_names_nothing_makes_no_snapshot_complete(snapshot: Snapshot, hub: Hub, files) -> None:
    commit = snapshot()["commit"]
    (snapshot.dest / SHARD).unlink()
    edit_manifest(snapshot, files={}, shards=[])
    for result in (snapshot.fails(revision=commit), snapshot.fails(offline=True), snapshot.info()):
        assert "cannot be read" in result["msg"]


def test_prune_never_leaves_the_destination(snapshot: Snapshot, hub: Hub, files) -> None:
    snapshot()
    victim = snapshot.dest.parent / "victim"
    victim.write_text("precious")
    edit_manifest(snapshot, stale=["../victim"])
    assert "cannot be read" in snapshot.fails(prune=True)["msg"]
    assert victim.read_text() == "precious"


def test_prune_removes_what_runs_put_there_and_nothing_else(snapshot: Snapshot, hub: Hub, files) -> None:
    new = model(2, size=8000)
    hub.commit(REPO, {**files, "notes.txt": b"published", "sub/old.txt": b"x"})
    snapshot()
    hub.commit(REPO, new)
    snapshot()
    (snapshot.dest / "notes.txt").unlink()
    (snapshot.dest / "notes.txt").write_text("mine")
    stale = [*(shard_name(i, 4) for i in range(4)), "sub/old.txt"]
    planned = snapshot(check=True, diff=True, prune=True)
    pruned = snapshot(diff=True, prune=True)
    for result in (planned, pruned):
        assert result["changed"]
        assert result["diff"]["before"] == "".join(f"{n}: stale\n" for n in stale)
        assert result["diff"]["after"] == "".join(f"{n}: removed\n" for n in stale)
    assert finding(pruned, "pruned")["numbers"]["files"] == stale
    assert snapshot.holds({**new, "notes.txt": b"mine"})
    assert not snapshot(prune=True)["changed"]


def test_prune_plans_the_files_of_the_commit_that_is_replaced(snapshot: Snapshot, hub: Hub, files) -> None:
    snapshot()
    hub.commit(REPO, model(2, size=8000))
    planned = snapshot(check=True, diff=True, prune=True)
    assert snapshot(diff=True, prune=True)["diff"] == planned["diff"]
    assert f"{SHARD}: removed\n" in planned["diff"]["after"]


def test_nothing_changes_for_stale_files_that_were_removed_by_hand(snapshot: Snapshot, hub: Hub, files) -> None:
    snapshot()
    hub.commit(REPO, model(2, size=8000))
    snapshot()
    for i in range(4):
        (snapshot.dest / shard_name(i, 4)).unlink()
    for check in (True, False):
        assert not snapshot(check=check, prune=True)["changed"]


def test_prune_removes_no_weights_for_patterns_without_any(snapshot: Snapshot, hub: Hub, files) -> None:
    snapshot()
    before = tree(snapshot.dest)
    for check in (True, False):
        assert "prune-refused" in ids(snapshot.fails(check=check, allow_patterns=["*.json"], prune=True))
        assert snapshot.holds(files)
        assert set(tree(snapshot.dest)) == set(before)


@pytest.mark.parametrize(
    ("content", "options", "doubt"),
    [
        ({"config.json": b"{}", "README.md": b"x"}, {}, "no-weights"),
        (model(), {"allow_patterns": ["*.json"]}, "weights-left-out"),
    ],
)
def test_a_doubt_about_the_selection_stays(snapshot: Snapshot, hub: Hub, content, options, doubt) -> None:
    hub.commit(REPO, content)
    commit = snapshot.fails(strict=True, **options)["commit"]
    for more in ({}, {"revision": commit}, {"offline": True}, {"reverify": True}):
        assert doubt in ids(snapshot.fails(strict=True, **options, **more)), more
        told = [f for f in snapshot(**options, **more)["findings"] if f["id"] == doubt]
        assert len(told) == 1, more
    assert doubt in ids(snapshot.info())
    # Other patterns are another selection.
    hub.commit(REPO, model())
    assert doubt not in ids(snapshot(strict=True))


def test_no_level_is_promised_that_a_mirror_cannot_prove(snapshot: Snapshot, hub: Hub, files) -> None:
    commit = snapshot(verify="header")["commit"]
    manifest = json.loads((snapshot.dest / ".modelops" / "manifest.json").read_text())
    # As after a run from a mirror that gives no hashes.
    records = {n: {**r, "sha256": None, "blob_id": None, "verified": "header"} for n, r in manifest["files"].items()}
    edit_manifest(snapshot, files=records)
    assert not snapshot(verify="header", revision=commit)["changed"]
    result = snapshot(revision=commit)
    assert (result["verified"], result["fetched"]) == ("sha256", []), "the Hub has the hashes"
    assert not snapshot(revision=commit)["changed"]


def test_a_mirror_without_hashes_never_proves_them(snapshot: Snapshot, hub: Hub, files, monkeypatch) -> None:
    monkeypatch.setattr(Entry, "sibling", lambda entry, _blobs: {"rfilename": entry.path, "size": entry.size})
    commit = snapshot(verify="header")["commit"]
    for options in ({}, {"revision": commit}, {"check": True}):
        assert "no checksum" in snapshot.fails(**options)["msg"]
    assert not snapshot(verify="header")["changed"]


def test_a_failed_run_for_a_wrong_repository_claims_nothing(snapshot: Snapshot, hub: Hub, files) -> None:
    hub.commit("org/wrong", {"model.safetensors": safetensors({"t": 100})})
    hub.fault("/cdn/", "status", code=403, times=-1)
    snapshot.fails(repo_id="org/wrong")
    hub.clear()
    assert not snapshot.dest.exists()
    # The same for a run that was killed in the middle.
    area = snapshot.dest / ".modelops" / "staging" / ("0" * 40)
    (area / ".cache").mkdir(parents=True)
    (area / ".cache" / "x.incomplete").write_bytes(b"x")
    (snapshot.dest / ".modelops" / "job.json").write_text(json.dumps({"repo": "org/wrong", "commit": "0" * 40}))
    snapshot()
    assert snapshot.holds(files)


@pytest.mark.parametrize("adopted", [True, False])
def test_a_copy_of_another_shard_is_found_at_level_header(snapshot: Snapshot, hub: Hub, adopted: bool) -> None:
    content = model()
    hub.commit(REPO, content)
    shards = [shard_name(i, 4) for i in range(4)]
    assert len({len(content[n]) for n in shards}) == 1
    snapshot.dest.mkdir(parents=True)
    lost = [] if adopted else ["model.safetensors.index.json"]
    for name, data in {**content, SHARD: content[shards[0]]}.items():
        if name not in lost:
            (snapshot.dest / name).write_bytes(data)
    result = snapshot(verify="header")
    assert sorted(result["fetched"]) == sorted([SHARD, *lost])
    assert result["shards"] == {"expected": 4, "present": 4, "missing": [], "bad": [SHARD]}
    assert snapshot.holds(content)
    assert not snapshot(verify="header")["changed"]


def test_holes_are_hinted_at_where_no_hash_was_computed(snapshot: Snapshot, hub: Hub) -> None:
    content = {"config.json": b"{}", "model.safetensors": safetensors({"t": 4 << 20})}
    hub.commit(REPO, content)
    snapshot.dest.mkdir(parents=True)
    with (snapshot.dest / "model.safetensors").open("wb") as f:
        f.write(content["model.safetensors"][:100_000])
        f.truncate(len(content["model.safetensors"]))
    for _run in range(2):
        result = snapshot(verify="header")
        assert finding(result, "sparse")["numbers"]["files"] == ["model.safetensors"]
    assert "sparse" in ids(snapshot.fails(verify="header", strict=True))
    assert snapshot()["fetched"] == ["model.safetensors"]
    assert "sparse" not in ids(snapshot(strict=True))


def test_offline_names_small_files_too(snapshot: Snapshot, files: dict[str, bytes]) -> None:
    snapshot()
    (snapshot.dest / "tokenizer.json").unlink()
    result = snapshot.fails(offline=True)
    assert "tokenizer.json" in result["msg"]
    assert SHARD not in result["msg"]


def test_a_file_above_the_destination_is_named_at_once(snapshot: Snapshot, hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for check in (True, False):
        result = snapshot.fails(check=check, dest=str(tmp_path / "file" / "org" / "model"))
        assert f"{tmp_path}/file is not a folder" in result["msg"]
    assert not hub.requests()


def test_a_run_that_fails_between_two_files_says_that_it_changed_something(snapshot, hub, files, monkeypatch) -> None:
    replace, done = os.replace, []

    def fail_later(source: str, place: str) -> None:
        if place.endswith(".safetensors"):
            done.append(place)
            if len(done) > 1:
                raise OSError(5, "Input/output error", place)
        replace(source, place)

    monkeypatch.setattr(os, "replace", fail_later)
    result = snapshot.fails()
    assert result["changed"]
    monkeypatch.undo()
    snapshot()
    assert snapshot.holds(files)


def test_what_arrives_as_another_shard_is_not_kept_at_level_header(snapshot: Snapshot, hub: Hub, files) -> None:
    commit = hub.repos[REPO].commits[hub.repos[REPO].refs["main"]]
    right, other = commit[SHARD], commit[shard_name(0, 4)]
    hub.blobs[right.sha256] = other
    result = snapshot.fails(verify="header")
    assert finding(result, "corrupt")["severity"] == "error"
    assert result["fetched"] == sorted(set(files) - {SHARD})
    assert not (snapshot.dest / SHARD).exists()
    assert len(hub.requests(f"/cdn/{right.sha256}")) == 2, "retries is 1"
    hub.blobs[right.sha256] = right
    assert snapshot(verify="header")["fetched"] == [SHARD]
    assert snapshot.holds(files)


def test_where_nothing_fits_nothing_is_made(snapshot: Snapshot, hub: Hub, files, tmp_path: Path) -> None:
    before = tree(tmp_path)
    assert "disk-space" in ids(snapshot.fails(min_free="900TB"))
    assert tree(tmp_path) == before, "not even for a moment: a full disk has no room for a lock"


def test_a_copy_of_another_shard_that_version_1_0_0_recorded_is_mended(snapshot: Snapshot, hub: Hub, files) -> None:
    snapshot(verify="header")
    (snapshot.dest / SHARD).write_bytes(files[shard_name(0, 4)])
    st = (snapshot.dest / SHARD).stat()
    manifest = json.loads((snapshot.dest / ".modelops" / "manifest.json").read_text())
    manifest["files"][SHARD] |= {"mtime_ns": st.st_mtime_ns, "ctime_ns": st.st_ctime_ns, "inode": st.st_ino}
    differs = {"id": "upstream-inconsistent", "severity": "warning", "message": "m", "numbers": {"file": SHARD}}
    edit_manifest(snapshot, files=manifest["files"], upstream=[{**differs, "remedy": ""}], stale=[])
    result = snapshot(verify="header")
    assert result["fetched"] == [SHARD]
    assert snapshot.holds(files)
    assert "upstream-inconsistent" not in ids(snapshot(verify="header", strict=True))

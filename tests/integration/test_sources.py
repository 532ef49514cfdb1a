# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_snapshot with a folder as its source: what proves the copies, what is refused, what a hard link means."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
import time
import typing as t
from pathlib import Path

import pytest
from hub_testing import REPO, Snapshot, finding, flip, ids, tree
from loopback_hub import Hub
from tiny_files import model, sha256, shard_name

SHARD = shard_name(2, 4)
COMMIT = "c" * 40


@pytest.fixture
def site(snapshot: Snapshot, hub: Hub, files: dict[str, bytes], tmp_path: Path) -> Snapshot:
    """A store of the site that hf_snapshot made; the Hub has forgotten the requests for it."""
    store = Snapshot(hub, tmp_path / "site", snapshot.python)
    store()
    hub.clear()
    return store


@pytest.fixture
def plain(files: dict[str, bytes], tmp_path: Path) -> Path:
    """The files on a disk that no manifest is on."""
    folder = tmp_path / "disk"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def sums(content: t.Mapping[str, bytes], path: Path, without: t.Container[str] = ()) -> str:
    """A list of checksums as sha256sum writes it."""
    path.write_text("".join(f"{sha256(d)}  {n}\n" for n, d in content.items() if n not in without))
    return str(path)


def bare(snapshot: Snapshot) -> Snapshot:
    """The same on a node that has neither huggingface_hub nor a network."""
    snapshot.python = "/nonexistent/bin/python"
    return snapshot


def test_a_manifest_proves_the_copies_without_hub_and_client(snapshot, site, hub, files) -> None:
    bare(snapshot)
    planned = snapshot(check=True, source_dir=str(site.dest))
    assert (planned["fetched"], planned["changed"]) == (sorted(files), True)
    assert not snapshot.dest.exists()
    result = snapshot(source_dir=str(site.dest))
    assert (result["verified"], result["shards"]["present"]) == ("sha256", 4)
    assert snapshot.holds(files)
    again = snapshot(source_dir=str(site.dest))
    assert not again["changed"]
    commit = result["commit"]
    shutil.rmtree(site.dest)
    assert not snapshot(source_dir=str(site.dest), revision=commit)["changed"], "nothing to do needs no source"
    assert not hub.requests()


def test_damage_of_the_source_does_not_spread(snapshot, site, files) -> None:
    flip(site.dest / SHARD)
    damaged = snapshot.fails(source_dir=str(site.dest), retries=5)
    assert str(site.dest) in finding(damaged, "corrupt")["message"]
    assert damaged["attempts"] == 1, "a disk gives the same bytes again"
    assert not any(word in json.dumps(damaged["findings"]) for word in ("mirror", "the Hub"))
    assert not (snapshot.dest / SHARD).exists()
    os.truncate(site.dest / SHARD, 100)
    assert finding(snapshot.fails(source_dir=str(site.dest)), "source-incomplete")["numbers"]["files"] == [SHARD]
    (site.dest / SHARD).unlink()
    assert SHARD in finding(snapshot.fails(source_dir=str(site.dest)), "source-incomplete")["message"]
    site()
    snapshot(source_dir=str(site.dest))
    assert snapshot.holds(files)


def test_the_source_must_be_of_the_same_model_and_selection(snapshot, site, tmp_path, files) -> None:
    source = {"source_dir": str(site.dest)}
    assert REPO in snapshot.fails(**source, repo_id="org/other")["msg"]
    assert COMMIT in snapshot.fails(**source, revision=COMMIT)["msg"]
    assert "not a folder" in snapshot.fails(source_dir=str(tmp_path / "none"))["msg"]
    assert "one folder" in snapshot.fails(**source, dest=str(site.dest / "sub"))["msg"]
    # What a narrower source lacks, a wider task would miss without anybody noticing.
    narrow = Snapshot(snapshot.hub, tmp_path / "narrow", snapshot.python)
    narrow(ignore_patterns=["tokenizer*"])
    assert "other patterns" in snapshot.fails(source_dir=str(narrow.dest))["msg"]
    assert "other patterns" in snapshot.fails(**source, allow_patterns=["*.json"])["msg"]
    assert not snapshot.dest.exists()
    snapshot(**source, ignore_patterns=["tokenizer*"])
    assert snapshot.holds({n: d for n, d in files.items() if n != "tokenizer.json"})


def test_checksums_prove_a_plain_folder_without_the_hub(snapshot, hub, files, plain, tmp_path) -> None:
    bare(snapshot)
    options = {"source_dir": str(plain), "source_checksums": sums(files, plain / "SHA256SUMS")}
    assert "must be a commit" in snapshot.fails(**options)["msg"]
    planned = snapshot(check=True, **options, revision=COMMIT)
    result = snapshot(**options, revision=COMMIT)
    assert planned["fetched"] == result["fetched"] == sorted(files)
    assert (result["commit"], result["verified"]) == (COMMIT, "sha256")
    assert ids(result) == {"commit-unproven"}
    assert snapshot.holds(files)
    assert not snapshot(**options, revision=COMMIT)["changed"]
    assert snapshot.info(verify="sha256")["complete"]
    assert not hub.requests()


@pytest.mark.parametrize("moved", [False, True])
def test_a_list_that_names_itself_is_understood(snapshot, files, plain, tmp_path, moved) -> None:
    """``sha256sum * > SHA256SUMS`` hashes its own list while it is empty."""
    listed = plain / "SHA256SUMS"
    sums({**files, "SHA256SUMS": b""}, listed)
    if moved:
        listed = listed.rename(tmp_path / "SHA256SUMS")
    bare(snapshot)(source_dir=str(plain), source_checksums=str(listed), revision=COMMIT)
    assert snapshot.holds(files)


def test_what_is_below_a_link_belongs_to_the_source(snapshot, files, plain, tmp_path) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    (aside / "voice.json").write_bytes(b"{}")
    (plain / "extra").symlink_to(aside)
    (plain / "again").symlink_to(aside)
    (aside / "back").symlink_to(plain)
    options = {"source_dir": str(plain), "revision": COMMIT}
    result = bare(snapshot).fails(**options, source_checksums=sums(files, tmp_path / "short"))
    assert "lacks 2 of the files to copy: again/voice.json, extra/voice.json" in result["msg"]
    content = {**files, "extra/voice.json": b"{}", "again/voice.json": b"{}"}
    snapshot(**options, source_checksums=sums(content, tmp_path / "sums"))
    assert snapshot.holds(content)


@pytest.mark.parametrize("made_here", [True, False])
def test_small_files_alone_can_be_copied_when_they_are_asked_for(snapshot, site, files, tmp_path, made_here) -> None:
    small = {n: d for n, d in files.items() if n.endswith(".json")}
    source = Snapshot(snapshot.hub, tmp_path / "small", snapshot.python)
    options = {"allow_patterns": ["*.json"], "source_dir": str(source.dest)}
    if made_here:
        source(allow_patterns=["*.json"])
    else:
        source.dest.mkdir()
        for name, data in small.items():
            (source.dest / name).write_bytes(data)
        options |= {"source_checksums": sums(small, tmp_path / "sums"), "revision": COMMIT}
    result = bare(snapshot)(**options)
    assert "no-weights" in ids(result)
    assert snapshot.holds(small)
    if not made_here:
        del options["allow_patterns"]
        result = snapshot.fails(**options, dest=str(tmp_path / "other"))
        assert len(finding(result, "source-incomplete")["numbers"]["files"]) == 4


@pytest.mark.parametrize("damage", ["unlisted", "absent", "flipped", "shard-unlisted-and-absent"])
def test_checksums_must_name_everything_and_be_right(snapshot, files, plain, damage) -> None:
    bare(snapshot)
    without: set[str] = set()
    if damage == "unlisted":
        without = {"tokenizer.json"}
    elif damage == "absent":
        (plain / SHARD).unlink()
    elif damage == "flipped":
        flip(plain / SHARD)
    else:
        without = {SHARD}
        (plain / SHARD).unlink()
    options = {"source_dir": str(plain), "source_checksums": sums(files, plain.parent / "sums", without)}
    result = snapshot.fails(**options, revision=COMMIT, retries=0)
    assert {
        "unlisted": "lacks 1 of the files to copy: tokenizer.json",
        "absent": f"lacks 1 of the files to copy: {SHARD}",
        "flipped": SHARD,
        "shard-unlisted-and-absent": SHARD,
    }[damage] in result["msg"]
    assert not snapshot.info()["complete"]
    if damage == "unlisted":
        snapshot(**options, revision=COMMIT, ignore_patterns=["tokenizer*"])


def test_a_manifest_and_checksums_must_agree(snapshot, site, files, tmp_path) -> None:
    source = {"source_dir": str(site.dest)}
    wrong = sums({**files, SHARD: b"other"}, tmp_path / "wrong")
    assert SHARD in snapshot.fails(**source, source_checksums=wrong)["msg"]
    short = sums(files, tmp_path / "short", without={SHARD})
    assert f"lacks 1 of the files to copy: {SHARD}" in snapshot.fails(**source, source_checksums=short)["msg"]
    assert not snapshot.dest.exists()
    snapshot(**source, source_checksums=sums(files, tmp_path / "right"))
    assert snapshot.holds(files)


def test_the_hub_proves_a_plain_folder_and_nothing_is_fetched(snapshot, hub, files, plain) -> None:
    bare(snapshot)
    result = snapshot(source_dir=str(plain))
    assert (result["verified"], result["commit"]) == ("sha256", hub.repos[REPO].refs["main"])
    assert snapshot.holds(files)
    assert not hub.requests(role="cdn")
    (plain / SHARD).unlink()
    (snapshot.dest / SHARD).unlink()
    assert finding(snapshot.fails(source_dir=str(plain)), "source-incomplete")["numbers"]["files"] == [SHARD]


def test_without_any_proof_nothing_is_copied(snapshot, plain, files) -> None:
    result = snapshot.fails(source_dir=str(plain), endpoint="http://127.0.0.1:9", retries=5)
    assert "source_checksums" in result["msg"]
    assert finding(result, "connection")
    assert result["seconds"] < 5, "without a network there is nothing to wait for"
    assert not snapshot.dest.exists()


def test_the_cache_of_huggingface_hub_can_be_the_source(snapshot, hub, files, tmp_path) -> None:
    folder, blobs = tmp_path / "snapshots" / "x", tmp_path / "blobs"
    folder.mkdir(parents=True)
    blobs.mkdir()
    for name, data in files.items():
        (blobs / sha256(data)).write_bytes(data)
        (folder / name).symlink_to(Path("../../blobs") / sha256(data))
    for transfer in ("copy", "hardlink"):
        dest = tmp_path / transfer
        snapshot(source_dir=str(folder), source_transfer=transfer, dest=str(dest))
        assert not any(p.is_symlink() for p in dest.rglob("*"))
        assert (dest / SHARD).read_bytes() == files[SHARD]


def test_a_hard_link_takes_no_space_and_leaves_the_source_as_it_is(snapshot, site, files) -> None:
    os.chmod(site.dest / SHARD, 0o444)
    site()
    result = snapshot(source_dir=str(site.dest), source_transfer="hardlink", min_free="1MB")
    assert result["verified"] == "sha256"
    assert (snapshot.dest / SHARD).samefile(site.dest / SHARD)
    assert stat.S_IMODE((site.dest / SHARD).stat().st_mode) == 0o444
    assert site.info()["complete"], "its ctime changed, so it is hashed again, and is right"
    # An update of one never writes into the bytes of the other.
    snapshot.hub.commit(REPO, model(seed=3))
    snapshot()
    assert site.holds(files)
    assert not (snapshot.dest / SHARD).samefile(site.dest / SHARD)


def test_a_link_that_others_could_not_read_is_refused(snapshot, site) -> None:
    os.chmod(site.dest / SHARD, 0o600)
    result = snapshot.fails(source_dir=str(site.dest), source_transfer="hardlink")
    assert finding(result, "link-unreadable")["numbers"]["files"] == [SHARD]
    snapshot(source_dir=str(site.dest), source_transfer="copy")
    assert stat.S_IMODE((snapshot.dest / SHARD).stat().st_mode) == 0o644


def test_a_link_across_file_systems_names_the_way_out(snapshot, site, small_disk) -> None:
    snapshot.dest = small_disk(8) / "model"
    result = snapshot.fails(source_dir=str(site.dest), source_transfer="hardlink")
    assert finding(result, "link-failed")["remedy"].startswith("Set source_transfer to copy")
    before = tree(site.dest)
    snapshot(source_dir=str(site.dest))
    assert tree(site.dest) == before


def test_options_of_a_source_need_one(snapshot, files) -> None:
    assert "source_checksums" in snapshot.fails(source_checksums="/tmp/sums")["msg"]
    assert "source_transfer" in snapshot.fails(source_transfer="hardlink")["msg"]


# A disk that fills up


@pytest.mark.case("disk-full-only-warns")
def test_a_small_disk_is_named_before_the_first_byte(snapshot, hub, small_disk) -> None:
    hub.commit(REPO, model(4, size=1_000_000))
    snapshot.dest = small_disk(2) / "model"
    result = snapshot.fails(min_free="0")
    numbers = finding(result, "disk-space")["numbers"]
    assert numbers["short"] == numbers["needed"] - numbers["free"]
    assert str(snapshot.dest.parent) in result["msg"]
    assert not hub.requests(role="cdn")
    planned = finding(snapshot.fails(check=True, min_free="0"), "disk-space")["numbers"]
    assert planned["needed"] == numbers["needed"]


@pytest.mark.case("disk-full-only-warns")
def test_a_disk_that_another_writer_fills_is_left_without_our_partials(snapshot, hub, small_disk) -> None:
    content = model(3, size=1_500_000)
    hub.commit(REPO, content)
    disk = small_disk(8)
    snapshot.dest = disk / "model"
    hub.fault("/cdn/", "slow", bps=1_000_000, times=-1)
    stuffed = _fill_when_it_runs(disk)
    result = snapshot.fails(min_free="0", max_workers=3)
    stuffed.join()
    assert finding(result, "disk-full")["severity"] == "error"
    left = [p for p in snapshot.dest.rglob("*") if p.is_file() and "incomplete" in p.name]
    assert left == []
    assert not snapshot.info()["complete"]
    (disk / "other").unlink()
    hub.clear()
    assert snapshot(min_free="0")["shards"]["present"] == 3
    assert snapshot.holds(content)


@pytest.mark.case("disk-full-only-warns")
def test_a_disk_that_is_full_already_is_named_and_no_lock_stays(snapshot, files, small_disk) -> None:
    disk = small_disk(1)
    snapshot.dest = disk / "model"
    (disk / "other").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
    result = snapshot.fails(min_free="0")
    assert {"disk-full", "disk-space"} & ids(result)
    assert not snapshot.dest.exists()
    (disk / "other").unlink()
    snapshot(min_free="0", lock_timeout=0)
    assert snapshot.holds(files)


def _fill_when_it_runs(disk: Path) -> threading.Thread:
    def fill() -> None:
        end = time.monotonic() + 20
        while not any(disk.rglob("*.incomplete")) and time.monotonic() < end:
            time.sleep(0.02)
        fs = os.statvfs(disk)
        with open(disk / "other", "wb") as f:
            f.write(bytes(max(0, fs.f_bavail * fs.f_frsize - 300_000)))

    thread = threading.Thread(target=fill)
    thread.start()
    return thread

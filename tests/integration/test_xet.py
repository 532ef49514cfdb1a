# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_snapshot over Xet, with the real hf_xet client and a content store that it wrote itself."""

from __future__ import annotations

import json
import random
import subprocess
import typing as t
from pathlib import Path

import pytest
from hub_testing import PYTHONS, REPO, Snapshot, every_client, finding, ids
from loopback_cas import XetStore
from loopback_hub import Hub
from tiny_files import safetensors

# hf_xet writes into a folder that is given as local://DIR, and tells the hash of each file.
UPLOAD = """
import json, os, sys
import hf_xet
session = hf_xet.XetSession()
with session.new_upload_commit(endpoint="local://" + sys.argv[1]) as commit:
    started = [(f, commit.start_upload_file(f)) for f in sys.argv[2:]]
print(json.dumps({h.result().xet_info.sha256: h.result().xet_info.hash for _f, h in started}))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], Path, dict[str, str]]:
    """Two weights of 300 kB, the folder with their xorbs, and SHA-256 to Xet hash."""
    folder = tmp_path_factory.mktemp("xet")
    files = {}
    for i in range(2):
        path = folder / f"model-{i}.safetensors"
        path.write_bytes(safetensors({f"t{i}": 300_000}, seed=random.Random(i).randint(0, 9)))
        files[path.name] = path
    command = [PYTHONS[-1], "-c", UPLOAD, str(folder / "cas"), *map(str, files.values())]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"no hf_xet that can write a store: {run.stderr[-200:]}")
    return files, folder / "cas", json.loads(run.stdout)


@pytest.fixture
def xet(hub: Hub, store: tuple[dict[str, Path], Path, dict[str, str]]) -> dict[str, bytes]:
    """org/model with its weights in the content store as well as at the CDN."""
    files, cas, hashes = store
    index = {"weight_map": {f"t{i}": name for i, name in enumerate(files)}}
    small = {"config.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode()}
    hub.commit(REPO, {**small, **files})
    hub.enable_xet(XetStore(cas), hashes)
    return {**small, **{name: path.read_bytes() for name, path in files.items()}}


def paths(hub: Hub) -> set[str]:
    """The first part of each path that was asked for at the CDN."""
    return {r.path.split("/")[1] for r in hub.requests(role="cdn")}


@every_client
def test_files_come_by_xet_when_it_is_on(snapshot: Snapshot, hub: Hub, xet: t.Mapping[str, bytes]) -> None:
    assert snapshot(xet="on")["verified"] == "sha256"
    assert snapshot.holds(xet)
    assert paths(hub) == {"cas"}


@every_client
@pytest.mark.case("mirror-xet-bypass", "mirror-xet-token-404")
def test_a_mirror_is_asked_for_nothing_by_xet(snapshot: Snapshot, hub: Hub, xet: t.Mapping[str, bytes]) -> None:
    snapshot()
    assert snapshot.holds(xet)
    assert paths(hub) == {"cdn"}
    assert not hub.requests("xet-read-token")


@every_client
@pytest.mark.case("cdn-corrupt-same-size")
def test_xet_checks_no_content_and_we_do(snapshot: Snapshot, hub: Hub, xet: t.Mapping[str, bytes]) -> None:
    # Both weights are in one xorb; each asks for its half, in any order.
    hub.fault("/cas/xorb/", "corrupt", at=150_000, times=2)
    result = snapshot(xet="on")
    assert "corrupt" in ids(result)
    assert snapshot.holds(xet)


@every_client
@pytest.mark.parametrize("broken", ["cas-unreachable", "token-404"])
@pytest.mark.case("xet-proxy-dns", "mirror-xet-token-404")
def test_when_xet_fails_plain_http_does_it_and_that_is_said(snapshot, hub, xet, broken) -> None:
    if broken == "cas-unreachable":
        hub.xet_cas_url = "http://127.0.0.1:9"
    else:
        hub.fault("xet-read-token", "status", code=404, times=-1)
    result = snapshot(xet="on", stall_timeout=5)
    assert finding(result, "xet-fallback")["severity"] == "info"
    assert snapshot.holds(xet)
    assert "cdn" in paths(hub)


@pytest.mark.case("xet-stall-many-ranges")
def test_a_stall_of_xet_leads_to_plain_http(snapshot: Snapshot, hub: Hub, xet: t.Mapping[str, bytes]) -> None:
    hub.fault("/cas/xorb/", "hang", after=1000, seconds=30, times=-1)
    result = snapshot(xet="on", stall_timeout=3)
    assert finding(result, "xet-fallback")
    assert snapshot.holds(xet)

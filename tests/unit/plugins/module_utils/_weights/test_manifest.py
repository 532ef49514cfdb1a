# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import Stamp
from ansible_collections.modelops.vllm.plugins.module_utils._weights.manifest import (
    Manifest,
    Record,
    Selection,
    load,
    manifest_path,
    save,
)


def record(path: Path, level: str = "sha256") -> Record:
    s = Stamp.of(str(path))
    return Record(s.size, s.mtime_ns, s.ctime_ns, s.inode, "0" * 64, None, level)


@pytest.fixture
def written(tmp_path: Path) -> Manifest:
    (tmp_path / ".modelops").mkdir()
    (tmp_path / "w.safetensors").write_bytes(b"x" * 100)
    manifest = Manifest(
        repo="org/m",
        commit="c" * 40,
        revision="main",
        selection=Selection(("*.json",), (), True),
        verified="sha256",
        shards=("w.safetensors",),
        files={"w.safetensors": record(tmp_path / "w.safetensors")},
        stale={"old": Stamp(1, 2, 3, 4)},
        upstream=({"id": "x", "severity": "warning", "message": "m", "numbers": {}, "remedy": ""},),
    )
    save(str(tmp_path), manifest)
    return manifest


def test_what_is_saved_is_loaded(tmp_path: Path, written: Manifest) -> None:
    assert load(str(tmp_path)) == written
    assert [p.name for p in (tmp_path / ".modelops").iterdir()] == ["manifest.json"]
    assert (tmp_path / ".modelops" / "manifest.json").stat().st_mode & 0o777 == 0o644


def test_no_manifest_is_none(tmp_path: Path) -> None:
    assert load(str(tmp_path / "nowhere")) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "{}", "[]", '{"schema": 99}', '{"schema": 1, "repo": "x"}', "5", "null", "[" * 100_000],
    ids=lambda text: text[:20] or "empty",
)
def test_a_manifest_that_is_not_understood_is_not_overwritten(tmp_path: Path, written: Manifest, text: str) -> None:
    Path(manifest_path(str(tmp_path))).write_text(text)
    with pytest.raises(ModelopsError, match=r"manifest\.json"):
        load(str(tmp_path))


def test_a_record_holds_until_somebody_writes(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    kept = record(path, "header")
    assert kept.holds(str(path), "header")
    assert not kept.holds(str(path), "sha256")
    old = path.stat()
    path.write_bytes(b"abd")
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert path.stat().st_mtime_ns == old.st_mtime_ns
    assert not kept.holds(str(path), "header"), "ctime tells"
    path.unlink()
    assert not kept.holds(str(path), "none")


SHARD = "w.safetensors"


def _of_file(**changes: t.Any) -> t.Callable[[dict[str, t.Any]], object]:
    return lambda body: body["files"][SHARD].update(changes)


def _of_all(**changes: t.Any) -> t.Callable[[dict[str, t.Any]], object]:
    return lambda body: body.update(changes)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_of_all(files={}, shards=[]), id="no files"),
        pytest.param(_of_all(files={}), id="a shard's record is gone"),
        pytest.param(_of_all(files=[]), id="files is a list"),
        pytest.param(_of_all(shards=["other.safetensors"]), id="a shard without a record"),
        pytest.param(_of_all(shards=[SHARD, SHARD]), id="a shard twice"),
        pytest.param(_of_all(shards=SHARD), id="shards is a string"),
        pytest.param(_of_all(shards=[1]), id="a shard is a number"),
        pytest.param(_of_all(repo=5), id="repo is a number"),
        pytest.param(_of_all(commit=None), id="no commit"),
        pytest.param(_of_all(commit="../../x"), id="commit is a path"),
        pytest.param(_of_all(revision=None), id="no revision"),
        pytest.param(_of_all(verified="best"), id="an unknown level"),
        pytest.param(
            _of_all(selection={"allow_patterns": "*", "ignore_patterns": [], "allow_pickle": True}), id="text"
        ),
        pytest.param(_of_all(selection={"allow_patterns": [], "ignore_patterns": [], "allow_pickle": "no"}), id="no"),
        pytest.param(_of_all(stale=[1]), id="stale holds a number"),
        pytest.param(_of_all(stale="abc"), id="stale is a string"),
        pytest.param(_of_all(stale={"old": {"size": 1}}), id="a stale file without stamp"),
        pytest.param(_of_all(stale=["../victim"]), id="stale leaves the folder"),
        pytest.param(_of_all(stale={"/etc/shadow": {"size": 1}}), id="stale is absolute"),
        pytest.param(_of_all(upstream=["x"]), id="a finding is a string"),
        pytest.param(_of_all(upstream=[{"id": "x"}]), id="a finding without a message"),
        pytest.param(_of_all(upstream=[{"id": "x", "severity": "loud", "message": "m"}]), id="a loud finding"),
        pytest.param(_of_all(upstream=[{"id": "x", "severity": "info", "message": "m", "numbers": 1}]), id="numbers"),
        pytest.param(
            _of_all(upstream=[{"id": "x", "severity": "info", "message": "m", "numbers": {"file": []}}]), id="no file"
        ),
        pytest.param(lambda b: b["files"].update({"../../etc/shadow": b["files"][SHARD]}), id="a file elsewhere"),
        pytest.param(lambda b: b["files"].update({"x": None}), id="no record"),
        pytest.param(_of_file(size="4000"), id="size is a string"),
        pytest.param(_of_file(size=-1), id="size is negative"),
        pytest.param(_of_file(size=True), id="size is a boolean"),
        pytest.param(_of_file(size=10**400), id="size is endless"),
        pytest.param(_of_file(mtime_ns=1.5), id="mtime is a fraction"),
        pytest.param(_of_file(verified=None), id="a record without level"),
        pytest.param(_of_file(verified="header"), id="verified lower than the manifest says"),
        pytest.param(_of_file(sha256=5), id="sha256 is a number"),
        pytest.param(_of_file(sha256="A" * 64), id="sha256 in capitals"),
        pytest.param(_of_file(blob_id="0" * 39), id="blob_id is short"),
        pytest.param(_of_file(extra=1), id="a field of another version"),
    ],
)
def test_what_does_not_describe_a_snapshot_proves_nothing(
    tmp_path: Path, written: Manifest, change: t.Callable[[dict[str, t.Any]], object]
) -> None:
    path = Path(manifest_path(str(tmp_path)))
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))
    with pytest.raises(ModelopsError, match=r"manifest\.json cannot be read"):
        load(str(tmp_path))


def test_the_manifest_of_version_1_0_0_is_read(tmp_path: Path, written: Manifest) -> None:
    path = Path(manifest_path(str(tmp_path)))
    path.write_text(json.dumps({**json.loads(path.read_text()), "stale": ["old", "sub/older"]}))
    found = load(str(tmp_path))
    assert found is not None
    assert found.stale == dict.fromkeys(["old", "sub/older"], Stamp(0, 0, 0, 0)), "no file has such a stamp"


def test_a_manifest_that_may_not_be_read_is_not_called_broken(
    tmp_path: Path, written: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, **_options: t.Any) -> t.NoReturn:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ModelopsError, match="permission denied") as e:
        load(str(tmp_path))
    assert "Move" not in e.value.remedy

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the mirror answers, request by request, and to whom."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._hub.mirror import Entry, Mirror, byte_range

TOKEN = "0neT1meT0kenOfThisTest"
COMMIT = "28950e6c1d56dbedd75007c1c27a969164730ca0"
WEIGHTS = bytes(range(256)) * 40
SMALL = b'{"a": 1}'
BLOB = hashlib.sha1(b"blob 8\0" + SMALL).hexdigest()
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


def record(path: Path, sha256: str | None, blob_id: str | None) -> dict[str, t.Any]:
    """A file's record of the manifest, as it is now."""
    st = os.stat(path)
    stamp = {"size": st.st_size, "mtime_ns": st.st_mtime_ns, "ctime_ns": st.st_ctime_ns, "inode": st.st_ino}
    return {**stamp, "sha256": sha256, "blob_id": blob_id, "verified": "sha256"}


@pytest.fixture
def job(tmp_path: Path) -> dict[str, t.Any]:
    """A snapshot with a large file, a small one in a folder, and an empty one."""
    (tmp_path / "sub").mkdir()
    for name, content in (("model.safetensors", WEIGHTS), ("sub/a b#.json", SMALL), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
    files = {
        "model.safetensors": record(tmp_path / "model.safetensors", SHA256, None),
        "sub/a b#.json": record(tmp_path / "sub/a b#.json", hashlib.sha256(SMALL).hexdigest(), BLOB),
        "empty": record(tmp_path / "empty", hashlib.sha256(b"").hexdigest(), hashlib.sha1(b"blob 0\0").hexdigest()),
    }
    where = {"address": "127.0.0.1", "port": 0, "folder": str(tmp_path)}
    return {"token": TOKEN, "repo": "org/model", "commit": COMMIT, "revision": "a/branch", "files": files, **where}


class Reply(t.NamedTuple):
    status: int
    headers: t.Mapping[str, str]
    body: bytes


@pytest.fixture
def ask(job: dict[str, t.Any]) -> t.Iterator[t.Callable[..., Reply]]:
    """One request to a mirror that stops with the test."""
    mirror = Mirror(job)
    threading.Thread(target=mirror.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def one(path: str, method: str = "GET", token: str = TOKEN, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", mirror.server_port, timeout=10)
        connection.request(method, path, headers={"Authorization": f"Bearer {token}", **headers})
        response = connection.getresponse()
        reply = Reply(response.status, response.headers, response.read())
        connection.close()
        return reply

    yield one
    mirror.shutdown()
    mirror.server_close()


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", None),
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=90-", (90, 100)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        ("bytes=100-", (0, 0)),
        ("bytes=-0", (0, 0)),
        ("bytes=20-10", None),
        ("bytes=-", None),
        ("bytes=0-1,5-6", None),
        ("lines=1-2", None),
    ],
)
def test_ranges(header: str, wanted: tuple[int, int] | None) -> None:
    assert byte_range(header, 100) == wanted


def test_a_file_with_another_stamp_is_not_proven(job: dict[str, t.Any], tmp_path: Path) -> None:
    entry = Entry(str(tmp_path), "empty", job["files"]["empty"])
    assert entry.is_proven()
    (tmp_path / "empty").write_bytes(b"x")
    assert not entry.is_proven()
    entry.file.close()


@pytest.mark.slow
def test_the_head_of_a_file_in_lfs_is_that_of_the_hub_without_a_redirect(ask: t.Callable[..., Reply]) -> None:
    reply = ask(f"/org/model/resolve/{COMMIT}/model.safetensors", "HEAD")
    wanted = {"X-Repo-Commit": COMMIT, "X-Linked-Etag": f'"{SHA256}"', "ETag": f'"{SHA256}"', "X-Linked-Size": "10240"}
    assert (reply.status, reply.body) == (200, b"")
    assert {name: reply.headers[name] for name in wanted} == wanted
    assert (reply.headers["Content-Length"], reply.headers["Accept-Ranges"]) == ("10240", "bytes")


@pytest.mark.slow
def test_a_file_is_sent_whole_and_by_range(ask: t.Callable[..., Reply]) -> None:
    path = f"/org/model/resolve/{COMMIT}/model.safetensors"
    whole, part, last = ask(path), ask(path, Range="bytes=256-511"), ask(path, Range="bytes=-1")
    assert (whole.status, whole.body) == (200, WEIGHTS)
    assert (part.status, part.body, part.headers["Content-Range"]) == (206, bytes(range(256)), "bytes 256-511/10240")
    assert (last.status, last.body) == (206, b"\xff")
    past = ask(path, Range="bytes=10240-")
    assert (past.status, past.body, past.headers["Content-Range"]) == (416, b"", "bytes */10240")


@pytest.mark.slow
def test_small_files_have_gits_hash_and_odd_names_and_branches_are_found(ask: t.Callable[..., Reply]) -> None:
    reply = ask("/org/model/resolve/a%2Fbranch/sub/a%20b%23.json")
    assert (reply.status, reply.body, reply.headers["ETag"]) == (200, SMALL, f'"{BLOB}"')
    assert ask(f"/org/model/resolve/{COMMIT}/empty").body == b""


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["", f"/revision/{COMMIT}", "/revision/a%2Fbranch"])
def test_the_listing(ask: t.Callable[..., Reply], revision: str) -> None:
    reply = ask(f"/api/models/org/model{revision}?blobs=true")
    body = json.loads(reply.body)
    files = {s.pop("rfilename"): s for s in body["siblings"]}
    assert (reply.status, body["id"], body["sha"]) == (200, "org/model", COMMIT)
    assert files["model.safetensors"] == {
        "size": 10240,
        "lfs": {"sha256": SHA256, "size": 10240, "pointerSize": 130},
    }
    assert files["sub/a b#.json"] == {"size": 8, "blobId": BLOB}
    plain = json.loads(ask(f"/api/models/org/model{revision}").body)
    assert {"rfilename": "model.safetensors"} in plain["siblings"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"/org/model/resolve/{'0' * 40}/model.safetensors", 404, "RevisionNotFound"),
        (f"/api/models/org/model/revision/{'0' * 40}", 404, "RevisionNotFound"),
        ("/api/models/org/other", 404, "RepoNotFound"),
        (f"/org/other/resolve/{COMMIT}/model.safetensors", 404, "RepoNotFound"),
        (f"/org/model/resolve/{COMMIT}/no.json", 404, "EntryNotFound"),
        (f"/org/model/resolve/{COMMIT}/../../../../../etc/hostname", 404, "EntryNotFound"),
        (f"/org/model/resolve/{COMMIT}/%2e%2e%2f%2e%2e%2fetc%2fhostname", 404, "EntryNotFound"),
        (f"/org/model/resolve/{COMMIT}//etc/hostname", 404, "EntryNotFound"),
        ("/api/models/org/model/tree/main", 404, None),
        ("/org/model/blob/main/empty", 404, None),
        ("/", 404, "RepoNotFound"),
        ("/api/models/org/model/revision/%0d%0aSet-Cookie:x", 404, "RevisionNotFound"),
    ],
)
def test_nothing_else_is_served(ask: t.Callable[..., Reply], path: str, status: int, code: str | None) -> None:
    reply = ask(path)
    assert (reply.status, reply.headers["X-Error-Code"], reply.headers["Set-Cookie"]) == (status, code, None)
    assert json.loads(reply.body)["error"] == reply.headers["X-Error-Message"]


@pytest.mark.slow
@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.lower(), "t\xe9"])
@pytest.mark.parametrize("path", ["/api/models/org/model", f"/org/model/resolve/{COMMIT}/empty", "/nothing"])
def test_without_the_token_all_pages_are_the_same(ask: t.Callable[..., Reply], path: str, token: str) -> None:
    for method in ("GET", "HEAD"):
        reply = ask(path, method, token)
        assert (reply.status, reply.headers["X-Error-Message"]) == (401, "Invalid credentials in Authorization header")
        assert COMMIT not in str(reply)


@pytest.mark.slow
def test_other_methods_are_refused(ask: t.Callable[..., Reply]) -> None:
    assert [ask("/org/model", method).status for method in ("POST", "PUT", "DELETE")] == [501, 501, 501]


@pytest.mark.slow
def test_a_file_that_was_written_to_is_sent_no_more(ask: t.Callable[..., Reply], tmp_path: Path) -> None:
    path = f"/org/model/resolve/{COMMIT}/model.safetensors"
    assert ask(path).status == 200
    (tmp_path / "model.safetensors").write_bytes(WEIGHTS[::-1])
    for method in ("HEAD", "GET"):
        reply = ask(path, method)
        assert (reply.status, reply.headers["X-Error-Code"]) == (404, "EntryNotFound")
        assert "written to since it was verified" in reply.headers["X-Error-Message"]


def test_a_file_that_is_gone_stops_the_start(job: dict[str, t.Any], tmp_path: Path) -> None:
    (tmp_path / "empty").unlink()
    with pytest.raises(FileNotFoundError):
        Mirror(job)

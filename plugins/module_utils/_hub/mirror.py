# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""A read-only Hub for one proven snapshot: a program that a node runs for the other nodes of its site.

It is sent to a service of systemd as one file, so it imports nothing of this collection. Its job is one JSON object on
standard input, which keeps the token out of arguments, environment and unit::

    {"token": str, "address": str, "port": int (0: a free one), "repo": str, "commit": str, "revision": str,
     "folder": str, "files": {name: {size, mtime_ns, ctime_ns, inode, sha256, blob_id}}}

What it answers is what huggingface_hub 0.36, 1.x and 2.x ask to fetch a file, and hf_snapshot to list a commit:

* ``GET /api/models/{repo}[/revision/{revision}][?blobs=true]``
* ``HEAD`` and ``GET`` of ``/{repo}/resolve/{revision}/{name}``, whole or one Range, without a redirect

Every file is opened at the start, and after that root's rights are given up: there is no path that a request could lead
astray. A file is sent only while its stamp is the one with which it was verified.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import pwd
import re
import socket
import sys
import typing as t
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Seconds in which a client must have sent its request, or taken some bytes of the answer.
_PATIENCE = 60

# Of the text that stands in git for a file in LFS: fixed words, 64 digits of the hash, and the size.
_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"


class Entry:
    """An open file with its record of the manifest."""

    def __init__(self, folder: str, name: str, record: t.Mapping[str, t.Any]) -> None:
        self.name = name
        self.size = int(record["size"])
        self._record = record
        self.file = open(os.path.join(folder, name), "rb", buffering=0)  # noqa: SIM115 (open as long as the process)

    @property
    def etag(self) -> str:
        """The hash under which the Hub keeps the file: git's for small files, SHA-256 for those in LFS."""
        return str(self._record["blob_id"] or self._record["sha256"])

    def is_proven(self) -> bool:
        """Whether nobody wrote to the file since it was verified."""
        st = os.fstat(self.file.fileno())
        now = {"size": st.st_size, "mtime_ns": st.st_mtime_ns, "ctime_ns": st.st_ctime_ns, "inode": st.st_ino}
        return all(self._record[key] == value for key, value in now.items())

    def sibling(self, blobs: bool) -> dict[str, t.Any]:
        """The form of the Hub's API."""
        out: dict[str, t.Any] = {"rfilename": self.name}
        if blobs:
            out["size"] = self.size
            sha256, blob_id = self._record["sha256"], self._record["blob_id"]
            if blob_id:
                out["blobId"] = blob_id
            elif sha256:
                pointer = len(_POINTER.format(sha256, self.size))
                out["lfs"] = {"sha256": sha256, "size": self.size, "pointerSize": pointer}
        return out


class Mirror(ThreadingHTTPServer):
    """The server; ``url`` is where it listens."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, job: t.Mapping[str, t.Any]) -> None:
        self.address_family = socket.AF_INET6 if ":" in job["address"] else socket.AF_INET
        self.repo, self.commit = job["repo"], job["commit"]
        self.revisions = {job["commit"], job["revision"]}
        self.entries = {name: Entry(job["folder"], name, record) for name, record in job["files"].items()}
        self._token = f"Bearer {job['token']}".encode()
        super().__init__((job["address"], job["port"]), Handler)
        host = f"[{job['address']}]" if ":" in job["address"] else job["address"]
        self.url = f"http://{host}:{self.server_port}"

    def admits(self, authorization: str) -> bool:
        """Whether this is the token's header; how long the answer takes tells nothing about it."""
        return hmac.compare_digest(authorization.encode("utf-8", "replace"), self._token)

    def server_bind(self) -> None:
        """Bind without the look-up of the host's name that HTTPServer makes, which may wait for DNS."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:  # noqa: ARG002 (socketserver's signature)
        """A client that goes away comes back by itself; one line is enough to know of it."""
        sys.stderr.write(f"{client_address[0]}: {sys.exc_info()[1]!r}\n")


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "modelops-mirror", ""
    timeout = _PATIENCE
    server: Mirror

    def do_HEAD(self) -> None:
        """Headers only."""
        self._answer()

    def do_GET(self) -> None:
        """A file, or what the API knows of the snapshot."""
        self._answer()

    def _answer(self) -> None:
        if not self.server.admits(self.headers.get("Authorization", "")):
            self._refuse(401, "", "Invalid credentials in Authorization header")
            return
        url = urllib.parse.urlsplit(self.path)
        # Split first: a slash in the name of a branch arrives as %2F.
        parts = [urllib.parse.unquote(p) for p in url.path.split("/")[1:]]
        repo = self.server.repo.split("/")
        if parts[:2] == ["api", "models"]:
            self._route(parts[2:], repo, self._api, urllib.parse.parse_qs(url.query))
        else:
            self._route(parts, repo, self._resolve, {})

    def _route(
        self,
        parts: list[str],
        repo: list[str],
        answer: t.Callable[[list[str], t.Mapping[str, list[str]]], None],
        query: t.Mapping[str, list[str]],
    ) -> None:
        if parts[: len(repo)] == repo:
            answer(parts[len(repo) :], query)
        else:
            self._refuse(404, "RepoNotFound", f"This mirror has {self.server.repo} only")

    def _api(self, rest: list[str], query: t.Mapping[str, list[str]]) -> None:
        mirror = self.server
        if rest and not (len(rest) == 2 and rest[0] == "revision"):
            self._refuse(404, "", "This mirror has no such page")
        elif rest and rest[1] not in mirror.revisions:
            self._refuse_revision(rest[1])
        else:
            blobs = query.get("blobs", [""])[0].lower() in ("true", "1")
            siblings = [e.sibling(blobs) for e in mirror.entries.values()]
            body = {"id": mirror.repo, "modelId": mirror.repo, "sha": mirror.commit, "siblings": siblings}
            self._send_json(200, {**body, "private": False, "gated": False, "disabled": False, "tags": []})

    def _resolve(self, rest: list[str], query: t.Mapping[str, list[str]]) -> None:  # noqa: ARG002 (one form of routes)
        mirror = self.server
        if len(rest) < 3 or rest[0] != "resolve":
            self._refuse(404, "", "This mirror has no such page")
        elif rest[1] not in mirror.revisions:
            self._refuse_revision(rest[1])
        else:
            entry = mirror.entries.get("/".join(rest[2:]))
            if entry is None:
                self._refuse(404, "EntryNotFound", "The snapshot has no such file")
            elif not entry.is_proven():
                self._refuse(404, "EntryNotFound", "The file was written to since it was verified")
            else:
                self._send_file(entry)

    def _send_file(self, entry: Entry) -> None:
        headers = {
            "X-Repo-Commit": self.server.commit,
            "ETag": f'"{entry.etag}"',
            "X-Linked-Etag": f'"{entry.etag}"',
            "X-Linked-Size": str(entry.size),
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        asked = byte_range(self.headers.get("Range", ""), entry.size) if self.command == "GET" else None
        if asked == (0, 0):
            self._send_headers(416, {"Content-Range": f"bytes */{entry.size}", "Content-Length": "0"})
            return
        start, stop = asked or (0, entry.size)
        if asked:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{entry.size}"
        self._send_headers(206 if asked else 200, {**headers, "Content-Length": str(stop - start)})
        if self.command == "HEAD" or start == stop:
            return
        self.wfile.flush()
        # The file's own position is not used: all connections share it.
        if self.connection.sendfile(entry.file, start, stop - start) < stop - start:
            self.close_connection = True

    def _refuse_revision(self, revision: str) -> None:
        self._refuse(404, "RevisionNotFound", f"This mirror has {self.server.commit} only, not {revision}")

    def _refuse(self, status: int, code: str, message: str) -> None:
        # A header is one line of Latin-1, and the message may quote the request.
        plain = re.sub(r"[^ -~]", "?", message)
        self._send_json(
            status, {"error": plain}, {"X-Error-Message": plain, **({"X-Error-Code": code} if code else {})}
        )

    def _send_json(self, status: int, body: t.Any, headers: t.Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self._send_headers(
            status, {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}
        )
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_headers(self, status: int, headers: t.Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def byte_range(header: str, size: int) -> tuple[int, int] | None:
    """(first byte, byte after the last) of a Range; None for the whole file, (0, 0) for one that is past the end.

    Several ranges in one header, and what is no range, are answered with the whole file, as RFC 9110 allows.
    """
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", header.strip())
    if not match or not (match[1] or match[2]):
        return None
    if not match[1]:
        start, stop = max(0, size - int(match[2])), size
    else:
        start, stop = int(match[1]), min(int(match[2]) + 1, size) if match[2] else size
    if match[2] and match[1] and int(match[2]) < int(match[1]):
        return None
    return (start, stop) if start < stop else (0, 0)


def give_up_root() -> None:
    """Become nobody, for good; a process that is not root stays who it is."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)


def tell_systemd(state: str) -> None:
    """The protocol of sd_notify; nothing where nobody listens."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(state.encode(), f"\0{path[1:]}" if path.startswith("@") else path)


def main() -> None:
    """Serve until the service is stopped."""
    mirror = Mirror(json.load(sys.stdin))
    give_up_root()
    tell_systemd(f"READY=1\nSTATUS=Serving {mirror.repo} at {mirror.url}")
    with contextlib.suppress(KeyboardInterrupt):
        mirror.serve_forever()


if __name__ == "__main__":
    main()

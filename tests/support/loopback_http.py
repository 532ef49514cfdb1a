# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP surface of the loopback Hub: routes, headers and the ways in which they fail.

The routes and headers are those that huggingface_hub 0.30 to 2.4 and hf_xet 1.1 to 1.8 ask for.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import typing as t
import urllib.parse
from http.server import BaseHTTPRequestHandler

from loopback_cas import PastTheEndError
from loopback_repo import Entry, Request

if t.TYPE_CHECKING:
    from loopback_hub import Hub, Server
    from loopback_repo import Fault, Repo

Headers: t.TypeAlias = "t.Mapping[str, str]"

_BLOCK = 1 << 16


class Handler(BaseHTTPRequestHandler):
    """One connection to the Hub or the CDN."""

    protocol_version = "HTTP/1.1"
    wbufsize = _BLOCK
    disable_nagle_algorithm = True
    server: Server
    app: Hub
    failing: Fault | None = None
    query: t.Mapping[str, str]

    def log_message(self, format: str, *args: t.Any) -> None:
        """Tests read the request log; nothing is printed."""

    def do_HEAD(self) -> None:
        """Headers only."""
        self._answer()

    def do_GET(self) -> None:
        """A file or an API document."""
        self._answer()

    def do_POST(self) -> None:
        """An API query with a body, or an order to the Hub."""
        self._answer()

    def _answer(self) -> None:
        self.app = self.server.app
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.failing = None if url.path == "/_ctl" else self.app.take(self.command, self.path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if not self._fails_at_once():
                path = urllib.parse.unquote(url.path)
                self._hub(path, body) if self.server.role == "hub" else self._cdn(path)
            return
        self.close_connection = True

    def _note(self, status: int, sent: int) -> None:
        asked = self.headers.get("Range")
        token = bool(self._sent_token())
        self.app.note(Request(self.server.role, self.command, self.path, status, asked, sent, time.time(), token))

    def _fails_at_once(self) -> bool:
        """Answer with a fault that needs no file; True when that was the answer."""
        if self.failing is None:
            return False
        option = self.failing.options
        if self.failing.kind == "status":
            body = option.get("body", "")
            data = body.encode() if isinstance(body, str) else body
            self._reply(option["code"], data, option.get("headers"), option.get("ctype", "text/plain"))
            return True
        if self.failing.kind == "drop":
            self._note(0, 0)
            self.close_connection = True
            self.connection.close()
            return True
        if self.failing.kind == "delay":
            time.sleep(option["seconds"])
        return False

    def _reply(
        self, code: int, body: t.Any = b"", headers: Headers | None = None, ctype: str = "application/json"
    ) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for key, value in {"Content-Type": ctype, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self._note(code, len(data))

    def _refuse(self, code: int, error: str, message: str, **headers: str) -> None:
        named = {"X-Error-Message": message, **({"X-Error-Code": error} if error else {}), **headers}
        self._reply(code, {"error": message}, named)

    # The Hub

    def _sent_token(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ").strip()

    def _hub(self, path: str, body: bytes) -> None:
        if path == "/_ctl":
            if self.command == "POST":
                self.app.control(json.loads(body))
            self._reply(200, {"requests": [r._asdict() for r in self.app.requests()]})
            return
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(.*))?", path)
        # A revision with a slash arrives as %2F: split before unquoting.
        raw = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", urllib.parse.urlsplit(self.path).path)
        if api is None and raw is None:
            self._refuse(404, "", "Not found")
            return
        name = api[1] if api else urllib.parse.unquote(t.cast("re.Match[str]", raw)[1])
        if name in self.app.renamed:
            self._reply(307, b"", {"Location": self.path.replace(name, self.app.renamed[name], 1)}, "text/plain")
            return
        repo = self.app.repos.get(name)
        if not self._may_read(repo, files=api is None):
            return
        repo = t.cast("Repo", repo)
        if api:
            self._api(repo, api[2] or "", body)
        elif raw:
            self._resolve(repo, urllib.parse.unquote(raw[2]), urllib.parse.unquote(raw[3]))

    def _may_read(self, repo: Repo | None, files: bool) -> bool:
        """Answer with the Hub's refusal and return False, or return True."""
        token = self._sent_token()
        known = self.app.token is not None and token == self.app.token
        if repo is None:
            self._refuse(404 if token else 401, "RepoNotFound", "Repository not found")
        elif token and self.app.token and not known:
            self._refuse(401, "", "Invalid credentials in Authorization header")
        elif repo.private and not known:
            self._refuse(401, "RepoNotFound", "Repository not found")
        elif repo.disabled:
            self._refuse(403, "", "Access to this resource is disabled.")
        elif files and repo.gated and not known:
            self._refuse(403 if token else 401, "GatedRepo", f"Access to model {repo.id} is restricted.")
        else:
            return True
        return False

    def _api(self, repo: Repo, rest: str, body: bytes) -> None:
        verb, _slash, tail = rest.partition("/")
        revision = tail if verb == "revision" else tail.partition("/")[0] or "main"
        sha = repo.resolve(revision)
        if sha is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif verb in ("", "revision"):
            self._reply(200, self._model(repo, sha))
        elif verb == "tree":
            self._tree(repo.commits[sha], tail.partition("/")[2])
        elif verb == "paths-info" and self.command == "POST":
            asked = json.loads(body)["paths"] if body[:1] == b"{" else urllib.parse.parse_qs(body.decode())["paths"]
            self._reply(200, [repo.commits[sha][p].tree() for p in asked if p in repo.commits[sha]])
        elif verb == "xet-read-token":
            self._xet_token()
        else:
            self._refuse(404, "", "Not found")

    def _model(self, repo: Repo, sha: str) -> dict[str, t.Any]:
        entries = repo.commits[sha].values()
        blobs = self.query.get("blobs", "").lower() in ("true", "1")
        return {
            "_id": "0",
            "id": repo.id,
            "modelId": repo.id,
            "sha": sha,
            "private": repo.private,
            "gated": "manual" if repo.gated else False,
            "disabled": repo.disabled,
            "lastModified": "2026-01-01T00:00:00.000Z",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "usedStorage": sum(e.size for e in entries),
            "siblings": [e.sibling(blobs) for e in entries],
        }

    def _tree(self, entries: t.Mapping[str, Entry], below: str) -> None:
        prefix = below.rstrip("/") + "/" if below else ""
        recursive = self.query.get("recursive", "").lower() in ("true", "1")
        items: dict[str, dict[str, t.Any]] = {}
        for entry in entries.values():
            if not entry.path.startswith(prefix):
                continue
            parts = entry.path[len(prefix) :].split("/")
            for depth in range(1, len(parts)):
                folder = prefix + "/".join(parts[:depth])
                if recursive or depth == 1:
                    items[folder] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": folder}
            if recursive or len(parts) == 1:
                items[entry.path] = entry.tree()
        start, listed = int(self.query.get("cursor") or 0), list(items.values())
        following = start + self.app.page
        headers = {}
        if following < len(listed):
            query = urllib.parse.urlencode({**self.query, "cursor": following})
            headers["Link"] = f'<{self.app.endpoint}{urllib.parse.urlsplit(self.path).path}?{query}>; rel="next"'
        self._reply(200, listed[start:following], headers)

    def _xet_token(self) -> None:
        cas, until = self.app.xet_cas_url or self.app.cdn_base + "/cas", int(time.time()) + 3600
        headers = {
            "X-Xet-Cas-Url": cas,
            "X-Xet-Access-Token": "xet-token",
            "X-Xet-Token-Expiration": str(until),
        }
        self._reply(200, {"accessToken": "xet-token", "exp": until, "casUrl": cas}, headers)

    def _resolve(self, repo: Repo, revision: str, path: str) -> None:
        sha = repo.resolve(revision)
        if sha is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        entry = repo.commits[sha].get(path)
        if entry is None:
            self._refuse(404, "EntryNotFound", "Entry not found", **{"X-Repo-Commit": sha})
            return
        if entry.sha256 is None:
            self._send(entry, {"X-Repo-Commit": sha, "ETag": f'"{entry.oid}"'})
            return
        lie = self.failing.options["delta"] if self.failing and self.failing.kind == "wrongsize" else 0
        headers = {
            "X-Repo-Commit": sha,
            "X-Linked-Etag": f'"{entry.sha256}"',
            "X-Linked-Size": str(entry.size + lie),
            "Accept-Ranges": "bytes",
            "ETag": f'"{entry.sha256}"',
            "Location": f"{self.app.cdn_base}/cdn/{entry.sha256}?Expires={int(time.time()) + 3600}",
        }
        if entry.xet_hash:
            headers["X-Xet-Hash"] = entry.xet_hash
            headers["Link"] = f'<{self.app.endpoint}/api/models/{repo.id}/xet-read-token/{sha}>; rel="xet-auth"'
        self._reply(302, b"Found. Redirecting", headers, "text/plain")

    # The CDN

    def _cdn(self, path: str) -> None:
        blob = re.fullmatch(r"/cdn/([0-9a-f]{64})", path)
        # Without a version in hf_xet <= 1.2, v1 from 1.3; v2 is refused, and the client falls back to v1.
        plan = re.fullmatch(r"/cas(?:/v1)?/reconstructions?/([0-9a-f]{64})", path)
        xorb = re.fullmatch(r"/cas/xorb/([0-9a-f]{64})", path)
        if blob and blob[1] in self.app.blobs:
            self._send(self.app.blobs[blob[1]], {"ETag": f'"{blob[1]}"'})
        elif plan and self.app.xet and plan[1] in self.app.xet.files:
            try:
                self._reply(200, self.app.xet.reconstruction(plan[1], self._range(), self.app.cdn_base))
            except PastTheEndError:
                self._reply(416)
        elif xorb and self.app.xet and xorb[1] in self.app.xet.xorbs:
            self._send(Entry(path, self.app.xet.xorbs[xorb[1]][0], lfs=False), {})
        else:
            self._reply(404, {"error": "not found"})

    def _range(self) -> tuple[int, int | None] | None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        return (int(match[1]), int(match[2]) if match[2] else None) if match else None

    def _send(self, entry: Entry, headers: Headers) -> None:
        """A file's bytes, whole or by Range, with the fault that hits this request."""
        kind = self.failing.kind if self.failing else ""
        wanted = None if kind == "norange" else self._range()
        start, end = wanted or (0, None)
        if start and start >= entry.size:
            self._reply(416, b"", {"Content-Range": f"bytes */{entry.size}"})
            return
        stop = entry.size if end is None else min(end + 1, entry.size)
        self.send_response(206 if wanted else 200)
        sent_headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **headers}
        if wanted:
            sent_headers["Content-Range"] = f"bytes {start}-{stop - 1}/{entry.size}"
        if kind == "nolength":
            sent_headers["Connection"] = "close"
            self.close_connection = True
        else:
            sent_headers["Content-Length"] = str(stop - start)
        for key, value in sent_headers.items():
            self.send_header(key, value)
        self.end_headers()
        sent = 0 if self.command == "HEAD" else self._body(entry, start, stop)
        self._note(206 if wanted else 200, sent)
        if self.command != "HEAD" and sent < stop - start:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(2)

    def _body(self, entry: Entry, start: int, stop: int) -> int:
        kind = self.failing.kind if self.failing else ""
        option = self.failing.options if self.failing else {}
        if entry.file is not None and kind not in ("cut", "hang", "corrupt", "slow"):
            return self._body_by_sendfile(str(entry.file), start, stop)
        limit = option["after"] if kind in ("cut", "hang") else stop - start
        bad = option["at"] if kind == "corrupt" else -1
        rate = option["bps"] if kind == "slow" else 0
        block = max(1, min(_BLOCK, rate // 10)) if rate else _BLOCK
        data = memoryview(entry.read())
        sent = 0
        while sent < min(limit, stop - start):
            at = start + sent
            piece = bytearray(data[at : at + min(block, limit - sent, stop - at)])
            if at <= bad < at + len(piece):
                piece[bad - at] ^= 0xFF
            self.wfile.write(piece)
            sent += len(piece)
            if rate:
                self.wfile.flush()
                time.sleep(len(piece) / rate)
        self.wfile.flush()
        if kind == "hang":
            time.sleep(option.get("seconds", 60))
        return sent

    def _body_by_sendfile(self, path: str, start: int, stop: int) -> int:
        self.wfile.flush()
        at = start
        with open(path, "rb") as f:
            while at < stop:
                moved = os.sendfile(self.connection.fileno(), f.fileno(), at, min(stop - at, 1 << 24))
                if moved == 0:
                    break
                at += moved
        return at - start

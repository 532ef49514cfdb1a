# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A registry for pulls by digest from an OCI layout: ``registry.py LAYOUT PORT``, on loopback, with one user."""

from __future__ import annotations

import base64
import http.server
import re
import shutil
import sys
from pathlib import Path

CREDENTIALS = base64.b64encode(b"puller:registry-password-0815").decode()
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PATH = re.compile(r"/v2/vllm/(manifests|blobs)/sha256:([0-9a-f]{64})")


class Registry(http.server.BaseHTTPRequestHandler):
    """The two requests of a pull. A manifest is a blob as well."""

    layout = Path()
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        found = PATH.fullmatch(self.path)
        if self.headers.get("Authorization") != f"Basic {CREDENTIALS}":
            self.answer(401, "text/plain", 0)
        elif found is None or not (blob := self.layout / "blobs" / "sha256" / found[2]).exists():
            self.answer(200 if self.path == "/v2/" else 404, "application/json", 0)
        else:
            kind = MANIFEST if found[1] == "manifests" else "application/octet-stream"
            self.answer(200, kind, blob.stat().st_size)
            if self.command == "GET":
                with blob.open("rb") as f:
                    shutil.copyfileobj(f, self.wfile)

    def do_HEAD(self) -> None:
        self.do_GET()

    def answer(self, status: int, kind: str, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.send_header("Docker-Distribution-API-Version", "registry/2.0")
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
        self.end_headers()


if __name__ == "__main__":
    Registry.layout = Path(sys.argv[1])
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Registry).serve_forever()

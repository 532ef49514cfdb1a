# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait as an operator sees it: a job on the node that tells how far it is, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer

import pytest

from tests.support.leftovers import leftovers

ROOT = Path(__file__).parents[2]
LOADING_SECONDS = 8


class Handler(BaseHTTPRequestHandler):
    """A server that is healthy some time after it was asked first."""

    asked: list[float]

    def do_GET(self) -> None:
        if self.path == "/health":
            self.asked.append(time.monotonic())
            self._say(200 if self.asked[-1] - self.asked[0] > LOADING_SECONDS else 503, {})
        else:
            self._say(200, {"data": [{"id": "demo"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(200, {"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}})

    def _say(self, status: int, body: dict[str, t.Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: t.Any) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Without the name look-up of HTTPServer, which waits for a name server."""
        TCPServer.server_bind(self)


@pytest.fixture
def url() -> t.Iterator[str]:
    with Server(("127.0.0.1", 0), type("H", (Handler,), {"asked": []})) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()


@pytest.mark.slow
def test_a_wait_tells_how_far_it_is(url: str, tmp_path: Path) -> None:
    params = {"url": url, "smoke": False, "timeout": 100, "poll": 1, "progress_interval": 1}
    run = subprocess.run(
        [
            Path(sys.executable).parent / "ansible",
            "localhost",
            "-m",
            "modelops.vllm.vllm_ready",
            "-a",
            json.dumps(params),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env={
            **os.environ,
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_ASYNC_DIR": str(tmp_path / "async"),
            "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
            "LC_ALL": "C.UTF-8",
        },
    )
    assert run.returncode == 0, run.stderr
    assert "SUCCESS" in run.stdout
    assert "/health: 503" not in run.stdout
    line = re.compile(rf"^localhost: {re.escape(url)}: \d+ s: /health: 503", re.MULTILINE)
    assert line.search(run.stderr), run.stderr
    assert os.listdir(tmp_path / "async") == []
    assert leftovers(tmp_path / "remote") == []

"""A stand-in for ``vllm serve``, so that a switch can be broken a hundred times in the time of one real start.

Only the server is played: ``--help=all``, the parser and the version are those of the real vLLM beside it. It loads for
a while, swallows the first SIGTERM meanwhile as vLLM 0.32.0 does, has a worker that outlives a careless stop, and
answers completions. ``STUB_FAULT`` makes it fail: ``exit`` (out of memory at load), ``hang`` (never ready), ``die``
(healthy, and ends with the first request), ``mute`` (healthy, and never answers a completion), ``wait`` (loads until
the file /opt/stub/go is there, and is well then).
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import typing as t

import yaml

REAL = "/opt/vllm/bin/vllm"


class Server(http.server.BaseHTTPRequestHandler):
    """What readiness and a benchmark ask of vLLM."""

    model = ""
    fault = ""
    key = ""

    def log_message(self, *_args: t.Any) -> None:
        """vLLM logs requests; nobody reads them here."""

    def answer(self, status: int, body: t.Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200, {})
        elif self.headers.get("Authorization") != f"Bearer {self.key}":
            self.answer(401, {})
        else:
            self.answer(200, {"data": [{"id": self.model, "max_model_len": 1024}]})

    def do_POST(self) -> None:
        if self.fault == "die":
            os._exit(0)
        if self.fault == "mute":
            time.sleep(3600)
        self.answer(200, {"choices": [{"text": self.model}], "usage": {"completion_tokens": 1}})


def serve(path: str) -> None:
    """Play the server of the args file at ``path``."""
    with open(path, encoding="utf-8") as f:
        args = yaml.safe_load(f)
    loading = True
    terms = 0

    def term(_signal: int, _frame: t.Any) -> None:
        nonlocal terms
        terms += 1
        if not loading:
            os._exit(0)
        if terms > 1:
            os._exit(130)

    signal.signal(signal.SIGTERM, term)
    worker = [
        sys.executable,
        "-c",
        "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(3600)",
        "VLLM::Worker",
    ]
    subprocess.Popen(worker)
    Server.fault = os.environ.get("STUB_FAULT", "")
    Server.model, Server.key = args["served-model-name"], os.environ.get("VLLM_API_KEY", "")
    sys.stdout.write("(EngineCore pid=7) INFO 11-30 10:00:00 [gpu_worker.py:1] Starting to load model\n")
    sys.stdout.flush()
    end = time.monotonic() + float(os.environ.get("STUB_LOAD_SECONDS", "2"))
    waits = {"hang": lambda: True, "wait": lambda: not os.path.exists("/opt/stub/go")}.get(Server.fault, lambda: False)
    while time.monotonic() < end or waits():
        time.sleep(0.05)
    if Server.fault == "exit":
        sys.stdout.write(
            "(EngineCore pid=7) ERROR 11-30 10:00:02 [core.py:1] torch.OutOfMemoryError: CUDA out of memory.\n"
        )
        sys.stdout.flush()
        os._exit(1)
    loading = False
    server = http.server.ThreadingHTTPServer((args["host"], args["port"]), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        signal.pause()


if __name__ == "__main__":
    if sys.argv[1:3] == ["serve", "--config"]:
        serve(sys.argv[3])
    os.execv(REAL, [REAL, *sys.argv[1:]])

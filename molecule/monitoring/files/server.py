"""Answers as vLLM 0.32 does where the status and Prometheus ask: /health, /v1/models with the key, /metrics.

The page of metrics is a captured one whose counter of generated tokens grows by 100 with each look.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST, PORT, PAGE = sys.argv[1], int(sys.argv[2]), "/opt/vllm_metrics.txt"
LOOKS = itertools.count(1)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        status, body = 200, ""
        if self.path == "/v1/models":
            allowed = self.headers.get("Authorization") == f"Bearer {os.environ['VLLM_API_KEY']}"
            status, body = (200, json.dumps({"data": [{"id": "tiny-qwen3"}]})) if allowed else (401, "{}")
        if self.path == "/metrics":
            with open(PAGE, encoding="utf-8") as f:
                lines = [line for line in f if not line.startswith("vllm:generation_tokens_total")]
            body = "".join(lines) + f'vllm:generation_tokens_total{{engine="0"}} {100 * next(LOOKS)}\n'
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())


ThreadingHTTPServer((HOST, PORT), Handler).serve_forever()

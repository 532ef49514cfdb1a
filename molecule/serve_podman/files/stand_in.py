# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine venv runs in this scenario: the Python of the node is too new for the vLLM of the test machine.

It answers like vLLM and is no vLLM. The scenario exchanges the engines with it; that real vLLM works in a virtual
environment is proven by the scenario serve.
"""

from __future__ import annotations

import http.server
import json
import sys
from pathlib import Path

FLAGS = ("config", "model", "served-model-name", "host", "port", "tensor-parallel-size", "max-model-len",
         "max-num-seqs", "dtype", "kv-cache-memory-bytes")  # fmt: skip
# A help page with few flags is taken for none of vLLM's.
OTHERS = tuple(f"other-{i}" for i in range(100))


class Server(http.server.BaseHTTPRequestHandler):
    """Health, the list of models, and one token for each question."""

    model = ""

    def do_GET(self) -> None:
        self.answer({"data": [{"id": self.model, "max_model_len": 1024}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"choices": [{"index": 0, "text": "x"}], "usage": {"completion_tokens": 1}})

    def answer(self, body: dict[str, object]) -> None:
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def main(words: list[str]) -> None:
    if words == ["--version"]:
        sys.stdout.write("0.32.0\n")
    elif words == ["serve", "--help=all"]:
        sys.stdout.write(
            "".join(f"  --{flag} {flag.upper()}\n" for flag in FLAGS + OTHERS)
            + "  --enforce-eager, --no-enforce-eager\n"
        )
    else:
        rows = (line.partition(": ") for line in Path(words[2]).read_text(encoding="utf-8").splitlines())
        args = {key: value.strip('"') for key, _colon, value in rows}
        Server.model = args["served-model-name"]
        http.server.ThreadingHTTPServer((args["host"], int(args["port"])), Server).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])

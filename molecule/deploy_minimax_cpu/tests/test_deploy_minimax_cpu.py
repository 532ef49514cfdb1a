# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tiny MiniMax-M2 on two CPU ranks as tp2-ep, deployed by deploy_minimax.yml: vLLM is patched by the CPU shim."""

from __future__ import annotations

import json

ASK = """
import json, urllib.request
body = json.dumps({"model": "minimax-m2.5", "prompt": "The quick brown fox", "max_tokens": 8, "temperature": 0,
                   "ignore_eos": True}).encode()
req = urllib.request.Request("http://127.0.0.1:8000/v1/completions", body, {"Content-Type": "application/json"})
print(json.dumps(json.load(urllib.request.urlopen(req, timeout=60))))
"""


def complete(host) -> dict:
    out = host.run("python3 -c %s", ASK)
    assert out.rc == 0, out.stderr + host.run("journalctl -u vllm-main -n 80 --no-pager").stdout
    return json.loads(out.stdout)


def test_it_answers_a_completion_with_the_tokens_that_were_asked_for(host) -> None:
    first = complete(host)
    assert first["usage"]["completion_tokens"] == 8
    assert complete(host)["choices"][0]["text"] == first["choices"][0]["text"]


def test_two_ranks_run_with_expert_parallelism(host) -> None:
    assert host.run("pgrep -fc '[V]LLM::Worker'").stdout.strip() == "2"
    log = host.run("journalctl -u vllm-main --no-pager -o cat").stdout
    assert "tensor_parallel_size=2" in log
    assert "enable_expert_parallel': True" in log


def test_the_measurement_has_counted_every_request(host) -> None:
    points = host.run("cat /var/lib/vllm-benchmark/*/points.jsonl").stdout.splitlines()
    assert len(points) == 1
    assert json.loads(points[0])["valid"] is True

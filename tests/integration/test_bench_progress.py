# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A benchmark as an operator sees it: a job on the node, without vLLM, that says which measurement is being made.

Ansible packs the collection into an archive, and the builtin client must come out of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mock_openai import MockOpenAI

ROOT = Path(__file__).parents[2]
KEY = "key-4711-hidden"


@pytest.mark.slow
@pytest.mark.case("auth-models-lookup")
def test_a_benchmark_tells_how_far_it_is_and_leaves_no_key(tmp_path: Path) -> None:
    with MockOpenAI(api_key=KEY, first_token_s=0.1, token_s=0.02, tokenize=True) as mock:
        params = {
            "url": mock.url,
            "model": "mock",
            "vllm": "/nowhere/vllm",
            "api_key": KEY,
            "points": [{"concurrency": 4, "input_len": 16, "output_len": 24, "num_prompts": 24}],
            "repeats": 2,
            "results_dir": str(tmp_path / "results"),
            "progress_interval": 1,
        }
        run = subprocess.run(
            [
                Path(sys.executable).parent / "ansible",
                *("localhost", "-vvv", "-m", "modelops.vllm.vllm_bench", "-a", json.dumps(params)),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            cwd=ROOT,
            env={
                **os.environ,
                "ANSIBLE_LOCALHOST_WARNING": "false",
                "ANSIBLE_ASYNC_DIR": str(tmp_path / "async"),
                "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
                "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
                "LC_ALL": "C.UTF-8",
            },
        )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert '"engine": "builtin"' in run.stdout
    assert '"valid": true' in run.stdout
    (points,) = (tmp_path / "results").glob("*/points.jsonl")
    assert f'"results_file": "{points}"' in run.stdout
    assert len(points.read_text().splitlines()) == 2
    told = [line for line in run.stderr.splitlines() if line.startswith("localhost: benchmark of mock: measurement ")]
    answered = re.compile(
        r"measurement ([12]) of 2: c4-i16-o24-n24, repeat \1 of 2: \d+ of 24 requests answered, \d+ s"
    )
    before = re.compile(r"measurement 2 of 2: .*; before: c4-i16-o24-n24, \d+\.\d output tokens/s")
    assert [line for line in told if answered.search(line)], run.stderr
    assert [line for line in told if before.search(line)], run.stderr
    # Ansible itself shows the arguments of an ad-hoc command at this verbosity; no result and no file has them.
    shown = re.sub(r"-a \{.*|<localhost>.*", "", run.stdout)
    assert KEY not in shown.partition("SUCCESS")[2]
    assert KEY not in run.stderr
    files = [path for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]

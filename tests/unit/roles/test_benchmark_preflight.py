# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role benchmark refuses before anything is measured; the plays run in check mode, without a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from tests.support.bench_records import repeats

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PLAY = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "roles": ["modelops.vllm.benchmark"]}]


@pytest.fixture
def play(tmp_path: Path) -> t.Callable[..., list[str]]:
    """Runs the role with these variables; the messages of what failed."""

    def run(**variables: t.Any) -> list[str]:
        playbook = tmp_path / "play.yml"
        playbook.write_text(json.dumps(PLAY))
        given = {
            "benchmark_model": "mock",
            "benchmark_engine": "builtin",
            "benchmark_report_dir": str(tmp_path / "reports"),
            "ansible_python_interpreter": sys.executable,
            **variables,
        }
        argv = [sys.executable, "-m", "ansible", "playbook", "--check", "-i", "localhost,", "-e", json.dumps(given)]
        environment = {
            **os.environ,
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.json",
        }
        done = subprocess.run(
            [*argv, str(playbook)], check=False, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=120
        )
        tasks = json.loads(done.stdout)["plays"][0]["tasks"]
        results = [task["hosts"]["localhost"] for task in tasks if "localhost" in task["hosts"]]
        failed = [result["msg"] for result in results if result.get("failed")]
        assert bool(done.returncode) == bool(failed)
        return failed

    return run


Play = t.Callable[..., list[str]]


def write(path: Path) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(item) + "\n" for item in repeats([990.0, 1000.0, 1010.0])))
    return str(path)


@pytest.mark.parametrize("name", ["reports", "reports/points.jsonl", "link"])
def test_a_baseline_that_would_be_replaced_is_refused(play: Play, tmp_path: Path, name: str) -> None:
    write(tmp_path / "reports" / "points.jsonl")
    (tmp_path / "link").symlink_to("reports/points.jsonl")
    (message,) = play(benchmark_baseline=str(tmp_path / name))
    assert "which the points of this run would replace" in message


def test_a_baseline_that_is_none_is_refused_before_the_load(play: Play, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.jsonl")
    (message,) = play(benchmark_baseline=missing)
    assert message.startswith(f"There are no benchmark results at '{missing}'.")


def test_a_baseline_beside_the_results_is_fine_and_null_is_none(play: Play, tmp_path: Path) -> None:
    assert play(benchmark_baseline=write(tmp_path / "reports" / "baseline.jsonl")) == []
    assert play(benchmark_baseline=None) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"benchmark_gpus": -1}, "gpus is -1, but must be at least 1."),
        ({"benchmark_gpu_hour_price": -1.5, "benchmark_gpus": 8}, "gpu_hour_price is -1.5 and gpus is 8"),
    ],
)
def test_a_negative_number_is_refused(play: Play, given: dict[str, t.Any], message: str) -> None:
    assert [text[: len(message)] for text in play(**given)] == [message]

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tournament of three layouts of a tiny model: a winner that serves, a loser with its cause, and no second one."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

from tests.support.scenario import run_playbook

BIND = "VLLM_CPU_OMP_THREADS_BIND=0|1"
CONVERGE = Path(__file__).parents[1] / "converge.yml"

ASK = """
import json, urllib.request
body = json.dumps({"model": "demo-moe", "prompt": "The quick brown fox", "max_tokens": 8, "temperature": 0,
                   "ignore_eos": True}).encode()
req = urllib.request.Request("http://127.0.0.1:8000/v1/completions", body, {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(req, timeout=60))["usage"]["completion_tokens"])
"""


def reports() -> Path:
    return Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "tournament"


def state() -> dict[str, t.Any]:
    return t.cast(dict[str, t.Any], json.loads((reports() / "tournament.json").read_text()))


def play(**variables: t.Any) -> str:
    run = run_playbook(CONVERGE, **variables)
    assert run.returncode == 0, run.stdout[-4000:]
    return run.stdout


def test_the_winner_serves(host: t.Any) -> None:
    winner = next(one for one in ("tp1", f"tp2 {BIND}") if f"{one} wins of 3 candidates" in report())
    out = host.run("python3 -c %s", ASK)
    assert out.rc == 0, out.stderr + host.run("journalctl -u vllm-main -n 60 --no-pager").stdout
    assert out.stdout.strip() == "8"
    assert host.service("vllm-main.service").is_enabled
    ranks = host.run("pgrep -fc '[V]LLM::Worker'").stdout.strip()
    # On CPUs a single rank is a process of its own, too (vLLM 0.32.0, platforms/cpu.py).
    assert ranks == ("2" if winner.startswith("tp2") else "1")


def report() -> str:
    return (reports() / "report.md").read_text().replace("\\", "")


def test_the_leaders_were_started_twice_in_turns() -> None:
    entries = {entry["id"]: entry for entry in state()["candidates"]}
    sessions = {name: entry["sessions"] for name, entry in entries.items()}
    assert {name: len(found) for name, found in sessions.items()} == {"tp1": 2, f"tp2 {BIND}": 2, f"tp2-ep {BIND}": 0}
    began = sorted(
        (session["records"][0]["started_unix"], name) for name, found in sessions.items() for session in found
    )
    assert [name.split()[0] for _time, name in began] == ["tp1", "tp2", "tp1", "tp2"]
    assert all(record["valid"] for found in sessions.values() for one in found for record in one["records"])


def test_what_dies_at_its_first_request_has_lost_with_its_cause() -> None:
    (lost,) = [entry["lost"] for entry in state()["candidates"] if entry["layout"] == "tp2-ep"]
    assert lost["phase"] == "deployed"
    assert lost["cause"]["id"] == "native-crash"
    assert f"| tp2-ep {BIND}" in report()
    assert lost["cause"]["id"] in report()


def test_the_report_is_written_with_its_diagrams() -> None:
    page = (reports() / "report.html").read_text()
    assert page.count("<svg") >= 1
    assert "serve_layout: &quot;tp" in page


def test_a_second_run_deploys_and_measures_nothing(host: t.Any) -> None:
    pid = host.check_output("systemctl show --value -p MainPID vllm-main.service")
    before = (reports() / "tournament.json").read_bytes()
    out = play()
    assert "tournament-node : ok=" in out
    assert "changed=0" in out.split("PLAY RECAP")[1]
    assert "Run the benchmark" not in out
    assert host.check_output("systemctl show --value -p MainPID vllm-main.service") == pid
    assert (reports() / "tournament.json").read_bytes() == before

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/tournament.yml as it is, with stand-ins for the roles: who is deployed in which order, and what ends how.

The stand-in of the serve role writes down what it is asked for, and fails in the switch for the layouts that are dead;
that of the benchmark role has a file with the points of each layout. molecule/tournament has the roles and vLLM.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.support.bench_records import record

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LAYOUTS = [
    {"id": name, "gpus": gpus, "idle_gpus": 8 - gpus, "pp": 1, "replicas": 1, "valid": True, "findings": []}
    for name, gpus in (("tp8-ep", 8), ("tp4", 4), ("tp2", 2))
]
SERVE = {
    "serve_served_name": "stub",
    "serve_model_dir": "/srv/stub",
    "serve_instance": "main",
    "serve_preferred_layouts": [],
    "serve_layout": "auto",
    "serve_args": {},
    "serve_env": {},
    **{f"serve_{name}": "" for name in ("max_model_len", "max_num_seqs", "gpu_memory_utilization", "kv_cache_dtype")},
}
BENCHMARK = {
    "benchmark_concurrency": [8],
    "benchmark_rates": [],
    "benchmark_engine": "auto",
    "benchmark_dataset": "random",
    "benchmark_input_len": 512,
    "benchmark_output_len": 128,
    "benchmark_num_prompts": 0,
    "benchmark_repeats": 1,
    "benchmark_formats": ["html", "md"],
}
# It fails as the module does, with its cause beside the message.
SWITCH = '''
DOCUMENTATION = r"""
module: vllm_switch
short_description: A stand-in
description: It fails when it is told to.
options:
  dead:
    description: Whether to fail.
    type: bool
    required: true
author: [The modelops.vllm contributors (@modelops)]
"""

from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule({"dead": {"type": "bool", "required": True}})
if module.params["dead"]:
    module.fail_json(msg="It is back.", cause={"id": "oom", "line": "out of memory", "remedy": "Take less."})
module.exit_json(changed=True)
'''


def task(name: str, module: str, **arguments: t.Any) -> dict[str, t.Any]:
    more = {key: arguments.pop(key) for key in ("register",) if key in arguments}
    return {"name": name, module: arguments, **more}


def role(collection: Path, name: str, defaults: dict[str, t.Any], **tasks: list[dict[str, t.Any]]) -> None:
    folder = collection / "roles" / name
    for part in ("defaults", "tasks"):
        (folder / part).mkdir(parents=True)
    (folder / "defaults" / "main.yml").write_text(yaml.safe_dump(defaults))
    for file, content in tasks.items():
        (folder / "tasks" / f"{file}.yml").write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """The collection with stand-ins for its roles and for the module that switches."""
    made = tmp_path / "collections" / "ansible_collections" / "modelops" / "vllm"
    made.mkdir(parents=True)
    for part in ("meta", "playbooks", "plugins"):
        shutil.copytree(ROOT / part, made / part, ignore=shutil.ignore_patterns("__pycache__"))
    (made / "plugins" / "action" / "vllm_switch.py").unlink(missing_ok=True)
    (made / "plugins" / "modules" / "vllm_switch.py").write_text(SWITCH)
    nothing = [task("Do nothing", "ansible.builtin.debug", msg="nothing")]
    role(made, "preflight", {}, main=nothing)
    role(made, "weights", {}, main=nothing)
    served = "{{ serve_layout }} {{ serve_env | to_json }}"
    role(
        made,
        "serve",
        SERVE,
        preflight=[task("Say what vLLM is there", "ansible.builtin.set_fact", serve_vllm={"version": "0.32.0"})],
        snapshot=nothing,
        layout=[
            task(
                "Say the layouts", "ansible.builtin.set_fact", serve_layouts={"layouts": LAYOUTS, "recommended": "tp4"}
            )
        ],
        main=[
            # The real role judges one layout here, and leaves that behind.
            task("Judge it", "ansible.builtin.set_fact", serve_layouts={"layouts": []}),
            task("Write it down", "ansible.builtin.shell", cmd=f"echo '{served}' >> {{{{ stub_dir }}}}/served"),
            task("Switch", "modelops.vllm.vllm_switch", dead="{{ serve_layout in stub_dead }}"),
        ],
    )
    results = "{{ benchmark_results_dir }}/run"
    text = "{{ lookup('ansible.builtin.file', stub_dir ~ '/' ~ serve_layout) | replace('RUN', benchmark_results_dir) }}"
    role(
        made,
        "benchmark",
        BENCHMARK,
        preflight=nothing,
        main=[
            task("Make the folder", "ansible.builtin.file", path=results, state="directory", mode="0755"),
            task("Write the points", "ansible.builtin.copy", content=text, dest=f"{results}/points.jsonl", mode="0644"),
            task(
                "Say where they are",
                "ansible.builtin.set_fact",
                __benchmark_run={"results_file": f"{results}/points.jsonl", "valid": True},
            ),
        ],
    )
    return made


class Played(t.NamedTuple):
    status: int
    text: str
    served: list[str]


Play = t.Callable[..., Played]


@pytest.fixture
def play(collection: Path, tmp_path: Path) -> Play:
    """Run the playbook on this machine; ``served`` has what the serve role was asked for in this run."""

    def run(rates: dict[str, float], *arguments: str, dead: t.Sequence[str] = (), **variables: t.Any) -> Played:
        for layout, rate in rates.items():
            (tmp_path / layout).write_text(json.dumps(record(8, rate=rate, run="RUN")) + "\n")
        written = tmp_path / "served"
        written.unlink(missing_ok=True)
        extra = {
            "vllm_hosts": "localhost",
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "stub_dir": str(tmp_path),
            "stub_dead": list(dead),
            "tournament_dir": str(tmp_path / "state"),
            "tournament_report_dir": str(tmp_path / "report"),
            "tournament_sessions": "2",
            **variables,
        }
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,"]
        command += [str(collection / "playbooks" / "tournament.yml"), "-e", json.dumps(extra), *arguments]
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"),
            "ANSIBLE_HOME": str(tmp_path / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_FORCE_COLOR": "0",
        }
        done = subprocess.run(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600
        )
        served = written.read_text().splitlines() if written.exists() else []
        return Played(done.returncode, " ".join(done.stdout.split()), served)

    return run


def report(tmp_path: Path) -> str:
    return (tmp_path / "report" / "report.md").read_text().replace("\\", "")


def test_the_leaders_take_turns_and_the_winner_stays(play: Play, tmp_path: Path) -> None:
    candidates = ["tp8-ep", {"layout": "tp8-ep", "env": {"A": "1"}}, "tp4", "tp2"]
    done = play({"tp8-ep": 1000.0, "tp4": 980.0}, dead=["tp2"], tournament_candidates=candidates, tournament_leaders=3)
    assert done.status == 0, done.text[-3000:]
    plain, varied = "tp8-ep {}", 'tp8-ep {"A": "1"}'
    assert done.served == [plain, varied, "tp4 {}", "tp2 {}", plain, varied, "tp4 {}", "tp4 {}"]
    assert "tp4 wins of 4 candidates by throughput: 980 tok/s" in done.text
    assert 'tp2: Did not become ready: oom. The log says "out of memory". Take less.' in done.text
    text = report(tmp_path)
    assert "Not told apart from tp8-ep" in text
    assert '    serve_layout: "tp4"\n' in text
    assert "<svg" in (tmp_path / "report" / "report.html").read_text()

    # The same again has nothing to do but to have the winner serve.
    again = play({}, dead=["tp2"], tournament_candidates=candidates, tournament_leaders=3)
    assert (again.status, again.served) == (0, ["tp4 {}"])
    assert report(tmp_path) == text


def test_a_play_that_was_cut_off_goes_on_where_it_was(play: Play, tmp_path: Path) -> None:
    first = play({"tp8-ep": 1000.0, "tp4": 600.0, "tp2": 500.0})
    assert first.served == ["tp4 {}", "tp8-ep {}", "tp2 {}", "tp8-ep {}"]
    # As it was when only the first candidate had been measured.
    (path,) = (tmp_path / "state").glob("*/tournament.json")
    state = json.loads(path.read_text())
    for entry in state["candidates"]:
        if entry["layout"] != "tp4":
            entry["sessions"] = []
    path.write_text(json.dumps({**state, "leaders": [], "last": "tp4"}))
    second = play({"tp8-ep": 1000.0, "tp2": 500.0})
    assert (second.status, second.served) == (0, ["tp8-ep {}", "tp2 {}", "tp8-ep {}"])


def test_nobody_wins_when_nobody_starts_and_the_play_says_how_to_go_on(play: Play, tmp_path: Path) -> None:
    done = play({}, dead=["tp8-ep", "tp4", "tp2"])
    assert done.status == 2
    assert done.served == ["tp4 {}", "tp8-ep {}", "tp2 {}"]
    assert "begin anew: tournament_resume=false" in done.text
    assert "No candidate could be deployed and measured" in report(tmp_path)
    # Mended, and begun anew.
    assert play({"tp4": 900.0}, dead=["tp8-ep", "tp2"], tournament_resume="false").served[-1] == "tp4 {}"


def test_what_cannot_be_measured_has_lost_and_is_not_tried_again(play: Play, tmp_path: Path) -> None:
    done = play({"tp4": 900.0, "tp2": 899.0})
    assert done.status == 0, done.text[-3000:]
    assert done.served == ["tp4 {}", "tp8-ep {}", "tp2 {}", "tp4 {}", "tp2 {}", "tp2 {}"]
    assert "| tp8-ep | 8 | - | - | 0 | failed | Could not be measured:" in report(tmp_path)


def test_an_extra_variable_that_wins_over_the_candidates_ends_it_before_anything_is_deployed(play: Play) -> None:
    done = play({"tp4": 900.0}, serve_env={"A": "1"}, tournament_candidates=[{"layout": "tp4", "env": {"A": "2"}}])
    assert done.status == 2
    assert done.served == []
    assert "is an extra variable (-e, or the answer of a survey), which wins over the candidates" in done.text
    # What they do not differ in may be one.
    assert play({"tp4": 900.0}, serve_env={"A": "1"}, tournament_candidates="tp4").served == ['tp4 {"A": "1"}'] * 2


def test_check_mode_shows_who_would_be_tried_and_changes_nothing(play: Play, tmp_path: Path) -> None:
    done = play({}, "--check")
    assert done.status == 0, done.text[-3000:]
    assert done.served == []
    assert "Next: tp4, tp8-ep, tp2" in done.text
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "report").exists()

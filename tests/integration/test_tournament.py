# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/tournament.yml as it is, with stand-ins for the roles: who is deployed in which order, and what ends how.

The stand-in of the serve role writes down what it is asked for, and fails in the switch for the layouts that are dead;
that of the benchmark role has a file with the points of each layout, or of one start of it. The modules that switch and
look at the node keep what serves in a file. molecule/tournament has the roles and vLLM.
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

from tests.support.bench_records import failed, record

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LAYOUTS = [
    {"id": name, "gpus": gpus, "idle_gpus": 8 - gpus, "pp": 1, "replicas": 1, "valid": True, "findings": []}
    for name, gpus in (("tp8-ep", 8), ("tp4", 4), ("tp2", 2))
]
SERVE = {
    "serve_served_name": "stub",
    "serve_model_dir": "/srv/stub",
    "serve_model_config": {},
    "serve_instance": "main",
    "serve_engine": "venv",
    "serve_image": "",
    "serve_nodes_group": "",
    "serve_nvidia_smi": "",
    "serve_devices": "",
    "serve_state_dir": "{{ stub_dir }}/node",
    "serve_ready_timeout": 60,
    "serve_stop_timeout": 30,
    "serve_gpu_timeout": 30,
    "serve_progress_interval": 0,
    "serve_preferred_layouts": [],
    "serve_layout": "auto",
    "serve_profile_args": {},
    "serve_profile_env": {},
    "serve_args": {},
    "serve_env": {},
    **{f"serve_{name}": "" for name in ("max_model_len", "max_num_seqs", "gpu_memory_utilization", "kv_cache_dtype")},
}
BENCHMARK = {
    "benchmark_url": "http://127.0.0.1:8000",
    "benchmark_model": "stub",
    "benchmark_tokenizer": "/srv/stub",
    "benchmark_vllm_bin": "/opt/stub/vllm",
    "benchmark_aiperf_bin": "/opt/stub/aiperf",
    "benchmark_engine": "auto",
    "benchmark_endpoint": "completions",
    "benchmark_concurrency": [8],
    "benchmark_rates": [],
    "benchmark_input_len": 512,
    "benchmark_output_len": 128,
    "benchmark_num_prompts": 80,
    "benchmark_repeats": 1,
    "benchmark_timeout": 1800,
    "benchmark_max_failures": 0,
    "benchmark_max_seconds": 0,
    "benchmark_dataset": "random",
    "benchmark_dataset_file": "",
    "benchmark_slo": {},
    "benchmark_results_dir": "/srv/stub-benchmark",
    "benchmark_formats": ["html", "md"],
}
# What both modules that stand in for those of the node begin with.
NODE = '''
DOCUMENTATION = r"""
module: {name}
short_description: A stand-in
description: It keeps in a file what serves.
options: {{}}
author: [The modelops.vllm contributors (@modelops)]
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule

OPTIONS = ("state_dir", "nvidia_smi")
NUMBERS = ("sample_seconds", "ready_timeout", "stop_timeout", "gpu_timeout", "keep_releases", "progress_interval")
spec = {{name: {{"type": "str"}} for name in OPTIONS}}
spec.update({{name: {{"type": "float"}} for name in NUMBERS}})


def serves(module):
    path = os.path.join(module.params["state_dir"], "serves.json")
    return path, json.load(open(path)) if os.path.exists(path) else {{}}


'''
STATUS = """
spec["instances"] = {"type": "list", "elements": "str", "default": []}
module = AnsibleModule(spec, supports_check_mode=True)
wanted = module.params["instances"]
rows = [
    {"instance": name, "current": one["release"], "state": one["state"], "restarts": 0}
    for name, one in serves(module)[1].items()
    if name in wanted or not wanted
]
module.exit_json(changed=False, instances=rows)
"""
# It fails as the module does, with its cause beside the message; then what served before serves on.
SWITCH = """
spec["instances"] = {"type": "list", "elements": "dict", "required": True}
spec["state"] = {"type": "str", "choices": ["switched", "stopped"], "default": "switched"}
spec["dead"] = {"type": "str", "default": ""}
module = AnsibleModule(spec)
dead, state = module.params["dead"], module.params["state"]
if dead == "lost connection":
    module.fail_json(msg="The connection is lost.")
if dead:
    module.fail_json(msg="It is back.", cause={"id": dead, "line": "out of memory", "remedy": "Take less."})
path, there = serves(module)
for one in module.params["instances"]:
    release = one["release"] if state == "switched" else there[one["instance"]]["release"]
    there[one["instance"]] = {"release": release, "state": "serving" if state == "switched" else "stopped"}
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, "w") as f:
    json.dump(there, f)
with open(os.path.join(os.path.dirname(path), "switches"), "a") as f:
    for one in module.params["instances"]:
        f.write(f"{state} {one['instance']} {one['release']}".strip() + "\\n")
module.exit_json(changed=True)
"""


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
    for name, content in (("vllm_switch", SWITCH), ("vllm_status_info", STATUS)):
        (made / "plugins" / "modules" / f"{name}.py").write_text(NODE.format(name=name) + content)
    nothing = [task("Do nothing", "ansible.builtin.debug", msg="nothing")]
    role(made, "preflight", {}, main=nothing)
    role(made, "weights", {}, main=nothing)
    served = "{{ serve_layout }} {{ serve_env | to_json }}"
    role(
        made,
        "serve",
        SERVE,
        preflight=[
            task("Say what is there", "ansible.builtin.set_fact", serve_vllm={"version": "0.32.0"}, serve_gpu={})
        ],
        snapshot=[task("Say which it is", "ansible.builtin.set_fact", serve_snapshot={"commit": "abc123"})],
        layout=[
            task(
                "Say the layouts", "ansible.builtin.set_fact", serve_layouts={"layouts": LAYOUTS, "recommended": "tp4"}
            )
        ],
        main=[
            # The real role judges one layout here, and leaves that behind.
            task(
                "Judge it",
                "ansible.builtin.set_fact",
                serve_layouts={"layouts": []},
                serve_replicas=[{"instance": "main", "devices": ["0"]}],
            ),
            task("Write it down", "ansible.builtin.shell", cmd=f"echo '{served}' >> {{{{ stub_dir }}}}/served"),
            task(
                "Switch",
                "modelops.vllm.vllm_switch",
                state_dir="{{ serve_state_dir }}",
                instances=[{"instance": "{{ serve_instance }}", "release": served}],
                dead="{{ stub_dead[serve_layout] | default('') }}",
            ),
        ],
    )
    results = "{{ benchmark_results_dir }}/run"
    start = "stub_dir ~ '/' ~ serve_layout ~ '.' ~ (benchmark_results_dir | basename)"
    found = f"[{start}, stub_dir ~ '/' ~ serve_layout]"
    text = (
        f"{{{{ lookup('ansible.builtin.file', lookup('ansible.builtin.first_found', {found}))"
        " | replace('RUN', benchmark_results_dir) }}"
    )
    role(
        made,
        "benchmark",
        BENCHMARK,
        preflight=nothing,
        measure=[
            task("Make the folder", "ansible.builtin.file", path=results, state="directory", mode="0755"),
            task(
                "Have the server die",
                "ansible.builtin.shell",
                cmd="{{ stub_die if serve_layout in stub_dying else 'true' }} {{ serve_state_dir }}/serves.json",
            ),
            task("Write the points", "ansible.builtin.copy", content=text, dest=f"{results}/points.jsonl", mode="0644"),
            task(
                "Say where they are",
                "ansible.builtin.set_fact",
                __benchmark_run={"results_file": f"{results}/points.jsonl", "valid": True},
            ),
        ],
        fetch=nothing,
        report=nothing,
        summary=[task("Say that it was shown", "ansible.builtin.debug", msg="shown: {{ benchmark_report_dir }}")],
    )
    return made


class Played(t.NamedTuple):
    status: int
    text: str
    served: list[str]


Play = t.Callable[..., Played]


@pytest.fixture
def play(collection: Path, tmp_path: Path) -> Play:
    """Run the playbook on this machine; ``served`` has what the serve role was asked for in this run.

    ``points`` are rates or records by layout, or by start (``tp4.s1``); ``dead`` are causes of failing switches, and
    ``dying`` are layouts whose server dies while it is measured.
    """

    def run(
        points: dict[str, t.Any],
        *arguments: str,
        dead: dict[str, str] | None = None,
        dying: t.Sequence[str] = (),
        **variables: t.Any,
    ) -> Played:
        for name, value in points.items():
            one = value if isinstance(value, dict) else record(8, rate=value)
            (tmp_path / name).write_text(json.dumps({**one, "run": "RUN"}) + "\n")
        written = tmp_path / "served"
        written.unlink(missing_ok=True)
        extra = {
            "vllm_hosts": "localhost",
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "stub_dir": str(tmp_path),
            "stub_dead": dead or {},
            "stub_dying": list(dying),
            "stub_die": "sed -i s/serving/failed/",
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


def serving(tmp_path: Path) -> dict[str, str]:
    """What the node serves, by instance."""
    there = json.loads((tmp_path / "node" / "serves.json").read_text())
    return {name: one["release"] for name, one in there.items() if one["state"] == "serving"}


def served_before(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "serves.json").write_text(json.dumps({"main": {"release": "old", "state": "serving"}}))


def test_the_leaders_take_turns_and_the_winner_stays(play: Play, tmp_path: Path) -> None:
    candidates = ["tp8-ep", {"layout": "tp8-ep", "env": {"A": "1"}}, "tp4", "tp2"]
    how = {"dead": {"tp2": "oom"}, "tournament_candidates": candidates, "tournament_leaders": 3}
    done = play({"tp8-ep": 1000.0, "tp4": 980.0}, **how)
    assert done.status == 0, done.text[-3000:]
    plain, varied = "tp8-ep {}", 'tp8-ep {"A": "1"}'
    assert done.served == [plain, varied, "tp4 {}", "tp2 {}", plain, varied, "tp4 {}", "tp4 {}"]
    assert serving(tmp_path) == {"main": "tp4 {}"}
    assert "tp4 wins of 4 candidates by throughput: 980 tok/s" in done.text
    assert 'tp2: Did not become ready: oom. The log says "out of memory". Take less.' in done.text
    text = report(tmp_path)
    assert "Not told apart from tp8-ep" in text
    assert '    serve_layout: "tp4"\n' in text
    assert "<svg" in (tmp_path / "report" / "report.html").read_text()

    # The same again has nothing to do but to have the winner serve.
    again = play({}, **how)
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
    dead = {"tp8-ep": "oom", "tp4": "oom", "tp2": "oom"}
    done = play({}, dead=dead)
    assert done.status == 2
    assert done.served == ["tp4 {}", "tp8-ep {}", "tp2 {}"]
    assert "begin anew: tournament_resume=false" in done.text
    assert "No candidate could be deployed and measured" in report(tmp_path)
    # Mended, and begun anew.
    del dead["tp4"]
    assert play({"tp4": 900.0}, dead=dead, tournament_resume="false").served[-1] == "tp4 {}"


def test_energy_is_refused_as_an_objective_before_anything_is_deployed(play: Play) -> None:
    done = play({"tp4": 900.0}, tournament_objective="tokens_per_joule")
    assert (done.status, done.served) == (2, [])
    assert "needs the energy of the node's GPUs" in done.text


def test_a_start_that_does_not_count_is_repeated(play: Play, tmp_path: Path) -> None:
    points = {"tp4": 900.0, "tp8-ep.s1": failed(), "tp8-ep": 1200.0, "tp2": failed()}
    done = play(points)
    assert done.status == 0, done.text[-3000:]
    # Both are tried once more, and only one of them counts then.
    assert done.served == ["tp4 {}", "tp8-ep {}", "tp2 {}", "tp8-ep {}", "tp2 {}", "tp8-ep {}"]
    assert "| tp2 | 2 | - | - | 2 | failed | No point counts: c8-i512-o128-n80 is invalid" in report(tmp_path)


def test_a_server_that_dies_under_load_has_lost_and_the_node_goes_back(play: Play, tmp_path: Path) -> None:
    served_before(tmp_path)
    done = play({"tp4": 900.0, "tp2": 899.0}, dying=["tp8-ep"])
    assert done.status == 0, done.text[-3000:]
    assert done.served == ["tp4 {}", "tp8-ep {}", "tp2 {}", "tp4 {}", "tp2 {}", "tp2 {}"]
    assert "| tp8-ep | 8 | - | - | 0 | failed | Could not be measured: server-gone." in report(tmp_path)
    switches = (tmp_path / "node" / "switches").read_text().splitlines()
    assert switches[:4] == [f"switched main {one}" for one in ("tp4 {}", "tp8-ep {}", "old", "tp2 {}")]
    assert switches.count("switched main old") == 1
    assert serving(tmp_path) == {"main": "tp2 {}"}


@pytest.mark.parametrize(
    ("dead", "points", "said"),
    [
        pytest.param({"tp8-ep": "disk-full"}, {}, "a fault of the node (disk-full)", id="fault-of-the-node"),
        pytest.param({"tp8-ep": "lost connection"}, {}, "no failure of the engine", id="no-cause"),
        pytest.param({}, {"tp4": 900.0}, "no failure of the engine", id="client-fails-while-the-server-lives"),
    ],
)
def test_what_is_no_fault_of_a_candidate_ends_the_play_without_anybody_losing(
    dead: dict[str, str], points: dict[str, float], said: str, play: Play, tmp_path: Path
) -> None:
    served_before(tmp_path)
    done = play({"tp4": 900.0, **points}, dead=dead)
    assert done.status == 2
    assert done.served == ["tp4 {}", "tp8-ep {}"]
    assert "tp8-ep could not be tried, and has not lost" in done.text
    assert said in done.text
    assert "| failed |" not in report(tmp_path)
    assert serving(tmp_path) == {"main": "old"}
    # Mended, it goes on with the one that it happened to.
    again = play({"tp8-ep": 1200.0, "tp2": 899.0})
    assert (again.status, again.served) == (0, ["tp8-ep {}", "tp2 {}", "tp8-ep {}"])


def test_a_first_candidate_that_cannot_be_measured_is_stopped_when_nothing_served_before(
    play: Play, tmp_path: Path
) -> None:
    done = play({})
    assert (done.status, done.served) == (2, ["tp4 {}"])
    assert serving(tmp_path) == {}
    assert (tmp_path / "node" / "switches").read_text().splitlines() == ["switched main tp4 {}", "stopped main"]


def test_an_extra_variable_that_wins_over_the_candidates_ends_it_before_anything_is_deployed(play: Play) -> None:
    done = play({"tp4": 900.0}, serve_env={"A": "1"}, tournament_candidates=[{"layout": "tp4", "env": {"A": "2"}}])
    assert done.status == 2
    assert done.served == []
    assert "is an extra variable (-e, or the answer of a survey), which wins over the candidates" in done.text
    # What they do not differ in may be one.
    assert play({"tp4": 900.0}, serve_env={"A": "1"}, tournament_candidates="tp4").served == ['tp4 {"A": "1"}'] * 2


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        pytest.param({"serve_nodes_group": "pair"}, "finds the best layout of one node", id="group-of-nodes"),
        pytest.param({"benchmark_repeats": 0}, "repeats is 0", id="load-that-cannot-be"),
        pytest.param({"benchmark_engine": "aiperf"}, "/opt/stub/aiperf", id="client-is-not-there"),
        pytest.param(
            {"benchmark_dataset_file": "/srv/stub.jsonl", "benchmark_dataset": "file"},
            "there is no such file on the node",
            id="prompts-are-not-there",
        ),
    ],
)
def test_what_cannot_be_measured_at_all_is_refused_before_anything_is_deployed(
    variables: dict[str, t.Any], said: str, play: Play
) -> None:
    done = play({"tp4": 900.0}, **variables)
    assert (done.status, done.served) == (2, []), done.text[-3000:]
    assert said in done.text


def test_check_mode_shows_who_would_be_tried_and_changes_nothing(play: Play, tmp_path: Path) -> None:
    done = play({}, "--check")
    assert done.status == 0, done.text[-3000:]
    assert done.served == []
    assert "Next: tp4, tp8-ep, tp2" in done.text
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "report").exists()
    assert not (tmp_path / "node").exists()

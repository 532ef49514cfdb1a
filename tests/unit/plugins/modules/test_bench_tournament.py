# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: declare, note, continue; and the report on it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import tournament_entry

from tests.support.tournaments import session

RunModule = t.Callable[..., dict[str, t.Any]]

LAYOUTS = [
    {"id": name, "gpus": gpus, "idle_gpus": 8 - gpus, "pp": 1, "replicas": 1, "valid": True, "findings": []}
    for name, gpus in (("tp8-ep", 8), ("tp4", 4))
]


def declaration(folder: Path, **changes: t.Any) -> dict[str, t.Any]:
    base = {"args": {"seed": 1}, "env": {"A": "1"}, "max_num_seqs": 64}
    return {
        "dir": str(folder),
        "layouts": LAYOUTS,
        "concurrency": ["1", "8"],
        "identity": {"model": "minimax-m2.5"},
        "base": base,
        **changes,
    }


def begun(answer: dict[str, t.Any]) -> str:
    return str(json.loads(Path(answer["state_file"]).read_text())["begun"])


def results(folder: Path, name: str, rate: float) -> str:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in session(name, rate)))
    return str(path)


def test_a_tournament_is_declared_once_and_continued(run_module: RunModule, tmp_path: Path) -> None:
    first = run_module("bench_tournament", declaration(tmp_path))
    assert (first["changed"], first["verdict"], first["winner"]) == (True, "open", {})
    folder = Path(first["state_file"]).parent
    assert folder.parent == tmp_path
    assert first["todo"][0] == {
        "candidate": "tp8-ep",
        "session": 1,
        "results_dir": f"{folder}/{begun(first)}/tp8-ep/s1",
        "layout": "tp8-ep",
        "args": {"seed": 1},
        "env": {"A": "1"},
        "max_num_seqs": "64",
        "max_model_len": "",
        "gpu_memory_utilization": "",
        "kv_cache_dtype": "",
    }
    again = run_module("bench_tournament", declaration(tmp_path))
    assert (again["changed"], again["todo"]) == (False, first["todo"])


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": {"model": "other"}},
        {"objective": "single_stream"},
        {"candidates": "tp4,tp8-ep"},
        {"base": {"args": {"seed": 2}}},
        {"axes": {"env": {"NCCL_P2P_DISABLE": [None, "1"]}}},
    ],
)
def test_another_declaration_is_another_tournament(
    run_module: RunModule, tmp_path: Path, changes: dict[str, t.Any]
) -> None:
    first = run_module("bench_tournament", declaration(tmp_path))
    second = run_module("bench_tournament", declaration(tmp_path, **changes))
    assert second["changed"] is True
    assert second["state_file"] != first["state_file"]


def test_texts_of_numbers_and_booleans_are_the_same_tournament(run_module: RunModule, tmp_path: Path) -> None:
    load = {"failures": 0, "smoke": True, "rates": [1, 2.5], "file": None}
    first = run_module("bench_tournament", declaration(tmp_path, identity={"load": load}))
    texts = {"failures": "0", "smoke": "True", "rates": ["1", "2.5"], "file": ""}
    second = run_module("bench_tournament", declaration(tmp_path, identity={"load": texts}))
    assert second["changed"] is False
    assert second["state_file"] == first["state_file"]


@pytest.mark.parametrize(
    ("phase", "cause", "words"),
    [
        ("deployed", None, "tp4 could not be tried, and has not lost, since this is no failure of the engine"),
        ("measured", {}, "Run the playbook again: the tournament goes on here."),
        ("deployed", {"id": "port-in-use", "remedy": "Free it."}, "a fault of the node (port-in-use): M"),
    ],
)
def test_a_fault_of_the_node_throws_nobody_out(
    run_module: RunModule, tmp_path: Path, phase: str, cause: dict[str, t.Any] | None, words: str
) -> None:
    state_file = run_module("bench_tournament", declaration(tmp_path))["state_file"]
    before = Path(state_file).read_bytes()
    outcome = {"candidate": "tp4", "phase": phase, "reason": "M", "cause": cause}
    result = run_module("bench_tournament", {"state_file": state_file, "outcome": outcome})
    assert result["failed"] is True
    assert words in result["msg"]
    assert Path(state_file).read_bytes() == before


def test_faults_of_the_node_are_causes_that_the_switch_knows() -> None:
    folder = Path(tournament_entry.__file__).parents[1] / "_serve"
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    assert [name for name in tournament_entry.NODE_FAULTS if f'"{name}"' not in text] == []


def test_what_the_planner_refuses_is_out_without_a_cause(run_module: RunModule, tmp_path: Path) -> None:
    state_file = run_module("bench_tournament", declaration(tmp_path))["state_file"]
    outcome = {"candidate": "tp4", "phase": "checked", "reason": "The flag is unknown."}
    result = run_module("bench_tournament", {"state_file": state_file, "outcome": outcome})
    assert [(place["candidate"], place["outcome"]) for place in result["standings"]][1] == ("tp4", "failed")


def test_a_candidate_is_tried_again_in_a_directory_of_its_own(run_module: RunModule, tmp_path: Path) -> None:
    play(run_module, tmp_path, {"tp4": 700.0})
    answer = run_module("bench_tournament", declaration(tmp_path, retry=["tp8-ep", "tp4"]))
    assert answer["changed"] is True
    assert [(step["candidate"], Path(step["results_dir"]).name) for step in answer["todo"]] == [("tp8-ep", "s2")]
    refused = run_module("bench_tournament", declaration(tmp_path, retry=["tp16"]))
    assert "'tp16' does not take part" in refused["msg"]


def test_what_served_before_is_kept_until_the_node_is_settled(run_module: RunModule, tmp_path: Path) -> None:
    first, later = [{"instance": "main", "release": "r1"}], [{"instance": "main", "release": "r2"}]
    declared = run_module("bench_tournament", declaration(tmp_path, before=first))
    assert (declared["changed"], declared["before"]) == (True, first)
    # Cut off and played again: what serves by then is a candidate.
    again = run_module("bench_tournament", declaration(tmp_path, before=later))
    assert (again["changed"], again["before"]) == (False, first)
    settled = run_module("bench_tournament", {"state_file": declared["state_file"], "settled": True})
    assert (settled["changed"], settled["before"]) == (True, None)
    assert run_module("bench_tournament", {"state_file": declared["state_file"], "settled": True})["changed"] is False
    assert run_module("bench_tournament", declaration(tmp_path, before=later))["before"] == later


def test_one_that_is_over_leaves_the_node_as_it_is(run_module: RunModule, tmp_path: Path) -> None:
    play(run_module, tmp_path, {"tp8-ep": 1000.0, "tp4": 700.0})
    before = [{"instance": "main", "release": "r1"}]
    answer = run_module("bench_tournament", declaration(tmp_path, before=before))
    assert (answer["changed"], answer["before"]) == (False, None)


def test_points_that_are_to_be_measured_are_kept(run_module: RunModule, tmp_path: Path) -> None:
    points = [{"id": f"c{c}-i512-o128-n{10 * c}", "concurrency": c, "rate": None} for c in (1, 8, 64)]
    state_file = run_module("bench_tournament", declaration(tmp_path, points=points))["state_file"]
    outcome = {"candidate": "tp4", "results": results(tmp_path, "a", 700.0)}
    run_module("bench_tournament", {"state_file": state_file, "outcome": outcome})
    again = run_module(
        "bench_tournament", {"state_file": state_file, "outcome": {**outcome, "results": results(tmp_path, "b", 700.0)}}
    )
    assert again["standings"][1]["why"] == "No point counts: c64-i512-o128-n640 was not measured."


def play(run_module: RunModule, folder: Path, rates: dict[str, float]) -> dict[str, t.Any]:
    """Until nothing is left to do; without a rate a candidate does not start."""
    answer = run_module("bench_tournament", declaration(folder))
    while answer["todo"]:
        for step in answer["todo"]:
            name = step["candidate"]
            outcome = {
                "candidate": name,
                "reason": "It died.",
                "cause": {"id": "engine-died", "line": "L", "remedy": "R"},
            }
            if name in rates:
                outcome = {"candidate": name, "results": results(folder, f"{name}-{step['session']}", rates[name])}
            noted = run_module("bench_tournament", {"state_file": answer["state_file"], "outcome": outcome})
            assert noted["changed"] is True
        answer = run_module(
            "bench_tournament", {"state_file": answer["state_file"], "base": declaration(folder)["base"]}
        )
    return answer


def test_the_winner_is_returned_with_its_settings(run_module: RunModule, tmp_path: Path) -> None:
    answer = play(run_module, tmp_path, {"tp8-ep": 1000.0, "tp4": 700.0})
    assert (answer["changed"], answer["verdict"]) == (False, "winner")
    assert (answer["winner"]["candidate"], answer["winner"]["args"]) == ("tp8-ep", {"seed": 1})
    assert [(place["candidate"], place["value"]) for place in answer["standings"]] == [
        ("tp8-ep", 1000.0),
        ("tp4", 700.0),
    ]
    assert answer["table"].splitlines()[0].endswith("tp8-ep wins of 2 candidates by throughput: 1,000 tok/s.")


def test_a_candidate_that_does_not_start_is_a_result(run_module: RunModule, tmp_path: Path) -> None:
    answer = play(run_module, tmp_path, {"tp4": 700.0})
    assert answer["winner"]["candidate"] == "tp4"
    assert answer["standings"][1]["outcome"] == "failed"
    assert "engine-died" in answer["standings"][1]["why"]


def test_begun_anew_it_forgets(run_module: RunModule, tmp_path: Path) -> None:
    play(run_module, tmp_path, {"tp8-ep": 1000.0, "tp4": 700.0})
    before = run_module("bench_tournament", declaration(tmp_path))
    first = begun(before)
    answer = run_module("bench_tournament", declaration(tmp_path, resume=False))
    assert (answer["changed"], len(answer["todo"])) == (True, 2)
    assert answer["state_file"] == before["state_file"]
    # Nor does a measurement of it take up what the earlier one has left.
    assert all(f"/{begun(answer)}/" in step["results_dir"] for step in answer["todo"])
    assert begun(answer) != first


def test_check_mode_says_what_is_next_and_writes_nothing(run_module: RunModule, tmp_path: Path) -> None:
    answer = run_module("bench_tournament", declaration(tmp_path), check=True)
    assert (answer["changed"], len(answer["todo"])) == (True, 2)
    assert list(tmp_path.iterdir()) == []


def test_secrets_of_the_base_are_not_kept(run_module: RunModule, tmp_path: Path) -> None:
    base = {"args": {"api-key": "s3cr3t-4711"}, "env": {"HF_TOKEN": "s3cr3t-4711"}}
    answer = run_module("bench_tournament", declaration(tmp_path, base=base))
    assert answer["todo"][0]["env"] == {"HF_TOKEN": "s3cr3t-4711"}
    assert "s3cr3t-4711" not in Path(answer["state_file"]).read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"objective": "single_stream", "concurrency": [8]}, "judged at concurrency 1"),
        ({"candidates": ["tp4", "tp4"]}, "is there twice"),
        ({"layouts": []}, "There is no candidate"),
        ({"outcome": {"candidate": "tp4"}}, "mutually exclusive"),
        ({"dir": None}, "one of the following is required"),
    ],
)
def test_bad_declarations_are_refused(
    run_module: RunModule, tmp_path: Path, changes: dict[str, t.Any], words: str
) -> None:
    params = {key: value for key, value in declaration(tmp_path, **changes).items() if value is not None}
    result = run_module("bench_tournament", params)
    assert result["failed"] is True
    assert words in result["msg"]


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is no tournament"), ('{"kind": "tournament", "schema_version": 9}', "9")]
)
def test_files_that_are_no_tournament_are_refused(run_module: RunModule, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "tournament.json").write_text(text)
    outcome = {"candidate": "tp4", "reason": "m"}
    result = run_module("bench_tournament", {"state_file": str(tmp_path / "tournament.json"), "outcome": outcome})
    assert result["failed"] is True
    assert words in result["msg"]


def test_bench_report_writes_the_report_of_a_tournament(run_module: RunModule, tmp_path: Path) -> None:
    state_file = play(run_module, tmp_path, {"tp8-ep": 1000.0, "tp4": 700.0})["state_file"]
    formats = ["html", "md", "txt", "csv"]
    result = run_module("bench_report", {"results": state_file, "dest": str(tmp_path / "out"), "formats": formats})
    assert (result["verdict"], result["comparison"]) == ("winner", [])
    assert result["reasons"][0] == "tp8-ep: The best."
    assert (tmp_path / "out" / "report.md").read_text().startswith("# Tournament of minimax-m2.5")
    assert (tmp_path / "out" / "report.csv").read_text().splitlines()[1].startswith("tp8-ep,")
    again = run_module("bench_report", {"results": state_file, "dest": str(tmp_path / "out"), "formats": formats})
    assert again["changed"] is False
    compared = run_module("bench_report", {"results": state_file, "baseline": results(tmp_path, "b", 1.0)})
    assert compared["failed"] is True
    assert "is a tournament, which is not compared with a baseline" in compared["msg"]


def test_energy_is_no_objective_of_a_node_without_gpus(run_module: RunModule, tmp_path: Path) -> None:
    given = declaration(tmp_path, objective="tokens_per_joule", energy=False)
    answer = run_module("bench_tournament", given)
    assert answer["msg"].startswith("The objective tokens_per_joule needs the energy of the node's GPUs")
    assert list(tmp_path.iterdir()) == []
    assert run_module("bench_tournament", {**given, "energy": True})["verdict"] == "open"

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who takes part in a tournament."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench.candidates import Candidate, applied, choose
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError


def layout(name: str, gpus: int = 8, *, valid: bool = True, replicas: int = 1, pp: int = 1) -> dict[str, t.Any]:
    why = {"severity": "error", "message": "1536 / 8 = 192 is no multiple of 128."}
    findings = [] if valid else [why, {"severity": "info", "message": "not this one"}]
    return {
        "id": name,
        "gpus": gpus,
        "idle_gpus": 8 - gpus,
        "pp": pp,
        "replicas": replicas,
        "valid": valid,
        "findings": findings,
    }


PLANNED = [
    layout("tp8", valid=False),
    layout("tp8-ep"),
    layout("tp4", 4),
    layout("tp4-r2", replicas=2),
    layout("tp4-pp2", pp=2),
    layout("tp4-dp2-ep"),
]


def test_the_planner_gives_the_preferred_first_and_pipelines_last() -> None:
    field = choose([], PLANNED, preferred=["tp4", "nowhere"], limit=3)
    assert [(c.id, c.gpus) for c in field.candidates] == [("tp4", 4), ("tp8-ep", 8), ("tp4-dp2-ep", 8)]
    assert {e.id: e.reason for e in field.excluded} == {
        "tp4-pp2": "valid, but not among the first 3: list it as a candidate to try it",
        "tp8": "1536 / 8 = 192 is no multiple of 128.",
        "tp4-r2": "several replicas: one engine is measured, replicas add up behind a router",
    }


def test_given_candidates_are_taken_in_their_order_and_refused_as_the_planner_says() -> None:
    field = choose(["tp4", {"layout": "tp8-ep", "env": {"A": 1}}, "tp8", "tp1-r8", "tp2"], PLANNED)
    assert [(c.id, c.gpus) for c in field.candidates] == [("tp4", 4), ("tp8-ep A=1", 8), ("tp2", None)]
    assert [e.id for e in field.excluded] == ["tp8", "tp1-r8"]


def test_axes_are_combined_and_null_is_the_setting_as_it_is() -> None:
    axes = {"args": {"kv-cache-dtype": [None, "fp8"]}, "env": {"NCCL_P2P_DISABLE": [None, 1]}}
    field = choose(["tp4"], PLANNED, axes=axes)
    assert [c.id for c in field.candidates] == [
        "tp4",
        "tp4 NCCL_P2P_DISABLE=1",
        "tp4 kv-cache-dtype=fp8",
        "tp4 NCCL_P2P_DISABLE=1 kv-cache-dtype=fp8",
    ]
    assert field.candidates[1].env == {"NCCL_P2P_DISABLE": "1"}


@pytest.mark.parametrize(
    ("given", "axes", "words"),
    [
        ([{"args": {}}], {}, "is no candidate"),
        ([{"layout": "tp4", "tp": 4}], {}, "is no candidate"),
        ([4], {}, "4 is no candidate"),
        (["tp4", {"layout": "tp4"}], {}, "The candidate tp4 is there twice."),
        (["tp8"], {}, "There is no candidate: tp8: 1536 / 8 = 192"),
        (["tp4"], {"flags": {}}, "axes has flags"),
        (["tp4"], {"env": {"A": "1"}}, "axes.env.A is '1'"),
        (["tp4"], {"args": {"a": []}}, "axes.args.a is []"),
        (["tp4"], {"args": {"a": [1, 1]}}, "is there twice"),
    ],
)
def test_what_is_no_candidate_is_refused_with_its_value(given: list[t.Any], axes: dict[str, t.Any], words: str) -> None:
    with pytest.raises(ModelopsError) as error:
        choose(given, PLANNED, axes=axes)
    assert words in str(error.value)


def test_without_any_layout_there_is_no_tournament() -> None:
    with pytest.raises(ModelopsError, match="There is no candidate: no layout"):
        choose([], [])


def test_a_folder_is_named_without_anything_that_a_shell_or_a_path_minds() -> None:
    assert Candidate("tp8-ep").folder == "tp8-ep"
    folder = Candidate("tp2-ep", {"compilation-config": {"mode": 3}}, {"BIND": "0|1", "P": "../x y"}).folder
    assert re.fullmatch(r"tp2-ep-BIND=0-1-P=..-x-y-compilation-config=-mode-3--[0-9a-f]{6}", folder)
    assert Candidate("tp4", env={"A": "1|2"}).folder != Candidate("tp4", env={"A": "1&2"}).folder


def test_fewer_gpus_then_fewer_settings_then_fewer_kinds_of_parallelism_are_simpler() -> None:
    ordered = [
        Candidate("tp4", gpus=4),
        Candidate("tp4", env={"A": "1"}, gpus=4),
        Candidate("tp8", gpus=8),
        Candidate("tp8-ep", gpus=8),
        Candidate("tp4-dp2-ep", gpus=8),
        Candidate("tp8", {"a": 1}, gpus=8),
    ]
    shuffled = [ordered[place] for place in (5, 2, 0, 4, 3, 1)]
    assert sorted(shuffled, key=Candidate.simplicity) == ordered


def test_an_unknown_number_of_gpus_is_that_of_the_ranks() -> None:
    counted = {name: Candidate(name).simplicity()[0] for name in ("tp4-pp2-dp2-ep", "tp8-ep", "dp8-ep", "tp4-dcp2")}
    assert counted == {"tp4-pp2-dp2-ep": 16, "tp8-ep": 8, "dp8-ep": 8, "tp4-dcp2": 4}


def test_its_settings_are_added_to_those_of_the_user_as_the_role_takes_them() -> None:
    base = {
        "args": {"seed": 1, "moe-backend": "auto"},
        "env": {"A": "1"},
        "max_num_seqs": "64",
        "kv_cache_dtype": None,
    }
    candidate = Candidate("tp4", {"kv-cache-dtype": "fp8", "moe-backend": "triton"}, {"B": "2"})
    assert applied(candidate, base) == {
        "layout": "tp4",
        "args": {"seed": 1, "moe-backend": "triton"},
        "env": {"A": "1", "B": "2"},
        "kv_cache_dtype": "fp8",
        "max_num_seqs": "64",
        "max_model_len": "",
        "gpu_memory_utilization": "",
    }
    assert base["args"] == {"seed": 1, "moe-backend": "auto"}


@pytest.mark.parametrize(
    ("given", "axes", "name"),
    [
        ({"layout": "tp2", "env": {"HF_TOKEN": "hf_abcdef"}}, {}, "HF_TOKEN"),
        ({"layout": "tp2", "args": {"api-key": "hf_abcdef"}}, {}, "api-key"),
        ({"layout": "tp2", "env": {"EXTRA": "--api-key hf_abcdef"}}, {}, "EXTRA"),
        ("tp2", {"env": {"OPENAI_KEY": ["hf_abcdef", None]}}, "OPENAI_KEY"),
    ],
)
def test_a_secret_is_no_difference_between_candidates(given: t.Any, axes: dict[str, t.Any], name: str) -> None:
    with pytest.raises(ModelopsError, match=f"^Candidates differ in {name}, whose value is a secret") as found:
        choose([given], PLANNED, axes=axes)
    assert "abcdef" not in str(found.value)


def test_what_is_no_candidate_is_shown_without_its_secrets() -> None:
    with pytest.raises(ModelopsError, match="is no candidate") as found:
        choose([{"env": {"HF_TOKEN": "hf_abcdef"}}], PLANNED)
    assert "abcdef" not in str(found.value)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known about instances, put together and judged."""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import prometheus
from ansible_collections.modelops.vllm.plugins.module_utils._serve import status
from ansible_collections.modelops.vllm.plugins.module_utils._serve.journal import Entry
from ansible_collections.modelops.vllm.plugins.module_utils._serve.status import Answers, Known, UnitFacts

ROOT = Path(__file__).parents[5]

# Printed by systemd 252 for a unit that runs, one that Quadlet made, and one that is not there.
SHOW = """\
Id=vllm-main.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success
NRestarts=2
MainPID=4711
UnitFileState=enabled
WantedBy=multi-user.target
ActiveEnterTimestampMonotonic=5000000
StateChangeTimestampMonotonic=5000000

Id=vllm-box.service
LoadState=loaded
ActiveState=activating
SubState=auto-restart
Result=exit-code
NRestarts=1
MainPID=0
UnitFileState=generated
WantedBy=
ActiveEnterTimestampMonotonic=4000000
StateChangeTimestampMonotonic=6000000

Id=vllm-gone.service
LoadState=not-found
ActiveState=inactive
SubState=dead
Result=success
NRestarts=0
MainPID=0
UnitFileState=
WantedBy=
ActiveEnterTimestampMonotonic=0
StateChangeTimestampMonotonic=0
"""
ACTIVE = UnitFacts("loaded", "active", "running", "success", 0, 4711, True, 5_000_000, 5_000_000)
FACTS = {"model": "m", "devices": ["0", "1"]}
MAIN = Known("main", "vllm-main.service", "main", "engine", FACTS, "r2", "r2", "http://127.0.0.1:8000")
SERVING = Answers(health=200, served_names=("m",))


def sample(tokens: float, prompt: float = 0, start: float = 1.0, **gauges: float) -> prometheus.Sample:
    return prometheus.Sample(generation_tokens=tokens, prompt_tokens=prompt, start_time=start, **gauges)


def row(known: Known = MAIN, unit: UnitFacts = ACTIVE, answers: Answers | None = SERVING, **more: t.Any) -> dict:
    return {**status.describe(known, unit, answers, None, now_us=65_000_000, now=1_000_065.5), **more}


def ids(findings: t.Iterable[t.Any]) -> list[str]:
    return [f.id for f in findings]


# ------------------------------------------------------------------------------------------------------ systemd


def test_units_are_told_apart_by_their_ids() -> None:
    units = status.parse_units(SHOW)
    assert units["vllm-main.service"] == replace(ACTIVE, restarts=2)
    assert units["vllm-box.service"].sub == "auto-restart"
    assert units["vllm-gone.service"] == UnitFacts(result="success")


@pytest.mark.parametrize(
    ("state", "wanted_by", "enabled"),
    [
        ("enabled", "multi-user.target", True),
        ("enabled-runtime", "", True),
        ("disabled", "", False),
        ("static", "", False),
        ("generated", "multi-user.target default.target", True),
        ("generated", "", False),
        ("", "", None),
    ],
)
def test_what_starts_at_boot(state: str, wanted_by: str, enabled: bool | None) -> None:
    text = f"Id=a.service\nUnitFileState={state}\nWantedBy={wanted_by}\n"
    assert status.parse_units(text)["a.service"].enabled is enabled


@pytest.mark.parametrize(
    ("unit", "answers", "word"),
    [
        (ACTIVE, SERVING, "serving"),
        (ACTIVE, Answers(health=503), "unhealthy"),
        (ACTIVE, Answers(), "starting"),
        (ACTIVE, None, "running"),
        (UnitFacts("loaded", "activating", "auto-restart"), None, "restarting"),
        (UnitFacts("loaded", "activating", "start"), None, "starting"),
        (UnitFacts("loaded", "deactivating", "stop-sigterm"), None, "stopping"),
        (UnitFacts("loaded", "failed", "failed"), None, "failed"),
        (UnitFacts("loaded", "inactive", "dead"), None, "stopped"),
        (UnitFacts(), None, "missing"),
    ],
)
def test_one_word_for_the_state(unit: UnitFacts, answers: Answers | None, word: str) -> None:
    assert status.state_of(unit, answers) == word


def test_times_are_those_of_the_clock_on_the_wall() -> None:
    up = row()
    assert (up["since"], up["uptime_seconds"]) == (1_000_005, 60)
    failed = row(unit=UnitFacts("loaded", "failed", "failed", active_since_us=5_000_000, changed_us=45_000_000))
    assert (failed["since"], failed["uptime_seconds"]) == (1_000_045, None)
    assert row(unit=UnitFacts())["since"] is None


# ------------------------------------------------------------------------------------------------------ the args


def test_the_args_tell_what_a_release_without_a_record_is() -> None:
    text = (
        "# Written by the role modelops.vllm.serve: changes made here are lost.\n"
        'model: "/srv/models/m"\nserved-model-name: ["m", "alias"]\nhost: "127.0.0.1"\nport: 8000\n'
        "tensor-parallel-size: 4\ndata-parallel-size: 2\nenable-expert-parallel: true\n"
        'hf-overrides: "{\\"a\\": 1}"\nbroken: [\n'
    )
    flags = status.parse_args(text)
    assert flags["hf-overrides"] == '{"a": 1}'
    assert "broken" not in flags
    assert status.facts_of_args(flags) == {
        "model": "m",
        "model_dir": "/srv/models/m",
        "host": "127.0.0.1",
        "port": 8000,
        "layout": "tp4-dp2-ep",
    }


def test_args_changed_by_hand_do_no_harm() -> None:
    assert status.facts_of_args({"tensor-parallel-size": "8", "served-model-name": "m"})["layout"] == "tp8"
    assert status.facts_of_args({}) == {}


# ---------------------------------------------------------------------------------------------------- the figures


def test_rates_are_means_of_the_time_between_two_looks() -> None:
    first, second = sample(100, 1000), sample(350, 5000, running=3, waiting=1, kv_usage=0.25, preemptions=2)
    assert status.figures(Answers(200, "", (), first, second, 2.5)) == {
        "requests_running": 3,
        "requests_waiting": 1,
        "kv_cache_usage": 0.25,
        "preemptions": 2,
        "tokens_per_second": 100.0,
        "prompt_tokens_per_second": 1600.0,
    }


@pytest.mark.parametrize(
    "second",
    [sample(50), sample(500, start=2.0), None],
    ids=["counter went back", "another process", "no second look"],
)
def test_no_rate_when_the_counters_do_not_belong_together(second: prometheus.Sample | None) -> None:
    found = status.figures(Answers(200, "", (), sample(100, running=4), second, 2.0))
    assert (found["tokens_per_second"], found["prompt_tokens_per_second"]) == (None, None)
    assert found["requests_running"] == (None if second else 4)


def test_a_server_at_rest_has_a_rate_of_zero() -> None:
    assert status.figures(Answers(200, "", (), sample(7), sample(7), 2.0))["tokens_per_second"] == 0.0


def test_the_page_of_a_real_server(load_fixture: t.Callable[[str], str]) -> None:
    page = prometheus.parse(load_fixture("vllm_metrics.txt"))
    found = status.figures(Answers(200, "", (), page, page, 1.0))
    assert found == dict.fromkeys(found, 0)


# --------------------------------------------------------------------------------------------------------- memory


def process(pid: int, unit: str | None, gpu: int = 0, mib: int | None = 1000, **more: t.Any) -> dict[str, t.Any]:
    base = {"pid": pid, "unit": unit, "gpu_index": gpu, "used_memory_mib": mib, "kind": "C", "name": "python3"}
    return {**base, "owner": "root", **more}


def test_the_memory_of_a_unit_is_that_of_all_its_processes() -> None:
    held = [process(1, "vllm-main.service"), process(2, "vllm-main.service", 1, 500), process(3, "x.service")]
    assert status.vram_of("vllm-main.service", held) == 1500
    assert status.vram_of("vllm-none.service", held) == 0
    assert status.vram_of("vllm-main.service", [*held, process(4, "vllm-main.service", mib=None)]) is None
    assert row()["vram_mib"] is None  # no GPUs


def test_others_on_the_same_gpus_are_named_once() -> None:
    held = [
        process(1, "vllm-main.service"),
        process(20, "old-vllm.service", 0, 70000, name="VLLM::Worker"),
        process(21, "old-vllm.service", 1, 60000, name="VLLM::Worker"),
        process(30, None, 1, None, name="train.py", owner="kim"),
        process(40, None, 1, 90, kind="G", name="Xorg"),
        process(50, "other.service", 5),
        process(60, "vllm-second.service", 1),
    ]
    found = status.judge_gpus([row()], held, {"vllm-main.service", "vllm-second.service"})
    assert [(f.id, f.numbers["unit"], f.numbers["pids"], f.numbers["gpus"], f.numbers["vllm"]) for f in found] == [
        ("gpu-shared", "old-vllm.service", [20, 21], [0, 1], True),
        ("gpu-shared", None, [30], [1], False),
    ]
    assert "130000 MiB on GPU 0, 1, which main uses" in found[0].message
    assert "process 30 (train.py, owner kim) holds unknown MiB" in found[1].message


def test_gpus_without_a_list_are_those_that_the_instance_holds() -> None:
    known = replace(MAIN, release={"model": "m"})
    held = [process(1, "vllm-main.service", 3), process(2, "x.service", 3), process(4, "x.service", 4)]
    (found,) = status.judge_gpus([row(known)], held, {"vllm-main.service"})
    assert found.numbers["gpus"] == [3]


# ------------------------------------------------------------------------------------------------------- findings


def test_a_sound_instance_has_no_finding() -> None:
    assert status.judge(row(), "") == []
    assert row()["proven"] is True


def test_one_that_nobody_wants_may_be_stopped() -> None:
    assert status.judge(row(unit=UnitFacts("loaded", "inactive", "dead", enabled=False), answers=None), "") == []


@pytest.mark.parametrize("state", ["failed", "inactive"])
def test_one_that_is_wanted_and_down_is_an_error(state: str) -> None:
    (found,) = status.judge(row(unit=UnitFacts("loaded", state, state, enabled=True), answers=None), "")
    assert (found.id, found.severity) == ("instance-down", "error")
    assert f"vllm-main.service: {state}/{state}" in found.message


def test_an_engine_that_died_is_told_with_what_the_server_says() -> None:
    (found,) = status.judge(row(answers=Answers(health=503, detail="EngineDeadError")), "EngineDeadError")
    assert (found.id, found.numbers["status"]) == ("instance-unhealthy", 503)
    assert "EngineDeadError" in found.message


def test_restarts_a_missing_enablement_and_a_wrong_model_are_told() -> None:
    unit = replace(ACTIVE, restarts=3, enabled=False)
    found = status.judge(row(unit=unit, answers=Answers(200, served_names=("other",))), "")
    assert ids(found) == ["instance-not-enabled", "instance-restarted", "served-name"]
    assert found[1].numbers["restarts"] == 3
    assert "shall serve m and serves other" in found[2].message


@pytest.mark.parametrize(
    ("current", "good", "proven", "words"),
    [
        (
            "r2",
            "r1",
            False,
            "r2 of the instance main has never proven that it answers; the last good one is r1",
        ),
        (
            "r1",
            None,
            False,
            "r1 of the instance main has never proven that it answers; there is no last good one",
        ),
        (None, None, False, "What there is of the instance main has never proven that it answers"),
        (None, "last_good", True, ""),
        ("r1", "r1", True, ""),
    ],
)
def test_a_release_that_never_proved_itself(current: str | None, good: str | None, proven: bool, words: str) -> None:
    judged = row(replace(MAIN, current=current, last_good=good))
    found = status.judge(judged, "")
    assert judged["proven"] is proven
    assert ids(found) == ([] if proven else ["release-unproven"])
    assert not found or words in found[0].message


@pytest.mark.parametrize(
    ("phase", "busy", "expected"),
    [
        ("starting", False, "switch-unfinished"),
        ("going-back", False, "switch-unfinished"),
        ("proving", True, "switch-running"),
        ("done", False, ""),
        ("failed", False, "switch-unfinished"),
        ("gone-back", True, ""),
    ],
)
def test_a_switch_that_was_cut_off(phase: t.Any, busy: bool, expected: str) -> None:
    found = status.judge_switch(Entry("2026-11-30T01:02:03Z", {"main": "r3"}, {"main": "r2"}, phase), busy)
    assert ids(found) == ([expected] if expected else [])
    assert not found or "main to release r3" in found[0].message


def test_every_finding_is_documented() -> None:
    part = ROOT / "plugins" / "module_utils" / "_serve"
    source = "".join((part / name).read_text(encoding="utf-8") for name in ("status.py", "status_node.py"))
    found = set(re.findall(r"\b(?:error|warning|info)\(\s*\"([a-z-]+)\"", source))
    module = (ROOT / "plugins" / "modules" / "vllm_status_info.py").read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "docsite" / "rst" / "guide_operations.rst").read_text(encoding="utf-8")
    assert len(found) == 10
    assert [id_ for id_ in sorted(found) if f"V({id_})" not in module] == []
    assert [id_ for id_ in sorted(found) if f"``{id_}``" not in guide] == []


def test_without_a_journal_there_is_nothing_to_say() -> None:
    assert status.judge_switch(None, True) == []

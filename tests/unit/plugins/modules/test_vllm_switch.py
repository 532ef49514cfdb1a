# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module around the switch: what it is given, what it predicts, what it tells. systemd is simulated.

The switch itself is in test_switch.py, and on real systemd in molecule.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import render, switching
from ansible_collections.modelops.vllm.plugins.module_utils._serve.causes import Cause
from ansible_collections.modelops.vllm.plugins.module_utils._serve.journal import Entry, Journal
from ansible_collections.modelops.vllm.plugins.module_utils._serve.ready import Outcome
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release, Store
from ansible_collections.modelops.vllm.plugins.module_utils._serve.systemd import UnitState

KEY = "sk-very-secret-4711"
DEAD = UnitState("loaded", "inactive", "dead", "success", 0, "none", 0, "")
LIVE = UnitState("loaded", "active", "running", "success", 0, "none", 0, "")


class FakeNode(switching.Node):
    """Units that start and stop at once; releases whose args hold "broken" tell a secret and never answer."""

    states: t.ClassVar[dict[str, UnitState]] = {}
    boot: t.ClassVar[set[str]] = set()

    def state(self, unit: str) -> UnitState:
        return self.states.get(unit, DEAD)

    def enabled(self, unit: str) -> bool:
        return unit in self.boot

    def enable(self, unit: str) -> None:
        self.boot.add(unit)

    def disable(self, unit: str) -> None:
        self.boot.discard(unit)

    def forget(self, unit: str) -> None:
        pass

    def container_findings(self, release: Release) -> list[t.Any]:
        return []

    def arm(self, way_back: str) -> None:
        pass

    def disarm(self) -> None:
        pass

    def reload(self) -> None:
        pass

    def start(self, unit: str) -> str:
        self.states[unit] = LIVE
        return ""

    def ask_to_stop(self, unit: str) -> None:
        self.states[unit] = DEAD

    def signal(self, unit: str, name: str) -> None:
        pass

    def answers(self, release: Release) -> bool:
        return True

    def prove(self, release: Release, timeout: float, cancelled: t.Any, tell: t.Any) -> Outcome:
        if "broken" in release.read("args.yaml"):
            return Outcome(False, 1.0, Cause("bad", f"key {KEY} refused", "Look."), log_tail=[f"using {KEY}"])
        return Outcome(True, 2.5, engine={"kv_tokens": 100})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(switching, "Node", FakeNode)
    monkeypatch.setattr(FakeNode, "states", {})
    monkeypatch.setattr(FakeNode, "boot", set())
    monkeypatch.setattr(switching, "shared_path", lambda name: str(tmp_path / f"{name}.json"))
    return Store(str(tmp_path / "state"))


def stage(store: Store, tmp_path: Path, instance: str = "main", args: str = "a: 1\n", **facts: t.Any) -> str:
    files = [
        {"name": "unit.service", "dest": str(tmp_path / f"vllm-{instance}.service"), "mode": "0644"},
        {"name": "args.yaml", "dest": str(tmp_path / f"{instance}.yaml"), "mode": "0644"},
        {"name": "secrets.env", "dest": str(tmp_path / f"{instance}.env"), "mode": "0600"},
    ]
    contents = {
        "unit.service": "[Unit]\n",
        "args.yaml": args,
        "secrets.env": render.env_file({"VLLM_API_KEY": KEY}),
    }
    base = {"instance": instance, "unit": f"vllm-{instance}.service", "files": files, "question": {}}
    release, _new = store.stage(contents, {**base, **facts}, f"2026-11-30T10:00:{len(store.releases(instance)):02d}Z")
    return release.id


def call(run_module: t.Any, store: Store, *instances: tuple[str, str], **options: t.Any) -> t.Any:
    check = options.pop("check", False)
    rows = [{"instance": name, "release": release} for name, release in instances]
    return run_module("vllm_switch", {"state_dir": store.state_dir, "instances": rows, **options}, check=check)


def test_a_release_serves(run_module: t.Any, store: Store, tmp_path: Path) -> None:
    a = stage(store, tmp_path, model="m", layout="tp8", port=8000, plan={"kv_tokens": 1000})
    result = call(run_module, store, ("main", a))
    assert (result["changed"], result["ready"], result["cause"]) == (True, True, None)
    (row,) = result["instances"]
    assert (row["release"], row["unit"], row["model"], row["layout"]) == (a, "vllm-main.service", "m", "tp8")
    assert (row["engine"], row["seconds"]) == ({"kv_tokens": 100}, 2.5)
    assert [f["id"] for f in result["findings"]] == ["plan-kv-tokens-differ"]
    assert call(run_module, store, ("main", a))["changed"] is False


def test_a_failure_tells_both_stories_and_no_secret(run_module: t.Any, store: Store, tmp_path: Path) -> None:
    a, b = stage(store, tmp_path), stage(store, tmp_path, args="broken: 1\n")
    call(run_module, store, ("main", a))
    result = call(run_module, store, ("main", b))
    assert result["failed"]
    story = (
        rf"The last good release serves again after \d+\.\d s without service: vllm-main\.service with release {a}\."
    )
    assert re.search(story, result["msg"])
    assert "The new release failed [bad]: key ******** refused\nLook." in result["msg"]
    assert result["log_tail"] == ["using ********"]
    assert result["rollback"]["serves"][0]["release"] == a
    assert (result["ready"], result["rollback"]["nothing_serves"]) == (False, False)
    assert KEY not in json.dumps(result)


def test_a_first_failure_says_that_there_is_nothing_to_go_back_to(
    run_module: t.Any, store: Store, tmp_path: Path
) -> None:
    result = call(run_module, store, ("main", stage(store, tmp_path, args="broken: 1\n")))
    assert "vllm-main.service is stopped and not enabled: there is no earlier release to go back to." in result["msg"]


def test_check_mode_predicts(run_module: t.Any, store: Store, tmp_path: Path) -> None:
    a = stage(store, tmp_path)
    assert call(run_module, store, ("main", ""), check=True)["changed"] is True
    assert call(run_module, store, ("main", a), check=True)["changed"] is True
    call(run_module, store, ("main", a))
    result = call(run_module, store, ("main", a), check=True)
    assert (result["changed"], result["ready"]) == (False, None)
    assert call(run_module, store, ("main", ""), state="stopped", check=True)["changed"] is True
    assert FakeNode.states == {"vllm-main.service": LIVE}


def test_stop_means_all_instances_of_a_service(run_module: t.Any, store: Store, tmp_path: Path) -> None:
    releases = [(name, stage(store, tmp_path, name, service="main")) for name in ("main-r0", "main-r1")]
    call(run_module, store, *releases)
    result = call(run_module, store, ("main", ""), state="stopped")
    assert result["changed"]
    assert [row["instance"] for row in result["instances"]] == ["main-r0", "main-r1"]
    assert set(FakeNode.states.values()) == {DEAD}
    assert FakeNode.boot == set()
    assert call(run_module, store, ("main", ""), state="stopped")["changed"] is False


def test_rollback_goes_back_to_what_served_before_the_last_switch(
    run_module: t.Any, store: Store, tmp_path: Path
) -> None:
    one = stage(store, tmp_path, service="main")
    call(run_module, store, ("main", one))
    two = [(name, stage(store, tmp_path, name, service="main")) for name in ("main-r0", "main-r1")]
    call(run_module, store, *two)
    result = call(run_module, store, ("main", ""), state="rolled_back")
    assert [(row["instance"], row["release"]) for row in result["instances"]] == [("main", one)]
    assert {unit for unit, state in FakeNode.states.items() if state == LIVE} == {"vllm-main.service"}
    # And forward again.
    result = call(run_module, store, ("main", ""), state="rolled_back")
    assert [(row["instance"], row["release"]) for row in result["instances"]] == two


@pytest.mark.parametrize("lost", ["switch.json", "last-main.json"])
def test_rollback_after_a_lost_journal_or_memory_takes_the_release_proven_before(
    run_module: t.Any, store: Store, tmp_path: Path, lost: str
) -> None:
    a, b = stage(store, tmp_path), stage(store, tmp_path, args="b: 1\n")
    call(run_module, store, ("main", a))
    call(run_module, store, ("main", b))
    Path(store.state_dir, lost).unlink()
    assert call(run_module, store, ("main", ""), state="rolled_back")["instances"][0]["release"] == a


def test_rollback_to_a_named_release(run_module: t.Any, store: Store, tmp_path: Path) -> None:
    a, b, c = (stage(store, tmp_path, args=f"n: {n}\n") for n in range(3))
    for release in (a, b, c):
        call(run_module, store, ("main", release))
    assert call(run_module, store, ("main", a), state="rolled_back")["instances"][0]["release"] == a


@pytest.fixture
def replicas(run_module: t.Any, store: Store, tmp_path: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Two sets of releases of the same two replicas, of which the second serves: [(instance, release)]"""
    names = ("main-r0", "main-r1")
    old, new = ([(n, stage(store, tmp_path, n, f"{args}: 1\n", service="main")) for n in names] for args in "ab")
    for together in (old, new):
        assert call(run_module, store, *together)["ready"]
    return old, new


@pytest.mark.parametrize("instances", [["main-r0"], ["main-r1"], ["main"], ["main-r0", "main-r1"]])
def test_replicas_go_back_together_whoever_is_named(
    run_module: t.Any, store: Store, replicas: t.Any, instances: list[str]
) -> None:
    old, _new = replicas
    result = call(run_module, store, *((name, "") for name in instances), state="rolled_back")
    assert [(row["instance"], row["release"]) for row in result["instances"]] == old
    assert (result["ready"], result["stopped"]) == (True, [])
    assert FakeNode.states == {"vllm-main-r0.service": LIVE, "vllm-main-r1.service": LIVE}


@pytest.mark.parametrize("instance", ["main", "main-r0", "main-r1"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_named_release_of_a_replica_brings_back_what_served_with_it(
    run_module: t.Any, store: Store, replicas: t.Any, instance: str, place: int
) -> None:
    old, _new = replicas
    result = call(run_module, store, (instance, old[place][1]), state="rolled_back")
    assert [(row["instance"], row["release"]) for row in result["instances"]] == old


def test_a_named_release_of_a_replica_that_no_set_holds_is_refused(
    run_module: t.Any, store: Store, tmp_path: Path, replicas: t.Any
) -> None:
    old, new = replicas
    third = [(name, stage(store, tmp_path, name, "c: 1\n", service="main")) for name, _release in old]
    assert call(run_module, store, *third)["ready"]
    before = dict(FakeNode.states)
    for instance in ("main", "main-r0"):
        message = call(run_module, store, (instance, old[0][1]), state="rolled_back")["msg"]
        ids = [", ".join(release for _name, release in rows) for rows in zip(old, new, third, strict=True)]
        assert f"main-r0: {ids[0]}; main-r1: {ids[1]}." in message
        assert f"served together: main-r0 {new[0][1]}, main-r1 {new[1][1]} or main-r0 {third[0][1]}, main-r1" in message
    assert FakeNode.states == before


def test_an_unknown_release_of_a_service_with_replicas_names_all_that_are_there(
    run_module: t.Any, store: Store, replicas: t.Any
) -> None:
    old, new = replicas
    message = call(run_module, store, ("main", "nope"), state="rolled_back")["msg"]
    ids = [f"{name}: {first}, {second}" for (name, first), (_name, second) in zip(old, new, strict=True)]
    assert f"The service main has no release 'nope' in {store.state_dir}; there are: {'; '.join(ids)}." in message


def test_the_only_instance_of_before_can_be_named_among_replicas(
    run_module: t.Any, store: Store, tmp_path: Path
) -> None:
    one = stage(store, tmp_path)
    call(run_module, store, ("main", one))
    for args in "ab":
        call(run_module, store, *((n, stage(store, tmp_path, n, args, service="main")) for n in ("main-r0", "main-r1")))
    result = call(run_module, store, ("main-r0", one), state="rolled_back")
    assert [(row["instance"], row["release"]) for row in result["instances"]] == [("main", one)]
    assert {unit for unit, state in FakeNode.states.items() if state == LIVE} == {"vllm-main.service"}


def test_replicas_of_which_nothing_is_remembered_do_not_go_back_one_by_one(
    run_module: t.Any, store: Store, replicas: t.Any
) -> None:
    Path(store.state_dir, "last-main.json").unlink()
    message = call(run_module, store, ("main-r0", ""), state="rolled_back")["msg"]
    assert "what the service main was before its last switch: it has the instances main-r0, main-r1." in message
    assert FakeNode.states == {"vllm-main-r0.service": LIVE, "vllm-main-r1.service": LIVE}


def test_rollback_without_an_earlier_release_is_refused(run_module: t.Any, store: Store, tmp_path: Path) -> None:
    call(run_module, store, ("main", stage(store, tmp_path)))
    result = call(run_module, store, ("main", ""), state="rolled_back")
    assert "no earlier release that has proven itself" in result["msg"]
    assert FakeNode.states == {"vllm-main.service": LIVE}


def test_a_switch_of_another_service_is_not_rolled_back(run_module: t.Any, store: Store, tmp_path: Path) -> None:
    a, b = stage(store, tmp_path), stage(store, tmp_path, args="b: 1\n")
    other = stage(store, tmp_path, "other")
    call(run_module, store, ("main", a))
    call(run_module, store, ("main", b))
    call(run_module, store, ("other", other))
    result = call(run_module, store, ("main", ""), state="rolled_back")
    assert [(row["instance"], row["release"]) for row in result["instances"]] == [("main", a)]


def test_what_a_cut_off_switch_had_stopped_comes_back(run_module: t.Any, store: Store, tmp_path: Path) -> None:
    a, b = stage(store, tmp_path), stage(store, tmp_path, args="broken: 1\n")
    call(run_module, store, ("main", a))
    FakeNode.states.clear()
    Journal(store.state_dir).write(Entry("2026-11-30T10:00:00Z", {"main": b}, {"main": a}, "starting"))
    result = call(run_module, store, ("main", b))
    assert result["rollback"]["serves"][0]["release"] == a
    assert FakeNode.states == {"vllm-main.service": LIVE}


@pytest.mark.parametrize("release", ["nope", "../x"])
def test_an_unknown_release_is_refused(run_module: t.Any, store: Store, tmp_path: Path, release: str) -> None:
    known = stage(store, tmp_path)
    assert f"there are: {known}" in call(run_module, store, ("main", release))["msg"]

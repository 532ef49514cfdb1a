# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The switch: what serves afterwards, whatever fails at whatever moment. The node is simulated, releases are real."""

from __future__ import annotations

import contextlib
import errno
import shlex
import subprocess
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._findings import Finding, error
from ansible_collections.modelops.vllm.plugins.module_utils._serve import render, situation
from ansible_collections.modelops.vllm.plugins.module_utils._serve.causes import Cause
from ansible_collections.modelops.vllm.plugins.module_utils._serve.journal import Journal
from ansible_collections.modelops.vllm.plugins.module_utils._serve.placing import installed
from ansible_collections.modelops.vllm.plugins.module_utils._serve.ready import Outcome
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release, Store
from ansible_collections.modelops.vllm.plugins.module_utils._serve.steps import Limits, SwitchError
from ansible_collections.modelops.vllm.plugins.module_utils._serve.switch import Switch
from ansible_collections.modelops.vllm.plugins.module_utils._serve.systemd import UnitState

DEAD = UnitState("loaded", "inactive", "dead", "success", 0, "none", 0, "")
LIVE = replace(DEAD, active="active", sub="running")
OOM = Cause("gpu-out-of-memory", "CUDA out of memory", "Use less.")


class Killed(BaseException):
    """The process of the switch is gone."""


class FakeNode:
    """A node whose units start at once. ``broken`` are ids of releases that never answer."""

    def __init__(self, store: Store) -> None:
        self.time = 0.0
        self.store = store
        self.states: dict[str, UnitState] = {}
        self.boot: set[str] = set()
        self.broken: set[str] = set()
        self.deaf: set[str] = set()  # units that swallow SIGTERM, as a vLLM that loads does
        self.stuck: set[str] = set()  # units that nothing stops
        self.findings: list[Finding] = []
        self.held: list[str] = []  # what keeps the GPUs
        self.log: list[str] = []
        self.die_at = -1  # kill the switch at this event
        self.way_back = ""  # the unit that the next boot begins with

    def event(self, text: str) -> None:
        if len(self.log) == self.die_at:
            raise Killed(text)
        self.log.append(text)

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def date(self) -> str:
        return f"2026-11-30T10:00:{int(self.time):05d}Z"

    def state(self, unit: str) -> UnitState:
        return self.states.get(unit, DEAD)

    def runs(self, unit: str) -> bool:
        return self.state(unit).active != "inactive"

    def enabled(self, unit: str) -> bool:
        return unit in self.boot

    def enable(self, unit: str) -> None:
        self.event(f"enable {unit}")
        self.boot.add(unit)

    def disable(self, unit: str) -> None:
        self.event(f"disable {unit}")
        self.boot.discard(unit)

    def forget(self, unit: str) -> None:
        pass

    def container_findings(self, release: Release) -> list[Finding]:
        return []

    def arm(self, way_back: str) -> None:
        self.way_back = way_back

    def disarm(self) -> None:
        self.way_back = ""

    def boot_again(self) -> None:
        """After a power cut: the way back, where there is one, and then what is enabled."""
        started = set(self.boot)
        for line in self.way_back.splitlines():
            argv = shlex.split(line.removeprefix("ExecStart=-")) if line.startswith("ExecStart=-") else []
            if argv[:1] == ["/bin/systemctl"]:
                started |= {argv[-1]} if argv[-2] == "start" else set()
                started -= {argv[-1]} if argv[-2] == "stop" else set()
                self.boot -= {argv[-1]} if argv[-2] == "disable" else set()
            elif argv and "/etc/systemd/system/" not in argv[-1]:  # not that of the machine that tests
                subprocess.run(argv, check=True)
        self.states = dict.fromkeys(started, LIVE)

    def reload(self) -> None:
        self.event("reload")

    def start(self, unit: str) -> str:
        self.event(f"start {unit}")
        self.states[unit] = LIVE
        self.time += 10
        return ""

    def ask_to_stop(self, unit: str) -> None:
        self.event(f"stop {unit}")
        if unit not in self.deaf | self.stuck:
            self.states[unit] = DEAD

    def signal(self, unit: str, name: str) -> None:
        self.event(f"{name} {unit}")
        if name == "SIGKILL" and unit not in self.stuck:
            self.states[unit] = DEAD

    def disk_findings(self, state_dir: str) -> list[Finding]:
        return []

    def port_findings(self, release: Release, ours: t.Collection[str]) -> list[Finding]:
        return list(self.findings)

    def gpu_findings(self, releases: t.Sequence[Release], ours: t.Collection[str]) -> list[Finding]:
        return []

    def gpu_holders(self, releases: t.Sequence[Release], ours: t.Collection[str], *, room: bool) -> list[str]:
        return list(self.held)

    def answers(self, release: Release) -> bool:
        return self.serves(release)

    def serves(self, release: Release) -> bool:
        current = self.store.linked(release.instance, "current")
        return self.state(release.unit) == LIVE and current is not None and current.id not in self.broken

    def prove(self, release: Release, timeout: float, cancelled: t.Callable[[], bool], tell: t.Any) -> Outcome:
        self.event(f"prove {release.unit}")
        assert installed(release)
        if self.serves(release):
            return Outcome(True, 10.0, engine={"kv_tokens": 7})
        return Outcome(False, 3.0, OOM, log_tail=["last words"])


class World:
    """A node with its releases."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = Store(str(root / "state"))
        self.node = FakeNode(self.store)
        self.count = 0

    def release(self, instance: str = "main", name: str = "a", **facts: t.Any) -> Release:
        return self.stage("unit.service", f"[Unit]\nDescription={name}\n", instance, **facts)

    def container(self, image: str) -> Release:
        return self.stage("unit.container", f"[Container]\nImage={image}\n", "main")

    def stage(self, file: str, content: str, instance: str, **facts: t.Any) -> Release:
        self.count += 1
        place = str(self.root / f"vllm-{instance}{Path(file).suffix}")
        files = [{"name": file, "dest": place, "mode": "0644"}]
        base = {"instance": instance, "unit": f"vllm-{instance}.service", "files": files, "question": {}}
        text = {file: f"{render.HEADER}{content}"}
        release, _new = self.store.stage(text, {**base, **facts}, f"2026-11-30T10:00:{self.count:02d}Z")
        return release

    def switch(self, *targets: Release) -> Switch:
        work = Switch(t.cast("t.Any", self.node), self.store, Limits(600, 120, 60), lambda _line: None)
        work.run(targets)
        return work

    def fails(self, *targets: Release) -> tuple[Switch, SwitchError]:
        work = Switch(t.cast("t.Any", self.node), self.store, Limits(600, 120, 60), lambda _line: None)
        with pytest.raises(SwitchError) as caught:
            work.run(targets)
        return work, caught.value

    def serving(self) -> dict[str, str]:
        """unit -> release that answers"""
        found = {}
        for instance in self.store.instances():
            release = self.store.linked(instance, "current")
            if release is not None and self.node.serves(release):
                found[release.unit] = release.id
        return found

    def phase(self) -> str:
        entry = Journal(self.store.state_dir).read()
        assert entry is not None
        return entry.phase


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "state").mkdir()
    return World(tmp_path)


def test_a_first_release_serves_and_starts_at_boot(world: World) -> None:
    a = world.release()
    work = world.switch(a)
    assert work.report.changed
    assert work.report.silence is None  # nothing served before
    assert world.serving() == {"vllm-main.service": a.id}
    assert world.node.boot == {"vllm-main.service"}
    assert world.store.linked("main", "last_good") == a
    assert world.phase() == "done"


def test_a_second_run_asks_and_touches_nothing(world: World) -> None:
    a = world.release()
    world.switch(a)
    world.node.log.clear()
    assert not world.switch(a).report.changed
    assert world.node.log == ["prove vllm-main.service"]


def test_a_switch_says_how_long_nothing_served(world: World) -> None:
    world.switch(world.release(name="a"))
    b = world.release(name="b")
    work = world.switch(b)
    assert work.report.silence == 10
    assert world.serving() == {"vllm-main.service": b.id}


def test_a_broken_release_gives_the_node_back(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    world.node.broken = {b.id}
    work, failure = world.fails(b)
    assert failure.cause == OOM
    assert failure.log_tail == ["last words"]
    assert failure.nothing_serves == ""
    assert world.serving() == {"vllm-main.service": a.id}
    assert world.store.linked("main", "last_good") == a
    assert world.node.boot == {"vllm-main.service"}
    assert [r.id for r in work.report.back] == [a.id]
    assert world.phase() == "gone-back"


def test_a_first_release_that_is_broken_is_stopped_and_does_not_start_at_boot(world: World) -> None:
    a = world.release()
    world.node.broken = {a.id}
    work, failure = world.fails(a)
    assert (work.report.back, failure.nothing_serves) == ([], "")
    assert world.node.state("vllm-main.service") == DEAD
    assert world.node.boot == set()


def test_when_nothing_comes_back_it_is_said(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    world.node.broken = {a.id, b.id}
    _work, failure = world.fails(b)
    assert "[gpu-out-of-memory] CUDA out of memory" in failure.nothing_serves
    assert world.phase() == "failed"


def test_after_nothing_came_back_the_next_run_still_can(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    world.node.broken = {a.id, b.id}
    world.fails(b)
    world.node.broken = {b.id}
    world.fails(b)
    assert world.serving() == {"vllm-main.service": a.id}


def cut(world: World, moment: int, *targets: Release) -> None:
    world.node.die_at = len(world.node.log) + moment
    with pytest.raises(Killed):
        world.switch(*targets)
    world.node.die_at = -1


def test_what_had_made_room_when_nothing_came_back_is_still_known(world: World) -> None:
    kimi = world.release("kimi", devices=["0"])
    world.switch(kimi)
    minimax = world.release("minimax", devices=["0"])
    world.node.broken = {kimi.id, minimax.id}
    world.fails(minimax)
    assert world.serving() == {}
    world.node.broken = {minimax.id}
    world.fails(minimax)
    assert world.serving() == {kimi.unit: kimi.id}


@pytest.mark.parametrize("broken", [False, True])
def test_a_cut_off_switch_of_other_gpus_is_settled_first(world: World, broken: bool) -> None:
    kimi = world.release("kimi", devices=["0"])
    world.switch(kimi)
    minimax = world.release("minimax", devices=["0"])
    cut(world, 4, minimax)  # kimi is stopped, minimax is started and never proven
    world.node.broken = {minimax.id} if broken else set()
    other = world.release("other", devices=["7"])
    world.switch(other)
    left = kimi if broken else minimax
    assert world.serving() == {left.unit: left.id, other.unit: other.id}
    assert world.node.boot == {left.unit, other.unit}


def test_a_cut_off_switch_that_cannot_be_settled_stops_another_one(world: World) -> None:
    kimi = world.release("kimi", devices=["0"])
    world.switch(kimi)
    minimax = world.release("minimax", devices=["0"])
    cut(world, 4, minimax)
    world.node.broken = {kimi.id, minimax.id}
    other = world.release("other", devices=["7"])
    with pytest.raises(ModelopsError, match=r"An earlier switch to vllm-minimax\.service was cut off"):
        world.switch(other)
    assert world.node.state(other.unit) == DEAD
    # And it is still known.
    world.node.broken = {minimax.id}
    world.switch(other)
    assert world.serving() == {kimi.unit: kimi.id, other.unit: other.id}


def test_an_error_before_the_stop_touches_nothing(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    world.node.findings = [error("port-taken", "127.0.0.1:8000 is taken by nginx (pid 812).", "Stop it yourself.")]
    world.node.log.clear()
    with pytest.raises(ModelopsError, match=r"Nothing was stopped.\n127.0.0.1:8000 is taken by nginx"):
        world.switch(b)
    assert world.node.log == []
    assert world.serving() == {"vllm-main.service": a.id}
    assert world.phase() == "done"


def test_the_instance_on_the_same_gpus_goes(world: World) -> None:
    kimi = world.release("kimi", devices=["0", "1"])
    other = world.release("other", devices=["6", "7"])
    world.switch(kimi)
    world.switch(other)
    minimax = world.release("minimax", devices=["1", "2"])
    work = world.switch(minimax)
    assert work.report.stopped == ["vllm-kimi.service"]
    assert world.serving() == {"vllm-minimax.service": minimax.id, "vllm-other.service": other.id}
    assert world.node.boot == {"vllm-minimax.service", "vllm-other.service"}


def test_what_had_to_go_comes_back_with_a_failure(world: World) -> None:
    kimi = world.release("kimi", devices=["0", "1"])
    world.switch(kimi)
    minimax = world.release("minimax", devices=["1", "2"])
    world.node.broken = {minimax.id}
    world.fails(minimax)
    assert world.serving() == {"vllm-kimi.service": kimi.id}
    assert world.node.boot == {"vllm-kimi.service"}
    assert world.node.state("vllm-minimax.service") == DEAD


def test_replicas_take_the_place_of_the_one_instance_and_back(world: World) -> None:
    one = world.release("main", service="main")
    world.switch(one)
    two = [world.release(f"main-r{n}", service="main") for n in (0, 1)]
    work = world.switch(*two)
    assert work.report.stopped == ["vllm-main.service"]
    assert world.serving() == {r.unit: r.id for r in two}
    assert world.switch(one).report.stopped == ["vllm-main-r0.service", "vllm-main-r1.service"]
    assert world.serving() == {one.unit: one.id}


def test_one_broken_replica_takes_all_back(world: World) -> None:
    one = world.release("main", service="main")
    world.switch(one)
    two = [world.release(f"main-r{n}", service="main") for n in (0, 1)]
    world.node.broken = {two[1].id}
    world.fails(*two)
    assert world.serving() == {one.unit: one.id}
    assert all(world.node.state(r.unit) == DEAD for r in two)


def test_replicas_that_do_not_change_go_on(world: World) -> None:
    two = [world.release(f"main-r{n}", service="main") for n in (0, 1)]
    world.switch(*two)
    world.node.log.clear()
    new = world.release("main-r1", name="b", service="main")
    world.switch(two[0], new)
    assert not any("main-r0" in line for line in world.node.log if line.startswith(("stop", "start")))
    assert world.serving() == {two[0].unit: two[0].id, new.unit: new.id}


def test_an_instance_that_swallows_sigterm_is_killed(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    world.node.broken = {a.id}  # it loads: it does not answer
    world.node.deaf = {"vllm-main.service"}
    world.switch(b)
    assert [x for x in world.node.log if x.startswith("SIG")] == [
        "SIGTERM vllm-main.service",
        "SIGKILL vllm-main.service",
    ]
    assert world.serving() == {"vllm-main.service": b.id}


def test_what_cannot_be_stopped_is_said_and_not_started_over(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    world.node.stuck = {"vllm-main.service"}
    _work, failure = world.fails(b)
    assert failure.cause.id == "stop-failed"
    assert "SIGKILL vllm-main.service" in world.node.log


@pytest.mark.case("B02")
def test_gpus_that_do_not_become_free_end_the_switch_with_who_holds_them(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    world.node.held = ["GPU 0: 10 MiB free of 90000 MiB needed, used by VLLM::Worker_TP0 (pid 21952, 13950 MiB)"]
    began = world.node.time
    work, failure = world.fails(b)
    assert failure.cause.id == "gpu-not-free"
    assert "pid 21952" in failure.cause.line
    # Starting what served before is still tried: vLLM has a check of its own.
    assert world.serving() == {"vllm-main.service": a.id}
    assert [f.id for f in work.report.findings] == ["gpu-not-free"]
    assert world.node.time - began > 120


def test_files_changed_by_hand_are_put_right(world: World) -> None:
    a = world.release()
    world.switch(a)
    (world.root / "vllm-main.service").write_text("[Unit]\nDescription=mine\n", encoding="utf-8")
    assert world.switch(a).report.changed
    assert installed(a)


def test_a_stopped_instance_is_started_again(world: World) -> None:
    a = world.release()
    world.switch(a)
    world.node.states.clear()
    assert world.switch(a).report.changed
    assert world.serving() == {"vllm-main.service": a.id}


def test_what_runs_and_does_not_answer_for_once_is_left_alone(world: World) -> None:
    a = world.release()
    world.switch(a)
    world.node.broken = {a.id}
    world.node.log.clear()
    with pytest.raises(ModelopsError, match=r"does not answer \[gpu-out-of-memory\].*Nothing was touched"):
        world.switch(a)
    assert world.node.log == ["prove vllm-main.service"]


def test_a_damaged_release_is_refused(world: World) -> None:
    a = world.release()
    Path(a.path, "unit.service").write_text("[Unit]\n", encoding="utf-8")
    with pytest.raises(ModelopsError, match="not those that were staged"):
        world.switch(a)
    assert world.node.log == []


def test_stop_disables_what_runs_and_keeps_its_releases(world: World) -> None:
    a = world.release()
    world.switch(a)
    work = Switch(t.cast("t.Any", world.node), world.store, Limits(600, 120, 60), lambda _line: None)
    work.stop([a])
    assert work.report.changed
    assert (world.node.boot, world.node.state(a.unit)) == (set(), DEAD)
    assert world.store.linked("main", "last_good") == a
    again = Switch(t.cast("t.Any", world.node), world.store, Limits(600, 120, 60), lambda _line: None)
    again.stop([a])
    assert not again.report.changed


def events_of_a_switch(root: Path) -> int:
    world = World(root)
    Path(world.store.state_dir).mkdir(parents=True)
    world.switch(world.release("kimi", devices=["0"]))
    before = len(world.node.log)
    world.switch(world.release("minimax", name="b", devices=["0"]))
    return len(world.node.log) - before


@pytest.mark.parametrize("broken", [False, True], ids=["good", "broken"])
def test_killed_at_any_moment_the_next_run_ends_with_a_model_that_serves(tmp_path: Path, broken: bool) -> None:
    count = events_of_a_switch(tmp_path / "dry")
    assert count > 5
    for moment in range(count + 4 * broken):
        root = tmp_path / str(moment)
        (root / "state").mkdir(parents=True)
        world = World(root)
        a, b = world.release("kimi", devices=["0"]), world.release("minimax", name="b", devices=["0"])
        world.switch(a)
        world.node.broken = {b.id} if broken else set()
        world.node.die_at = len(world.node.log) + moment
        with contextlib.suppress(Killed, SwitchError):
            world.switch(b)
        world.node.die_at = -1
        if broken:
            world.fails(b)
            assert world.serving() == {a.unit: a.id}, moment
            assert world.node.boot == {a.unit}, moment
        else:
            world.switch(b)
            assert world.serving() == {b.unit: b.id}, moment
            assert world.node.boot == {b.unit}, moment


@pytest.mark.parametrize("other", [False, True], ids=["same instance", "other instance"])
def test_a_node_that_loses_its_power_and_that_nobody_visits_serves_what_was_proven(tmp_path: Path, other: bool) -> None:
    count = events_of_a_switch(tmp_path / "dry")
    for moment in range(count + 4):
        root = tmp_path / str(moment)
        (root / "state").mkdir(parents=True)
        world = World(root)
        a = world.release("kimi", devices=["0"])
        world.switch(a)
        b = world.release("minimax" if other else "kimi", name="b", devices=["0"])
        world.node.broken = {b.id}
        world.node.die_at = len(world.node.log) + moment
        with contextlib.suppress(Killed, SwitchError):
            world.switch(b)
        world.node.die_at = -1
        world.node.boot_again()
        assert world.serving() == {a.unit: a.id}, moment
        assert installed(a), moment
        # And whoever comes then finds the switch that was cut off, and settles it.
        world.fails(b)
        assert world.serving() == {a.unit: a.id}, moment
        assert (world.phase(), world.node.way_back) == ("gone-back", ""), moment


def test_a_node_that_loses_its_power_never_starts_both(tmp_path: Path) -> None:
    """From the proof to the end of the switch both may be enabled, or neither."""
    for moment in range(events_of_a_switch(tmp_path / "dry") + 4):
        root = tmp_path / str(moment)
        (root / "state").mkdir(parents=True)
        world = World(root)
        a = world.release("kimi", devices=["0"])
        world.switch(a)
        b = world.release("minimax", name="b", devices=["0"])
        world.node.die_at = len(world.node.log) + moment
        with contextlib.suppress(Killed):
            world.switch(b)
        world.node.die_at = -1
        ended = world.phase() == "done" and world.store.linked("minimax", "last_good") == b
        for _boot in range(2):
            world.node.boot_again()
            assert set(world.node.states) == {b.unit if ended else a.unit}, moment
        world.switch(b)
        assert world.serving() == {b.unit: b.id}, moment
        assert world.node.boot == {b.unit}, moment


def test_the_way_back_ends_with_the_switch(world: World) -> None:
    a, b, c = (world.release(name=name) for name in "abc")
    world.switch(a)
    world.switch(b)
    assert world.node.way_back == ""
    world.node.broken = {a.id, b.id, c.id}
    world.fails(c)
    # Nothing serves: a reboot may be all that the node needs.
    assert b.path in world.node.way_back
    assert c.path not in world.node.way_back
    world.node.broken = {c.id}
    world.node.boot_again()
    assert world.serving() == {b.unit: b.id}


def test_what_was_stopped_on_purpose_does_not_come_back_at_the_boot(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    cut(world, 2, b)
    assert a.path in world.node.way_back
    Switch(t.cast("t.Any", world.node), world.store, Limits(600, 120, 60), lambda _line: None).stop([a])
    world.node.boot_again()
    assert world.serving() == {}


def test_a_cut_off_switch_to_the_same_release_goes_on_loading(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    world.node.die_at = len(world.node.log) + 3  # stop, reload, start happened
    with pytest.raises(Killed):
        world.switch(b)
    world.node.die_at = -1
    world.node.log.clear()
    world.switch(b)
    assert not any(x.startswith(("stop", "start")) for x in world.node.log)
    assert world.store.linked("main", "last_good") == b


# What a review found, each with the moment at which it hurt.


def full_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_args: t.Any) -> t.NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "write", no_space)
    monkeypatch.setattr(world.store, "mark_proven", no_space)


def test_a_disk_that_a_release_has_filled_does_not_block_the_way_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    world.node.broken = {b.id}
    prove = world.node.prove

    def fill(release: Release, *args: t.Any) -> Outcome:
        if release.id == b.id:
            full_disk(world, monkeypatch)
        return prove(release, *args)

    monkeypatch.setattr(world.node, "prove", fill)
    work, failure = world.fails(b)
    assert (failure.cause, failure.nothing_serves) == (OOM, "")
    assert world.serving() == {a.unit: a.id}
    assert [f.id for f in work.report.findings] == ["not-recorded"]


def test_a_release_that_answers_is_not_stopped_for_a_full_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    prove = world.node.prove

    def fill(release: Release, *args: t.Any) -> Outcome:
        full_disk(world, monkeypatch)
        return prove(release, *args)

    monkeypatch.setattr(world.node, "prove", fill)
    work = world.switch(b)
    assert [f.id for f in work.report.findings] == ["not-recorded"]
    assert world.serving() == {b.unit: b.id}


def test_whatever_goes_wrong_the_old_release_comes_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    start = world.node.start

    def odd(unit: str) -> str:
        monkeypatch.setattr(world.node, "start", start)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(world.node, "start", odd)
    _work, failure = world.fails(b)
    assert failure.cause.line == "RuntimeError: can't start new thread"
    assert world.serving() == {a.unit: a.id}


def test_a_unit_of_our_name_that_somebody_else_made_is_never_touched(world: World) -> None:
    theirs = world.root / "vllm-main.service"
    theirs.write_text("[Service]\nExecStart=/opt/mine\n", encoding="utf-8")
    world.node.states["vllm-main.service"] = LIVE
    with pytest.raises(ModelopsError, match=r"Nothing was stopped.\nvllm-main.service is not known"):
        world.switch(world.release())
    assert world.node.log == []
    assert theirs.read_text(encoding="utf-8") == "[Service]\nExecStart=/opt/mine\n"


def test_a_damaged_way_back_is_mended_from_the_files_in_place(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    Path(a.path, "unit.service").unlink()
    world.node.broken = {b.id}
    world.fails(b)
    assert world.serving() == {a.unit: a.id}
    assert a.intact()


def test_a_way_back_that_is_lost_is_known_before_the_stop(world: World) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)
    Path(a.path, "unit.service").unlink()
    (world.root / "vllm-main.service").write_text(f"{render.HEADER}changed\n", encoding="utf-8")
    world.node.log.clear()
    with pytest.raises(ModelopsError, match=r"Nothing was stopped\. .*is missing or changed"):
        world.switch(b)
    assert world.node.log == []


def test_weights_that_were_removed_are_noticed_before_the_stop(world: World, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}", encoding="utf-8")
    a, b = world.release(name="a"), world.release(name="b", model_dir=str(model))
    world.switch(b)
    world.switch(a)
    (model / "config.json").unlink()
    world.node.log.clear()
    with pytest.raises(ModelopsError, match=r"Nothing was stopped.\n.*config\.json, which release"):
        world.switch(b)
    assert world.node.log == []


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Those that podman has on the node."""
    found = {"a", "b"}
    described = '[{"Id": "x", "Digest": "y", "Architecture": "amd64", "Size": 1}]'
    monkeypatch.setattr(
        situation, "run", lambda argv: (0, described, "") if argv[-1] in found else (125, "", "no such image")
    )
    return found


def test_an_image_that_was_pruned_is_noticed_before_the_stop(world: World, images: set[str]) -> None:
    a, b = world.container("a"), world.container("b")
    world.switch(b)
    world.switch(a)
    images.remove("b")
    world.node.log.clear()
    with pytest.raises(ModelopsError, match=rf"Nothing was stopped\.\nb \(image\), which release {b.id} needs"):
        world.switch(b)
    assert world.node.log == []
    assert world.serving() == {"vllm-main.service": a.id}


def test_a_way_back_without_its_image_is_a_warning_when_it_does_not_serve(world: World, images: set[str]) -> None:
    a, b = world.container("a"), world.container("b")
    world.switch(a)
    world.node.states[a.unit] = DEAD
    world.node.boot.clear()
    images.remove("a")
    found = world.switch(b).report.findings
    assert [(f.id, f.severity) for f in found] == [("way-back-damaged", "warning")]
    assert found[0].message.startswith(f"a (image) of release {a.id} of vllm-main.service, to go back to, is missing")


def test_what_makes_room_starts_at_boot_until_the_new_one_does(world: World) -> None:
    kimi = world.release("kimi", devices=["0"])
    world.switch(kimi)
    minimax = world.release("minimax", devices=["0"])
    cut(world, 3, minimax)
    assert world.node.boot == {kimi.unit}


def test_what_is_slow_to_come_back_still_starts_at_boot(world: World) -> None:
    kimi = world.release("kimi", devices=["0"])
    world.switch(kimi)
    minimax = world.release("minimax", devices=["0"])
    world.node.broken = {kimi.id, minimax.id}
    world.fails(minimax)
    assert world.node.boot == {kimi.unit}


def test_a_replica_that_a_cut_off_switch_has_started_makes_room_for_the_way_back(world: World) -> None:
    one = world.release("main", service="main")
    world.switch(one)
    two = [world.release(f"main-r{n}", service="main") for n in (0, 1)]
    cut(world, 6, *two)
    world.node.states[two[0].unit], world.node.states[two[1].unit] = LIVE, DEAD
    world.node.broken = {two[1].id}
    world.fails(*two)
    assert world.serving() == {one.unit: one.id}
    assert world.node.state(two[0].unit) == DEAD


def test_a_rival_of_the_next_switch_is_not_forgotten_for_an_earlier_one(world: World) -> None:
    main, embed = world.release("main", devices=["0"]), world.release("embed", devices=["1"])
    world.switch(main)
    world.switch(embed)
    cut(world, 4, world.release("main", name="b", devices=["0"]))
    big = world.release("big", devices=["0", "1"])
    world.node.broken = {big.id}
    world.fails(big)
    assert world.serving() == {main.unit: main.id, embed.unit: embed.id}


def test_an_unproven_replica_is_asked_before_it_counts_as_good(world: World) -> None:
    two = [world.release(f"main-r{n}", service="main") for n in (0, 1)]
    cut(world, 3, *two)  # both are started, and none is asked yet
    world.node.states[two[0].unit] = LIVE
    world.node.states[two[1].unit] = DEAD
    world.node.broken = {two[0].id}
    world.fails(*two)
    assert world.store.linked("main-r0", "last_good") is None


def test_a_replica_that_is_down_for_the_moment_comes_back_with_its_service(world: World) -> None:
    two = [world.release(f"main-r{n}", service="main") for n in (0, 1)]
    world.switch(*two)
    world.node.states[two[1].unit] = DEAD
    new = [world.release(f"main-r{n}", name="b", service="main") for n in (0, 1)]
    world.node.broken = {new[0].id}
    world.fails(*new)
    assert world.serving() == {r.unit: r.id for r in two}


def test_what_was_stopped_on_purpose_is_not_settled_later(world: World) -> None:
    kimi, other = world.release("kimi", devices=["0"]), world.release("other", devices=["7"])
    world.switch(kimi)
    bad = world.release("kimi", name="b", devices=["0"])
    world.node.broken = {kimi.id, bad.id}
    world.fails(bad)
    work = Switch(t.cast("t.Any", world.node), world.store, Limits(600, 120, 60), lambda _line: None)
    work.stop([bad])
    world.switch(other)
    assert world.serving() == {other.unit: other.id}
    assert world.node.boot == {other.unit}


def test_files_of_a_release_that_was_cut_off_do_not_hide_those_of_the_old_one(world: World) -> None:
    a = world.release(name="a")
    world.switch(a)
    hidden = world.root / "hidden.service"
    files = [{"name": "unit.service", "dest": str(hidden), "mode": "0644"}]
    b = world.release(name="b", files=files)
    hidden.write_text("of a switch that was cut off", encoding="utf-8")
    world.node.states.clear()
    world.switch(a)
    assert not hidden.exists()
    assert b.intact()


def test_check_mode_knows_what_a_run_would_change(world: World) -> None:
    def would(*targets: Release) -> bool:
        work = Switch(t.cast("t.Any", world.node), world.store, Limits(600, 120, 60), lambda _line: None)
        return work.would_change(targets)

    kimi, minimax = world.release("kimi", devices=["0"]), world.release("minimax", devices=["0"])
    world.switch(kimi)
    assert would(minimax)
    assert not would(kimi)
    world.node.boot.clear()
    assert would(kimi)
    world.node.boot.add(kimi.unit)
    world.node.states[minimax.unit] = LIVE
    world.store.point(minimax, "current")
    assert would(kimi)  # a rival runs
    world.node.states[minimax.unit] = DEAD
    (world.root / "vllm-kimi.service").write_text(render.HEADER, encoding="utf-8")
    assert would(kimi)


def test_a_release_that_answers_is_not_stopped_because_it_cannot_be_enabled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = world.release(name="a"), world.release(name="b")
    world.switch(a)

    def refuse(unit: str) -> None:
        raise ModelopsError(
            f"systemctl enable {unit} failed: Read-only file system.", "Look at the file system of /etc."
        )

    monkeypatch.setattr(world.node, "enable", refuse)
    work = world.switch(b)
    assert [f.id for f in work.report.findings] == ["not-enabled"]
    assert world.serving() == {b.unit: b.id}

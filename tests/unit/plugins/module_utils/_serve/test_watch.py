# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch of a group: units, boards and time are simulated, one step for each look of all nodes."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import watch as module
from ansible_collections.modelops.vllm.plugins.module_utils._serve.board import Group, Member, Seen, State
from ansible_collections.modelops.vllm.plugins.module_utils._serve.watch import (
    Config,
    Memory,
    Own,
    Rule,
    Watch,
    locked,
    phase_of,
    settle,
)

NAMES = ("gpu-a", "gpu-b", "gpu-c")
# Steps that systemd waits before it starts a unit again.
PAUSE = 10


@dataclass
class SimNode:
    """One node: its unit as systemd runs it, and its watch."""

    group: Group
    phase: module.Phase = "up"
    starts: int = 1
    again_at: int = -1
    asked: int = 0
    """How often the watch has restarted the unit."""
    cut: bool = False
    watching: bool = True
    memory: Memory = field(default_factory=lambda: Memory("abc"))

    @property
    def invocation(self) -> str:
        return f"start-{self.starts}"


class Cluster:
    def __init__(self, number: int = 2) -> None:
        members = tuple(Member(NAMES[i], f"10.0.0.{i + 1}") for i in range(number))
        self.nodes = [SimNode(Group("pair/main", members, rank, 29510)) for rank in range(number)]
        self.now = 0
        self.run(3)

    def run(self, steps: int) -> None:
        for _step in range(steps):
            self.now += 1
            for node in self.nodes:
                if node.phase == "again" and self.now >= node.again_at:
                    self.start(node)
            for node in self.nodes:
                self.look(node)

    def look(self, node: SimNode) -> None:
        if not node.watching:
            return
        rule = Rule(node.group, node.memory)
        if rule.step(Own(node.phase, node.invocation), self.seen(node), self.now * 2.0):
            node.asked += 1
            self.start(node)

    def seen(self, me: SimNode) -> dict[int, Seen]:
        found = {}
        for node in self.nodes:
            if node is me:
                continue
            state = State("pair/main", node.group.rank, node.memory.digest, "watch", "s", node.phase)
            state = State(**{**vars(state), "epoch": node.memory.epoch})
            silent = 60.0 if node.cut or me.cut or not node.watching else 0.0
            found[node.group.rank] = Seen(state, silent)
        return found

    def start(self, node: SimNode) -> None:
        node.phase, node.starts = "up", node.starts + 1

    def crash(self, node: SimNode) -> None:
        node.phase, node.again_at = "again", self.now + PAUSE

    @property
    def asked(self) -> list[int]:
        return [node.asked for node in self.nodes]

    @property
    def epochs(self) -> list[int]:
        return [node.memory.epoch for node in self.nodes]

    @property
    def starts(self) -> list[int]:
        return [node.starts for node in self.nodes]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_ends_is_started_by_systemd_and_the_others_once_by_their_watches(rank: int) -> None:
    cluster = Cluster(3)
    cluster.crash(cluster.nodes[rank])
    cluster.run(100)
    assert cluster.starts == [2, 2, 2]
    assert cluster.asked == [0 if r == rank else 1 for r in range(3)]
    assert cluster.epochs == [1, 1, 1]


def test_the_others_do_not_wait_for_the_pause_of_systemd() -> None:
    cluster = Cluster()
    cluster.crash(cluster.nodes[1])
    cluster.run(2)
    assert cluster.nodes[1].phase == "again"
    assert cluster.asked == [1, 0]


def test_nodes_that_end_at_the_same_time_start_once() -> None:
    cluster = Cluster()
    for node in cluster.nodes:
        cluster.crash(node)
    cluster.run(100)
    assert cluster.starts == [2, 2]
    assert cluster.asked == [0, 0]


def test_a_head_that_ends_because_its_worker_has_does_not_start_the_worker_a_third_time() -> None:
    cluster = Cluster()
    head, worker = cluster.nodes
    head.watching = False
    cluster.crash(worker)
    cluster.run(1)
    # A request kills the engine of the head before its watch has looked.
    cluster.crash(head)
    head.watching = True
    cluster.run(100)
    assert cluster.starts == [2, 2]


def test_somebody_who_restarts_the_unit_of_one_node_restarts_the_group() -> None:
    cluster = Cluster()
    cluster.start(cluster.nodes[0])
    cluster.run(10)
    assert cluster.starts == [2, 2]
    assert cluster.asked == [0, 1]


def test_a_unit_that_somebody_stopped_stays_stopped_and_the_others_run_on() -> None:
    cluster = Cluster()
    cluster.nodes[1].phase = "stopped"
    cluster.run(50)
    assert cluster.starts == [1, 1]
    cluster.crash(cluster.nodes[0])
    cluster.run(50)
    assert cluster.nodes[1].phase == "stopped"
    assert cluster.asked == [0, 0]


def test_a_unit_that_was_stopped_and_is_started_restarts_the_group() -> None:
    cluster = Cluster()
    cluster.nodes[1].phase = "stopped"
    cluster.run(5)
    cluster.start(cluster.nodes[1])
    cluster.run(5)
    assert cluster.starts == [2, 2]


def test_a_silent_node_causes_nothing() -> None:
    cluster = Cluster(3)
    cluster.nodes[2].cut = True
    cluster.run(500)
    cluster.nodes[2].cut = False
    cluster.run(10)
    assert cluster.starts == [1, 1, 1]


def test_a_node_that_comes_back_with_a_new_start_restarts_the_others() -> None:
    cluster = Cluster(3)
    lost = cluster.nodes[1]
    lost.watching = False
    cluster.run(100)
    # A reboot: the watch is a new process, and its memory is on the disk.
    cluster.start(lost)
    lost.watching = True
    cluster.run(10)
    assert cluster.starts == [2, 2, 2]
    assert cluster.epochs == [1, 1, 1]


def test_a_watch_that_is_restarted_causes_nothing() -> None:
    cluster = Cluster()
    cluster.nodes[0].watching = False
    cluster.run(5)
    cluster.nodes[0].watching = True
    cluster.run(5)
    assert cluster.starts == [1, 1]


def test_what_ended_while_its_watch_was_down_restarts_the_group() -> None:
    cluster = Cluster()
    cluster.nodes[1].watching = False
    cluster.crash(cluster.nodes[1])
    cluster.run(PAUSE + 5)
    assert cluster.starts == [1, 2]
    cluster.nodes[1].watching = True
    cluster.run(5)
    assert cluster.starts == [2, 2]
    assert cluster.asked == [1, 0]


def test_a_node_that_crashes_for_ever_takes_the_others_along_six_times_an_hour_and_no_more() -> None:
    cluster = Cluster()
    for _crash in range(20):
        cluster.crash(cluster.nodes[1])
        cluster.run(PAUSE + 2)
    assert cluster.asked == [6, 0]
    # An hour later it may follow again: the two come together once more.
    cluster.run(1800)
    assert cluster.asked == [7, 0]
    assert cluster.epochs[0] == cluster.epochs[1]


def test_a_node_that_systemd_has_given_up_does_not_take_the_others_along() -> None:
    cluster = Cluster()
    cluster.nodes[1].phase = "failed"
    cluster.run(50)
    assert cluster.asked == [0, 0]
    # Somebody mends it.
    cluster.start(cluster.nodes[1])
    cluster.run(5)
    assert cluster.starts == [2, 2]


def test_units_that_failed_without_each_other_start_when_all_nodes_answer_again() -> None:
    cluster = Cluster(3)
    cluster.nodes[2].cut = True
    # The head loses its engine, tries to gather the group three times, and fails.
    for _try in range(3):
        cluster.crash(cluster.nodes[0])
        cluster.run(PAUSE + 1)
    cluster.nodes[0].phase = "failed"
    asked = cluster.nodes[0].asked
    cluster.run(500)
    assert cluster.nodes[0].phase == "failed"
    assert cluster.nodes[0].asked == asked
    cluster.nodes[2].cut = False
    cluster.run(10)
    assert [node.phase for node in cluster.nodes] == ["up", "up", "up"]
    assert cluster.nodes[0].asked == asked + 1
    assert len(set(cluster.epochs)) == 1


def test_a_unit_that_failed_in_the_sight_of_all_is_not_started_again() -> None:
    cluster = Cluster()
    cluster.nodes[0].phase = "failed"
    cluster.run(5000)
    assert cluster.nodes[0].phase == "failed"


def test_another_release_is_another_group() -> None:
    cluster = Cluster()
    cluster.nodes[1].memory = Memory("abd", epoch=7, invocation="start-1")
    cluster.run(10)
    assert cluster.starts == [1, 1]


@pytest.mark.parametrize(
    ("active", "sub", "phase"),
    [
        ("active", "running", "up"),
        ("activating", "start", "up"),
        ("activating", "auto-restart", "again"),
        ("deactivating", "stop-sigterm", "ending"),
        ("inactive", "dead", "stopped"),
        ("failed", "failed", "failed"),
    ],
)
def test_what_systemd_says(active: str, sub: str, phase: str) -> None:
    assert phase_of(active, sub) == phase


def test_a_lock_is_seen_by_its_inode_whoever_waits_for_it(tmp_path: Path) -> None:
    lock, table = tmp_path / "switch.lock", tmp_path / "locks"
    assert not locked(str(lock), str(table))
    lock.touch()
    inode = lock.stat().st_ino
    table.write_text(f"1: POSIX  ADVISORY  WRITE 70 00:13:{inode} 0 EOF\n2: FLOCK  ADVISORY  WRITE 70 00:13:7 0 EOF\n")
    assert not locked(str(lock), str(table))
    table.write_text(f"3: -> FLOCK  ADVISORY  WRITE 71 00:13:{inode} 0 EOF\n")
    assert not locked(str(lock), str(table))
    table.write_text(f"3: FLOCK  ADVISORY  WRITE 708 00:13:{inode} 0 EOF\n")
    assert locked(str(lock), str(table))


class FakeBoard:
    """A board that a test fills."""

    def __init__(self, _group: Group, _state: State, _interval: float) -> None:
        self.shown: list[State] = []
        self.answers: dict[int, Seen] = {1: Seen(None, 9.0)}

    def show(self, state: State) -> None:
        self.shown.append(state)

    def peers(self) -> dict[int, Seen]:
        return self.answers


class Bench:
    """A Watch on files below a directory, with a systemctl that is asked in vain."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "Board", FakeBoard)
        self.commands: list[list[str]] = []
        self.invocation = "one"
        self.memory = path / "watch.json"
        group = Group("pair/main", (Member("a", "10.0.0.1"), Member("b", "10.0.0.2")), 0, 29510)
        self.config = path / "group.json"
        more = {"digest": "abc", "unit": "vllm-main.service", "memory": str(self.memory), "lock": str(path / "lock")}
        self.config.write_text(json.dumps({"group": group.as_dict(), **more}))
        self.watch = self.begin()

    def begin(self) -> Watch:
        return Watch(Config.read(str(self.config)), self.run)

    def run(self, argv: list[str]) -> str:
        if argv[1] != "show":
            self.commands.append(argv)
        return f"ActiveState=active\nSubState=running\nInvocationID={self.invocation}\n"

    def board(self, watch: Watch) -> FakeBoard:
        return t.cast(FakeBoard, watch._board)


def peer(epoch: int, kind: t.Literal["switch", "watch"] = "watch") -> dict[int, Seen]:
    return {1: Seen(State("pair/main", 1, "abc", kind, "s", "up", epoch=epoch), 0.0)}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_watch_restarts_a_unit_whatever_its_limit_says_and_remembers_it_first(bench: Bench) -> None:
    bench.watch.look(1000.0)
    bench.board(bench.watch).answers = peer(1)
    bench.watch.look(1002.0)
    assert bench.commands == [
        ["systemctl", "kill", "--signal=SIGKILL", "vllm-main.service"],
        ["systemctl", "reset-failed", "vllm-main.service"],
        ["systemctl", "restart", "--no-block", "vllm-main.service"],
    ]
    again = bench.begin()
    bench.board(again).answers = peer(1)
    bench.invocation = "two"
    again.look(1004.0)
    assert len(bench.commands) == 3
    shown = bench.board(again).shown[-1]
    assert (shown.epoch, shown.phase, shown.invocation) == (1, "up", "two")


def test_a_watch_does_nothing_while_a_switch_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.watch.look(1000.0)
    monkeypatch.setattr(module, "locked", lambda _path: True)
    bench.board(bench.watch).answers = peer(1)
    bench.watch.look(1002.0)
    assert bench.commands == []
    monkeypatch.setattr(module, "locked", lambda _path: False)
    bench.watch.look(1004.0)
    assert len(bench.commands) == 3


def test_a_node_that_switches_is_no_peer(bench: Bench) -> None:
    bench.watch.look(1000.0)
    bench.board(bench.watch).answers = peer(1, "switch")
    bench.watch.look(1002.0)
    assert bench.commands == []


def test_a_switch_of_the_group_begins_to_count_anew(bench: Bench) -> None:
    bench.watch.look(1000.0)
    bench.invocation = "two"
    settle(str(bench.memory), "abc", "two")
    watch = bench.begin()
    watch.look(1002.0)
    assert bench.board(watch).shown[-1].epoch == 0


def test_a_switch_of_this_node_alone_restarts_the_others(bench: Bench) -> None:
    bench.watch.look(1000.0)
    bench.invocation = "two"
    watch = bench.begin()
    watch.look(1002.0)
    assert bench.board(watch).shown[-1].epoch == 1


def test_a_memory_that_cannot_be_read_begins_at_what_runs(bench: Bench) -> None:
    bench.memory.write_text("{")
    watch = bench.begin()
    watch.look(1000.0)
    assert bench.board(watch).shown[-1].epoch == 0
    assert json.loads(bench.memory.read_text())["invocation"] == "one"

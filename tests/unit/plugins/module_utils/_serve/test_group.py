# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One switch on several nodes: all of them or none. The boards are in memory, and time is simulated."""

from __future__ import annotations

import typing as t
from dataclasses import asdict

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import group as module
from ansible_collections.modelops.vllm.plugins.module_utils._serve.board import Group, Member, Seen, State
from ansible_collections.modelops.vllm.plugins.module_utils._serve.causes import Cause
from ansible_collections.modelops.vllm.plugins.module_utils._serve.group import GroupProof

MEMBERS = (Member("gpu-a", "10.0.0.1"), Member("gpu-b", "10.0.0.2"), Member("gpu-c", "10.0.0.3"))
OOM = Cause("out-of-memory", "CUDA out of memory", "Lower gpu-memory-utilization.")


class Network:
    """What each node shows now, and the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.shown: dict[int, State] = {}
        self.read: dict[tuple[int, int], State] = {}
        self.last: dict[int, float] = {}
        self.cut: set[int] = set()
        self.on_sleep: list[t.Callable[[], None]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for step in self.on_sleep:
            step()


class MemoryBoard:
    """The interface of Board: every question is answered at once, unless the node is cut off."""

    network: Network

    def __init__(self, group: Group, state: State, _interval: float) -> None:
        self.rank = group.rank
        self.others = [r for r in range(len(group.members)) if r != group.rank]
        self.state = state

    def open(self) -> None:
        self.network.shown[self.rank] = self.state

    def close(self) -> None:
        del self.network.shown[self.rank]

    def show(self, state: State) -> None:
        self.network.shown[self.rank] = state

    def peers(self) -> dict[int, Seen]:
        net, found = self.network, {}
        for rank in self.others:
            if rank in net.shown and rank not in net.cut:
                net.read[self.rank, rank] = net.shown[rank]
                net.last[rank] = net.now
            state = net.read.get((self.rank, rank))
            if state is not None:
                marks = {str(a): s.mark for (a, b), s in net.read.items() if b == self.rank and a == rank}
                state = State(**{**asdict(state), "seen": {str(self.rank): marks.get(str(rank), "")}})
            found[rank] = Seen(state, net.now - net.last.get(rank, 0.0))
        return found


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    net = Network()
    monkeypatch.setattr(MemoryBoard, "network", net, raising=False)
    monkeypatch.setattr(module, "Board", MemoryBoard)
    monkeypatch.setattr(module, "time", net)
    return net


def proofs(number: int, digests: t.Sequence[str] = ()) -> list[GroupProof]:
    """Opened on all nodes."""
    opened = []
    for rank in range(number):
        group = Group("pair/main", MEMBERS[:number], rank, 29510)
        opened.append(GroupProof(group, digests[rank] if digests else "abc"))
        opened[-1].open()
    return opened


def met(number: int = 2) -> list[GroupProof]:
    """Opened, met, and starting."""
    opened = proofs(number)
    for proof in opened:
        assert proof.meet(10) is None
    for proof in opened:
        proof.stopped()
    return opened


def verdicts(opened: t.Sequence[GroupProof]) -> list[t.Any]:
    return [v.id if isinstance(v, Cause) else v for v in (proof.verdict() for proof in opened)]


@pytest.mark.usefixtures("network")
def test_nobody_is_done_before_all_have_agreed() -> None:
    head, second, third = met(3)
    assert verdicts([head, second, third]) == [None, None, None]
    head.answered()
    assert verdicts([head, second]) == [None, None]
    # The third has not seen it yet: neither the head nor the second may commit.
    assert verdicts([head, second]) == [None, None]
    assert third.verdict() is None
    assert verdicts([head, second, third]) == ["ready", "ready", "ready"]


@pytest.mark.usefixtures("network")
def test_a_worker_that_fails_after_the_head_has_answered_takes_all_back() -> None:
    head, second, third = met(3)
    head.answered()
    assert second.verdict() is None
    third.publish("failed", OOM)
    assert verdicts([head, second]) == ["peer-failed", "peer-failed"]


@pytest.mark.usefixtures("network")
def test_the_cause_of_a_peer_is_told_with_its_name_its_line_and_its_remedy() -> None:
    head, worker = met()
    worker.publish("failed", OOM)
    cause = head.verdict()
    assert isinstance(cause, Cause)
    assert cause == Cause("peer-failed", "rank 1 (gpu-b) failed: CUDA out of memory", "Lower gpu-memory-utilization.")


@pytest.mark.usefixtures("network")
def test_going_back_takes_the_others_along_and_is_proven_together() -> None:
    head, worker = met()
    worker.publish("failed", OOM)
    worker.again("old")
    assert verdicts([head]) == ["peer-went-back"]
    # The worker waits for the head, which is still at the first attempt.
    assert verdicts([worker]) == [None]
    head.publish("failed")
    head.again("old")
    head.answered()
    assert verdicts([head, worker, head, worker]) == [None, None, "ready", "ready"]
    # Once it is done, it stays so.
    assert verdicts([head, worker]) == ["ready", "ready"]


@pytest.mark.usefixtures("network")
def test_why_a_node_went_back_can_be_read_to_the_end_and_who_followed_it_is_no_cause() -> None:
    head, worker = met()
    worker.publish("failed", OOM)
    head.publish("failed", t.cast(Cause, head.verdict()))
    worker.again("old")
    head.again("old")
    assert head.causes() == ["rank 1 (gpu-b) failed: CUDA out of memory"]
    assert worker.causes() == []


@pytest.mark.usefixtures("network")
def test_last_good_releases_that_do_not_belong_together_are_no_group() -> None:
    head, worker = met()
    head.again("old")
    worker.again("older")
    assert verdicts([head, worker]) == ["group-mismatch", "group-mismatch"]


def test_a_peer_that_was_met_and_is_silent_for_long_is_given_up(network: Network) -> None:
    head, _worker = met()
    assert head.verdict() is None
    network.cut.add(1)
    network.now += 59
    assert head.verdict() is None
    network.now += 1
    assert verdicts([head]) == ["peer-silent"]


def test_a_worker_that_has_agreed_goes_back_when_the_head_is_gone_before_it_was_done(network: Network) -> None:
    head, worker = met()
    head.answered()
    assert worker.verdict() is None
    network.cut.add(0)
    network.now += 60
    assert verdicts([worker]) == ["peer-silent"]


def test_a_switch_that_began_anew_on_a_peer_is_another_one(network: Network) -> None:
    head, _worker = met()
    network.shown[1] = State("pair/main", 1, "abc", "switch", "other-session", "prepared")
    assert verdicts([head]) == ["peer-restarted"]


def test_nodes_with_other_args_do_not_even_start(network: Network) -> None:
    head, worker = proofs(2, ["abc", "abd"])
    for proof in (head, worker):
        cause = proof.meet(10)
        assert cause is not None
        assert cause.id == "group-mismatch"
    assert network.now == 0


def test_the_nodes_wait_for_each_other_and_name_who_did_not_come(network: Network) -> None:
    head, _second, _third = proofs(3)
    del network.shown[1]
    network.shown[2] = State("pair/main", 2, "abc", "watch", "s", "up")
    cause = head.meet(30)
    assert network.now == 30
    assert cause is not None
    assert cause.id == "group-incomplete"
    assert "rank 1 (gpu-b) at 10.0.0.2:29510: no answer" in cause.line
    assert "rank 2 (gpu-c) at 10.0.0.3:29510: watch, attempt 1, up" in cause.line
    # Whoever comes later must not wait for this node.
    assert network.shown[0].phase == "failed"


@pytest.mark.usefixtures("network")
def test_a_peer_that_has_given_up_the_meeting_is_not_waited_for() -> None:
    head, worker = proofs(2)
    worker.publish("failed", OOM)
    cause = head.meet(30)
    assert cause is not None
    assert cause.id == "peer-failed"


def test_what_is_left_of_an_earlier_switch_is_waited_for(network: Network) -> None:
    head, worker = proofs(2)
    old = State("pair/main", 1, "old", "switch", "s", "starting", attempt=2)
    mine, network.shown[1] = network.shown[1], old
    network.on_sleep.append(lambda: network.shown.update({1: mine}) if network.now >= 5 else None)
    assert head.meet(30) is None
    assert worker.meet(30) is None
    assert network.now == 5


def test_the_port_is_kept_until_the_others_know_and_no_longer(network: Network) -> None:
    head, worker = met()
    worker.publish("failed", OOM)
    # The head reads it after three seconds.
    network.on_sleep.append(lambda: head.verdict() if network.now >= 3 else None)
    worker.close()
    assert network.now == 3
    assert 1 not in network.shown


def test_a_peer_that_never_reads_does_not_hold_the_port_for_ever(network: Network) -> None:
    head, _worker = met()
    head.publish("failed", OOM)
    head.close()
    assert network.now == module.LINGER_SECONDS


def test_a_taken_port_names_the_variables(monkeypatch: pytest.MonkeyPatch, network: Network) -> None:
    def refuse(_self: MemoryBoard) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(MemoryBoard, "open", refuse)
    with pytest.raises(ModelopsError, match=r"10\.0\.0\.1:29510.*Address already in use.*serve_group_port"):
        proofs(2)
    assert network.shown == {}


@pytest.mark.parametrize(
    ("end", "seconds"),
    [
        pytest.param("starting", 5, id="until-it-has-stopped"),
        pytest.param("failed", 5, id="until-it-has-failed"),
        pytest.param("prepared", 30, id="no-longer-than-a-stop-may-take"),
    ],
)
def test_a_worker_stays_for_the_last_requests_of_the_head(network: Network, end: t.Any, seconds: int) -> None:
    head, worker = proofs(2)
    for proof in (head, worker):
        assert proof.meet(10) is None
    network.on_sleep.append(lambda: head.publish(end) if network.now >= 5 else None)
    worker.wait_for_head(30)
    assert network.now == seconds

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The part of a switch that several nodes have in common: they start together, and what one node finds holds for all.

Each node runs its own switch; no controller is needed once all of them run. Rank 0, the head, is the only one that can
be asked for a completion.
"""

from __future__ import annotations

import time
import typing as t
import uuid
from dataclasses import replace

from .._errors import ModelopsError
from .board import Board, Group, Seen, State
from .causes import Cause

# prepared: all checks done, the lock held. starting: what served has stopped, and the unit of this node starts.
# ready: the head has answered a completion; a worker has seen that and can still go back. done: the head has seen all
# workers ready; from here nobody goes back. failed: this node gives up, and so must all.
Phase: t.TypeAlias = t.Literal["prepared", "starting", "ready", "done", "failed"]

HEAD: t.Final = 0
_INTERVAL: t.Final = 0.5
# How long a node that has ended waits until the others know.
LINGER_SECONDS: t.Final = 15.0
# A peer that has stopped answering for this long at the end has ended itself.
_GONE_SECONDS: t.Final = 4.0


class GroupProof:
    """One switch of one node of a group, from the moment at which everything has been checked to its end.

    ``digest`` is that of what all nodes must have in common. ``silence`` is the number of seconds after which a node
    that has been met and answers no more is given up. The order of calls::

        proof.open()
        cause = proof.meet(timeout)          # nothing is stopped before this is None
        proof.wait_for_head(timeout)         # of a worker, before it stops
        proof.stopped()
        proof.answered()                     # of the head, once it has
        proof.verdict()                      # again and again, while the unit of this node is well
        proof.publish("failed", cause)       # on any failure of this node
        proof.again(digest_of_last_good)     # when going back: the same with attempt 2
        proof.close()
    """

    def __init__(self, group: Group, digest: str, silence: float = 60.0) -> None:
        self._group = group
        self._silence = silence
        self._state = State(group.name, group.rank, digest, "switch", uuid.uuid4().hex, "prepared")
        self._board = Board(group, self._state, _INTERVAL)
        self._sessions: dict[int, str] = {}

    def open(self) -> None:
        """Show this node to the others. Raises ModelopsError when the port is taken."""
        me = self._group.members[self._group.rank]
        try:
            self._board.open()
        except OSError as e:
            raise ModelopsError(
                f"{me.address}:{self._group.port}, where {me.host} shows its state to the other nodes, cannot be bound:"
                f" {e.strerror or e}.",
                "Set serve_group_port to a port that is free on all nodes of the group, and serve_node_address to an"
                " address of this node.",
            ) from e

    def close(self) -> None:
        """Free the port once all others know how this node ended, or LINGER_SECONDS later."""
        end = time.monotonic() + LINGER_SECONDS
        while time.monotonic() < end and not all(self._knows(seen) for seen in self._board.peers().values()):
            time.sleep(_INTERVAL)
        self._board.close()

    def publish(self, phase: Phase, cause: Cause | None = None) -> None:
        """Show this to the other nodes from now on. A cause stays, also while this node goes back because of it."""
        known = self._state.cause if cause is None else cause.as_dict()
        self._show(replace(self._state, phase=phase, cause=known))

    def stopped(self) -> None:
        """Nothing serves on this node any more: it starts what it shall."""
        if self._state.phase == "prepared":
            self.publish("starting")

    def answered(self) -> None:
        """The head has answered a completion. To be repeated as often as it does."""
        if self._state.phase == "starting":
            self.publish("ready")

    def again(self, digest: str) -> None:
        """This node goes back: the other nodes must do so too, and are proven together with this digest."""
        self._show(replace(self._state, attempt=self._state.attempt + 1, digest=digest, phase="starting"))

    def causes(self) -> list[str]:
        """What other nodes have found by themselves, a line each."""
        states = {rank: seen.state for rank, seen in self._board.peers().items() if seen.state is not None}
        return [
            self._peer_failed(rank, state).line
            for rank, state in states.items()
            if state.cause and state.kind == "switch" and not state.cause.get("id", "").startswith("peer-")
        ]

    def meet(self, timeout: float) -> Cause | None:
        """Wait until all nodes have checked everything and hold their locks; None, or why they do not come together.

        Nothing has been touched on any node that has not returned from here. A cause has been shown to the others.
        """
        cause = self._gather(timeout)
        if cause is not None:
            self.publish("failed", cause)
        return cause

    def _gather(self, timeout: float) -> Cause | None:
        end = time.monotonic() + timeout
        while True:
            peers = self._board.peers()
            for rank, seen in peers.items():
                refusal = self._refusal(rank, seen.state)
                if refusal is not None:
                    return refusal
            absent = [rank for rank, seen in peers.items() if not self._here(seen.state)]
            if not absent:
                self._sessions = {rank: seen.state.session for rank, seen in peers.items() if seen.state is not None}
                return None
            if time.monotonic() >= end:
                return self._absence(absent, peers, timeout)
            time.sleep(_INTERVAL)

    def wait_for_head(self, timeout: float) -> None:
        """Until the head, whose last requests need this node, has stopped: ``timeout`` seconds at most."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            head = self._board.peers()[HEAD]
            if not self._is(head.state, "prepared") or head.silent >= self._silence:
                return
            time.sleep(_INTERVAL)

    def verdict(self) -> t.Literal["ready"] | Cause | None:
        """What holds for the group now: ready, a reason to go back, or nothing yet.

        To be asked while the unit of this node is well. A worker that sees the head ready shows ready itself; when all
        do, the head and then the workers show done.
        """
        if self._state.phase == "done":
            return "ready"
        peers = self._board.peers()
        for rank, seen in peers.items():
            lost = self._lost(rank, seen)
            if lost is not None:
                return lost
        if self._group.rank == HEAD:
            agreed = self._state.phase == "ready" and all(
                self._is(seen.state, "ready", "done") for seen in peers.values()
            )
        else:
            head = peers[HEAD].state
            agreed = self._is(head, "done")
            if self._is(head, "ready"):
                self.answered()
        if not agreed:
            return None
        self.publish("done")
        return "ready"

    def _show(self, state: State) -> None:
        self._state = state
        self._board.show(state)

    def _here(self, state: State | None) -> bool:
        """Has this peer come to the same switch? What is left of an earlier one has another digest or attempt."""
        return state is not None and state.kind == "switch" and self._is(state, "prepared", "starting")

    def _refusal(self, rank: int, state: State | None) -> Cause | None:
        """A peer that is at the same point and will not come along."""
        if state is None or state.kind != "switch" or state.attempt != self._state.attempt:
            return None
        if state.digest != self._state.digest:
            told = state.phase == "failed" and state.cause.get("id") == "group-mismatch"
            return self._mismatch(rank, state) if told or state.phase == "prepared" else None
        return self._peer_failed(rank, state) if state.phase == "failed" else None

    def _mismatch(self, rank: int, state: State) -> Cause:
        return Cause(
            "group-mismatch",
            f"{self._group.title(rank)} has the digest {state.digest[:12]}, {self._group.title(self._group.rank)} has"
            f" {self._state.digest[:12]}.",
            "The args, the vLLM version and the commit of the model must be the same on all nodes of the group: give"
            " them in the variables of the group, not of a host, and run the play for all of its nodes.",
        )

    def _peer_failed(self, rank: int, state: State) -> Cause:
        line = state.cause.get("line", "") or state.cause.get("id", "")
        return Cause("peer-failed", f"{self._group.title(rank)} failed: {line}", state.cause.get("remedy", ""))

    def _absence(self, absent: t.Sequence[int], peers: t.Mapping[int, Seen], timeout: float) -> Cause:
        said = []
        for rank in absent:
            state = peers[rank].state
            what = "no answer" if state is None else f"{state.kind}, attempt {state.attempt}, {state.phase}"
            said.append(f"{self._group.title(rank)} at {self._group.members[rank].address}:{self._group.port}: {what}")
        return Cause(
            "group-incomplete",
            f"Not all nodes came to the switch within {timeout:.0f} s: {'; '.join(said)}.",
            "Run the play for all nodes of the group at once (forks at least their number, no serial), and let them"
            f" reach each other on TCP port {self._group.port}.",
        )

    def _lost(self, rank: int, seen: Seen) -> Cause | None:
        """Why this peer takes the whole group back, if it does."""
        state, name = seen.state, self._group.title(rank)
        if state is None or self._is(state, "done"):
            return None
        if seen.silent >= self._silence:
            line = f"{name} has not answered for {seen.silent:.0f} s."
            return Cause(
                "peer-silent", line, f"Look at the node, and at TCP port {self._group.port} between the nodes."
            )
        if state.session != self._sessions.get(rank):
            return Cause("peer-restarted", f"The switch on {name} ended and began anew.", "See that node.")
        if state.attempt > self._state.attempt:
            return Cause("peer-went-back", f"{name} goes back to its last good release.", "See that node.")
        # One that is behind has not seen yet that this node goes back.
        return self._refused(rank, state) if state.attempt == self._state.attempt else None

    def _refused(self, rank: int, state: State) -> Cause | None:
        if state.digest != self._state.digest:
            return self._mismatch(rank, state)
        return self._peer_failed(rank, state) if state.phase == "failed" else None

    def _is(self, state: State | None, *phases: Phase) -> bool:
        """Is this peer so far, in the attempt of this node and with the same digest?"""
        return (
            state is not None
            and state.attempt == self._state.attempt
            and state.digest == self._state.digest
            and state.phase in phases
        )

    def _knows(self, seen: Seen) -> bool:
        """Has this peer read what this node shows at its end, or come and gone?"""
        if seen.state is None or seen.state.kind != "switch":
            return False
        return seen.silent >= _GONE_SECONDS or seen.state.seen.get(str(self._group.rank)) == self._state.mark

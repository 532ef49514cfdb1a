# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The switch of one node of a group: each step that the other nodes have to take as well waits for them.

Where a release belongs to a group, its record has ``group`` (:class:`Group` and the digest of what all ranks share) and
its files have the unit of the watch, which shows the board of the node outside of a switch.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import typing as t
from dataclasses import dataclass, replace

from .._errors import ModelopsError
from .._findings import warning
from . import causes, cluster, watch
from .board import Group, fetch
from .causes import Cause
from .group import GroupProof
from .journal import Entry
from .node import CancelledError, Node
from .probe import Answer
from .ready import Outcome
from .release import Release, Store, mask, secrets_of
from .steps import Limits, SwitchError
from .switch import Switch

# The nodes come to the switch after the same checks; where a fork waits for another one, this is how long.
MEET_SECONDS: t.Final = 180.0
# A play that stops all nodes begins on each of them within this time of the others.
STOP_TOGETHER_SECONDS: t.Final = 10.0
# What a stop may take longer than it should.
STOP_MARGIN: t.Final = 60.0
_LOOK_SECONDS: t.Final = 1.0
_GROUP_FILE: t.Final = "group.json"
_WATCH_UNIT: t.Final = "watch.service"


@dataclass(frozen=True)
class Part:
    """The part that a release has in a group."""

    group: Group
    digest: str


def part_of(release: Release) -> Part | None:
    """None for a release that one node serves alone."""
    raw = release.record.get("group")
    return Part(Group.from_dict(raw), str(raw["digest"])) if raw else None


def watch_of(instance: str) -> str:
    """The unit that watches an instance on several nodes."""
    return f"vllm-{instance}-watch.service"


class Staged(t.NamedTuple):
    """What a release on several nodes has besides."""

    contents: dict[str, str]
    files: list[dict[str, str]]
    record: dict[str, t.Any]


def stage(params: t.Mapping[str, t.Any], unit: str) -> Staged:
    """Out of the parameters of vllm_release. Raises ModelopsError for a group that is none, or that nothing watches."""
    raw = params["group"]
    if not raw:
        return Staged({}, [], {})
    instance, state_dir = str(params["instance"]), str(params["state_dir"])
    try:
        group = Group.from_dict(raw)
    except (KeyError, TypeError, ValueError) as e:
        raise ModelopsError(
            f"group is no group of nodes: {e!r}.", "Give name, members (host and address each), rank and port."
        ) from e
    if not params["watch_text"]:
        raise ModelopsError("A release of a group has no watch_text.", "Give the unit that restarts the group as one.")
    digest = cluster.common_digest(
        params["args_text"] or "", params["vllm_version"] or "", params["commit"] or "", group.members
    )
    config = {
        "group": group.as_dict(),
        "digest": digest,
        "unit": unit,
        "memory": _memory(state_dir, instance),
        "lock": os.path.join(state_dir, "switch.lock"),
    }
    contents = {_GROUP_FILE: json.dumps(config, sort_keys=True, indent=1) + "\n", _WATCH_UNIT: params["watch_text"]}
    files = [
        {"name": _GROUP_FILE, "dest": os.path.join(params["config_dir"], f"{instance}.group.json"), "mode": "0644"},
        {"name": _WATCH_UNIT, "dest": os.path.join("/etc/systemd/system", watch_of(instance)), "mode": "0644"},
    ]
    return Staged(contents, files, {"group": {**group.as_dict(), "digest": digest}})


def _left_behind(part: Part, stay: t.Collection[str]) -> list[str]:
    """The other nodes that still work for the same engine; those with an address in ``stay`` come along."""
    group = part.group
    found = []
    for rank, member in enumerate(group.members):
        if rank == group.rank or member.address in stay:
            continue
        # A node where it was stopped shows nothing, and one that switches shows that.
        state = fetch(member.address, group.port)
        here = state is not None and (state.kind, state.group, state.digest) == ("watch", group.name, part.digest)
        if here and state is not None and state.phase not in ("stopped", "failed"):
            found.append(group.title(rank))
    return found


def _cause_of(failure: Exception, id_: str) -> Cause:
    """What the other nodes are told of it."""
    if isinstance(failure, SwitchError):
        return failure.cause
    if isinstance(failure, ModelopsError):
        return Cause(id_, failure.message, failure.remedy or "See that node.")
    return Cause(id_, f"{type(failure).__name__}: {failure}", "See that node.")


def _memory(state_dir: str, instance: str) -> str:
    return os.path.join(state_dir, "instances", instance, "watch.json")


class GroupSwitch(Switch):
    """A switch that takes the other nodes along, if a release belongs to a group; else a :class:`Switch`."""

    def __init__(self, node: Node, store: Store, limits: Limits, tell: t.Callable[[str], None]) -> None:
        super().__init__(node, store, limits, tell)
        self._together = False
        self._proof: GroupProof | None = None
        self._part: Part | None = None
        """The part in what all nodes prove now; None while this node is on its own."""
        self._resting: set[str] = set()
        """Instances whose watches were stopped."""
        self._answered: dict[str, Answer] = {}
        """By release: it has answered, and is not asked again while the other nodes are waited for."""

    def run(self, targets: t.Sequence[Release], *, together: bool = False) -> None:
        """``together``: another node of the group has to switch, so this one does, whatever runs here."""
        self._together = together
        try:
            super().run(targets)
        except SwitchError as e:
            # What this node has seen of a failure may be no more than that another one was gone.
            others = [line for line in (self._proof.causes() if self._proof else []) if line not in e.cause.line]
            e.cause = replace(e.cause, line=" ".join([e.cause.line, *others]))
            raise
        finally:
            self._leave()

    def stop(self, releases: t.Sequence[Release]) -> None:
        """Stop them, and their watches with them. Where the other nodes run on, which cannot answer, that is told."""
        running = [r for r in releases if self._node.runs(r.unit)]
        for release in releases:
            self._rest(release)
        super().stop(releases)
        self._tell_of_parted(running)

    def _tell_of_parted(self, stopped: t.Sequence[Release]) -> None:
        end = time.monotonic() + STOP_TOGETHER_SECONDS
        for release, part in ((r, p) for r in stopped if (p := part_of(r)) is not None):
            while (left := _left_behind(part, ())) and time.monotonic() < end:
                time.sleep(_LOOK_SECONDS)
            if left:
                self.report.findings.append(
                    warning(
                        "group-parted",
                        f"{release.unit} is stopped, and {part.group.name}, one engine on several nodes, cannot answer"
                        f" without it. It still runs on {', '.join(left)}.",
                        "Stop it there too: run stop.yml for all nodes of that group, without --limit.",
                        left=left,
                    )
                )

    # The steps of the switch

    def _runs(self, release: Release) -> bool:
        wanted = self._together and self._part is None and part_of(release) is not None
        return not wanted and super()._runs(release)

    def _check(self, changing: t.Sequence[Release], leaving: t.Sequence[Release]) -> None:
        part = next((part for r in changing if (part := part_of(r)) is not None), None)
        try:
            super()._check(changing, leaving)
            self._check_parting(part, changing, leaving)
        except Exception as e:  # whatever it is, the other nodes must not wait for this one
            failed = _cause_of(e, "check-failed")
            if part is None:
                self._give_up(failed, changing)
            else:
                with contextlib.suppress(ModelopsError):
                    self._enter(part, changing, failed=failed)
            raise
        if part is None:
            return
        proof = self._enter(part, changing)
        self._tell("waiting for the other nodes of the group")
        cause = proof.meet(MEET_SECONDS)
        if cause is not None:
            raise ModelopsError(f"Nothing was stopped. {cause.line}", cause.remedy, cause=cause.as_dict())
        self._part = part

    def _check_parting(self, part: Part | None, changing: t.Sequence[Release], leaving: t.Sequence[Release]) -> None:
        """Nobody is left with a part of an engine: who worked with this node leaves it too, or has stopped.

        Where this node is to serve alone, so may be the others: it shows that it is about to leave, and waits for them.
        """
        going = [r for r in [*leaving, *self._running_under(changing)] if self._node.runs(r.unit)]
        for release, old in ((r, p) for r in going if (p := part_of(r)) is not None):
            stay = part.group.members if part is not None else ()
            end = time.monotonic() + (MEET_SECONDS if part is None else 0.0)
            while left := _left_behind(old, {m.address for m in stay}):
                if part is None and self._proof is None:
                    self._tell(f"waiting for the other nodes of {old.group.name} to leave it too")
                    self._enter(old, [release])
                if time.monotonic() >= end:
                    raise ModelopsError(
                        f"Nothing was stopped. {release.unit} is a part of {old.group.name}, one engine on several"
                        f" nodes, and would leave a broken one to {', '.join(left)}.",
                        "Run the play for all nodes of that group at once, without --limit, or stop it on all of them"
                        " first (stop.yml).",
                    )
                time.sleep(_LOOK_SECONDS)

    def _exchange(self, entry: Entry, changing: t.Sequence[Release], leaving: t.Sequence[Release]) -> None:
        try:
            super()._exchange(entry, changing, leaving)
        except Exception as e:  # as above
            self._give_up(_cause_of(e, "switch-error"), changing)
            raise

    def _stop(self, releases: t.Sequence[Release], *, kill: bool = False) -> None:
        for release in releases:
            self._rest(release)
        if self._proof is not None and not kill and any(r.headless for r in releases):
            self._proof.wait_for_head(self._limits.stop + STOP_MARGIN)
        super()._stop(releases, kill=kill)

    def _wait_for_gpus(self, releases: t.Sequence[Release], ours: t.Collection[str], *, room: bool) -> None:
        if self._proof is not None:
            self._proof.stopped()
        super()._wait_for_gpus(releases, ours, room=room)

    def _retire(self, releases: t.Sequence[Release]) -> None:
        for release in releases:
            if part_of(release) is not None:
                self._node.disable(watch_of(release.instance))
        super()._retire(releases)

    def _activate(self, release: Release) -> None:
        old = self._store.linked(release.instance, "current")
        if old is not None and part_of(old) is not None and part_of(release) is None:
            self._rest(old)
            self._node.disable(watch_of(old.instance))
        super()._activate(release)

    def _prove_one(self, release: Release, stop: threading.Event) -> Outcome | None:
        if part_of(release) is None:
            return super()._prove_one(release, stop)
        try:
            outcome = self._node.prove(
                release,
                self._limits.ready,
                stop.is_set,
                lambda line: self._tell(f"{release.unit}: {line}"),
                settle=lambda ask, left: self._ask(release, ask, left),
            )
        except CancelledError:
            return None
        except BaseException:
            stop.set()
            raise
        # A node that has failed may see another one go back because of it before its own unit has ended.
        by_others = outcome.cause is not None and outcome.cause.id.startswith("peer-")
        own = causes.postmortem(outcome.log_tail) if by_others else None
        return outcome if own is None else replace(outcome, cause=own)

    def _ask(self, release: Release, ask: t.Callable[[float], Answer], left: float) -> Answer:
        """What this node can say, and what the others do: a worker serves no HTTP, and the head tells the rest."""
        own = Answer("ready") if release.headless else self._answered.get(release.id) or ask(left)
        if self._node.state(release.unit).active != "active":
            return own if own.stage != "ready" else Answer("connect")
        if self._proof is None or self._part is None:
            return own
        if own.stage == "ready" and not release.headless:
            self._answered[release.id] = own
            self._proof.answered()
        verdict = self._proof.verdict()
        if isinstance(verdict, Cause):
            return Answer("group", verdict.line, verdict)
        if verdict == "ready" or own.stage != "ready":
            return own
        # Told with what the log of the worker says, until the head answers.
        return Answer("connect" if release.headless else "group", "the other nodes are not ready yet")

    def _commit(self, entry: Entry, releases: t.Sequence[Release]) -> None:
        super()._commit(entry, releases)
        self._settle(releases)

    def _go_back(self, entry: Entry, targets: t.Sequence[Release], before: t.Sequence[Release]) -> str:
        self._answered.clear()
        if self._proof is not None and self._part is not None:
            old = next((part for r in before if (part := part_of(r)) is not None), None)
            if old is not None and old.group == self._part.group:
                self._proof.again(old.digest)
            else:
                # What this node goes back to is no part of what the others may go back to.
                self._proof.again(f"rank {self._part.group.rank} alone")
                self._proof.publish("failed")
                self._part = None
        problem = super()._go_back(entry, targets, before)
        if problem and self._proof is not None:
            self._proof.publish("failed")
        return problem

    def _bring_back(self, before: t.Sequence[Release]) -> None:
        super()._bring_back(before)
        self._settle(before)

    # The group

    def _enter(self, part: Part, releases: t.Sequence[Release], failed: Cause | None = None) -> GroupProof:
        """Show the board of this node in place of the watch. Raises ModelopsError when its port is taken.

        A node that has ``failed`` before it comes here is never seen prepared: another one would begin to stop.
        """
        for release in releases:
            self._rest(self._store.linked(release.instance, "current") or release)
        proof = GroupProof(part.group, part.digest)
        if failed is not None:
            proof.publish("failed", self._without_secrets(failed, releases))
        proof.open()
        self._proof = proof
        return proof

    def _give_up(self, cause: Cause, releases: t.Sequence[Release]) -> None:
        if self._proof is not None:
            self._proof.publish("failed", self._without_secrets(cause, releases))

    def _without_secrets(self, cause: Cause, releases: t.Sequence[Release]) -> Cause:
        """What the other nodes are told anybody in their network can read: no secret of any release of this node."""
        known = secrets_of(releases) | self._store.secrets()
        return replace(cause, line=mask(cause.line, known), remedy=mask(cause.remedy, known))

    def _rest(self, release: Release) -> None:
        """Stop the watch of an instance, which would show the same board and restart what is being switched."""
        if part_of(release) is not None and release.instance not in self._resting:
            self._resting.add(release.instance)
            self._node.stop(watch_of(release.instance))

    def _settle(self, releases: t.Sequence[Release]) -> None:
        """Have the watches run from here on. After a proof of all nodes they count anew, on all of them.

        What this node has started alone is a new start to its watch, and the others follow.
        """
        for release in releases:
            part = part_of(release)
            if part is None:
                continue
            self._resting.add(release.instance)
            self._node.enable(watch_of(release.instance))
            if self._part is not None:
                invocation = self._node.state(release.unit).invocation
                # All nodes serve: a disk that is full by now is no reason to go back.
                with contextlib.suppress(OSError):
                    watch.settle(_memory(self._store.state_dir, release.instance), part.digest, invocation)

    def _leave(self) -> None:
        """End the part of this node in the meeting, and have the watches go on."""
        if self._proof is not None:
            self._proof.close()
        for instance in sorted(self._resting):
            if self._node.enabled(watch_of(instance)):
                self._node.start(watch_of(instance))

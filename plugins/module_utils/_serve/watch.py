# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The watch of one instance on several nodes: what restarts on one node is restarted on all.

What vLLM does by itself: a worker that dies leaves the head's /health at 200 until a request comes; a head that dies
leaves the units of the workers running; an engine whose part was started anew does not take it in again.

Each node counts the starts of the group: the epoch. A unit that has ended by itself, or that somebody has started
anew, raises it, and whoever sees a higher epoch on a peer restarts its own unit and adopts it. Nothing is done because
a peer is silent, while a switch is going on, and to a unit that was stopped: with Restart=always only systemctl stop
leaves one inactive. A unit that ends by itself has the limit that systemd sets for it; what peers cause has one of its
own, since a wanted start forgives earlier failures.

Runs as a service with nothing but Python and :mod:`board` beside it: ``python3 -m PACKAGE.watch GROUP.json``.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
import typing as t
import uuid
from dataclasses import asdict, dataclass, field, replace

from .board import Board, Group, Seen, State

INTERVAL: t.Final = 2.0
# Of the unit of this node, because of others, in seconds. One node may use up its own starts (three in an hour) and
# take the others along each time; this leaves some for what comes after.
RESTARTS: t.Final = 6
RESTARTS_WITHIN: t.Final = 3600.0
_SYSTEMCTL_SECONDS: t.Final = 60

# up: it runs or starts. again: systemd is about to start it anew. ending: it stops, and what for is not known yet.
# stopped: by somebody. failed: systemd has given up.
Phase: t.TypeAlias = t.Literal["up", "again", "ending", "stopped", "failed"]

_log = logging.getLogger("group-watch")


@dataclass(frozen=True)
class Own:
    """The unit of this node."""

    phase: Phase
    invocation: str


@dataclass
class Memory:
    """What is known over restarts of the watch and of the node.

    ``invocation`` is that of the epoch, or the one before it while ``awaiting`` the start that belongs to the epoch.
    ``restarts`` are the times (seconds since 1970) of those that a peer has caused. ``lonely``: a peer was silent while
    the unit of this node had failed.
    """

    digest: str
    epoch: int = 0
    invocation: str = ""
    awaiting: bool = False
    restarts: list[float] = field(default_factory=list)
    lonely: bool = False


def phase_of(active: str, sub: str) -> Phase:
    """The phase of a unit, from systemd's ActiveState and SubState."""
    if sub == "auto-restart":
        return "again"
    if active in ("active", "activating", "reloading"):
        return "up"
    return "ending" if active == "deactivating" else "failed" if active == "failed" else "stopped"


class Rule:
    """When the unit of this node has to be restarted. Pure: time, unit and peers are given, ``memory`` is changed."""

    def __init__(self, group: Group, memory: Memory) -> None:
        self._group = group
        self.memory = memory

    def step(self, own: Own, peers: t.Mapping[int, Seen], now: float) -> str:
        """Look once; the reason to restart the unit, or an empty string."""
        self._count(own)
        alive = {rank: seen.state for rank, seen in peers.items() if seen.state is not None and self._is_peer(seen)}
        if own.phase != "failed":
            self.memory.lonely = False
        elif len(alive) < len(peers):
            self.memory.lonely = True
        if own.phase in ("stopped", "ending"):
            return ""
        # One that has failed for good is no reason to start: it would not come.
        ahead = [(s.epoch, -r) for r, s in alive.items() if s.epoch > self.memory.epoch and s.phase in ("up", "again")]
        if ahead:
            epoch, rank = max(ahead)
            return self._restart(epoch, f"{self._group.title(-rank)} has started anew", now)
        if own.phase == "failed" and self.memory.lonely and len(alive) == len(peers):
            self.memory.lonely = False
            epoch = max([self.memory.epoch, *(s.epoch for s in alive.values())]) + 1
            return self._restart(epoch, "all nodes of the group answer again", now)
        return ""

    def _is_peer(self, seen: Seen) -> bool:
        """Does this node answer, outside of a switch, and run the same release?"""
        state = seen.state
        return state is not None and seen.silent == 0 and state.kind == "watch" and state.digest == self.memory.digest

    def _count(self, own: Own) -> None:
        """Raise the epoch when the unit of this node was started anew by anybody but this rule."""
        memory = self.memory
        if own.phase == "up" and own.invocation != memory.invocation:
            if memory.invocation and not memory.awaiting:
                memory.epoch += 1
                _log.info("the unit was started anew: epoch %d", memory.epoch)
            memory.invocation, memory.awaiting = own.invocation, False
        elif own.phase == "again" and not memory.awaiting:
            memory.epoch, memory.awaiting = memory.epoch + 1, True
            _log.warning("the unit has ended and is started again: epoch %d", memory.epoch)
        elif own.phase == "failed":
            # Whoever starts it again starts something new.
            memory.awaiting = False

    def _restart(self, epoch: int, why: str, now: float) -> str:
        memory = self.memory
        memory.restarts = [at for at in memory.restarts if 0 <= now - at < RESTARTS_WITHIN]
        if len(memory.restarts) >= RESTARTS:
            return ""
        memory.restarts.append(now)
        memory.epoch, memory.awaiting = epoch, True
        return f"{why}: epoch {epoch}"


def settle(path: str, digest: str, invocation: str) -> None:
    """After a switch of the whole group: the starts are counted from here, on all nodes."""
    _write(path, Memory(digest, invocation=invocation))


def _write(path: str, memory: Memory) -> None:
    fresh = f"{path}.new"
    with open(fresh, "w", encoding="utf-8") as f:
        json.dump(asdict(memory), f, sort_keys=True)
        f.flush()
        os.fsync(f.fileno())
    os.replace(fresh, path)


def _read(path: str, digest: str) -> Memory:
    """What is remembered of this release; nothing when it is another one's, or cannot be read."""
    try:
        with open(path, encoding="utf-8") as f:
            memory = Memory(**json.load(f))
    except (OSError, ValueError, TypeError):
        return Memory(digest)
    return memory if memory.digest == digest else Memory(digest)


def locked(path: str, locks: str = "/proc/locks") -> bool:
    """Whether a process holds the lock of the node's switch. It is not tried: whoever wants it must get it."""
    try:
        inode = os.stat(path).st_ino
        with open(locks, encoding="utf-8") as f:
            rows = [line.split() for line in f]
    except OSError:
        return False
    # 1: FLOCK  ADVISORY  WRITE 708 00:13:22431 0 EOF; one that waits has "->" in the second place.
    return any(len(row) > 5 and row[1] == "FLOCK" and row[5].rpartition(":")[2] == str(inode) for row in rows)


@dataclass(frozen=True)
class Config:
    """The file that the watch is started with."""

    group: Group
    digest: str
    unit: str
    memory: str
    lock: str

    @classmethod
    def read(cls, path: str) -> Config:
        with open(path, encoding="utf-8") as f:
            raw = json.load(f)
        texts = {name: str(raw[name]) for name in ("digest", "unit", "memory", "lock")}
        return cls(group=Group.from_dict(raw["group"]), **texts)


class Watch:
    """Looks again and again. ``run`` executes a command and returns its standard output."""

    def __init__(self, config: Config, run: t.Callable[[list[str]], str]) -> None:
        self._config = config
        self._run = run
        self._saved = _read(config.memory, config.digest)
        self._rule = Rule(config.group, replace(self._saved))
        self._state = State(config.group.name, config.group.rank, config.digest, "watch", uuid.uuid4().hex, "ending")
        self._board = Board(config.group, self._state, INTERVAL)

    def forever(self) -> t.NoReturn:
        """Raises OSError when the port of the board is taken."""
        self._board.open()
        while True:
            self.look(time.time())
            time.sleep(INTERVAL)

    def look(self, now: float) -> None:
        """Once. What was decided is on disk before it is done: a watch that dies in between decides nothing twice."""
        own = self._own()
        paused = locked(self._config.lock)
        why = "" if paused else self._rule.step(own, self._board.peers(), now)
        memory = self._rule.memory
        if memory != self._saved:
            _write(self._config.memory, memory)
            self._saved = replace(memory, restarts=list(memory.restarts))
        self._board.show(replace(self._state, phase=own.phase, epoch=memory.epoch, invocation=own.invocation))
        if why:
            _log.warning("%s is restarted, since %s", self._config.unit, why)
            # Its part of the engine has nothing to finish, and a worker that waits for another one ignores SIGTERM.
            self._run(["systemctl", "kill", "--signal=SIGKILL", self._config.unit])
            # A unit that has used up its starts is started all the same: the rule has its own limit.
            self._run(["systemctl", "reset-failed", self._config.unit])
            self._run(["systemctl", "restart", "--no-block", self._config.unit])

    def _own(self) -> Own:
        names = ("ActiveState", "SubState", "InvocationID")
        out = self._run(["systemctl", "show", *(f"--property={name}" for name in names), self._config.unit])
        values = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        phase = phase_of(values.get("ActiveState", ""), values.get("SubState", ""))
        return Own(phase, values.get("InvocationID", ""))


def _run(argv: list[str]) -> str:
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False, timeout=_SYSTEMCTL_SECONDS)
    return done.stdout


def main(argv: t.Sequence[str]) -> None:
    """Watch until the service is stopped."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    Watch(Config.read(argv[0]), _run).forever()


if __name__ == "__main__":
    main(sys.argv[1:])

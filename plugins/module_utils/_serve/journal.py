# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One switch at a time on a node, and what one that was cut off leaves for the next: a lock and a journal.

The kernel gives the lock back with the process that held it, however it ended. The journal says what served before the
switch began, which the node itself no longer shows once something was stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import typing as t
from dataclasses import asdict, dataclass, field

from .._errors import ModelopsError
from . import watch
from .release import write_file

_LOCK: t.Final = "switch.lock"
_JOURNAL: t.Final = "switch.json"
_POLL: t.Final = 1.0
# Between taking the lock and writing down what for, and again before giving it back, the file says nothing.
_NAMELESS_SECONDS: t.Final = 10.0
_OOM: t.Final = "/proc/self/oom_score_adj"
# Below vLLM and its engine (-500): a node that runs out of memory must not lose whoever brings its service back.
_OOM_SCORE: t.Final = -900
Phase: t.TypeAlias = t.Literal["stopping", "starting", "proving", "going-back", "done", "gone-back", "failed"]
# After "failed" nothing serves: what served before is still to be brought back.
_ENDED: t.Final = ("done", "gone-back")


@dataclass
class Entry:
    """A switch: what shall serve, what served before it, and how far it came."""

    started: str
    targets: dict[str, str]
    """instance -> release id"""
    before: dict[str, str] = field(default_factory=dict)
    """instance -> id of the release to go back to"""
    phase: Phase = "stopping"
    pid: int = 0

    @property
    def ended(self) -> bool:
        return self.phase in _ENDED


class Journal:
    """The journal below a state directory."""

    def __init__(self, state_dir: str) -> None:
        self._path = os.path.join(state_dir, _JOURNAL)

    def read(self) -> Entry | None:
        """The last switch; None when there was none, or nothing readable says so."""
        return _entry(self._path)

    def write(self, entry: Entry) -> None:
        """Have the entry on disk before anything that it announces is done."""
        entry.pid = os.getpid()
        _keep(self._path, entry)

    def remember(self, service: str, entry: Entry) -> None:
        """Keep how a service was switched last, until it is switched again: a rollback reverses it."""
        _keep(self._memory(service), entry)

    def recall(self, service: str) -> Entry | None:
        """The last switch of a service that changed what serves; None when nothing readable says so."""
        return _entry(self._memory(service))

    def _memory(self, service: str) -> str:
        return os.path.join(os.path.dirname(self._path), f"last-{service}.json")


def _entry(path: str) -> Entry | None:
    try:
        with open(path, encoding="utf-8") as f:
            return Entry(**json.load(f))
    except (OSError, ValueError, TypeError):
        return None


def _keep(path: str, entry: Entry) -> None:
    write_file(path, json.dumps(asdict(entry), sort_keys=True), 0o644)


@contextlib.contextmanager
def locked(
    state_dir: str, targets: t.Mapping[str, str], timeout: float, tell: t.Callable[[str], None]
) -> t.Iterator[None]:
    """Hold the lock of the node.

    A switch to the same ``targets`` that is going on is waited for, up to ``timeout`` seconds: it may be that of a
    controller that was lost. One to others is an error at once, since two operators want different things.
    """
    os.makedirs(state_dir, mode=0o755, exist_ok=True)
    path = os.path.join(state_dir, _LOCK)
    # Whoever can open the file can hold its lock for ever.
    with open(path, "a+", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as f:
        os.fchmod(f.fileno(), 0o600)
        _take(f, path, targets, timeout, tell)
        _write(f, {"pid": os.getpid(), "since": int(time.time()), "targets": dict(targets)})
        try:
            with _spared():
                yield
        finally:
            _write(f, {})


def _take(f: t.TextIO, path: str, targets: t.Mapping[str, str], timeout: float, tell: t.Callable[[str], None]) -> None:
    start = named = time.monotonic()
    told = False
    while True:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _holder(path)
        now = time.monotonic()
        named = now if holder else named
        same = holder.get("targets") == dict(targets)
        lost = now - start > timeout if same else bool(holder) or now - named > _NAMELESS_SECONDS
        if lost:
            raise ModelopsError(
                f"Another switch is going on on this node: {_describe(holder)}.",
                "Wait until it has ended and run again; nothing was touched by this run.",
            )
        if same and not told:
            told = True
            tell(f"waiting for the same switch, which is going on already ({_describe(holder)})")
        time.sleep(_POLL)


@contextlib.contextmanager
def _spared() -> t.Iterator[None]:
    """Be among the last that the kernel kills when memory runs out. Best effort: it takes root, and no sandbox."""
    before = _oom_score()
    if before is not None and before > _OOM_SCORE:
        _set_oom_score(_OOM_SCORE)
    try:
        yield
    finally:
        if before is not None and before > _OOM_SCORE:
            _set_oom_score(before)


def _oom_score() -> int | None:
    try:
        with open(_OOM, encoding="utf-8") as f:
            return int(f.read())
    except (OSError, ValueError):
        return None


def _set_oom_score(score: int) -> None:
    with contextlib.suppress(OSError), open(_OOM, "w", encoding="utf-8") as f:
        f.write(str(score))


def busy(state_dir: str) -> bool:
    """Whether a switch is going on. The lock is not tried: whoever wants it must get it."""
    return watch.locked(os.path.join(state_dir, _LOCK))


def _write(f: t.TextIO, holder: t.Mapping[str, t.Any]) -> None:
    """Say who holds the lock, for others to read. On a full disk nobody can, and the lock is held all the same."""
    os.ftruncate(f.fileno(), 0)
    with contextlib.suppress(OSError):
        os.pwrite(f.fileno(), json.dumps(holder).encode(), 0)


def _holder(path: str) -> dict[str, t.Any]:
    try:
        with open(path, encoding="utf-8") as f:
            holder = json.load(f)
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


def _describe(holder: t.Mapping[str, t.Any]) -> str:
    targets = holder.get("targets")
    what = ", ".join(f"{i} to release {r}" for i, r in targets.items()) if isinstance(targets, dict) else ""
    since = holder.get("since")
    ago = f", since {max(0, int(time.time()) - since)} s" if isinstance(since, int) else ""
    return f"process {holder.get('pid', 'unknown')}{ago}{', ' if what else ''}{what}"

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

_LOCK: t.Final = "switch.lock"
_JOURNAL: t.Final = "switch.json"
_POLL: t.Final = 1.0
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
        try:
            with open(self._path, encoding="utf-8") as f:
                return Entry(**json.load(f))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, entry: Entry) -> None:
        """Have the entry on disk before anything that it announces is done."""
        entry.pid = os.getpid()
        fresh = self._path + ".new"
        with open(fresh, "w", encoding="utf-8") as f:
            json.dump(asdict(entry), f, sort_keys=True)
            f.flush()
            os.fsync(f.fileno())
        os.replace(fresh, self._path)


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
    end = time.monotonic() + timeout
    told = False
    with open(path, "a+", encoding="utf-8") as f:
        while True:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = _holder(path)
            if holder.get("targets") != dict(targets) or time.monotonic() > end:
                raise ModelopsError(
                    f"Another switch is going on on this node: {_describe(holder)}.",
                    "Wait until it has ended and run again; nothing was touched by this run.",
                )
            if not told:
                told = True
                tell(f"waiting for the same switch, which is going on already ({_describe(holder)})")
            time.sleep(_POLL)
        _write(f, {"pid": os.getpid(), "since": int(time.time()), "targets": dict(targets)})
        try:
            yield
        finally:
            _write(f, {})


def busy(state_dir: str) -> bool:
    """Whether a switch is going on."""
    try:
        with open(os.path.join(state_dir, _LOCK), encoding="utf-8") as f:
            fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _write(f: t.TextIO, holder: t.Mapping[str, t.Any]) -> None:
    f.seek(0)
    f.truncate()
    json.dump(holder, f)
    f.flush()


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

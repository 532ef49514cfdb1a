# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One run at a time for a destination, also on file systems where flock does nothing.

The lock is a file that exists: O_EXCL is atomic where flock is not (some NFS and FUSE mounts grant it to all).
Its holder touches it; a waiter that sees no touch for ``SILENCE`` seconds, or whose own machine has no such
process any more, takes it over. Clocks of different machines are never compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import typing as t
import uuid

from .._errors import ModelopsError
from .._findings import error
from .errors import DISK_FULL
from .staging import make_folders

BEAT = 5.0
SILENCE = 60.0
_POLL = 0.5

# So many other runs may remove the folder of the lock meanwhile; with a link that leads nowhere it never stays.
_MAX_VANISHED = 100

# A lock has some 200 characters.
_MAX_SIZE = 1 << 16


class Lock:
    """A held lock; :meth:`require` tells whether it still is."""

    def __init__(self, path: str, token: str) -> None:
        self._path, self._token = path, token
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            with contextlib.suppress(OSError):
                if _token(_read(self._path)) == self._token:
                    os.utime(self._path)

    def require(self) -> None:
        """Raise ModelopsError when another run has taken the lock over, which thought that this one was dead."""
        if _token(_read(self._path)) != self._token:
            raise ModelopsError(
                f"The lock {self._path} was taken over by another run ({_who(_read(self._path))}).",
                "This run was suspended for too long; run again.",
            )

    def release(self) -> None:
        """Give the lock back, if it is still ours."""
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            if _token(_read(self._path)) == self._token:
                os.unlink(self._path)


@contextlib.contextmanager
def locked(path: str, timeout: float) -> t.Iterator[Lock]:
    """Hold the lock file at ``path``; ModelopsError names the holder when it is not free within ``timeout`` seconds."""
    lock = _acquire(path, timeout)
    try:
        yield lock
    finally:
        lock.release()


def _acquire(path: str, timeout: float) -> Lock:
    me = {"pid": os.getpid(), "host": _host(), "token": uuid.uuid4().hex, "since": int(time.time())}
    end = time.monotonic() + timeout
    seen: tuple[str, int] = ("", 0)
    since = time.monotonic()
    vanished = 0
    while True:
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileNotFoundError:
            # A run that was refused has removed the folders that it had made while this one waited.
            vanished += 1
            if vanished > _MAX_VANISHED:
                raise
            with contextlib.suppress(FileNotFoundError):
                make_folders(os.path.dirname(path))
            continue
        except FileExistsError:
            pass
        else:
            _write(fd, path, me)
            return Lock(path, str(me["token"]))
        holder = _read(path)
        state = (holder, _mtime(path))
        if state != seen:
            seen, since = state, time.monotonic()
        if _dead(holder) or time.monotonic() - since > SILENCE:
            _take_away(path, holder)
        elif time.monotonic() > end:
            raise ModelopsError(
                f"Another run holds {path}: {_who(holder)}; waited {timeout:.0f} s for it.",
                f"Wait for it, raise lock_timeout, or remove {path} if there is no such run.",
            )
        else:
            time.sleep(min(_POLL, timeout or _POLL))


def _write(fd: int, path: str, holder: t.Mapping[str, t.Any]) -> None:
    """Write who holds the lock; a lock that says nothing would block other runs, so it does not stay."""
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as f:
            json.dump(holder, f)
    except OSError as e:
        os.unlink(path)
        message, remedy = f"The lock {path} cannot be written: {e.strerror}.", "Free space, or give another dest."
        id_ = "disk-full" if e.errno in DISK_FULL else "lock-unwritable"
        raise ModelopsError(message, remedy, findings=[error(id_, message, remedy).as_dict()]) from e


def _take_away(path: str, holder: str) -> None:
    """Remove the lock of a dead holder; of two waiters that try, the rename lets one succeed."""
    aside = f"{path}.{uuid.uuid4().hex}"
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, aside)
        if _read(aside) != holder:
            # The other waiter was quicker and has the lock already: put it back.
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        os.unlink(aside)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read(_MAX_SIZE)
    except FileNotFoundError:
        return ""


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0


def _parsed(text: str) -> dict[str, t.Any]:
    with contextlib.suppress(ValueError, RecursionError):
        parsed = json.loads(text)
        if isinstance(parsed, dict):
            return parsed
    return {}


def _token(text: str) -> t.Any:
    return _parsed(text).get("token")


def _host() -> str:
    """This machine until its next boot; containers that share a host name differ in their PID namespace."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        parts.append(f.read().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _dead(text: str) -> bool:
    holder = _parsed(text)
    pid = holder.get("pid")
    if holder.get("host") != _host() or not isinstance(pid, int) or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # no process has a number that a pid_t cannot hold
        return True
    except PermissionError:
        return False
    return False


def _who(text: str) -> str:
    holder = _parsed(text)
    if not holder:
        return "an unknown process"
    since = holder.get("since")
    when = f"{max(0, int(time.time()) - since)} s ago" if isinstance(since, int) else "at a time that it does not tell"
    return f"process {holder.get('pid')} on {str(holder.get('host')).partition(' ')[0]}, started {when}"

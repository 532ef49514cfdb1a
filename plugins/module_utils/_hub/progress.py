# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""How far a run is, written where other processes can read it, and as a line for people.

The holder of a destination's lock keeps ``dest/.modelops/progress.json`` up to date::

    {"run": str, "pid": int, "phase": "verify" | "fetch", "bytes_done": int, "bytes_total": int,
     "files_done": int, "files_total": int, "bytes_per_second": float, "beat": int}

``run`` tells the runs apart, ``beat`` grows with each write. The rate is that of the last minute, from one clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import typing as t
from collections import deque

from .._weights.checks import RemoteFile
from .._weights.manifest import FOLDER

BEAT = 1.0
_WINDOW = 60.0

_VERBS = {"verify": "read", "fetch": "fetched"}


def progress_path(dest: str) -> str:
    """Where the progress of a run on a destination is."""
    return os.path.join(dest, FOLDER, "progress.json")


class Tally:
    """Counts what several threads read; bytes of a file that is finished count as its size."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, int] = {}
        self._bytes = 0
        self.files = 0

    def read(self, file: RemoteFile, size: int) -> None:
        """So many more bytes of a file were read."""
        with self._lock:
            self._open[file.name] = min(self._open.get(file.name, 0) + size, file.size)

    def finished(self, file: RemoteFile) -> None:
        """All that is to be read of a file was read."""
        with self._lock:
            self._open.pop(file.name, None)
            self._bytes += file.size
            self.files += 1

    @property
    def bytes(self) -> int:
        """Bytes so far."""
        with self._lock:
            return self._bytes + sum(self._open.values())


class Progress:
    """Keeps the progress file of a destination while one of its phases runs; the file goes with the object."""

    def __init__(self, dest: str, run: str) -> None:
        self._path, self._run = progress_path(dest), run
        self._beat = 0

    @contextlib.contextmanager
    def phase(
        self, name: str, files: t.Collection[RemoteFile], done: t.Callable[[], tuple[int, int]]
    ) -> t.Iterator[None]:
        """Tell how far ``done`` (bytes, files) is among ``files`` until the block ends."""
        totals = {"phase": name, "bytes_total": sum(f.size for f in files), "files_total": len(files)}
        stop = threading.Event()
        thread = threading.Thread(target=self._keep, args=(totals, done, stop), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _keep(self, totals: dict[str, t.Any], done: t.Callable[[], tuple[int, int]], stop: threading.Event) -> None:
        samples: deque[tuple[float, int]] = deque()
        while not stop.wait(BEAT):
            # Nobody's download fails because its progress could not be told.
            with contextlib.suppress(OSError):
                size, files = done()
                samples.append((time.monotonic(), size))
                while len(samples) > 2 and samples[-1][0] - samples[0][0] > _WINDOW:
                    samples.popleft()
                self._write({**totals, "bytes_done": size, "files_done": files, "bytes_per_second": _rate(samples)})

    def _write(self, state: dict[str, t.Any]) -> None:
        self._beat += 1
        temporary = f"{self._path}.new"
        with open(temporary, "w", encoding="utf-8") as f:
            json.dump({"run": self._run, "pid": os.getpid(), "beat": self._beat, **state}, f)
        os.chmod(temporary, 0o644)
        os.replace(temporary, self._path)

    def close(self) -> None:
        """Remove the file."""
        for path in (self._path, f"{self._path}.new"):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _rate(samples: t.Sequence[tuple[float, int]]) -> float:
    (start, first), (end, last) = samples[0], samples[-1]
    return max(0.0, (last - first) / (end - start)) if end > start else 0.0


def line(state: t.Mapping[str, t.Any]) -> str:
    """One line for people: amount, share, files, rate, time left. Decimal units, as the Hub shows them."""
    done, total = min(state["bytes_done"], state["bytes_total"]), state["bytes_total"]
    share = f"{100 * done // total} %" if total else "100 %"
    parts = [
        f"{size(done)} of {size(total)} {_VERBS.get(state['phase'], 'done')} ({share})",
        f"{state['files_done']} of {state['files_total']} files proven",
    ]
    rate = state["bytes_per_second"]
    if rate >= 1:
        parts += [f"{size(rate)}/s", f"{duration((total - done) / rate)} left"]
    return ", ".join(parts)


def size(value: float) -> str:
    """Bytes in decimal units: 950 kB, 12.3 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.95 or (unit == "B" and value < 1000):
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(seconds: float) -> str:
    """A time to wait: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

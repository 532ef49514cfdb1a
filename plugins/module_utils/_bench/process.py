# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Runs a client as a process of its own, and watches it: output, CPU time, the server while the load runs."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError

# File descriptors: one a stream, and room for libraries, pipes and files.
_FILES_PER_STREAM: t.Final = 4
_FILES_SPARE: t.Final = 256

_LOG_LINES: t.Final = 400


@dataclass(frozen=True)
class Command:
    """What is executed, and the lines of its output (in part, lower case) between which it sends the load."""

    argv: list[str]
    begin: str
    end: str


@dataclass
class ClientRun:
    """How one run of a client went. ``raw`` is its result; CPU and wall seconds are of the load alone."""

    rc: int
    log: str
    wall_s: float
    raw: dict[str, t.Any] | None = None
    arguments: list[str] = field(default_factory=list)
    timed_out: bool = False
    load_begin_unix: float | None = None
    load_wall_s: float | None = None
    load_cpu_s: float | None = None
    samples: list[t.Any] = field(default_factory=list)

    @property
    def cpu_share(self) -> float | None:
        """CPU seconds of all its processes a second of load: 1.0 is one core."""
        return self.load_cpu_s / self.load_wall_s if self.load_cpu_s is not None and self.load_wall_s else None


def raise_file_limit(concurrency: int) -> None:
    """Let this process, and so the client, open a file for each stream. Raises ModelopsError when it may not.

    With too few, a share of the requests fails, and the others look fast.
    """
    needed = _FILES_PER_STREAM * concurrency + _FILES_SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        hard = hard if hard == resource.RLIM_INFINITY else max(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (OSError, ValueError) as e:
        raise ModelopsError(
            f"{concurrency} streams need {needed} open files, but the limit is {soft} and cannot be raised: {e}.",
            f"Raise the limit (ulimit -n {needed}) for the user that runs the benchmark, or become root.",
        ) from e


def execute(
    command: Command,
    work_dir: str,
    *,
    environment: t.Mapping[str, str],
    timeout: float,
    sample: t.Callable[[], t.Any] | None = None,
    sample_every: float = 1.0,
) -> ClientRun:
    """Run the command in ``work_dir`` to its end; after ``timeout`` seconds its whole process group is killed.

    ``sample`` is called when the load begins, every ``sample_every`` seconds, and when it ends; what it returns is
    kept.
    """
    begin = time.monotonic()
    process = subprocess.Popen(
        command.argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd=work_dir,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    watch = _Watch(process, command, sample, sample_every)
    timed_out = False
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _kill_group(process)
        watch.finish()
    return ClientRun(
        rc=process.returncode,
        log=watch.log,
        wall_s=time.monotonic() - begin,
        timed_out=timed_out,
        load_begin_unix=watch.begin_unix,
        load_wall_s=watch.load_wall_s,
        load_cpu_s=watch.load_cpu_s,
        samples=watch.samples,
    )


def _kill_group(process: subprocess.Popen[str]) -> None:
    """End what the client left running; its session is its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Watch:
    """Reads the client's output as it comes, and looks at its CPU time and at the server while the load runs."""

    def __init__(
        self, process: subprocess.Popen[str], command: Command, sample: t.Callable[[], t.Any] | None, every: float
    ) -> None:
        self._process = process
        self._command = command
        self._sample = sample
        self._every = every
        self._lines: list[str] = []
        self._begin: tuple[float, float | None] | None = None
        self._end: tuple[float, float | None] | None = None
        self._over = threading.Event()
        self.samples: list[t.Any] = []
        self.begin_unix: float | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._sampler = threading.Thread(target=self._look, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        output = self._process.stdout
        for line in output or ():
            lowered = line.lower()
            if self._begin is None and self._command.begin in lowered:
                self.begin_unix = time.time()
                self._begin = (time.monotonic(), _cpu_seconds(self._process.pid))
                if self._sample:
                    self._sampler.start()
            elif self._begin and self._end is None and self._command.end in lowered:
                self._end = (time.monotonic(), _cpu_seconds(self._process.pid))
                self._over.set()
            self._lines.append(line.rstrip("\n"))
            del self._lines[:-_LOG_LINES]

    def _look(self) -> None:
        over = False
        while self._sample:
            seen = self._sample()
            if seen is not None:
                self.samples.append(seen)
            if over:
                return
            over = self._over.wait(self._every)

    def finish(self) -> None:
        """Wait for the threads; the process is over."""
        self._reader.join(10)
        self._over.set()
        if self._sampler.ident is not None:
            self._sampler.join(15)
        if self._process.stdout:
            self._process.stdout.close()

    @property
    def log(self) -> str:
        return "\n".join(self._lines)

    @property
    def load_wall_s(self) -> float | None:
        return self._end[0] - self._begin[0] if self._begin and self._end else None

    @property
    def load_cpu_s(self) -> float | None:
        if not self._begin or not self._end or self._begin[1] is None or self._end[1] is None:
            return None
        return self._end[1] - self._begin[1]


def _cpu_seconds(session: int) -> float | None:
    """User and system seconds so far of all processes of a session, whose id is its first process's.

    /proc/PID/stat has the session in field 6, own seconds in 14 and 15, those of children that have ended in 16 and 17.
    """
    ticks, seen = 0, False
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                    fields = f.read().rpartition(")")[2].split()
                if int(fields[3]) == session:
                    ticks += sum(map(int, fields[11:15]))
                    seen = True
    return ticks / os.sysconf("SC_CLK_TCK") if seen else None

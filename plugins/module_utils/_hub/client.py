# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Starts a worker, reads its events, and stops it when no bytes arrive any more."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import queue
import signal
import subprocess
import threading
import time
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from . import worker
from .errors import Chain

Event = t.Mapping[str, t.Any]

PUBLIC_ENDPOINT = "https://huggingface.co"
MIN_VERSION = (0, 36)

# Lines of a wrapper before the worker's first, and characters of one in a message.
_MAX_GREETING = 1000
_MAX_QUOTED = 200

# What a worker inherits. Everything else stays out: a stray HF_HUB_OFFLINE, HF_HOME or HF_TRANSFER of a login
# shell changes what huggingface_hub does.
_INHERITED = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
)


class WorkerFailedError(Exception):
    """The worker reported a failure (a chain of causes)."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(chain[0]["text"] if chain else "")
        self.chain = chain


class WorkerDiedError(Exception):
    """The worker ended without saying so; ``status`` is negative for a signal."""

    def __init__(self, status: int, tail: str) -> None:
        super().__init__(f"status {status}: {tail}")
        self.status = status
        self.tail = tail


class OldVersionError(ModelopsError):
    """The interpreter's huggingface_hub is older than those this collection is tested with."""


class NotStartedError(Exception):
    """There is no such interpreter, or it cannot be run."""


class StalledError(Exception):
    """No byte arrived for the time that was allowed, and the worker was killed."""


@dataclass(frozen=True)
class Interpreter:
    """A Python with huggingface_hub, and where its private files go. ``timeout`` (seconds) is for one answer."""

    python: str
    scratch: str
    endpoint: str
    xet: bool
    timeout: int = 30

    def environment(self) -> dict[str, str]:
        """The whole environment of the worker."""
        home = os.path.join(self.scratch, "home")
        env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {
            **env,
            "HOME": home,
            "TMPDIR": self.scratch,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "HF_HOME": home,
            "HF_HUB_CACHE": os.path.join(home, "hub"),
            "HF_XET_CACHE": os.path.join(home, "xet"),
            "HF_ENDPOINT": self.endpoint,
            "HF_HUB_DISABLE_XET": "0" if self.xet else "1",
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
            "HF_XET_TELEMETRY_ENABLED": "0",
            "DO_NOT_TRACK": "1",
            "HF_HUB_ETAG_TIMEOUT": str(self.timeout),
            "HF_HUB_DOWNLOAD_TIMEOUT": str(self.timeout),
        }


def require_version(text: str, python: str) -> None:
    """Refuse a huggingface_hub that is older than those this collection is tested with."""
    numbers = [int(p) for p in text.split(".")[:2] if p.isdigit()]
    if len(numbers) == 2 and tuple(numbers) < MIN_VERSION:
        raise OldVersionError(
            f"{python} has huggingface_hub {text}; {'.'.join(map(str, MIN_VERSION))} or newer is needed.",
            "Install a newer huggingface_hub, or give another interpreter with the option python.",
        )


def run(
    interpreter: Interpreter,
    job: t.Mapping[str, t.Any],
    on_event: t.Callable[[Event], None],
    progress: t.Callable[[], int] = lambda: 0,
    stall_timeout: float = 300.0,
) -> None:
    """Run one job to its end.

    ``on_event`` gets every event but done and the job's own failure; what it raises ends the worker.
    ``progress`` returns a figure that grows while bytes arrive. Raises :class:`WorkerFailedError`,
    :class:`WorkerDiedError`, :class:`NotStartedError`, :class:`OldVersionError`, :class:`StalledError`. No process is
    left behind.
    """
    os.makedirs(os.path.join(interpreter.scratch, "home"), exist_ok=True)
    program = os.path.join(interpreter.scratch, "worker.py")
    with open(program, "w", encoding="utf-8") as f:
        f.write(inspect.getsource(worker))
    log = os.path.join(interpreter.scratch, "worker.log")
    with open(log, "w", encoding="utf-8") as stderr:
        try:
            process = subprocess.Popen(
                [interpreter.python, program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=interpreter.environment(),
                cwd=interpreter.scratch,
                start_new_session=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as e:
            raise NotStartedError(e.strerror) from e
        try:
            told = _follow(process, interpreter, job, on_event, progress=progress, stall_timeout=stall_timeout)
        finally:
            _end(process)
    if process.returncode or told is not None:
        with open(log, encoding="utf-8", errors="replace") as f:
            raise WorkerDiedError(process.returncode, f.read()[-2000:] or told or "")


def _follow(
    process: subprocess.Popen[str],
    interpreter: Interpreter,
    job: t.Mapping[str, t.Any],
    on_event: t.Callable[[Event], None],
    *,
    progress: t.Callable[[], int],
    stall_timeout: float,
) -> str | None:
    """Hand events on until the worker says done, which gives None, or its output ends: its last line, if any."""
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(t.cast(t.TextIO, process.stdout), lines), daemon=True).start()
    stdin = t.cast(t.TextIO, process.stdin)
    common = {"endpoint": interpreter.endpoint, "scratch": interpreter.scratch, "timeout": interpreter.timeout}
    with contextlib.suppress(BrokenPipeError):
        stdin.write(json.dumps({**common, **job}) + "\n")
        stdin.flush()
    seen, since = progress(), time.monotonic()
    noise, greeting = "", 0
    while True:
        try:
            line = lines.get(timeout=min(1.0, stall_timeout / 4))
        except queue.Empty:
            now = progress()
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > stall_timeout:
                raise StalledError from None
            continue
        if not line:
            told: str | None = noise
            break
        event = _event(line)
        if not event:
            # A wrapper may greet before it starts the interpreter. What only prints is no interpreter.
            noise, greeting = worker.hide(line.strip(), job.get("token", ""))[:_MAX_QUOTED], greeting + 1
            if greeting > _MAX_GREETING:
                raise NotStartedError(f"it prints without an end, {noise!r} for one")
            continue
        since = time.monotonic()
        if event["event"] == "hello":
            require_version(event["version"], interpreter.python)
        if event["event"] == "failed" and not event["name"]:
            raise WorkerFailedError(event["error"])
        if event["event"] == "done":
            told = None
            break
        on_event(event)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=30)
    return told


def _event(line: str) -> Event:
    """What the worker tells in a line, empty for a line of something else."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else {}


def _read(stdout: t.TextIO, lines: queue.Queue[str]) -> None:
    with contextlib.suppress(ValueError):  # closed: nobody listens any more
        for line in stdout:
            lines.put(line)
    lines.put("")


def _end(process: subprocess.Popen[str]) -> None:
    """Kill what is left of the worker's process group."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Runs nvidia-smi and reads small files: bounded in time, without a shell, without changing anything."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class Output:
    """What a command said; ``rc`` is None when it did not end in time or could not be started."""

    stdout: str = ""
    stderr: str = ""
    rc: int | None = None
    missing: bool = False
    timed_out: bool = False

    @property
    def text(self) -> str:
        """Both streams: nvidia-smi writes its errors to either."""
        return f"{self.stdout}\n{self.stderr}"


Runner = t.Callable[[t.Sequence[str]], Output]


def runner(command: str, timeout: float) -> Runner:
    """A function that runs ``command`` with arguments; all calls together take ``timeout`` seconds at most."""
    deadline = time.monotonic() + timeout

    def run(arguments: t.Sequence[str]) -> Output:
        return _run([command, *arguments], max(0.1, deadline - time.monotonic()))

    return run


def _run(argv: list[str], timeout: float) -> Output:
    env = {**os.environ, "LC_ALL": "C", "LANG": "C"}
    try:
        # No context manager: it would wait for ever for a process that hangs in the driver (state D).
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        return Output(missing=True)
    except OSError as e:
        return Output(stderr=str(e))
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        return Output(timed_out=True)
    return Output(stdout, stderr, process.returncode)


def read_text(path: str) -> str:
    """A small file of /proc or /sys, empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""

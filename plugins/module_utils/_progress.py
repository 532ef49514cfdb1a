# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a long job is doing, written where the controller reads it, as a line for people.

A module that runs as a job (plugins/plugin_utils/_job.py) keeps a file of this form up to date::

    {"run": str, "pid": int, "beat": int, "line": str}

``run`` tells the runs apart and ``beat`` grows with each line. Anyone may read the file: no secret goes there.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import typing as t

# Gone with the next boot, as the jobs are.
DIRECTORY: t.Final = "/run/modelops-vllm"


def shared_path(name: str) -> str:
    """The file of a job of which a node runs one at a time, and others wait: ``/run/modelops-vllm/<name>.json``."""
    return f"{DIRECTORY}/{name}.json"


def own_path(tmpdir: str) -> str:
    """The file of any other job, in Ansible's temporary folder of the task, which goes with the job."""
    return os.path.join(tmpdir, "progress.json")


def run_id(tmpdir: str) -> str:
    """What tells one run of a module from others: Ansible's temporary folder of the task, which both sides know."""
    return os.path.basename(tmpdir.rstrip("/"))


class ProgressFile:
    """The progress of one run, on a path by ``shared_path`` or ``own_path``; the file goes with the block.

    ``run`` is ``run_id(module.tmpdir)``. Writers of a shared path must exclude each other.
    """

    def __init__(self, path: str, run: str) -> None:
        self._path, self._run = path, run
        self._beat = 0
        self._lock = threading.Lock()

    def __enter__(self) -> ProgressFile:
        return self

    def __exit__(self, *_exception: object) -> None:
        for path in (self._path, self._new):
            with contextlib.suppress(OSError):
                os.unlink(path)

    @property
    def _new(self) -> str:
        # Named after the process: what a run that was killed has left, or another user's, is not in the way.
        return f"{self._path}.{os.getpid()}.new"

    def tell(self, line: str) -> None:
        """Say what is being done now, from any thread. Nobody's job fails because its progress could not be told."""
        with self._lock, contextlib.suppress(OSError):
            self._beat += 1
            self._write({"run": self._run, "pid": os.getpid(), "beat": self._beat, "line": line})

    def _write(self, state: dict[str, t.Any]) -> None:
        folder = os.path.dirname(self._path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
            os.chmod(folder, 0o755)
        with open(self._new, "w", encoding="utf-8") as f:
            json.dump(state, f)
        os.chmod(self._new, 0o644)
        os.replace(self._new, self._path)

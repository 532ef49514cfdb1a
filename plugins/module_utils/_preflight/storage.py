# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Checks of disk and shared memory."""

from __future__ import annotations

import os
import pwd
import re
import typing as t

from .._findings import Finding, info, warning
from .question import Question

_GIB = 2**30

# What each rank needs of /dev/shm for NCCL's buffers and vLLM's message queues: what NCCL's manual gives a container.
_SHM_PER_RANK = _GIB
# NCCL's segments, and those of Python's shared_memory with which vLLM hands batches to its workers.
_SEGMENT = re.compile(r"(nccl-|psm_)\w+")


def nearest(path: str) -> str:
    """``path``, or what is there of the way to it."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def disk(question: Question) -> list[Finding] | None:
    """Room for what of the snapshot is not there yet, by the size in the profile.

    A warning, since that size is computed: the role weights asks the Hub for the true one, and refuses by that.
    """
    if not question.weights_bytes or not question.weights_dest:
        return None
    place = nearest(question.weights_dest)
    there = _bytes_below(question.weights_dest)
    fs = os.statvfs(place)
    return judge_disk(question.weights_dest, question.weights_bytes, there, fs.f_bavail * fs.f_frsize)


def judge_disk(dest: str, size: int, there: int, free: int) -> list[Finding]:
    """All in bytes: the size of the snapshot, what is there of it, and what is free."""
    missing = max(0, size - there)
    if missing <= free:
        return []
    return [
        warning(
            "disk-space",
            f"{dest} has {there / _GIB:.1f} GiB of the {size / _GIB:.1f} GiB of the model, and its file system "
            f"{free / _GIB:.1f} GiB free for the other {missing / _GIB:.1f} GiB.",
            "Make room, or set weights_dest to a larger file system.",
            size_bytes=size,
            there_bytes=there,
            free_bytes=free,
        )
    ]


def _bytes_below(path: str) -> int:
    """Bytes on disk: a file that was made long beforehand has fewer than its size."""
    total = 0
    for folder, _folders, names in os.walk(path):
        for name in names:
            try:
                found = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            total += min(found.st_size, found.st_blocks * 512)
    return total


def shared_memory(question: Question, shm: str = "/dev/shm", proc: str = "/proc") -> list[Finding] | None:
    """Its size, and the segments that crashed runs of the service user left behind."""
    findings = []
    ranks = len(question.used_gpus)
    if ranks > 1:
        fs = os.statvfs(shm) if os.path.isdir(shm) else None
        free, size = (fs.f_bavail * fs.f_frsize, fs.f_blocks * fs.f_frsize) if fs else (0, 0)
        findings += judge_size(shm, size, free, ranks)
    try:
        uid = pwd.getpwnam(question.user).pw_uid
        names = [n for n in os.listdir(shm) if _SEGMENT.fullmatch(n) and os.lstat(os.path.join(shm, n)).st_uid == uid]
    except (KeyError, OSError):
        names = []
    if names:
        used, sure = segments_in_use(shm, proc)
        findings += judge_segments(shm, sorted(set(names) - used), question.user, sure)
    return findings


def judge_size(shm: str, size: int, free: int, ranks: int) -> list[Finding]:
    """Bytes of the file system and of its free part, for this many GPUs."""
    if free >= ranks * _SHM_PER_RANK:
        return []
    return [
        warning(
            "shm-small",
            f"{shm} has {free / _GIB:.2f} GiB free of {size / _GIB:.2f} GiB, {ranks} GPUs should have "
            f"{ranks * _SHM_PER_RANK / _GIB:.0f} GiB.",
            f"Remount {shm} larger; run a container with --ipc=host or a larger --shm-size.",
            size_bytes=size,
            free_bytes=free,
            gpus=ranks,
        )
    ]


def judge_segments(shm: str, unused: t.Sequence[str], user: str, sure: bool) -> list[Finding]:
    """Segments of ``user`` that nothing was seen to use; not ``sure`` where processes could not be looked at."""
    if not unused:
        return []
    make, doubt = (warning, "") if sure else (info, ", as far as can be seen: some processes cannot be looked at")
    shown = ", ".join(unused[:5]) + (", ..." if len(unused) > 5 else "")
    return [
        make(
            "shm-stale",
            f"{shm} has {len(unused)} segments of {user} that no process uses{doubt}: {shown}.",
            f"Remove them while no instance of {user} runs.",
            segments=list(unused),
        )
    ]


def segments_in_use(shm: str = "/dev/shm", proc: str = "/proc") -> tuple[set[str], bool]:
    """(names in ``shm`` that a process maps or has open, whether all processes could be looked at)."""
    used: set[str] = set()
    sure = True
    prefix = shm.rstrip("/") + "/"
    for pid in filter(str.isdigit, os.listdir(proc)):
        try:
            with open(f"{proc}/{pid}/maps", encoding="utf-8", errors="replace") as maps:
                paths = [line.rstrip("\n").partition(prefix)[2] for line in maps if prefix in line]
            links = [_link(f"{proc}/{pid}/fd/{fd}") for fd in os.listdir(f"{proc}/{pid}/fd")]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        except OSError:
            sure = False
            continue
        used.update(paths)
        used.update(link.removeprefix(prefix) for link in links if link.startswith(prefix))
    return used, sure


def _link(path: str) -> str:
    """Where a link leads; empty when it is gone meanwhile, as a file that was closed."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""

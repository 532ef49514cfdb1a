# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The manifest: our record of what was verified, and when it still holds.

``dest/.modelops/manifest.json`` is written after verification only, and atomically. It says nothing about a file
whose stamp (size, mtime, ctime, inode) is another than the recorded one.
"""

from __future__ import annotations

import json
import os
import time
import typing as t
from dataclasses import asdict, dataclass, field

from .._errors import ModelopsError
from .checks import LEVELS, Level, RemoteFile, Stamp

FOLDER = ".modelops"
SCHEMA = 1


@dataclass(frozen=True)
class Selection:
    """What the user asked for; another selection is another set of files."""

    allow_patterns: tuple[str, ...] = ()
    ignore_patterns: tuple[str, ...] = ()
    allow_pickle: bool = False


@dataclass(frozen=True)
class Record:
    """One verified file. ``verified`` is the level that was reached, ``sha256`` may come from the Hub."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    sha256: str | None
    blob_id: str | None
    verified: Level

    @property
    def stamp(self) -> Stamp:
        """The stamp at the time of the verification."""
        return Stamp(self.size, self.mtime_ns, self.ctime_ns, self.inode)

    def remote(self, name: str) -> RemoteFile:
        """The file as the Hub described it."""
        return RemoteFile(name, self.size, self.sha256, self.blob_id)

    def holds(self, path: str, level: Level) -> bool:
        """Whether the file at ``path`` is still the one that was verified at this level or a higher one."""
        try:
            return LEVELS.index(self.verified) >= LEVELS.index(level) and Stamp.of(path) == self.stamp
        except OSError:
            return False


@dataclass(frozen=True)
class Manifest:
    """The verified state of a destination.

    ``shards`` are the files that hold weights, ``stale`` files of earlier manifests that are no longer wanted,
    ``upstream`` findings (as dicts) about the published files themselves, which a later run repeats.
    """

    repo: str
    commit: str
    revision: str
    selection: Selection
    verified: Level
    shards: tuple[str, ...]
    files: t.Mapping[str, Record]
    stale: tuple[str, ...] = ()
    upstream: tuple[t.Mapping[str, t.Any], ...] = field(default=())

    def remotes(self) -> dict[str, RemoteFile]:
        """The files as the Hub described them."""
        return {name: record.remote(name) for name, record in self.files.items()}


def manifest_path(dest: str) -> str:
    """Where the manifest of a destination is."""
    return os.path.join(dest, FOLDER, "manifest.json")


def load(dest: str) -> Manifest | None:
    """The manifest of a destination, None when there is none.

    Raises ModelopsError for one that cannot be understood: it is not ours to overwrite.
    """
    path = manifest_path(dest)
    try:
        with open(path, encoding="utf-8") as f:
            raw = json.load(f)
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema {raw['schema']!r}, this version reads {SCHEMA}")
        return Manifest(
            repo=raw["repo"],
            commit=raw["commit"],
            revision=raw["revision"],
            selection=Selection(
                tuple(raw["selection"]["allow_patterns"]),
                tuple(raw["selection"]["ignore_patterns"]),
                raw["selection"]["allow_pickle"],
            ),
            verified=LEVELS[LEVELS.index(raw["verified"])],
            shards=tuple(raw["shards"]),
            files={name: Record(**record) for name, record in raw["files"].items()},
            stale=tuple(raw["stale"]),
            upstream=tuple(raw["upstream"]),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ModelopsError(
            f"The manifest {path} cannot be read: {e!r}.",
            "Move it away to have every file verified from the start.",
        ) from e


def save(dest: str, manifest: Manifest) -> None:
    """Write the manifest so that a reader sees the old or the new one, also after a crash."""
    path = manifest_path(dest)
    body = {"schema": SCHEMA, "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **asdict(manifest)}
    temporary = f"{path}.new"  # the lock of the destination makes this run the only writer
    with open(temporary, "w", encoding="utf-8") as f:
        json.dump(body, f, indent=1, sort_keys=True)
        f.flush()
        os.fsync(f.fileno())
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
    sync_folder(os.path.dirname(path))


def sync_folder(path: str) -> None:
    """Have the names in a folder survive a crash."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

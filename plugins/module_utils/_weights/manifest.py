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
import re
import time
import typing as t
from dataclasses import asdict, dataclass, field, fields

from .._errors import ModelopsError
from .._findings import Finding
from .checks import LEVELS, Level, RemoteFile, Stamp
from .names import unsafe_reason

FOLDER = ".modelops"
SCHEMA = 1

# No file system has larger numbers, and no platform's stat gives any.
_MAX_NUMBER = 1 << 64


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

    ``shards`` are the files that hold weights, ``stale`` files of earlier manifests that are no longer wanted, with
    their stamps, ``upstream`` findings (as dicts) about the published files and the selection of them, which a later
    run repeats.
    """

    repo: str
    commit: str
    revision: str
    selection: Selection
    verified: Level
    shards: tuple[str, ...]
    files: t.Mapping[str, Record]
    stale: t.Mapping[str, Stamp] = field(default_factory=dict)
    upstream: tuple[t.Mapping[str, t.Any], ...] = field(default=())

    def remotes(self) -> dict[str, RemoteFile]:
        """The files as the Hub described them."""
        return {name: record.remote(name) for name, record in self.files.items()}


def manifest_path(dest: str) -> str:
    """Where the manifest of a destination is."""
    return os.path.join(dest, FOLDER, "manifest.json")


def load(dest: str) -> Manifest | None:
    """The manifest of a destination, None when there is none.

    Raises ModelopsError for one that cannot be read or understood: it is not ours to overwrite, and what it does not
    describe is not proven.
    """
    path = manifest_path(dest)
    try:
        with open(path, encoding="utf-8") as f:
            raw = json.load(f)
        return _parsed(raw)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as e:
        raise ModelopsError(
            f"The manifest {path} cannot be read: permission denied.", "Run as a user who may read and write it."
        ) from e
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise ModelopsError(
            f"The manifest {path} cannot be read: {e!r}.",
            "Move it away to have every file verified from the start.",
        ) from e


def _parsed(raw: t.Any) -> Manifest:
    """The manifest in parsed JSON; ValueError, KeyError, TypeError or AttributeError for what is none."""
    if raw["schema"] != SCHEMA:
        raise ValueError(f"schema {raw['schema']!r}, this version reads {SCHEMA}")
    files = {_name(name): _record(name, record) for name, record in raw["files"].items()}
    shards = tuple(_name(n) for n in _a(list, "shards", raw["shards"]))
    if not files:
        raise ValueError("it names no files")
    if not set(shards) <= files.keys() or len(set(shards)) < len(shards):
        raise ValueError("shards names a file twice, or one that files does not")
    verified = _level(raw["verified"])
    if LEVELS.index(verified) > min(LEVELS.index(r.verified) for r in files.values()):
        raise ValueError(f"verified is {verified}, and a file is verified at a lower level")
    chosen = raw["selection"]
    return Manifest(
        repo=_a(str, "repo", raw["repo"]),
        commit=_hexadecimal("commit", raw["commit"], 40),
        revision=_a(str, "revision", raw["revision"]),
        selection=Selection(
            _texts("allow_patterns", chosen["allow_patterns"]),
            _texts("ignore_patterns", chosen["ignore_patterns"]),
            _a(bool, "allow_pickle", chosen["allow_pickle"]),
        ),
        verified=verified,
        shards=shards,
        files=files,
        stale=_stale(raw["stale"]),
        upstream=tuple(_finding(f) for f in _a(list, "upstream", raw["upstream"])),
    )


_T = t.TypeVar("_T")


def _a(kind: type[_T], what: str, value: t.Any) -> _T:
    if not isinstance(value, kind):
        raise ValueError(f"{what} is {value!r:.100}, a {kind.__name__} is needed")
    return value


def _texts(what: str, values: t.Any) -> tuple[str, ...]:
    return tuple(_a(str, what, v) for v in _a(list, what, values))


def _name(name: t.Any) -> str:
    """A name below the destination: whoever may write the manifest does not get to choose another folder."""
    reason = unsafe_reason(_a(str, "a name", name))
    if reason:
        raise ValueError(f"the name {name!r:.100} is refused: {reason}")
    return t.cast(str, name)


def _level(value: t.Any) -> Level:
    return LEVELS[LEVELS.index(value)]


def _number(what: str, value: t.Any, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _MAX_NUMBER:
        raise ValueError(f"{what} is no number of a file")
    return value


def _hexadecimal(what: str, value: t.Any, digits: int) -> str:
    if not re.fullmatch(rf"[0-9a-f]{{{digits}}}", _a(str, what, value)):
        raise ValueError(f"{what} is {value!r:.100}, {digits} hexadecimal digits are needed")
    return t.cast(str, value)


def _stamp(name: str, raw: t.Mapping[str, t.Any]) -> Stamp:
    return Stamp(
        size=_number(f"size of {name}", raw["size"]),
        # Clocks may have been before 1970.
        mtime_ns=_number(f"mtime_ns of {name}", raw["mtime_ns"], -_MAX_NUMBER),
        ctime_ns=_number(f"ctime_ns of {name}", raw["ctime_ns"], -_MAX_NUMBER),
        inode=_number(f"inode of {name}", raw["inode"]),
    )


def _record(name: str, raw: t.Mapping[str, t.Any]) -> Record:
    unknown = raw.keys() - {f.name for f in fields(Record)}
    if unknown:
        raise ValueError(f"{name} has the unknown field {min(unknown)}")
    sha256, blob_id = raw["sha256"], raw["blob_id"]
    return Record(
        **asdict(_stamp(name, raw)),
        sha256=None if sha256 is None else _hexadecimal(f"sha256 of {name}", sha256, 64),
        blob_id=None if blob_id is None else _hexadecimal(f"blob_id of {name}", blob_id, 40),
        verified=_level(raw["verified"]),
    )


def _stale(raw: t.Any) -> dict[str, Stamp]:
    if isinstance(raw, list):
        # Version 1.0.0 wrote names alone: nothing proves that those are still the files that it put there.
        return dict.fromkeys((_name(n) for n in raw), Stamp(0, 0, 0, 0))
    return {_name(name): _stamp(name, stamp) for name, stamp in raw.items()}


def _finding(raw: t.Any) -> dict[str, t.Any]:
    """A finding as a dict, proven to be one."""
    found = Finding(**_a(dict, "a finding", raw))
    for what in ("id", "severity", "message", "remedy"):
        _a(str, what, getattr(found, what))
    if found.severity not in ("error", "warning", "info"):
        raise ValueError(f"severity is {found.severity!r:.100}")
    _a(str, "file", _a(dict, "numbers", found.numbers).get("file", ""))
    return found.as_dict()


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

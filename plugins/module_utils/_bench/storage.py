# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Results on disk: one directory a run, ``points.jsonl`` that only grows, the client's raw output beside it."""

from __future__ import annotations

import contextlib
import glob
import gzip
import json
import os
import secrets
import tempfile
import time
import typing as t

from .._errors import ModelopsError, NotBuiltError

SCHEMA_VERSION: t.Final = 1
POINTS_FILE: t.Final = "points.jsonl"
RAW_DIR: t.Final = "raw"
# What the figures mean, for readers that have the directory only.
DEFINITIONS_FILE: t.Final = "definitions.json"

# Texts make up most of a raw file and say nothing about speed.
_STRIPPED: t.Final = ("generated_texts",)


def create_run_dir(results_dir: str) -> str:
    """Make a directory for this run, named by the time in UTC, and return its path.

    Raises ModelopsError when ``results_dir`` cannot be written.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = os.path.join(results_dir, f"{stamp}-{secrets.token_hex(3)}")
    try:
        os.makedirs(os.path.join(path, RAW_DIR))
    except OSError as e:
        raise ModelopsError(
            f"results_dir {results_dir!r} cannot be used: {e.strerror or e}.", "Give a directory that can be written."
        ) from e
    return path


def append_record(run_dir: str, record: t.Mapping[str, t.Any]) -> str:
    """Add one line to the run's points and make it durable; returns the file's path."""
    path = os.path.join(run_dir, POINTS_FILE)
    with open(path, "a", encoding="utf-8") as f:
        f.write(json.dumps(record, sort_keys=True, allow_nan=False) + "\n")
        f.flush()
        os.fsync(f.fileno())
    return path


def store_raw(run_dir: str, name: str, raw: t.Mapping[str, t.Any]) -> str:
    """Keep the client's own result, without the generated texts; returns the path relative to the run."""
    relative = os.path.join(RAW_DIR, f"{name}.json.gz")
    kept = {key: value for key, value in raw.items() if key not in _STRIPPED}
    _write_gzip(os.path.join(run_dir, relative), json.dumps(kept))
    return relative


def store_log(run_dir: str, name: str, log: str) -> str:
    """Keep the client's output, from which secrets were removed; returns the path relative to the run."""
    relative = os.path.join(RAW_DIR, f"{name}.log.gz")
    _write_gzip(os.path.join(run_dir, relative), log + "\n")
    return relative


def _write_gzip(path: str, text: str) -> None:
    with open(path, "wb") as f, gzip.GzipFile(filename="", mode="wb", fileobj=f, mtime=0) as z:
        z.write(text.encode())


def find_points(path: str) -> str:
    """The points file that ``path`` is or, as the directory of a run, holds. Raises ModelopsError without one."""
    found = os.path.join(path, POINTS_FILE) if os.path.isdir(path) else path
    if not os.path.isfile(found):
        raise ModelopsError(
            f"There are no benchmark results at {path!r}.",
            f"Give a {POINTS_FILE} or the directory of a run that has one.",
        )
    return found


def read_records(path: str) -> list[dict[str, t.Any]]:
    """All records of a points file or a run's directory, in order.

    Raises ModelopsError for a file that is empty or torn, and NotBuiltError for another schema version.
    """
    found = find_points(path)
    with open(found, encoding="utf-8") as f:
        records = _parse(f, found)
    if not records:
        raise ModelopsError(f"{found} holds no record.", "The run measured nothing; run it again.")
    return records


def _parse(lines: t.Iterable[str], path: str) -> list[dict[str, t.Any]]:
    records = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            version = record["schema_version"]
        except (ValueError, KeyError, TypeError) as e:
            raise ModelopsError(
                f"Line {number} of {path} is no benchmark record: {e!r}.", "Use the file as vllm_bench wrote it."
            ) from e
        if version != SCHEMA_VERSION:
            raise NotBuiltError(
                f"Reading results of schema version {version!r} ({path})",
                f"This version reads {SCHEMA_VERSION}; measure again or use the version that wrote the file.",
            )
        records.append(record)
    return records


def name_of(record: t.Mapping[str, t.Any]) -> str:
    """Names a measurement: its point and repeat."""
    return f"{record['point']['id']}-r{record['repeat']}"


def latest(records: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """One record for each measurement: a resumed run measures again what was invalid, and the last one holds."""
    return list({name_of(record): record for record in records}.values())


def find_unfinished(
    results_dir: str, alike: t.Callable[[t.Mapping[str, t.Any]], bool], names: t.Collection[str]
) -> tuple[str, dict[str, dict[str, t.Any]]] | None:
    """The newest run whose identity is ``alike``, with its valid records by name; None when all ``names`` are there.

    A last line that was torn when the run was ended is cut off. Files that are no results are passed over.
    """
    for path in sorted(glob.glob(os.path.join(glob.escape(results_dir), "*", POINTS_FILE)), reverse=True):
        with open(path, "rb") as f:
            data = f.read()
        whole = data.rfind(b"\n") + 1
        try:
            records = latest(_parse(data[:whole].decode("utf-8", "replace").splitlines(), path))
        except ModelopsError:
            continue
        if not records or not alike(records[0].get("identity") or {}):
            continue
        done = {name_of(record): record for record in records if record["valid"]}
        if all(name in done for name in names):
            return None
        if whole < len(data):
            os.truncate(path, whole)
        return os.path.dirname(path), done
    return None


def read_text(path: str) -> str | None:
    """The text of a file that this collection wrote; None when there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as f:
            return f.read()
    except FileNotFoundError:
        return None
    except OSError as e:
        raise ModelopsError(f"{path} cannot be read: {e.strerror or e}.", "Correct the permissions or dest.") from e


def write_text(path: str, text: str) -> None:
    """Replace a file in one step, readable by everybody; its directory is made. Raises ModelopsError on failure."""
    directory = os.path.dirname(path)
    temporary = ""
    try:
        os.makedirs(directory, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=directory, prefix=".report-")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as e:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise ModelopsError(f"{path} cannot be written: {e.strerror or e}.", "Correct the permissions or dest.") from e

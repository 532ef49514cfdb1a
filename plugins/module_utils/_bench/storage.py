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
import math
import os
import secrets
import tempfile
import time
import typing as t

from .._errors import ModelopsError, NotBuiltError
from .._findings import warning
from . import origin

SCHEMA_VERSION: t.Final = 1
POINTS_FILE: t.Final = "points.jsonl"
RAW_DIR: t.Final = "raw"
# What the figures mean, for readers that have the directory only.
DEFINITIONS_FILE: t.Final = "definitions.json"

# What a record has where, so that whoever reads it need not ask.
_NUMBER: t.Final = (int, float)
_NULL: t.Final = type(None)
_ABSENT: t.Final = object()
_FORM: t.Final[dict[str, tuple[type, ...]]] = {
    "run": (str,),
    "point": (dict,),
    "point.id": (str,),
    "point.concurrency": (int, _NULL),
    "point.input_len": (int, _NULL),
    "point.output_len": (int, _NULL),
    "point.num_prompts": (int, _NULL),
    "repeat": (int,),
    "valid": (bool,),
    "started_unix": (*_NUMBER, _NULL),
    "ended_unix": (*_NUMBER, _NULL),
    "metrics": (dict, _NULL),
    "server": (dict, _NULL),
    "findings": (list,),
    "run_findings": (list,),
    "identity": (dict,),
    "identity.model": (str,),
    "identity.given": (dict,),
}
# What only a measurement has, not the figures that somebody has published.
_MEASURED: t.Final[dict[str, tuple[type, ...]]] = {
    "identity.client": (dict,),
    "identity.client.place": (str,),
    "identity.server": (dict,),
    "identity.load": (dict,),
    "identity.load.dataset": (str,),
}
_FINDING: t.Final = {"id": (str,), "severity": (str,), "message": (str,), "remedy": (str,), "numbers": (dict,)}

_REMEDY: t.Final = f"Give the {POINTS_FILE} as vllm_bench wrote it, or measure again."

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

    A last line that was torn when the run was ended is left out, and told by a finding of the run. Raises ModelopsError
    for a file that is empty or damaged elsewhere, and NotBuiltError for another schema version.
    """
    found = find_points(path)
    records, whole, size = _read(found)
    if not records:
        raise ModelopsError(f"{found} holds no record.", "The run measured nothing; run it again.")
    if whole < size:
        torn = warning(
            "line-torn",
            f"The last line of {POINTS_FILE} was torn when the run was ended, and is left out.",
            "Continue the run with resume.",
            bytes=size - whole,
        )
        records[-1]["run_findings"] = [*records[-1]["run_findings"], torn.as_dict()]
    return records


def _read(path: str) -> tuple[list[dict[str, t.Any]], int, int]:
    """The records, how many bytes they take, and how many the file has: what follows them is one torn line."""
    try:
        with open(path, "rb") as f:
            data = f.read()
    except OSError as e:
        raise ModelopsError(f"{path} cannot be read: {e.strerror or e}.", "Correct the permissions.") from e
    *lines, last = data.split(b"\n")
    records = [_record(line, number, path) for number, line in enumerate(lines, 1) if line.strip()]
    whole = len(data) - len(last)
    if last.strip() and not _torn(last):
        records.append(_record(last, len(lines) + 1, path))
        whole = len(data)
    return records, whole, len(data)


def _torn(line: bytes) -> bool:
    """Whether a line without its end is the beginning of a record."""
    try:
        json.loads(line)
    except ValueError:
        return line.startswith(b"{")
    return False


def _record(line: bytes, number: int, path: str) -> dict[str, t.Any]:
    """One line. Raises ModelopsError for what is no record, and NotBuiltError for one of another schema version."""
    try:
        record = json.loads(line.decode(), parse_constant=_finite, parse_float=_finite)
        # Half a character is legal in JSON, and in no file that is made of it.
        json.dumps(record, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as e:
        reason = f"byte {e.start + 1} is no text" if isinstance(e, (UnicodeDecodeError, UnicodeEncodeError)) else str(e)
        raise ModelopsError(f"Line {number} of {path} is no benchmark record: {reason}.", _REMEDY) from e
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version is not None and version != SCHEMA_VERSION:
        raise NotBuiltError(
            f"Reading results of schema version {version!r} ({path})",
            f"This version reads {SCHEMA_VERSION}; measure again or use the version that wrote the file.",
        )
    fault = _fault(record) if version is not None else "it has no schema_version"
    if fault:
        raise ModelopsError(f"Line {number} of {path} is no benchmark record: {fault}.", _REMEDY)
    return t.cast("dict[str, t.Any]", record)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no figure")
    return number


def _fault(record: dict[str, t.Any]) -> str:
    """What a record lacks; empty when it has all that it is read for."""
    form = _FORM if origin.source([record]) else _FORM | _MEASURED
    lacks = _lacking(record, form)
    if lacks:
        return f"it has no {lacks}"
    for name in ("findings", "run_findings"):
        if not all(isinstance(one, dict) and not _lacking(one, _FINDING) for one in record[name]):
            return f"its {name} are none"
    return ""


def _lacking(value: dict[str, t.Any], form: t.Mapping[str, tuple[type, ...]]) -> str:
    """The first of these keys, dotted, that is not there or has another type; empty when all are as they should be."""
    for path, types in form.items():
        found: t.Any = value
        for key in path.split("."):
            found = found.get(key, _ABSENT) if isinstance(found, dict) else _ABSENT
        if not isinstance(found, types):
            return path
    return ""


def name_of(record: t.Mapping[str, t.Any]) -> str:
    """Names a measurement: its point and repeat."""
    return f"{record['point']['id']}-r{record['repeat']}"


def latest(records: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """One record for each measurement: a resumed run measures again what was invalid, and the last one holds."""
    return list({name_of(record): record for record in records}.values())


def find_unfinished(
    results_dir: str, alike: t.Callable[[t.Mapping[str, t.Any]], bool], names: t.Collection[str]
) -> tuple[str, dict[str, dict[str, t.Any]]] | None:
    """The newest run whose first record is ``alike``, with its valid records by name; None when it has all ``names``.

    A last line that was torn when the run was ended is cut off. Files that are no results are passed over.
    """
    for path in sorted(glob.glob(os.path.join(glob.escape(results_dir), "*", POINTS_FILE)), reverse=True):
        try:
            found, whole, size = _read(path)
        except ModelopsError:
            continue
        records = latest(found)
        if not records or not alike(records[0]):
            continue
        done = {name_of(record): record for record in records if record["valid"]}
        if all(name in done for name in names):
            return None
        if whole < size:
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

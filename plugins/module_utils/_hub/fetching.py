# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Fetches files until each of them is proven, with a bound on attempts that bring nothing."""

from __future__ import annotations

import os
import time
import typing as t
from concurrent.futures import Future, ThreadPoolExecutor

from .._errors import ModelopsError
from .._findings import error, info
from .._weights.checks import Check, Level, RemoteFile, check_file
from .._weights.inspect import finding_of
from .._weights.selection import Listing
from .errors import Failure, ListingError
from .progress import Progress, Tally
from .request import Report, Request
from .sources import Source
from .staging import Staging

_MAX_PAUSE = 60.0
_MAX_RETRY_AFTER = 300.0


def list_files(source: Source, known: str, request: Request, report: Report) -> Listing:
    """The listing of a commit, asked for again while the Hub is busy; ListingError when it does not come."""
    failures = 0
    while True:
        try:
            return source.listing(known)
        except ListingError as e:
            failures += 1
            if not e.failure.passing or failures > request.retries:
                raise
            report.findings.append(info("retried", f"The listing was asked for again: {e.failure.message}"))
            _pause(failures, e.failure)


def fetch(
    source: Source, files: t.Collection[RemoteFile], staging: Staging, report: Report, progress: Progress
) -> dict[str, Check]:
    """Bring files to the staging area and prove them; the verdicts, all of them right.

    An attempt that proves at least one more file starts the count of ``retries`` anew, so the number of attempts
    is bounded by the number of files. Raises ModelopsError when the bound is reached, or at once for a failure
    that no retry mends; what is proven stays for the next run, and nothing unfinished that fills the disk.
    """
    tally = Tally()
    try:
        with progress.phase("fetch", files, lambda: (staging.bytes_of(files), tally.files)):
            return _fetch(source, files, staging, report, tally)
    except BaseException:
        staging.drop_partials()
        raise


def _fetch(
    source: Source, files: t.Collection[RemoteFile], staging: Staging, report: Report, tally: Tally
) -> dict[str, Check]:
    request = report.request
    left = {f.name: f for f in sorted(files, key=lambda f: -f.size)}
    right: dict[str, Check] = {}
    failures = 0
    while left:
        report.attempts += 1
        before = len(left)
        failure, checks = _attempt(source, list(left.values()), staging, request.level, tally)
        for name, check in checks.items():
            report.bytes_fetched += left[name].size
            if is_right(check):
                right[name] = check
                report.fetched.append(name)
                del left[name]
            else:
                staging.drop(name)
                report.findings.append(finding_of(check, "warning", "It arrived like this and was not kept."))
        if not left:
            break
        failure = failure or _never_right(source, checks, left)
        failures = 0 if len(left) < before else failures + 1
        adapted = source.adapt(failure, left.values())
        if failures > request.retries or not (failure.passing or adapted):
            raise failed(
                failure, f" {report.attempts} attempts were made, {len(left)} files are left: {shorten(left)}."
            )
        report.findings.append(adapted or info("retried", f"Attempt {report.attempts} failed: {failure.message}"))
        _pause(failures, failure)
    return right


def _pause(failures: int, failure: Failure) -> None:
    """Wait longer after each failure in a row, and as long as the Hub asks for."""
    pause = min(_MAX_PAUSE, 2.0 ** min(failures, 10) - 1)  # a float ends at 2.0**1024
    time.sleep(max(pause, min(failure.retry_after, _MAX_RETRY_AFTER)))


def _attempt(
    source: Source, files: t.Sequence[RemoteFile], staging: Staging, level: Level, tally: Tally
) -> tuple[Failure | None, dict[str, Check]]:
    """Each file is hashed as it lands, while the next ones arrive."""
    by_name = {f.name: f for f in files}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        futures: list[Future[Check]] = []

        def on_landed(name: str) -> None:
            futures.append(pool.submit(_prove, staging.path(name), by_name[name], level, tally))

        failure = source.fetch(files, staging, on_landed)
        checks = [f.result() for f in futures]
    return failure, {c.name: c for c in checks}


def _prove(path: str, file: RemoteFile, level: Level, tally: Tally) -> Check:
    check = check_file(path, file, level, durable=True)
    if is_right(check):
        tally.finished(file)
    return check


def is_right(check: Check) -> bool:
    """Whether the bytes are the Hub's, usable or not: fetching them again changes nothing."""
    return check.ok or check.verdict == "upstream-inconsistent"


def _never_right(source: Source, checks: t.Mapping[str, Check], left: t.Mapping[str, RemoteFile]) -> Failure:
    """The failure of an attempt that reported none and still did not bring everything."""
    bad = next((c for c in checks.values() if c.name in left), None)
    if bad:
        return source.damaged(bad)
    return Failure("missing", f"{min(left)} did not arrive, and no reason was given.", "Run again.", True)


def failed(failure: Failure, more: str = "") -> ModelopsError:
    """The error that ends a run."""
    message = failure.message + more
    return ModelopsError(message, failure.remedy, findings=[error(failure.id, message, failure.remedy).as_dict()])


def shorten(names: t.Iterable[str]) -> str:
    """The first of many names."""
    first, *rest = sorted(names)
    shown = [first, *rest[:4]]
    return ", ".join(shown) + (f" and {len(rest) - 4} more" if len(rest) > 4 else "")

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Brings the files that a destination lacks: refuses what cannot work, fetches, proves, and puts into place."""

from __future__ import annotations

import os
import typing as t
from dataclasses import replace

from .._errors import ModelopsError
from .._weights.checks import Check, Level, RemoteFile, Stamp, check_many
from .._weights.inspect import finding_of
from .._weights.selection import Target
from . import disk
from .fetching import failed, fetch, is_right
from .lock import Lock
from .progress import Progress, Tally
from .request import Report, Request
from .sources import Source
from .staging import Staging
from .suspects import hash_suspects


def note_bad(report: Report, checks: t.Mapping[str, Check], target: Target) -> list[RemoteFile]:
    """Report what is missing or damaged, and return it."""
    wanted = [target.files[n] for n, c in checks.items() if not c.ok and c.verdict != "upstream-inconsistent"]
    for file in wanted:
        check = checks[file.name]
        report.before[file.name] = check.verdict
        report.after[file.name] = "ok"
        if check.verdict == "missing":
            if file.name in target.shards:
                report.missing.append(file.name)
        else:
            report.findings.append(finding_of(check, "warning", "It is fetched again."))
            if file.name in target.shards:
                report.bad.append(file.name)
    report.present = report.expected - len(report.missing) - len(report.bad)
    return wanted


def require_possible(
    source: Source, report: Report, wanted: t.Collection[RemoteFile], replaced: t.Iterable[RemoteFile]
) -> None:
    """Refuse what cannot work before anything is touched."""
    report.findings.extend(source.require_fetchable(wanted))
    disk.require_places(report.request.dest, (f.name for f in replaced))


def require_space(source: Source, request: Request, wanted: t.Collection[RemoteFile], freed: int = 0) -> None:
    """Refuse when the file system of the destination has no room; ``freed`` bytes are removed first."""
    disk.require_space(request.dest, source.space_for(wanted), len(wanted), request.reserve, freed)


def check_telling(
    progress: Progress | None, folder: str, files: t.Collection[RemoteFile], level: Level
) -> dict[str, Check]:
    """The verdicts on files, with their progress told; on those that are not there, there is nothing to tell."""
    here = [f for f in files if os.path.isfile(os.path.join(folder, f.name))]
    if not (progress and here):
        return check_many(folder, files, level)
    tally = Tally()
    with progress.phase("verify", here, lambda: (tally.bytes, tally.files)):
        checks = check_many(folder, here, level, tally)
    return checks | check_many(folder, [f for f in files if f.name not in checks], level)


class Bringing:
    """Gets files by way of the staging area of one commit, into the destination that the report is about."""

    def __init__(self, source: Source, report: Report, target: Target, staging: Staging, progress: Progress) -> None:
        self.source, self.report, self.target, self.staging, self.progress = source, report, target, staging, progress

    def bring(self, wanted: t.Sequence[RemoteFile], checks: t.Mapping[str, Check], lock: Lock) -> dict[str, Check]:
        """Fetch what is wanted and not staged yet; the verdicts that are new beside ``checks``."""
        staging, report = self.staging, self.report
        staged = check_telling(self.progress, staging.folder, wanted, report.request.level)
        arrived = {n: c for n, c in staged.items() if is_right(c)}
        left = [f for f in wanted if f.name not in arrived]
        require_possible(self.source, report, left, wanted)
        staging.tidy()
        for name in staged.keys() - arrived.keys():
            staging.drop(name)
        require_space(self.source, report.request, left)
        staging.open()
        hashed = self._fetch(left, checks, arrived)
        lock.require()
        report.changed = True
        staging.promote(arrived)
        return {**hashed, **self._restamped(arrived)}

    def _fetch(
        self, left: t.Sequence[RemoteFile], checks: t.Mapping[str, Check], arrived: dict[str, Check]
    ) -> dict[str, Check]:
        """Fetch into ``arrived`` until no shard is another one's content; the verdicts on those in their places."""
        hashed: dict[str, Check] = {}
        for _round in range(self.report.request.retries + 1):
            arrived |= fetch(self.source, left, self.staging, self.report, self.progress)
            judged = self._judge_suspects({**checks, **hashed}, arrived)
            hashed |= {n: c for n, c in judged.items() if n not in arrived}
            left = [self.target.files[n] for n, c in judged.items() if not is_right(c)]
            if not left:
                return hashed
            require_possible(self.source, self.report, left, left)
            require_space(self.source, self.report.request, left)
        raise failed(self.source.damaged(judged[left[0].name]))

    def _judge_suspects(self, checks: t.Mapping[str, Check], arrived: dict[str, Check]) -> dict[str, Check]:
        """Verdicts by hash on shards that differ from an index, which may have arrived just now.

        Those that arrived are brought up to date in ``arrived``, and are not in it any more when they are wrong.
        """
        report, staging = self.report, self.staging

        def place(name: str) -> str:
            return staging.path(name) if name in arrived else os.path.join(staging.dest, name)

        judged = hash_suspects(self.target, place, {**checks, **arrived})
        note_bad(report, {n: c for n, c in judged.items() if n not in arrived}, self.target)
        for name in judged.keys() & arrived.keys():
            arrived[name] = judged[name]
            if not is_right(judged[name]):
                del arrived[name]
                staging.drop(name)
                report.fetched = [n for n in report.fetched if n != name]
                report.findings.append(finding_of(judged[name], "warning", "It arrived like this and was not kept."))
        return judged

    def _restamped(self, checks: t.Mapping[str, Check]) -> dict[str, Check]:
        """The same verdicts with the stamps that the files have in their places (a rename sets ctime)."""
        out = {}
        for name, check in checks.items():
            stamp = Stamp.of(os.path.join(self.staging.dest, name))
            if check.stamp and (stamp.size, stamp.mtime_ns) != (check.stamp.size, check.stamp.mtime_ns):
                raise ModelopsError(f"{name} changed while it was put in its place.", "Something else writes there.")
            out[name] = replace(check, stamp=stamp)
        return out

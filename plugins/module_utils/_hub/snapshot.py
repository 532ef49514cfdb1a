# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Makes a verified snapshot be present: look, lock, fetch what is bad, prove it, put it in place, write it down."""

from __future__ import annotations

import contextlib
import os
import typing as t
from dataclasses import replace

from .._errors import ModelopsError
from .._findings import Finding, error, info
from .._weights import manifest as manifests
from .._weights.checks import LEVELS, Check, Level, RemoteFile, Stamp, check_many
from .._weights.index import compare, read_weight_map
from .._weights.inspect import finding_of, inspect, leftovers
from .._weights.manifest import FOLDER, Manifest, Record
from .._weights.ownership import stranger
from .._weights.safetensors import HeaderError, tensor_names
from .._weights.selection import Target, choose, indices_among
from . import disk
from .errors import ListingError
from .fetching import failed, fetch, is_right, list_files, shorten
from .folder import FolderSource
from .lock import Lock, locked
from .progress import Progress, Tally
from .request import Report, Request
from .sources import HubSource, Source
from .staging import Staging, make_folders, unfinished


def make_snapshot(request: Request) -> Report:
    """Do what the options of hf_snapshot ask for; ModelopsError carries the partial report in ``result``."""
    report = Report(request)
    try:
        _Run(request, report).run()
    except ModelopsError as e:
        # What the failure itself found stands after what was found before it.
        partial = report.as_dict()
        partial["findings"] += e.result.pop("findings", [])
        e.result = {**partial, **e.result}
        raise
    except OSError as e:
        raise ModelopsError(
            f"{e.filename or request.dest}: {e.strerror}.",
            "Check the file system and its permissions.",
            **report.as_dict(),
        ) from e
    return report


class _Run:
    """One run; the report is filled in as facts become known, so that a failure tells what was done."""

    def __init__(self, request: Request, report: Report) -> None:
        self.request, self.report = request, report
        self.dest = request.dest
        self._source: Source | None = None

    @property
    def source(self) -> Source:
        if self._source is None:
            self._source = FolderSource(self.request) if self.request.source_dir else HubSource(self.request)
        return self._source

    def run(self) -> None:
        r = self.request
        if os.path.lexists(self.dest) and not os.path.isdir(self.dest):
            raise ModelopsError(f"dest {self.dest} is not a folder.", "Give the path of a folder.")
        found = manifests.load(self.dest)
        self._refuse_foreign(found)
        if r.offline:
            self._judge_offline()
            return
        target = self._target(found)
        self._describe(target)
        if self._nothing_to_do(found, target):
            self._unchanged(t.cast(Manifest, found), target)
            return
        if r.check_mode:
            self._plan(found, target)
            return
        self._under_lock(target)

    def _under_lock(self, target: Target) -> None:
        books = os.path.join(self.dest, FOLDER)
        made = make_folders(self.dest, FOLDER)
        try:
            with locked(os.path.join(books, "lock"), self.request.lock_timeout) as lock:
                found = manifests.load(self.dest)
                self._refuse_foreign(found)
                if self._nothing_to_do(found, target):  # another run did it while this one waited
                    self._unchanged(t.cast(Manifest, found), target)
                else:
                    self._mend(found, target, lock, Progress(self.dest, self._run_id()))
        finally:
            # A run that was refused leaves nothing behind; folders with something in them stay.
            with contextlib.suppress(OSError):
                for folder in made or [books]:
                    os.rmdir(folder)

    def _run_id(self) -> str:
        """What tells this run from others: Ansible's temporary folder of the task, which the action plugin knows."""
        return os.path.basename(os.path.dirname(self.request.scratch))

    # Looking

    def _refuse_foreign(self, found: Manifest | None) -> None:
        owner = found.repo if found else unfinished(self.dest).get("repo", "")
        if owner and owner != self.request.repo:
            self._foreign(f"{self.dest} holds {owner}, not {self.request.repo}")

    def _foreign(self, what: str) -> t.NoReturn:
        remedy = "Nothing was changed. Give another dest, or move that folder away."
        raise ModelopsError(f"{what}.", remedy, findings=[error("foreign", f"{what}.", remedy).as_dict()])

    def _judge_offline(self) -> None:
        r, report = self.request, self.report
        # A branch cannot be resolved without the Hub: the manifest's commit is what there is.
        commit = r.revision if r.pinned else ""
        seen = inspect(self.dest, r.repo, commit, r.level, fresh=r.reverify)
        report.commit, report.files, report.bytes_total = seen.commit, seen.files, seen.bytes_total
        report.expected, report.present = seen.expected, seen.present
        report.missing, report.bad = seen.missing, seen.bad
        report.verified, report.findings = seen.verified, [*report.findings, *seen.findings]
        if not seen.complete:
            raise ModelopsError(
                f"{self.dest} does not hold a complete {r.repo}: {seen.verdict}. {_listed(seen.missing + seen.bad)}",
                "Run without offline where the Hub can be reached, or copy the snapshot with source_dir.",
            )
        if not r.pinned:
            report.findings.append(
                info("revision-unproven", f"Offline, nothing tells whether {r.revision} is still {seen.commit}.")
            )
        self._apply_strict()

    def _target(self, found: Manifest | None) -> Target:
        """What must be there."""
        r = self.request
        known = found.commit if found and found.selection == r.selection else ""
        if found and r.pinned and known == r.revision:
            return Target(known, found.remotes(), found.shards)
        try:
            listing = list_files(self.source, known, r, self.report)
        except ListingError as e:
            raise failed(e.failure) from e
        self.report.commit = listing.commit
        if found and listing.commit == known:
            return Target(known, found.remotes(), found.shards)
        target = choose(r.repo, listing, r.selection)
        unprovable = sorted(f.name for f in target.files.values() if not f.provable)
        if unprovable and r.level == "sha256":
            raise ModelopsError(
                f"{r.source_dir or r.endpoint} gives no checksum for {len(unprovable)} files, {unprovable[0]} is one "
                "of them.",
                "Use the Hub or another mirror, or set verify to header.",
            )
        return target

    def _describe(self, target: Target) -> None:
        report = self.report
        report.commit, report.files, report.bytes_total = target.commit, len(target.files), target.bytes_total
        report.expected = len(target.shards)
        report.findings.extend(target.findings)

    def _is_current(self, found: Manifest | None, target: Target) -> bool:
        r = self.request
        return (
            found is not None
            and (found.commit, found.selection) == (target.commit, r.selection)
            and LEVELS.index(found.verified) >= LEVELS.index(r.level)
            and not (r.prune and found.stale)
        )

    def _nothing_to_do(self, found: Manifest | None, target: Target) -> bool:
        return self._is_current(found, target) and not self.request.reverify and not self._unproven(found, target)

    def _unproven(self, found: Manifest | None, target: Target) -> list[RemoteFile]:
        """The files whose content no record proves: no stat of them differs from when they were verified."""
        if self.request.reverify or found is None:
            return list(target.files.values())
        out = []
        for name, file in target.files.items():
            record = found.files.get(name)
            same = record is not None and (record.sha256, record.blob_id) == (
                file.sha256 or record.sha256,
                file.blob_id,
            )
            if record is None or not same or not record.holds(os.path.join(self.dest, name), self.request.level):
                out.append(file)
        return out

    def _unchanged(self, found: Manifest, target: Target) -> None:
        report = self.report
        report.present, report.verified = report.expected, found.verified
        report.findings.extend(Finding(**f) for f in found.upstream)
        report.findings.extend(leftovers(self.dest, target.files))
        self._apply_strict()

    def _look(self, found: Manifest | None, target: Target, progress: Progress | None = None) -> dict[str, Check]:
        """Verdicts on all files that no record proves."""
        # A file that is there and was proven by hash once is not believed for less.
        level = max(self.request.level, found.verified if found else "none", key=LEVELS.index)
        checks = _check_telling(progress, self.dest, self._unproven(found, target), level)
        if found is None and not unfinished(self.dest):
            reason = stranger(self.dest, target.files, target.commit, checks)
            if reason:
                self._foreign(f"{self.dest} holds another model than {self.request.repo}: {reason}")
        return checks

    def _note_bad(self, checks: t.Mapping[str, Check], target: Target) -> list[RemoteFile]:
        """Report what is missing or damaged, and return it."""
        report = self.report
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

    def _plan(self, found: Manifest | None, target: Target) -> None:
        """Check mode: what would be fetched, without writing anything."""
        report = self.report
        checks = self._look(found, target)
        replaced = self._note_bad(checks, target)
        staging = Staging(self.dest, self.request.repo, target.commit)
        arrived = [c.name for c in check_many(staging.folder, replaced, self.request.level).values() if is_right(c)]
        wanted = [f for f in replaced if f.name not in arrived]
        self._require_possible(wanted, replaced)
        freed = disk.freed_by_a_run(self.dest, {staging.path(n) for n in arrived})
        self._require_space(wanted, freed)
        report.fetched = [f.name for f in wanted]
        report.bytes_fetched = sum(f.size for f in wanted)
        report.changed = bool(replaced) or not self._is_current(found, target)

    def _require_possible(self, wanted: t.Collection[RemoteFile], replaced: t.Iterable[RemoteFile]) -> None:
        """Refuse what cannot work before anything is touched."""
        self.report.findings.extend(self.source.require_fetchable(wanted))
        disk.require_places(self.dest, (f.name for f in replaced))

    def _require_space(self, wanted: t.Collection[RemoteFile], freed: int = 0) -> None:
        disk.require_space(self.dest, self.source.space_for(wanted), len(wanted), self.request.reserve, freed)

    # Mending

    def _mend(self, found: Manifest | None, target: Target, lock: Lock, progress: Progress) -> None:
        try:
            self._mend_telling(found, target, lock, progress)
        finally:
            progress.close()

    def _mend_telling(self, found: Manifest | None, target: Target, lock: Lock, progress: Progress) -> None:
        r, report = self.request, self.report
        checks = self._look(found, target, progress)
        wanted = self._note_bad(checks, target)
        staging = Staging(self.dest, r.repo, target.commit)
        if wanted:
            staged = _check_telling(progress, staging.folder, wanted, r.level)
            arrived = {n: c for n, c in staged.items() if is_right(c)}
            left = [f for f in wanted if f.name not in arrived]
            self._require_possible(left, wanted)
            staging.tidy()
            for name in staged.keys() - arrived.keys():
                staging.drop(name)
            self._require_space(left)
            staging.open()
            arrived |= fetch(self.source, left, staging, report, progress)
            lock.require()
            staging.promote(arrived)
            checks |= self._restamped(arrived)
        report.changed = bool(wanted) or not self._is_current(found, target)
        report.missing, report.present = [], report.expected
        broken = [c for c in checks.values() if c.verdict == "upstream-inconsistent"]
        upstream = [finding_of(c) for c in broken] + self._compare_index(target)
        stale = self._stale(found, target)
        records = {n: self._record(f, checks.get(n), found) for n, f in target.files.items()}
        report.verified = min((x.verified for x in records.values()), key=LEVELS.index)
        lock.require()
        manifests.save(
            self.dest,
            Manifest(
                repo=r.repo,
                commit=target.commit,
                revision=r.revision,
                selection=r.selection,
                verified=report.verified,
                shards=target.shards,
                files=records,
                stale=tuple(stale),
                upstream=tuple(f.as_dict() for f in upstream),
            ),
        )
        staging.close()
        report.findings.extend([*upstream, *leftovers(self.dest, target.files)])
        self._apply_strict()

    def _restamped(self, checks: t.Mapping[str, Check]) -> dict[str, Check]:
        """The same verdicts with the stamps that the files have in their places (a rename sets ctime)."""
        out = {}
        for name, check in checks.items():
            stamp = Stamp.of(os.path.join(self.dest, name))
            if check.stamp and (stamp.size, stamp.mtime_ns) != (check.stamp.size, check.stamp.mtime_ns):
                raise ModelopsError(f"{name} changed while it was put in its place.", "Something else writes there.")
            out[name] = replace(check, stamp=stamp)
        return out

    def _record(self, file: RemoteFile, check: Check | None, found: Manifest | None) -> Record:
        if check is None or check.stamp is None:
            return t.cast(Manifest, found).files[file.name]
        s = check.stamp
        known = file.sha256 or check.sha256
        return Record(s.size, s.mtime_ns, s.ctime_ns, s.inode, known, file.blob_id, check.level)

    def _compare_index(self, target: Target) -> list[Finding]:
        """What the indices say against what the shards hold; the bytes are the publisher's by now."""
        tensors = {}
        for name in target.shards:
            if name.endswith(".safetensors"):
                try:
                    tensors[name] = tensor_names(os.path.join(self.dest, name))
                except HeaderError:
                    continue  # reported as upstream-inconsistent already
        out: list[Finding] = []
        for name in indices_among(target.files):
            out.extend(compare(name, read_weight_map(os.path.join(self.dest, name), name), tensors))
        return out

    def _stale(self, found: Manifest | None, target: Target) -> list[str]:
        """Files that earlier runs put there and that are no longer wanted; removed with prune."""
        known = set(found.files) | set(found.stale) if found else set()
        stale = sorted(n for n in known - set(target.files) if os.path.isfile(os.path.join(self.dest, n)))
        if not (self.request.prune and stale):
            return stale
        for name in stale:
            os.unlink(os.path.join(self.dest, name))
            self.report.before[name], self.report.after[name] = "stale", "removed"
        self.report.changed = True
        self.report.findings.append(
            info("pruned", f"{len(stale)} files of earlier commits were removed: {', '.join(stale[:5])}.", files=stale)
        )
        return []

    def _apply_strict(self) -> None:
        """End in a failure when the snapshot is unusable as published, or, with strict, when there is a doubt."""
        report = self.report
        unusable = [f for f in report.findings if f.severity == "error"]
        doubts = [f for f in report.findings if f.severity == "warning" and f.id in _DOUBTS]
        if unusable or (self.request.strict and doubts):
            first = (unusable or doubts)[0]
            raise ModelopsError(first.message, first.remedy)


# Warnings about the state at the end; a damaged file that was mended is none.
_DOUBTS = {"no-weights", "no-manifest", "sparse", "stale", "upstream-inconsistent", "weights-left-out"}


def _check_telling(
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


def _listed(names: t.Sequence[str]) -> str:
    return f"Affected: {shorten(names)}." if names else ""

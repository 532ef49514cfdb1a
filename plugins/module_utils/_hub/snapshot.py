# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Makes a verified snapshot be present: look, lock, fetch what is bad, prove it, put it in place, write it down."""

from __future__ import annotations

import contextlib
import os
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, error, info
from .._weights import manifest as manifests
from .._weights.checks import LEVELS, Check, RemoteFile, check_many, is_sparse
from .._weights.index import compare, read_weight_map
from .._weights.inspect import finding_of, inspect, leftovers, sparse_finding
from .._weights.manifest import FOLDER, Manifest, Record
from .._weights.ownership import stranger
from .._weights.safetensors import HeaderError, tensor_names
from .._weights.selection import Target, choose, indices_among
from . import disk, pruning
from .bringing import Bringing, check_telling, note_bad, require_possible, require_space
from .errors import ListingError
from .fetching import failed, is_right, list_files, shorten
from .folder import FolderSource
from .lock import Lock, locked
from .progress import Progress
from .request import Report, Request
from .sources import HubSource, Source
from .staging import Staging, make_folders, unfinished
from .suspects import hash_suspects


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
        self._require_folder()
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

    def _require_folder(self) -> None:
        """Refuse a destination that is no folder, or that can be none because something above it is not."""
        path = self.dest
        while not os.path.lexists(path):
            path = os.path.dirname(path)
        if not os.path.isdir(path):
            what = "is not a folder" if path == self.dest else f"cannot be made: {path} is not a folder"
            raise ModelopsError(f"dest {self.dest} {what}.", "Give the path of a folder.")

    def _under_lock(self, target: Target) -> None:
        if not os.path.isdir(self.dest):
            # Where nothing is, all of it is fetched; on a full disk not even the lock could be written.
            require_space(self.source, self.request, target.files.values())
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
                f"{self.dest} does not hold a complete {r.repo}: {seen.verdict}. {_affected(seen.findings)}",
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
        # Without hashes the records of an earlier run prove nothing at this level: whoever gives the files now may.
        usable = found and found.selection == r.selection and not (r.level == "sha256" and _unprovable(found.remotes()))
        known = found.commit if found and usable else ""
        if found and r.pinned and known == r.revision:
            return _target_of(found)
        try:
            listing = list_files(self.source, known, r, self.report)
        except ListingError as e:
            raise failed(e.failure) from e
        self.report.commit = listing.commit
        if found and listing.commit == known:
            return _target_of(found)
        target = choose(r.repo, listing, r.selection)
        unprovable = _unprovable(target.files)
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
            and not (r.prune and pruning.stale_files(self.dest, found, target))
        )

    def _nothing_to_do(self, found: Manifest | None, target: Target) -> bool:
        return self._is_current(found, target) and not self.request.reverify and not self._unproven(found, target)

    def _unproven(self, found: Manifest | None, target: Target) -> list[RemoteFile]:
        """The files whose content no record proves: no stat of them differs from when they were verified."""
        if self.request.reverify or found is None:
            return list(target.files.values())
        out, doubted = [], _doubted(found)
        for name, file in target.files.items():
            record = found.files.get(name)
            same = record is not None and (record.sha256, record.blob_id) == (
                file.sha256 or record.sha256,
                file.blob_id,
            )
            holds = record is not None and record.holds(os.path.join(self.dest, name), self.request.level)
            if not (same and holds) or name in doubted:
                out.append(file)
        return out

    def _unchanged(self, found: Manifest, target: Target) -> None:
        report = self.report
        report.present, report.verified = report.expected, found.verified
        report.findings.extend(f for f in _upstream(found) if f.id not in _OF_SELECTION)
        self._tell_doubts(found.files, target)

    def _look(self, found: Manifest | None, target: Target, progress: Progress | None = None) -> dict[str, Check]:
        """Verdicts on all files that no record proves."""
        # A file that is there and was proven by hash once is not believed for less.
        level = max(self.request.level, found.verified if found else "none", key=LEVELS.index)
        checks = check_telling(progress, self.dest, self._unproven(found, target), level)
        checks |= hash_suspects(target, lambda name: os.path.join(self.dest, name), checks)
        if found is None and not unfinished(self.dest):
            reason = stranger(self.dest, target.files, target.commit, checks)
            if reason:
                self._foreign(f"{self.dest} holds another model than {self.request.repo}: {reason}")
        return checks

    def _plan(self, found: Manifest | None, target: Target) -> None:
        """Check mode: what would be fetched, without writing anything."""
        report = self.report
        stale = self._to_prune(found, target)
        checks = self._look(found, target)
        replaced = note_bad(report, checks, target)
        staging = Staging(self.dest, self.request.repo, target.commit)
        arrived = [c.name for c in check_many(staging.folder, replaced, self.request.level).values() if is_right(c)]
        wanted = [f for f in replaced if f.name not in arrived]
        require_possible(self.source, report, wanted, replaced)
        freed = disk.freed_by_a_run(self.dest, {staging.path(n) for n in arrived})
        require_space(self.source, self.request, wanted, freed)
        report.fetched = [f.name for f in wanted]
        report.bytes_fetched = sum(f.size for f in wanted)
        report.before |= dict.fromkeys(stale, "stale")
        report.after |= dict.fromkeys(stale, "removed")
        report.changed = bool(replaced) or not self._is_current(found, target)

    def _to_prune(self, found: Manifest | None, target: Target) -> list[str]:
        """The files that prune removes; ModelopsError when that would be a mistake."""
        if not self.request.prune:
            return []
        stale = list(pruning.stale_files(self.dest, found, target))
        pruning.require_prunable(self.dest, stale, target)
        return stale

    # Mending

    def _mend(self, found: Manifest | None, target: Target, lock: Lock, progress: Progress) -> None:
        try:
            self._mend_telling(found, target, lock, progress)
        finally:
            progress.close()

    def _mend_telling(self, found: Manifest | None, target: Target, lock: Lock, progress: Progress) -> None:
        r, report = self.request, self.report
        to_prune = self._to_prune(found, target)
        checks = self._look(found, target, progress)
        wanted = note_bad(report, checks, target)
        staging = Staging(self.dest, r.repo, target.commit)
        if wanted:
            try:
                checks |= Bringing(self.source, report, target, staging, progress).bring(wanted, checks, lock)
            except BaseException:
                staging.close_if_empty()
                raise
        report.changed = bool(wanted) or not self._is_current(found, target)
        report.missing, report.present = [], report.expected
        broken = [c for c in checks.values() if c.verdict == "upstream-inconsistent"]
        upstream = [finding_of(c) for c in broken] + self._compare_index(target)
        chosen = [f for f in target.findings if f.id in _OF_SELECTION]
        records = {n: self._record(f, checks.get(n), found) for n, f in target.files.items()}
        report.verified = min((x.verified for x in records.values()), key=LEVELS.index)
        lock.require()
        if to_prune:
            report.changed = True
            report.before |= dict.fromkeys(to_prune, "stale")
            report.after |= dict.fromkeys(to_prune, "removed")
            report.findings.append(pruning.prune(self.dest, to_prune))
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
                stale=pruning.stale_files(self.dest, found, target),
                upstream=tuple(f.as_dict() for f in [*upstream, *chosen]),
            ),
        )
        staging.close()
        report.findings.extend(upstream)
        self._tell_doubts(records, target)

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

    def _tell_doubts(self, records: t.Mapping[str, Record], target: Target) -> None:
        """Say what is doubtful about the state at the end, and end in a failure where that is asked for."""
        unproven = [n for n in target.files if records[n].verified != "sha256"]
        sparse = [n for n in unproven if is_sparse(os.path.join(self.dest, n))]
        if sparse:
            self.report.findings.append(sparse_finding(sparse))
        self.report.findings.extend(leftovers(self.dest, target.files))
        self._apply_strict()

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

# Those of them that the selection of the files gives: the manifest keeps them, and they are said with the target.
_OF_SELECTION = {"no-weights", "weights-left-out"}


def _affected(findings: t.Iterable[Finding]) -> str:
    """The files that errors are about, small ones too."""
    names = {f.numbers["file"] for f in findings if f.severity == "error" and "file" in f.numbers}
    return f"Affected: {shorten(names)}." if names else ""


def _doubted(found: Manifest) -> set[str]:
    """Shards that differ from their index and were proven by less than the hash that is known of them."""
    differing = {f.numbers.get("file") for f in _upstream(found) if f.id == "upstream-inconsistent"}
    return {n for n, r in found.files.items() if n in differing and r.verified != "sha256" and r.sha256}


def _unprovable(files: t.Mapping[str, RemoteFile]) -> list[str]:
    return sorted(f.name for f in files.values() if not f.provable)


def _target_of(found: Manifest) -> Target:
    """What a manifest says must be there, with what was said when it was selected."""
    said = tuple(f for f in _upstream(found) if f.id in _OF_SELECTION)
    return Target(found.commit, found.remotes(), found.shards, said)


def _upstream(found: Manifest) -> list[Finding]:
    return [Finding(**f) for f in found.upstream]

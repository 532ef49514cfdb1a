# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The verdict on a folder: by its manifest, by what the Hub lists, or by its structure alone."""

from __future__ import annotations

import os
import typing as t

from .._findings import Finding, error, warning
from .checks import LEVELS, Check, Level, RemoteFile, check_many, is_sparse
from .index import compare
from .manifest import Manifest, load
from .ownership import stranger
from .selection import Target
from .structure import by_structure
from .verdict import (
    Verdict,
    absent,
    files_below,
    finding_of,
    hint_sparse,
    judge,
    judge_differing,
    leftovers,
    read_indices,
    sparse_finding,
)

# Who judges folders needs this module only.
__all__ = [
    "Verdict",
    "by_listing",
    "by_structure",
    "finding_of",
    "inspect",
    "leftovers",
    "sparse_finding",
    "without_manifest",
]


def inspect(dest: str, repo: str = "", commit: str = "", level: Level = "header", fresh: bool = True) -> Verdict:
    """Judge a folder. ``fresh`` hashes every file at level sha256 again, otherwise the manifest is believed for
    files that nobody wrote to. Nothing is written."""
    found = load(dest)
    if found:
        return _by_manifest(dest, found, repo=repo, commit=commit, level=level, fresh=fresh)
    return by_structure(dest, repo, level)


def without_manifest(dest: str) -> Verdict:
    """The verdict on a folder whose manifest was asked for and is not there."""
    out = Verdict(files=len(files_below(dest)))
    if not out.files:
        return absent(out, dest)
    out.verdict = "unverified"
    out.findings.append(
        error("no-manifest", f"{dest} has no manifest of hf_snapshot.", "Run hf_snapshot for this folder.")
    )
    return out


def by_listing(dest: str, repo: str, target: Target, level: Level, found: Manifest | None = None) -> Verdict:
    """What a folder holds of a commit. ``found`` is its manifest, which may be of another repository or commit."""
    out = Verdict(repo=repo, commit=target.commit, files=len(target.files), bytes_total=target.bytes_total)
    out.expected = len(target.shards)
    if found and found.repo != repo:
        return _foreign(out, f"{dest} holds {found.repo}, not {repo}")
    if not files_below(dest):
        out.missing = list(target.shards)
        return absent(out, dest)
    checks = check_many(dest, target.files.values(), level)
    judge(out, checks, target.shards)
    reason = _other_model(dest, target, checks, found)
    if reason:
        return _foreign(out, reason)
    tensors = {n: c.tensors for n, c in checks.items() if c.tensors is not None}
    maps, broken = read_indices(dest, [n for n, c in checks.items() if c.ok and level != "none"])
    if broken and out.verdict == "complete":
        # A large index whose size is right and whose content was not hashed at this level.
        out.verdict = "corrupt"
        out.findings.extend(finding_of(check) for check in broken)
    differing = [f for name, mapping in maps.items() for f in compare(name, mapping, tensors)]
    checks |= _prove(dest, target.files, checks, differing)
    judge_differing(out, differing, checks)
    hint_sparse(out, checks.values())
    if out.verdict == "complete":
        out.verified = min((c.level for c in checks.values()), key=LEVELS.index)
        if level == "none" or LEVELS.index(out.verified) < LEVELS.index(level):
            out.verdict, out.verified = "unverified", "none" if level == "none" else out.verified
            out.findings.append(
                warning(
                    "no-checksum",
                    "Only the sizes were compared." if level == "none" else "The Hub gives no checksum of some files.",
                    "Verify with level header or sha256." if level == "none" else "Use the Hub or another mirror.",
                )
            )
    out.findings.extend(leftovers(dest, target.files))
    return out


def _prove(
    dest: str, files: t.Mapping[str, RemoteFile], checks: t.Mapping[str, Check], differing: t.Iterable[Finding]
) -> dict[str, Check]:
    """The checks by hash of shards that do not fit their index: whether they are as published, a hash alone tells."""
    names = {f.numbers["file"] for f in differing if checks[f.numbers["file"]].level != "sha256"}
    return check_many(dest, [files[n] for n in names if files[n].provable], "sha256")


def _other_model(dest: str, target: Target, checks: t.Mapping[str, Check], found: Manifest | None) -> str:
    """Why the folder holds another model or commit than the listed one, empty when it does not."""
    if not found:
        reason = stranger(dest, target.files, target.commit, checks)
        return f"{dest} holds another model: {reason}" if reason else ""
    differing = [n for n, c in checks.items() if not c.ok and c.verdict not in ("missing", "upstream-inconsistent")]
    as_recorded = [n for n in differing if n in found.files and found.files[n].holds(os.path.join(dest, n), "none")]
    if found.commit == target.commit or not as_recorded:
        return ""
    return (
        f"{dest} holds {found.repo} at commit {found.commit}, not at {target.commit}: {len(as_recorded)} files are "
        f"those of that commit, {min(as_recorded)} is one of them"
    )


def _by_manifest(dest: str, found: Manifest, *, repo: str, commit: str, level: Level, fresh: bool) -> Verdict:
    out = Verdict(repo=found.repo, commit=found.commit, files=len(found.files))
    out.bytes_total = sum(r.size for r in found.files.values())
    out.expected = len(found.shards)
    if repo and repo != found.repo:
        return _foreign(out, f"{dest} holds {found.repo}, not {repo}")
    if commit and commit != found.commit:
        return _foreign(out, f"{dest} holds {found.repo} at commit {found.commit}, not at {commit}")
    # Of a file that somebody wrote to, its hash alone says whether it is still the same.
    need = max(level, found.verified, key=LEVELS.index)
    again = [
        name
        for name, record in found.files.items()
        if (fresh and level == "sha256") or not record.holds(os.path.join(dest, name), need)
    ]
    depth: Level = "none" if level == "none" else need
    remotes = found.remotes()
    checks = check_many(dest, (remotes[n] for n in again), depth)
    judge(out, checks, found.shards)
    differing = _new_differences(dest, found, checks)
    checks |= _prove(dest, remotes, checks, differing)
    judge_differing(out, differing, checks)
    unproven = [c for c in checks.values() if c.ok and depth == "none"]
    out.findings.extend(
        warning("changed", f"{c.name} was written to since it was verified.", "Verify with level header or sha256.")
        for c in unproven
    )
    # What the manifest is believed for costs a stat.
    believed = [n for n, r in found.files.items() if n not in checks and r.verified != "sha256"]
    hint_sparse(out, checks.values(), [n for n in believed if is_sparse(os.path.join(dest, n))])
    out.findings.extend(Finding(**f) for f in found.upstream)
    if out.verdict == "complete":
        broken = any(f.severity == "error" for f in out.findings)
        out.verdict = "upstream-inconsistent" if broken else "unverified" if unproven else "complete"
    if out.verdict == "complete":
        levels = [c.level for c in checks.values()] + [r.verified for n, r in found.files.items() if n not in checks]
        out.verified = min(levels, key=LEVELS.index, default="none")
        if level == "sha256" and out.verified != "sha256":
            out.verdict = "unverified"
            out.findings.append(
                warning(
                    "no-checksum", "Some files were verified by header only.", "Run hf_snapshot with verify: sha256."
                )
            )
    out.findings.extend(leftovers(dest, found.files))
    return out


def _new_differences(dest: str, found: Manifest, checks: t.Mapping[str, Check]) -> list[Finding]:
    """Where files that were written to do not fit their index, other than as they were when they were verified."""
    tensors = {n: c.tensors for n, c in checks.items() if c.tensors is not None and c.level != "sha256"}
    maps, _broken = read_indices(dest, found.files) if tensors else ({}, [])
    differing = [f for name, mapping in maps.items() for f in compare(name, mapping, tensors)]
    return [f for f in differing if f.as_dict() not in found.upstream]


def _foreign(out: Verdict, message: str) -> Verdict:
    out.verdict = "foreign"
    out.findings.append(error("foreign", f"{message}.", "Give the folder of the wanted snapshot."))
    return out

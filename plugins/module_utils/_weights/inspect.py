# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The verdict on a folder without the Hub: by its manifest, or by its index and headers alone.

The verdict is one of ``complete``, ``incomplete`` (something is missing), ``corrupt`` (something is truncated,
corrupt or a pointer), ``foreign`` (another repository or commit), ``absent`` (nothing is there),
``upstream-inconsistent`` (as published, and not usable) and ``unverified`` (nothing wrong was seen at this level,
and nothing proves that it is complete).
"""

from __future__ import annotations

import os
import re
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from .._findings import Finding, error, info, warning
from .checks import LEVELS, Check, Level, check_many, is_sparse
from .index import compare, read_weight_map
from .manifest import FOLDER, Manifest, load
from .names import is_index, is_weight
from .safetensors import HeaderError, tensor_names

# A name that says that it is one of several; which ones, only an index or a listing tells.
_PART = re.compile(r"-\d+-of-\d+\.(safetensors|gguf)$")

_REMEDIES = {
    "missing": "Run hf_snapshot for this folder to fetch it.",
    "upstream-inconsistent": "The bytes are as published: ask the publisher, or choose another revision.",
}


@dataclass
class Verdict:
    """What a folder holds. ``expected``, ``present``, ``missing`` and ``bad`` are about shards, ``files`` about all."""

    verdict: str = "absent"
    verified: Level = "none"
    repo: str = ""
    commit: str = ""
    files: int = 0
    bytes_total: int = 0
    expected: int = 0
    present: int = 0
    missing: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether everything is there, as far as the level that is named in ``verified`` can tell."""
        return self.verdict == "complete"

    def shards(self) -> dict[str, t.Any]:
        """The form that modules return."""
        return {
            "expected": self.expected,
            "present": self.present,
            "missing": sorted(self.missing),
            "bad": sorted(self.bad),
        }


def finding_of(check: Check, severity: t.Literal["error", "warning"] = "error", remedy: str = "") -> Finding:
    """A file's verdict as a finding."""
    make = error if severity == "error" else warning
    remedy = remedy or _REMEDIES.get(check.verdict, "Run hf_snapshot for this folder to fetch it again.")
    return make(check.verdict, f"{check.name}: {check.message}.", remedy, file=check.name)


def inspect(dest: str, repo: str = "", commit: str = "", level: Level = "header", fresh: bool = True) -> Verdict:
    """Judge a folder. ``fresh`` hashes every file at level sha256 again, otherwise the manifest is believed for
    files that nobody wrote to. Nothing is written."""
    found = load(dest)
    if found:
        return _by_manifest(dest, found, repo=repo, commit=commit, level=level, fresh=fresh)
    verdict = _by_structure(dest, level)
    if verdict.verdict != "absent" and repo:
        verdict.findings.append(info("repo-unproven", f"Nothing in {dest} proves that it is {repo}."))
    return verdict


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
    _judge(out, checks, found.shards)
    unproven = [c for c in checks.values() if c.ok and depth == "none"]
    out.findings.extend(
        warning("changed", f"{c.name} was written to since it was verified.", "Verify with level header or sha256.")
        for c in unproven
    )
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


def _foreign(out: Verdict, message: str) -> Verdict:
    out.verdict = "foreign"
    out.findings.append(error("foreign", f"{message}.", "Give the folder of the wanted snapshot."))
    return out


def _judge(out: Verdict, checks: t.Mapping[str, Check], shards: t.Collection[str]) -> None:
    """Fill in the counts and the verdict from what the checked files say; the others are fine."""
    broken = {n: c for n, c in checks.items() if not c.ok and c.verdict != "upstream-inconsistent"}
    out.missing = [n for n, c in broken.items() if c.verdict == "missing" and n in shards]
    out.bad = [n for n, c in broken.items() if c.verdict != "missing" and n in shards]
    out.present = len(shards) - len(out.missing) - len(out.bad)
    out.findings.extend(finding_of(c) for c in checks.values() if not c.ok)
    if any(c.verdict != "missing" for c in broken.values()):
        out.verdict = "corrupt"
    elif broken:
        out.verdict = "incomplete"
    elif any(not c.ok for c in checks.values()):
        out.verdict = "upstream-inconsistent"
    else:
        out.verdict = "complete"


def _by_structure(dest: str, level: Level) -> Verdict:
    out = Verdict()
    names = _files(dest)
    if not names:
        out.findings.append(error("absent", f"{dest} does not exist or holds no files.", _REMEDIES["missing"]))
        return out
    out.files = len(names)
    out.bytes_total = sum(_stat(dest, n).st_size for n in names)
    indices = [n for n in names if is_index(n)]
    try:
        maps = {n: read_weight_map(os.path.join(dest, n), n) for n in indices}
    except (ModelopsError, OSError, ValueError) as e:
        out.verdict = "corrupt"
        out.findings.append(error("corrupt", f"An index cannot be read: {e}", _REMEDIES["missing"]))
        return out
    shards = {s for m in maps.values() for s in m.values()} or {n for n in names if is_weight(n)}
    out.expected = len(shards)
    checks, tensors = _by_headers(dest, shards, level)
    _judge(out, checks, shards)
    if any(c.sparse for c in checks.values()):
        out.findings.append(_sparse([c.name for c in checks.values() if c.sparse]))
    for name, mapping in maps.items():
        out.findings.extend(compare(name, mapping, tensors))
    out.findings.extend(leftovers(dest, shards))
    _doubts(out, dest, shards, bool(maps), level)
    return out


def _doubts(out: Verdict, dest: str, shards: set[str], indexed: bool, level: Level) -> None:
    """Take back ``complete`` where the structure does not prove it."""
    if out.verdict != "complete":
        return
    if not shards:
        out.verdict = "incomplete"
        out.findings.append(error("missing", f"{dest} holds no weights.", _REMEDIES["missing"]))
    elif not indexed and any(_PART.search(n) for n in shards):
        out.verdict = "incomplete"
        out.findings.append(error("missing", "There are parts of a model and no index of them.", _REMEDIES["missing"]))
    elif "config.json" not in _files(dest) and not all(n.endswith(".gguf") for n in shards):
        out.verdict = "incomplete"
        out.findings.append(error("missing", f"{dest} has no config.json.", _REMEDIES["missing"]))
    elif level == "header" and all(n.endswith(".safetensors") for n in shards):
        out.verified = "header"
        out.findings.append(
            info("no-manifest", "Without a manifest only sizes and headers can be judged, not the content.")
        )
    else:
        out.verdict = "unverified"
        out.findings.append(
            warning(
                "no-manifest", f"Without a manifest nothing proves level {level}.", "Run hf_snapshot for this folder."
            )
        )


def _by_headers(dest: str, shards: t.Iterable[str], level: Level) -> tuple[dict[str, Check], dict[str, frozenset[str]]]:
    checks, tensors = {}, {}
    for name in sorted(shards):
        path = os.path.join(dest, name)
        if not os.path.isfile(path):
            checks[name] = Check(name, "missing", "the file is not there")
            continue
        try:
            if level != "none" and name.endswith(".safetensors"):
                tensors[name] = tensor_names(path)
            checks[name] = Check(name, "ok", sparse=is_sparse(path))
        except HeaderError as e:
            checks[name] = Check(name, e.verdict, str(e))
        except OSError as e:
            checks[name] = Check(name, "corrupt", f"the file cannot be read: {e.strerror}")
    return checks, tensors


def _sparse(names: list[str]) -> Finding:
    return warning(
        "sparse",
        f"{len(names)} files have much less on disk than their size, {names[0]} is one of them.",
        "A file system that compresses does this; a hole left by a broken download does too. Verify by sha256.",
        files=names,
    )


def leftovers(dest: str, wanted: t.Container[str]) -> list[Finding]:
    """Unfinished downloads and weights that do not belong to the snapshot."""
    partial, stale = [], []
    for name in _files(dest, hidden=True):
        size = _stat(dest, name).st_blocks * 512
        if name.endswith(".incomplete") or name.startswith(f"{FOLDER}/staging/"):
            partial.append(size)
        elif name not in wanted and is_weight(name) and not name.startswith(FOLDER):
            stale.append(name)
    findings = []
    if partial:
        findings.append(
            info(
                "partial-leftovers",
                f"{len(partial)} files of unfinished downloads take {sum(partial)} bytes in {dest}.",
                "Files below .modelops go with the next successful run; remove .cache when no other download runs.",
                files=len(partial),
                bytes=sum(partial),
            )
        )
    if stale:
        findings.append(
            warning(
                "stale",
                f"{len(stale)} weight files in {dest} do not belong to the snapshot: {', '.join(sorted(stale)[:5])}.",
                "Remove them, or set prune to remove those that an earlier run of hf_snapshot put there.",
                files=sorted(stale),
            )
        )
    return findings


def _files(dest: str, hidden: bool = False) -> list[str]:
    """The files below a folder, relative; without the books of this collection and of huggingface_hub."""
    out: list[str] = []
    for folder, folders, names in os.walk(dest):
        if not hidden and os.path.samefile(folder, dest):
            folders[:] = [f for f in folders if f not in (FOLDER, ".cache", ".git")]
        out.extend(os.path.relpath(os.path.join(folder, n), dest) for n in names)
    return sorted(out)


def _stat(dest: str, name: str) -> os.stat_result:
    """What lstat says; all zero for a file that a run at the same time has just moved away."""
    try:
        return os.lstat(os.path.join(dest, name))
    except FileNotFoundError:
        return os.stat_result([0] * 19)

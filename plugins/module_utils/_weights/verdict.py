# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The verdict on a folder, and what the ways to come to one have in common.

The verdict is one of ``complete``, ``incomplete`` (something is missing), ``corrupt`` (something is truncated,
corrupt or a pointer), ``foreign`` (another repository or commit), ``absent`` (nothing is there),
``upstream-inconsistent`` (as published, and not usable) and ``unverified`` (nothing wrong was seen at this level,
and nothing proves that it is complete).
"""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass, field, replace

from .._errors import ModelopsError
from .._findings import Finding, error, info, warning
from .checks import Check, Level
from .index import read_weight_map
from .manifest import FOLDER
from .names import is_weight
from .safetensors import text_instead
from .selection import indices_among

_UNPROVEN = "Compare with the Hub by against: hub and verify: sha256, or run hf_snapshot for this folder."

REMEDIES = {
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
    remedy = remedy or REMEDIES.get(check.verdict, "Run hf_snapshot for this folder to fetch it again.")
    return make(check.verdict, f"{check.name}: {check.message}.", remedy, file=check.name)


def judge_differing(out: Verdict, differing: t.Iterable[Finding], checks: t.Mapping[str, Check]) -> None:
    """Report the differences between indices and shards; a shard whose content is not proven is no good."""
    by_shard: dict[str, list[Finding]] = {}
    for f in differing:
        by_shard.setdefault(f.numbers["file"], []).append(f)
    for name, found in by_shard.items():
        check = checks[name]
        if check.level == "sha256":
            out.findings.extend(found)
            continue
        if check.ok:
            out.findings.extend(replace(f, remedy=_UNPROVEN) for f in found)
            check = Check(name, "corrupt", "its tensors are not those of the index, and nothing proves its content")
        out.findings.append(finding_of(check))
        out.verdict = "corrupt"
        out.bad.append(name)
        out.present -= 1


def hint_sparse(out: Verdict, checks: t.Iterable[Check], more: t.Iterable[str] = ()) -> None:
    """Name the files that may have holes; a hash proves that there are none."""
    names = sorted({*(c.name for c in checks if c.sparse and c.level != "sha256"), *more})
    if names:
        out.findings.append(sparse_finding(names))


def judge(out: Verdict, checks: t.Mapping[str, Check], shards: t.Collection[str]) -> None:
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


def absent(out: Verdict, dest: str) -> Verdict:
    """The verdict on a folder that holds nothing."""
    out.verdict = "absent"
    out.findings.append(error("absent", f"{dest} does not exist or holds no files.", REMEDIES["missing"]))
    return out


def read_indices(dest: str, names: t.Iterable[str]) -> tuple[dict[str, dict[str, str]], list[Check]]:
    """(index to tensor to shard, the indices that cannot be read)."""
    maps, broken = {}, []
    for name in indices_among(names):
        path = os.path.join(dest, name)
        if os.path.exists(path) and not os.path.isfile(path):
            broken.append(Check(name, "corrupt", "something that is no file is in its place"))
            continue
        try:
            with open(path, "rb") as f:
                text = text_instead(f.read(512))
            if text:
                broken.append(Check(name, *text))
            else:
                maps[name] = read_weight_map(path, name)
        except OSError as e:
            broken.append(Check(name, "corrupt", f"the file cannot be read: {e.strerror}"))
        except ModelopsError as e:
            broken.append(Check(name, "corrupt", e.message.rstrip(".")))
    return maps, broken


def sparse_finding(names: list[str]) -> Finding:
    """The hint that files may have holes, for names (at least one) whose check has ``sparse`` set."""
    return warning(
        "sparse",
        f"{len(names)} files have much less on disk than their size, {names[0]} is one of them.",
        "A file system that compresses does this; a hole left by a broken download does too. Verify by sha256.",
        files=names,
    )


def leftovers(dest: str, wanted: t.Container[str]) -> list[Finding]:
    """Unfinished downloads and weights that do not belong to the snapshot."""
    partial, stale = [], []
    for name in files_below(dest, hidden=True):
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


def files_below(dest: str, hidden: bool = False) -> list[str]:
    """The files below a folder, relative; without the books of this collection and of huggingface_hub."""
    out: list[str] = []
    for folder, folders, names in os.walk(dest, onerror=lambda e: _refuse_closed(dest, e)):
        if not hidden and os.path.samefile(folder, dest):
            folders[:] = [f for f in folders if f not in (FOLDER, ".cache", ".git")]
        out.extend(os.path.relpath(os.path.join(folder, n), dest) for n in names)
    return sorted(out)


def _refuse_closed(dest: str, e: OSError) -> None:
    """Raise ModelopsError for a folder that may not be read: that is not the same as one that is not there."""
    if isinstance(e, PermissionError) and e.filename == dest:
        raise ModelopsError(f"{dest} cannot be read: {e.strerror}.", "Run as a user who may read the folder.") from e


def _stat(dest: str, name: str) -> os.stat_result:
    """What lstat says; all zero for a file that a run at the same time has just moved away."""
    try:
        return os.lstat(os.path.join(dest, name))
    except FileNotFoundError:
        return os.stat_result([0] * 19)

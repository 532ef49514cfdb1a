# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The verdict on a folder: by its manifest, by its index and headers alone, or by what the Hub lists.

The verdict is one of ``complete``, ``incomplete`` (something is missing), ``corrupt`` (something is truncated,
corrupt or a pointer), ``foreign`` (another repository or commit), ``absent`` (nothing is there),
``upstream-inconsistent`` (as published, and not usable) and ``unverified`` (nothing wrong was seen at this level,
and nothing proves that it is complete).
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import typing as t
from dataclasses import dataclass, field, replace

from .._errors import ModelopsError
from .._findings import Finding, error, info, warning
from .checks import LEVELS, Check, Level, check_many, is_sparse
from .index import compare, main_indices, read_weight_map
from .manifest import FOLDER, Manifest, load
from .names import INDEX_SUFFIX, gguf_parts, is_gguf, is_pickle_index, is_weight
from .ownership import stranger
from .safetensors import HeaderError, tensor_names, text_instead
from .selection import Target, indices_among

# A name that says that it is one of several; which ones, only an index or a listing tells.
_PART = re.compile(r"-\d+-of-\d+\.(safetensors|bin)$")

# What describes a model, and how all of its weights are named where that file alone is enough.
_CONFIGS = {
    "config.json": "",
    "model_index.json": "",
    "adapter_config.json": "adapter_model",
    "params.json": "consolidated",
}

# Bytes. Larger JSON than any tokenizer has is not read to the end.
_MAX_JSON = 64 << 20

_UNPROVEN = "Compare with the Hub by against: hub and verify: sha256, or run hf_snapshot for this folder."

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
    return by_structure(dest, repo, level)


def without_manifest(dest: str) -> Verdict:
    """The verdict on a folder whose manifest was asked for and is not there."""
    out = Verdict(files=len(_files(dest)))
    if not out.files:
        return _absent(out, dest)
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
    if not _files(dest):
        out.missing = list(target.shards)
        return _absent(out, dest)
    checks = check_many(dest, target.files.values(), level)
    _judge(out, checks, target.shards)
    reason = _other_model(dest, target, checks, found)
    if reason:
        return _foreign(out, reason)
    tensors = {n: c.tensors for n, c in checks.items() if c.tensors is not None}
    maps, broken = _read_indices(dest, [n for n, c in checks.items() if c.ok and level != "none"])
    if broken and out.verdict == "complete":
        # A large index whose size is right and whose content was not hashed at this level.
        out.verdict = "corrupt"
        out.findings.extend(finding_of(check) for check in broken)
    differing = [f for name, mapping in maps.items() for f in compare(name, mapping, tensors)]
    checks |= _prove(dest, target, checks, differing)
    _judge_differing(out, differing, checks)
    _hint_sparse(out, checks.values())
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
    dest: str, target: Target, checks: t.Mapping[str, Check], differing: t.Iterable[Finding]
) -> dict[str, Check]:
    """The checks by hash of shards that do not fit their index: whether they are as published, a hash alone tells."""
    names = {f.numbers["file"] for f in differing if checks[f.numbers["file"]].level != "sha256"}
    return check_many(dest, [target.files[n] for n in names if target.files[n].provable], "sha256")


def _judge_differing(out: Verdict, differing: t.Iterable[Finding], checks: t.Mapping[str, Check]) -> None:
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


def _hint_sparse(out: Verdict, checks: t.Iterable[Check], more: t.Iterable[str] = ()) -> None:
    """Name the files that may have holes; a hash proves that there are none."""
    names = sorted({*(c.name for c in checks if c.sparse and c.level != "sha256"), *more})
    if names:
        out.findings.append(sparse_finding(names))


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
    _judge(out, checks, found.shards)
    unproven = [c for c in checks.values() if c.ok and depth == "none"]
    out.findings.extend(
        warning("changed", f"{c.name} was written to since it was verified.", "Verify with level header or sha256.")
        for c in unproven
    )
    # What the manifest is believed for costs a stat.
    believed = [n for n, r in found.files.items() if n not in checks and r.verified != "sha256"]
    _hint_sparse(out, checks.values(), [n for n in believed if is_sparse(os.path.join(dest, n))])
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


def _absent(out: Verdict, dest: str) -> Verdict:
    out.verdict = "absent"
    out.findings.append(error("absent", f"{dest} does not exist or holds no files.", _REMEDIES["missing"]))
    return out


def by_structure(dest: str, repo: str = "", level: Level = "header") -> Verdict:
    """Judge a folder by its indices and the headers of its files; a manifest is not looked at."""
    out = Verdict()
    names = _files(dest)
    if not names:
        return _absent(out, dest)
    if repo:
        out.findings.append(info("repo-unproven", f"Nothing in {dest} proves that it is {repo}."))
    out.files = len(names)
    out.bytes_total = sum(os.stat(p).st_size for n in names if os.path.isfile(p := os.path.join(dest, n)))
    maps, broken = _read_indices(dest, names)
    if broken:
        out.verdict = "corrupt"
        out.findings.extend(finding_of(check) for check in broken)
        return out
    shards, known = _shards_of(names, maps)
    out.expected = len(shards)
    checks, tensors = _by_headers(dest, shards, level)
    _judge(out, checks, shards)
    _hint_sparse(out, checks.values())
    texts = [_check_json(dest, n) for n in names if level != "none" and n.endswith(".json") and "/" not in n]
    out.findings.extend(finding_of(c) for c in texts if not c.ok)
    if any(not c.ok for c in texts):
        out.verdict = "corrupt"
    _judge_differing(out, [f for n, mapping in maps.items() for f in compare(n, mapping, tensors)], checks)
    out.findings.extend(leftovers(dest, shards | known))
    _doubts(out, dest, shards, {s for m in maps.values() for s in m.values()}, level)
    return out


def _check_json(dest: str, name: str) -> Check:
    """Whether a file that says it is JSON is: a page of a portal or half a file is what arrives in its place."""
    path = os.path.join(dest, name)
    if not os.path.isfile(path):
        # A link to nowhere is as if it were not there, which nothing here forbids.
        there = os.path.exists(path)
        return Check(name, "corrupt", "something that is no file is in its place") if there else Check(name, "ok")
    try:
        with open(path, "rb") as f:
            raw = f.read(_MAX_JSON + 1)
        text = text_instead(raw[:512])
        if text:
            return Check(name, *text)
        whole = json.loads(raw) if len(raw) <= _MAX_JSON else {}
    except OSError as e:
        return Check(name, "corrupt", f"the file cannot be read: {e.strerror}")
    except (ValueError, RecursionError):
        return Check(name, "corrupt", "the file is not JSON")
    if name in _CONFIGS and not isinstance(whole, dict):
        return Check(name, "corrupt", "the file is not a JSON object")
    return Check(name, "ok")


def _read_indices(dest: str, names: t.Iterable[str]) -> tuple[dict[str, dict[str, str]], list[Check]]:
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


def _shards_of(names: t.Iterable[str], maps: t.Mapping[str, t.Mapping[str, str]]) -> tuple[set[str], set[str]]:
    """(what must be there, what else may be): the shards of the indices that count, or every weight when none does.

    An index in a folder counts when a shard of it is there, or when there is none in the root: it may have come
    with a pattern for small files, without its weights.
    """
    here = set(names)
    shards = {name: set(mapping.values()) for name, mapping in maps.items()}
    weights = {n for n in here if is_weight(n)}
    # The index of pickles comes with the small files of a model that is there in another form.
    alone = {n for n in shards if not is_pickle_index(n) or not weights or shards[n] & here}
    root = main_indices(alone)
    nested = [n for n in alone if "/" in n and (not root or shards[n] & here)]
    must = {s for n in [*root, *nested] for s in shards[n]}
    # Beside an index in the root other weights are stale; a component without an index is a file of its own, and so
    # is a pickle beside others.
    must |= set() if any(n.endswith(INDEX_SUFFIX) for n in root) else weights
    # All parts of a split GGUF file are named by any of them.
    must |= {part for n in must for part in gguf_parts(n)}
    return must, {s for values in shards.values() for s in values} & here


def _doubts(out: Verdict, dest: str, shards: set[str], indexed: set[str], level: Level) -> None:
    """Take back ``complete`` where the structure does not prove it."""
    if out.verdict != "complete":
        return
    names = _files(dest)
    configs = [n for n in names if n in _CONFIGS and all(posixpath.basename(s).startswith(_CONFIGS[n]) for s in shards)]
    parts = sorted(n for n in shards - indexed if _PART.search(n))
    if not shards:
        out.verdict = "incomplete"
        out.findings.append(error("missing", f"{dest} holds no weights.", _REMEDIES["missing"]))
    elif parts:
        out.verdict = "incomplete"
        out.findings.append(
            error("missing", f"{parts[0]} is a part of a model, and there is no index.", _REMEDIES["missing"])
        )
    elif not configs and not all(is_gguf(n) for n in shards):
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
            there = os.path.exists(path)
            checks[name] = (
                Check(name, "corrupt", "something that is no file is in its place")
                if there
                else Check(name, "missing", "the file is not there")
            )
            continue
        try:
            if level != "none" and name.endswith(".safetensors"):
                tensors[name] = tensor_names(path)
            elif level != "none":
                with open(path, "rb") as f:
                    head = f.read(512)
                text = text_instead(head)
                if text or (name.endswith(".gguf") and not head.startswith(b"GGUF")):
                    checks[name] = Check(name, *(text or ("corrupt", "the file does not start with the GGUF magic")))
                    continue
            checks[name] = Check(name, "ok", sparse=is_sparse(path))
        except HeaderError as e:
            checks[name] = Check(name, e.verdict, str(e))
        except OSError as e:
            checks[name] = Check(name, "corrupt", f"the file cannot be read: {e.strerror}")
    return checks, tensors


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

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The verdict on a folder by its indices, the headers of its weights and its small files, and by nothing else."""

from __future__ import annotations

import json
import os
import posixpath
import re
import typing as t

from .._findings import error, info, warning
from .checks import Check, Level, is_sparse
from .index import compare, main_indices
from .names import INDEX_SUFFIX, gguf_parts, is_gguf, is_pickle_index, is_weight
from .safetensors import HeaderError, tensor_names, text_instead
from .verdict import (
    REMEDIES,
    Verdict,
    absent,
    files_below,
    finding_of,
    hint_sparse,
    judge,
    judge_differing,
    leftovers,
    read_indices,
)

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


def by_structure(dest: str, repo: str = "", level: Level = "header") -> Verdict:
    """Judge a folder by its indices and the headers of its files; a manifest is not looked at."""
    out = Verdict()
    names = files_below(dest)
    if not names:
        return absent(out, dest)
    if repo:
        out.findings.append(info("repo-unproven", f"Nothing in {dest} proves that it is {repo}."))
    out.files = len(names)
    out.bytes_total = sum(os.stat(p).st_size for n in names if os.path.isfile(p := os.path.join(dest, n)))
    maps, broken = read_indices(dest, names)
    if broken:
        out.verdict = "corrupt"
        out.findings.extend(finding_of(check) for check in broken)
        return out
    shards, known = _shards_of(names, maps)
    out.expected = len(shards)
    checks, tensors = _by_headers(dest, shards, level)
    judge(out, checks, shards)
    hint_sparse(out, checks.values())
    # Indices were read already.
    small = [n for n in names if n.endswith(".json") and "/" not in n and n not in maps]
    texts = [_check_json(dest, n) for n in small if level != "none"]
    out.findings.extend(finding_of(c) for c in texts if not c.ok)
    if any(not c.ok for c in texts):
        out.verdict = "corrupt"
    judge_differing(out, [f for n, mapping in maps.items() for f in compare(n, mapping, tensors)], checks)
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
    names = files_below(dest)
    configs = [n for n in names if n in _CONFIGS and all(posixpath.basename(s).startswith(_CONFIGS[n]) for s in shards)]
    parts = sorted(n for n in shards - indexed if _PART.search(n))
    if not shards:
        out.verdict = "incomplete"
        out.findings.append(error("missing", f"{dest} holds no weights.", REMEDIES["missing"]))
    elif parts:
        out.verdict = "incomplete"
        out.findings.append(
            error("missing", f"{parts[0]} is a part of a model, and there is no index.", REMEDIES["missing"])
        )
    elif not configs and not all(is_gguf(n) for n in shards):
        out.verdict = "incomplete"
        out.findings.append(error("missing", f"{dest} has no config.json.", REMEDIES["missing"]))
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

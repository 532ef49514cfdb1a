# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The index of a model: which tensor is in which shard, and what that says about a snapshot."""

from __future__ import annotations

import json
import os
import posixpath
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, error, warning
from .names import unsafe_reason

# Bytes. The largest index seen has a few MB; what is much larger is something else, and would fill the memory.
MAX_INDEX = 256 << 20

AS_PUBLISHED = "The files are as published: ask the publisher, or choose another revision."


def weight_map(text: str, name: str) -> dict[str, str]:
    """Tensor to shard (a name in the repository), from the text of an index, which names them relative to itself.

    Raises ModelopsError, with the finding, for a text that is no index, or that names a file outside the snapshot.
    """
    try:
        parsed = json.loads(text)["weight_map"]
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise _refused(f"{name} is not an index of shards ({type(e).__name__}: {e}).") from e
    if not isinstance(parsed, dict) or not parsed or not all(isinstance(v, str) for v in parsed.values()):
        raise _refused(f"The weight_map of {name} is not a mapping from tensors to file names.")
    shards = set(parsed.values())
    for shard in sorted(shards):
        reason = unsafe_reason(shard)
        if reason:
            raise _refused(f"{name} names the shard {shard!r}, which is refused: {reason}.")
    folder = posixpath.dirname(name)
    place = {shard: posixpath.join(folder, shard) for shard in shards}
    return {tensor: place[shard] for tensor, shard in parsed.items()}


def _refused(message: str) -> ModelopsError:
    remedy = "The index is as published: ask the publisher to mend it, or choose another revision."
    return ModelopsError(message, remedy, findings=[error("upstream-inconsistent", message, remedy).as_dict()])


def read_weight_map(path: str, name: str) -> dict[str, str]:
    """:func:`weight_map` of a file; its name in the repository is for messages. OSError when it cannot be read."""
    with open(path, "rb") as f:
        raw = f.read(MAX_INDEX + 1) if os.fstat(f.fileno()).st_size <= MAX_INDEX else b""
    if not raw or len(raw) > MAX_INDEX:
        raise _refused(f"{name} is no index of shards: it is empty, or has more than {MAX_INDEX >> 20} MiB.")
    return weight_map(raw.decode("utf-8", "replace"), name)


def main_indices(names: t.Iterable[str]) -> list[str]:
    """The indices of a root that count: consolidated* repeats the model when there is another one beside it."""
    root = [n for n in names if "/" not in n]
    return [n for n in root if not n.startswith("consolidated")] or root


def compare(
    name: str, mapping: t.Mapping[str, str], tensors: t.Mapping[str, frozenset[str]], remedy: str = AS_PUBLISHED
) -> list[Finding]:
    """What the index says and the shards do not hold, and the other way round.

    ``tensors`` has the names inside each shard whose header was read. Where the bytes of those shards are proven to
    be what the publisher put there, a difference is the publisher's: it is reported, and fetching again cannot mend
    it. Who has no such proof says so in ``remedy``, and judges the shards that ``numbers["file"]`` names.
    """
    said: dict[str, set[str]] = {}
    for tensor, shard in mapping.items():
        said.setdefault(shard, set()).add(tensor)
    findings = []
    for shard in sorted(said.keys() & tensors.keys()):
        absent, extra = said[shard] - tensors[shard], tensors[shard] - said[shard]
        for which, what in ((absent, "names {} tensors that {} does not hold"), (extra, "lacks {} tensors of {}")):
            if which:
                example = min(which)
                findings.append(
                    warning(
                        "upstream-inconsistent",
                        f"{name} {what.format(len(which), shard)}, {example} is one of them.",
                        remedy,
                        file=shard,
                        tensors=len(which),
                    )
                )
    return findings

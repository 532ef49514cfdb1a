# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The safetensors index: which tensor is in which shard, and what that says about a snapshot."""

from __future__ import annotations

import json
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, warning
from .names import unsafe_reason


def weight_map(text: str, name: str) -> dict[str, str]:
    """Tensor to shard (a name relative to the index), from the text of an index.

    Raises ModelopsError for a text that is no index, or that names a file outside the snapshot.
    """
    try:
        parsed = json.loads(text)["weight_map"]
    except (ValueError, KeyError, TypeError) as e:
        raise ModelopsError(f"{name} is not a safetensors index: {e!r}.", "Ask the publisher to mend it.") from e
    if not isinstance(parsed, dict) or not all(isinstance(v, str) for v in parsed.values()):
        raise ModelopsError(f"The weight_map of {name} is not a mapping to file names.", "Ask the publisher.")
    for shard in sorted(set(parsed.values())):
        reason = unsafe_reason(shard)
        if reason:
            raise ModelopsError(f"{name} names the shard {shard!r}, which is refused: {reason}.", "Use another mirror.")
    return parsed


def read_weight_map(path: str, name: str) -> dict[str, str]:
    """:func:`weight_map` of a file; its name in the repository is for messages."""
    with open(path, encoding="utf-8") as f:
        return weight_map(f.read(), name)


def compare(name: str, mapping: t.Mapping[str, str], tensors: t.Mapping[str, frozenset[str]]) -> list[Finding]:
    """What the index says and the shards do not hold, and the other way round.

    ``tensors`` has the names inside each shard whose header was read. The bytes of those shards are what the
    publisher put there, so a difference is the publisher's: it is reported, and fetching again cannot mend it.
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
                        "The files are as published: ask the publisher, or choose another revision.",
                        file=shard,
                        tensors=len(which),
                    )
                )
    return findings

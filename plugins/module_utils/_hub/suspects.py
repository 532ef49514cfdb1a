# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Shards that look whole and hold other tensors than the index says: their hashes tell whose mistake that is.

At level header a shard is believed for its size and its header, and a copy of another shard has a good one.
"""

from __future__ import annotations

import typing as t

from .._errors import ModelopsError
from .._weights.checks import Check, check_file
from .._weights.index import compare, read_weight_map
from .._weights.selection import Target, indices_among


def hash_suspects(target: Target, place: t.Callable[[str], str], checks: t.Mapping[str, Check]) -> dict[str, Check]:
    """Verdicts by hash on the shards among ``checks`` that were proven by less and differ from an index.

    ``place`` gives the path of a file, wherever it is by now. An index that is not there, or not right, says nothing.
    """
    tensors = {
        name: check.tensors
        for name, check in checks.items()
        if check.ok and check.level != "sha256" and check.tensors is not None and target.files[name].sha256
    }
    suspects: set[str] = set()
    for name in indices_among(target.files) if tensors else ():
        if name in checks and not checks[name].ok:
            continue
        try:
            mapping = read_weight_map(place(name), name)
        except (OSError, ModelopsError):
            continue
        suspects |= {finding.numbers["file"] for finding in compare(name, mapping, tensors)}
    return {name: check_file(place(name), target.files[name], "sha256") for name in sorted(suspects)}

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Files that earlier runs put into a destination and that its snapshot does not have any more."""

from __future__ import annotations

import os
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, error, info
from .._weights.checks import Stamp
from .._weights.manifest import Manifest
from .._weights.names import is_weight
from .._weights.selection import Target
from .fetching import shorten


def stale_files(dest: str, found: Manifest | None, target: Target) -> dict[str, Stamp]:
    """The stale files with their stamps: those that are still there as an earlier run put them there.

    What somebody wrote under such a name since then is not ours, nor is what a link leads to.
    """
    if found is None:
        return {}
    known = {**found.stale, **{name: record.stamp for name, record in found.files.items()}}
    root = os.path.realpath(dest)
    return {
        name: stamp
        for name, stamp in sorted(known.items())
        if name not in target.files and _is_below(root, os.path.join(dest, name)) and _is_same(dest, name, stamp)
    }


def _is_below(root: str, path: str) -> bool:
    folder = os.path.realpath(os.path.dirname(path))
    return os.path.commonpath([root, folder]) == root and not os.path.islink(path)


def _is_same(dest: str, name: str, stamp: Stamp) -> bool:
    """Whether nobody wrote to the file. Its ctime does not count: chown and chmod change it, not the content."""
    try:
        now = Stamp.of(os.path.join(dest, name))
    except OSError:
        return False
    return (now.size, now.mtime_ns, now.inode) == (stamp.size, stamp.mtime_ns, stamp.inode)


def require_prunable(dest: str, stale: t.Iterable[str], target: Target) -> None:
    """Refuse to remove weights for a selection that has none: the patterns are a mistake more often than a wish."""
    weights = [n for n in stale if is_weight(n)]
    if weights and not target.shards:
        message = (
            f"prune would remove {len(weights)} weight files from {dest}, and the selection holds no weights: "
            f"{shorten(weights)}."
        )
        remedy = "Widen allow_patterns, or leave prune out. Nothing was changed."
        raise ModelopsError(message, remedy, findings=[error("prune-refused", message, remedy).as_dict()])


def prune(dest: str, stale: t.Collection[str]) -> Finding:
    """Remove stale files; what to tell the user."""
    for name in stale:
        os.unlink(os.path.join(dest, name))
    names = sorted(stale)
    return info("pruned", f"{len(names)} files of earlier commits were removed: {', '.join(names[:5])}.", files=names)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What hf_snapshot_info returns."""

from __future__ import annotations

import typing as t

from .._findings import as_dicts, info
from .._weights.inspect import inspect
from .request import absolute, is_commit, require_repo


def describe(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The verdict on a folder, in the form that the module returns."""
    repo, revision = (params["repo_id"] or "").strip(), (params["revision"] or "").strip()
    pinned = is_commit(revision)
    seen = inspect(
        absolute(params["dest"], "dest"),
        require_repo(repo) if repo else "",
        revision if pinned else "",
        params["verify"],
    )
    if revision and not pinned and seen.commit:
        seen.findings.append(
            info("revision-unproven", f"Without the Hub nothing tells whether {revision} is still {seen.commit}.")
        )
    return {
        "complete": seen.complete,
        "verdict": seen.verdict,
        "verified": seen.verified,
        "repo_id": seen.repo,
        "commit": seen.commit,
        "files": seen.files,
        "bytes_total": seen.bytes_total,
        "shards": seen.shards(),
        "findings": as_dicts(seen.findings),
    }

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What hf_snapshot_info returns."""

from __future__ import annotations

import typing as t

from .._errors import ModelopsError
from .._findings import Finding, as_dicts, info
from .._weights.inspect import Verdict, by_listing, by_structure, inspect, without_manifest
from .._weights.manifest import Manifest, Selection, load
from .._weights.selection import choose
from .errors import ListingError
from .fetching import failed, list_files
from .request import Report, Request, absolute, is_commit, read_selection, require_endpoint, require_repo
from .sources import HubSource

# A verdict is asked for by somebody who waits: the Hub gets some seconds to recover, not minutes.
_RETRIES = 3


def describe(params: t.Mapping[str, t.Any], token: str) -> dict[str, t.Any]:
    """The verdict on a folder, in the form that the module returns; ModelopsError when it cannot be given."""
    dest = absolute(params["dest"], "dest")
    repo, revision = (params["repo_id"] or "").strip(), (params["revision"] or "").strip()
    repo = require_repo(repo) if repo else ""
    against = params["against"]
    if against == "hub":
        seen = _against_hub(dest, repo, revision, params, token)
    elif against == "structure":
        seen = by_structure(dest, repo, params["verify"])
    elif against == "manifest" and load(dest) is None:
        seen = without_manifest(dest)
    else:
        seen = inspect(dest, repo, revision if is_commit(revision) else "", params["verify"])
    if against != "hub" and revision and not is_commit(revision) and seen.commit:
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


def _against_hub(dest: str, repo: str, revision: str, params: t.Mapping[str, t.Any], token: str) -> Verdict:
    """What the folder lacks of a commit at the Hub. Unless said otherwise, of the one that its manifest names."""
    found = load(dest)
    repo = repo or (found.repo if found else "")
    if not repo:
        raise ModelopsError(
            f"against is hub, {dest} has no manifest, and no repo_id is given.", "Give repo_id, and best a commit."
        )
    asked = read_selection(params)
    same = found if found and found.repo == repo else None
    request = Request(
        repo=repo,
        revision=revision or (same.commit if same else "main"),
        dest=dest,
        endpoint=require_endpoint(params["endpoint"]),
        python="",
        scratch="",
        selection=same.selection if same and asked == Selection() else asked,
        token=token,
        retries=_RETRIES,
    )
    return _judge(request, found, params)


def _judge(request: Request, found: Manifest | None, params: t.Mapping[str, t.Any]) -> Verdict:
    report = Report(request)
    try:
        listing = list_files(HubSource(request), "", request, report)
    except ListingError as e:
        raise failed(e.failure) from e
    try:
        target = choose(request.repo, listing, request.selection)
    except ModelopsError as e:
        # A commit that nobody can complete is a verdict; what the options should say otherwise is a failure.
        found_here = [Finding(**f) for f in e.result.get("findings", [])]
        if not any(f.id == "upstream-inconsistent" for f in found_here):
            raise
        shards = e.result.get("shards", {})
        return Verdict(
            "upstream-inconsistent",
            repo=request.repo,
            commit=listing.commit,
            expected=shards.get("expected", 0),
            missing=list(shards.get("missing", [])),
            findings=[*report.findings, *found_here],
        )
    seen = by_listing(request.dest, request.repo, target, params["verify"], found)
    seen.findings[:0] = [*report.findings, *target.findings]
    return seen

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a commit holds, by the Hub's API over plain HTTP: no library is needed to plan and to judge.

``GET /api/models/{repo}/revision/{revision}?blobs=true`` gives the commit with the size and the hash of each file,
``GET /{repo}/resolve/{commit}/{name}`` the text of an index. The worker, which has huggingface_hub, only fetches.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
import urllib.parse

from .._errors import ModelopsError
from .._weights.checks import RemoteFile
from .._weights.names import unsafe_reason
from .._weights.selection import Listing, indices_among
from .disk import LARGEST
from .errors import Chain, Failure, ListingError, classify
from .request import Request, is_commit
from .web import Answer, WebError, ask

# The largest listing and index seen are of a few MB (2,000 files, 100,000 tensors).
_LIMIT = 256 << 20

_NOT_A_HUB = "Check endpoint: it is the root of a Hub, and no proxy or portal answers in its place."


class HubApi:
    """One revision of one repository."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._timeout = max(1.0, min(30.0, request.stall_timeout))

    def listing(self, known: str) -> Listing:
        """The commit with its files, without them when it is the known one; ListingError when it cannot be had."""
        r = self._request
        revision = urllib.parse.quote(r.revision, safe="")
        answer = self._get(f"/api/models/{r.repo}/revision/{revision}?blobs=true")
        body = self._parsed(answer)
        commit = body["sha"]
        if r.pinned and commit != r.revision:
            raise self._failure("not-a-hub", f"{answer.url} answers with commit {commit}", _NOT_A_HUB)
        if commit == known:
            return Listing(commit, {})
        files = {f.name: f for f in map(self._file, body["siblings"])}
        if any(unsafe_reason(name) for name in files):
            return Listing(commit, files)  # choose() refuses it and says why; such a name fits into no address
        if body.get("gated") and files:
            # The API lists a gated repository to everyone; whether its files may be read is asked before anything else.
            largest = max(files.values(), key=lambda f: f.size)
            self._ask("HEAD", self._address(commit, largest.name), leave_host=False)
        return Listing(commit, files, {name: self._index(commit, files[name]) for name in indices_among(files)})

    def _address(self, commit: str, name: str) -> str:
        return f"/{self._request.repo}/resolve/{commit}/{urllib.parse.quote(name)}"

    def _index(self, commit: str, file: RemoteFile) -> str:
        """The text of an index, compared with the hash in the listing."""
        answer = self._get(self._address(commit, file.name))
        found = _hash_like(file, answer.body)
        if len(answer.body) != file.size or found not in (file.sha256 or file.blob_id, None):
            message = f"{file.name} arrived damaged from {answer.url}: it is not what the listing says"
            raise self._failure("corrupt", message, "Check network, proxy and mirror.", passing=True)
        try:
            return answer.body.decode()
        except UnicodeDecodeError as e:
            message = f"{file.name} of {self._request.repo} at {commit} is not UTF-8"
            raise self._failure("upstream-inconsistent", message, "Ask the publisher.") from e

    def _get(self, path: str) -> Answer:
        return self._ask("GET", path)

    def _ask(self, method: str, path: str, leave_host: bool = True) -> Answer:
        r = self._request
        try:
            return ask(
                method,
                r.endpoint + path,
                token=r.token,
                limit=_LIMIT,
                timeout=self._timeout,
                leave_host=leave_host,
            )
        except WebError as e:
            raise ListingError(self._classified(e.chain)) from e

    def _classified(self, chain: Chain) -> Failure:
        r = self._request
        return classify(chain, r.repo, r.revision, r.endpoint, with_token=bool(r.token))

    def _failure(self, id_: str, message: str, remedy: str, passing: bool = False) -> ListingError:
        return ListingError(Failure(id_, f"{message}.", remedy, passing))

    def _parsed(self, answer: Answer) -> dict[str, t.Any]:
        """The body of the API's answer; ListingError when it is something else."""
        try:
            body = json.loads(answer.body)
        except (ValueError, RecursionError):
            body = None
        if (
            isinstance(body, dict)
            and isinstance(body.get("sha"), str)
            and is_commit(body["sha"])
            and isinstance(body.get("siblings"), list)
        ):
            return body
        kind = answer.headers.get("content-type", "no type")
        message = f"What is at {answer.url} is no listing of a Hub: {len(answer.body)} bytes of {kind}"
        raise self._failure("not-a-hub", message, _NOT_A_HUB)

    def _file(self, sibling: t.Any) -> RemoteFile:
        r = self._request
        try:
            name, size, lfs = sibling["rfilename"], sibling.get("size"), sibling.get("lfs")
            sha256, blob_id = (lfs["sha256"], None) if lfs else (None, sibling.get("blobId"))
        except (TypeError, KeyError, AttributeError) as e:
            raise self._failure("not-a-hub", f"{r.endpoint} lists a file as {sibling!r}", _NOT_A_HUB) from e
        if not isinstance(name, str) or not (_is_hash(sha256, 64) and _is_hash(blob_id, 40)):
            raise self._failure("not-a-hub", f"{r.endpoint} lists a file as {sibling!r}", _NOT_A_HUB)
        if not isinstance(size, int) or not 0 <= size <= LARGEST:
            raise ModelopsError(f"{r.endpoint} lists {name!r} without its size.", "Use the Hub or another mirror.")
        return RemoteFile(name, size, sha256, blob_id)


def _is_hash(value: t.Any, digits: int) -> bool:
    return value is None or (isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{digits}}}", value) is not None)


def _hash_like(file: RemoteFile, data: bytes) -> str | None:
    """The hash of these bytes of the kind that the listing has for the file."""
    if file.sha256:
        return hashlib.sha256(data).hexdigest()
    if file.blob_id:
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # git's own name for it, not a safeguard
    return None

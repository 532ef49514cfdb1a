# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the loopback Hub holds: files, repositories, faults, and the requests that it answered."""

from __future__ import annotations

import hashlib
import re
import typing as t
from pathlib import Path

# The public Hub keeps a file as LFS when .gitattributes says so: weights by name, everything else by size.
_LFS_SIZE = 10 * 1024
_LFS_NAME = re.compile(r"\.(safetensors|gguf|bin|pt|pth|msgpack|h5|onnx)$")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def git_blob_id(data: bytes) -> str:
    """The name that git gives these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Entry:
    """One file of a commit: bytes or a path, ``size`` in bytes, its git id and, for LFS, its SHA-256."""

    def __init__(self, path: str, source: bytes | Path, lfs: bool | None = None) -> None:
        self.path = path
        self.data = source if isinstance(source, bytes) else None
        self.file = source if isinstance(source, Path) else None
        self.size = len(source) if isinstance(source, bytes) else source.stat().st_size
        self.xet_hash: str | None = None
        self.sha256: str | None = None
        self.pointer_size: int | None = None
        if lfs if lfs is not None else (self.size > _LFS_SIZE or _LFS_NAME.search(path) is not None):
            self.sha256 = _sha256(source) if isinstance(source, Path) else hashlib.sha256(source).hexdigest()
            pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n"
            self.pointer_size = len(pointer)
            self.oid = git_blob_id(pointer.encode())
        else:
            self.oid = git_blob_id(self.read())

    def read(self) -> bytes:
        """All bytes of a small file."""
        return self.data if self.data is not None else t.cast(Path, self.file).read_bytes()

    def sibling(self, blobs: bool) -> dict[str, t.Any]:
        """The form of ``GET /api/models/{id}``."""
        out: dict[str, t.Any] = {"rfilename": self.path}
        if blobs:
            out |= {"size": self.size, "blobId": self.oid}
            if self.sha256:
                out["lfs"] = {"sha256": self.sha256, "size": self.size, "pointerSize": self.pointer_size}
        return out

    def tree(self) -> dict[str, t.Any]:
        """The form of ``GET /api/models/{id}/tree/{revision}``."""
        out: dict[str, t.Any] = {"type": "file", "oid": self.oid, "size": self.size, "path": self.path}
        if self.sha256:
            out["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": self.pointer_size}
        if self.xet_hash:
            out["xetHash"] = self.xet_hash
        return out


class Repo:
    """A repository: its commits (id to path to entry), its branches, and who may read it."""

    def __init__(self, repo_id: str) -> None:
        self.id = repo_id
        self.refs: dict[str, str] = {}
        self.commits: dict[str, dict[str, Entry]] = {}
        self.gated = self.private = self.disabled = False

    def resolve(self, revision: str) -> str | None:
        """The commit id of a branch or commit, None when there is no such thing."""
        return self.refs.get(revision) or (revision if revision in self.commits else None)


class Fault:
    """Something that goes wrong ``times`` times (-1: always) for requests whose path matches.

    Kinds: status(code, headers, body, ctype), drop, delay(seconds), cut(after), hang(after, seconds), slow(bps),
    corrupt(at), norange, nolength, wrongsize(delta). The first ``skip`` matches pass untouched.
    """

    def __init__(
        self, pattern: str, kind: str, times: int = 1, method: str | None = None, skip: int = 0, **options: t.Any
    ) -> None:
        self.pattern, self.kind, self.left, self.method, self.skip = re.compile(pattern), kind, times, method, skip
        self.options = options
        self.hits = 0


class Request(t.NamedTuple):
    """One answered request; ``role`` is hub or cdn, ``sent`` counts bytes of the body, ``token`` says if one came."""

    role: str
    method: str
    path: str
    status: int
    range: str | None
    sent: int
    at: float
    token: bool = False

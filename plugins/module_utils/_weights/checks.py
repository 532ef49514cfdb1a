# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Checks of one file against what the Hub says about it, and of many at once."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .names import is_weight
from .safetensors import HeaderError, tensor_names, text_instead

Level = t.Literal["none", "header", "sha256"]

LEVELS: tuple[Level, ...] = ("none", "header", "sha256")

# hashlib releases the GIL for blocks of this size; larger ones were not faster. A memory map was (by a tenth), but a
# disk that cannot read a block ends the process of who looks at it through a map.
_BLOCK = 1 << 20

# Tokenizers and the like are hashed at level header too, whichever hash the Hub has of them; weights are not.
_SMALL = 64 << 20

# A file with less than this part of its size on disk has holes. Only a hint: some file systems compress.
_SPARSE = 0.9


@dataclass(frozen=True)
class RemoteFile:
    """A file of a commit: size in bytes, SHA-256 (LFS files), git blob id (all files, of the pointer for LFS)."""

    name: str
    size: int
    sha256: str | None = None
    blob_id: str | None = None

    @property
    def provable(self) -> bool:
        """Whether the Hub gave a hash of the content."""
        return bool(self.sha256 or self.blob_id)


@dataclass(frozen=True)
class Stamp:
    """What stat says about a file; while it is the same, nobody wrote to the file through the file system."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, path: str) -> Stamp:
        """The stamp of a file; OSError when there is none."""
        st = os.stat(path)
        return cls(st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino)


@dataclass(frozen=True)
class Check:
    """The verdict on one file: ok, missing, truncated, corrupt, pointer or upstream-inconsistent.

    ``level`` is what was proven (ok and upstream-inconsistent only), ``sha256`` what was computed.
    """

    name: str
    verdict: str
    message: str = ""
    level: Level = "none"
    stamp: Stamp | None = None
    sha256: str | None = None
    tensors: frozenset[str] | None = None
    sparse: bool = False

    @property
    def ok(self) -> bool:
        """Whether the bytes are what the Hub has (or look so, at the level asked for)."""
        return self.verdict == "ok"


class Listener(t.Protocol):
    """Is told how far the checks are."""

    def read(self, file: RemoteFile, size: int) -> None:
        """So many more bytes of a file were read."""

    def finished(self, file: RemoteFile) -> None:
        """The check of a file has ended."""


def digests(path: str, size: int) -> tuple[str, str]:
    """(SHA-256, git blob id) of a small file, in one pass."""
    plain, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size)  # git's own name for it, not a safeguard
    for block in _blocks(path):
        plain.update(block)
        git.update(block)
    return plain.hexdigest(), git.hexdigest()


def sha256(path: str, on_read: t.Callable[[int], None] = lambda _size: None) -> str:
    """SHA-256 of a file, in constant memory; ``on_read`` is called with the size of each block."""
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
        on_read(len(block))
    return digest.hexdigest()


def _blocks(path: str) -> t.Iterator[memoryview]:
    buffer = bytearray(_BLOCK)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as f:
        while n := f.readinto(buffer):
            yield view[:n]


def check_file(
    path: str, want: RemoteFile, level: Level, durable: bool = False, listener: Listener | None = None
) -> Check:
    """Compare a file with what the Hub says, at a level.

    ``sha256`` proves the content; ``header`` proves sizes, safetensors headers, and the content of small files;
    ``none`` compares sizes. With ``durable`` the bytes are on the disk before the answer.
    """
    check = _check(path, want, level, durable, listener)
    if listener:
        listener.finished(want)
    return check


def _check(path: str, want: RemoteFile, level: Level, durable: bool, listener: Listener | None) -> Check:
    try:
        before = Stamp.of(path)
        if not os.path.isfile(path):
            return Check(want.name, "corrupt", "something that is no file is in its place")
        if durable:
            _flush(path)
        check = _compare(path, want, level, before, listener)
        if Stamp.of(path) != before:
            return Check(want.name, "corrupt", "the file changed while it was read")
    except FileNotFoundError:
        return Check(want.name, "missing", "the file is not there")
    except OSError as e:
        return Check(want.name, "corrupt", f"the file cannot be read: {e.strerror}")
    return check


def _compare(path: str, want: RemoteFile, level: Level, stamp: Stamp, listener: Listener | None) -> Check:
    if stamp.size != want.size:
        return _wrong_size(path, want, stamp.size)
    if level == "none":
        return Check(want.name, "ok", level="none", stamp=stamp)
    found = None
    if want.sha256 is None and want.blob_id is not None:
        found, blob_id = digests(path, stamp.size)
        right = blob_id == want.blob_id
    elif want.sha256 is not None and (level == "sha256" or (want.size <= _SMALL and not is_weight(want.name))):
        found = sha256(path, functools.partial(listener.read, want)) if listener else sha256(path)
        right = found == want.sha256
    else:
        right = True
    proven: Level = "sha256" if found and right else "header"
    tensors, fault = _structure(path)
    if not right:
        reason = fault[1] if fault else "its size is right, its content is not what was published"
        return Check(want.name, fault[0] if fault and fault[0] == "pointer" else "corrupt", reason)
    if fault and proven == "sha256":
        return Check(want.name, "upstream-inconsistent", fault[1], proven, stamp, found)
    if fault:
        return Check(want.name, fault[0], fault[1])
    return Check(want.name, "ok", "", proven, stamp, found, tensors, is_sparse(path))


def _wrong_size(path: str, want: RemoteFile, size: int) -> Check:
    with open(path, "rb") as f:
        text = text_instead(f.read(512))
    if text:
        return Check(want.name, *text)
    if size < want.size:
        return Check(want.name, "truncated", f"the file has {size} of {want.size} bytes")
    return Check(want.name, "corrupt", f"the file has {size} bytes, {size - want.size} more than were published")


def _structure(path: str) -> tuple[frozenset[str] | None, tuple[str, str] | None]:
    """(tensor names, None) or (None, (verdict, message)); nothing is known of other formats but their start."""
    if path.endswith(".safetensors"):
        try:
            return tensor_names(path), None
        except HeaderError as e:
            return None, (e.verdict, str(e))
    with open(path, "rb") as f:
        head = f.read(512)
    if path.endswith(".gguf") and head[:4] != b"GGUF":
        return None, text_instead(head) or ("corrupt", "the file does not start with the GGUF magic")
    if path.endswith((".html", ".htm", ".md")):
        return None, None
    return None, text_instead(head)


def is_sparse(path: str) -> bool:
    """Whether much less of the file is on disk than its size: a hole of zeros, or a compressing file system."""
    st = os.stat(path)
    return st.st_size > _BLOCK and st.st_blocks * 512 < st.st_size * _SPARSE


def _flush(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        # A file system without fsync for this kind of file has nothing that could be lost later.
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def check_many(
    folder: str, wanted: t.Iterable[RemoteFile], level: Level, listener: Listener | None = None
) -> dict[str, Check]:
    """Check files below a folder on all cores, the largest first; name to verdict."""
    files = sorted(wanted, key=lambda f: -f.size)
    if not files:
        return {}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        checks = pool.map(lambda f: check_file(os.path.join(folder, f.name), f, level, listener=listener), files)
        return {c.name: c for c in checks}

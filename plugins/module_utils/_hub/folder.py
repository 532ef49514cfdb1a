# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""A folder on the node as the source of a snapshot: a mounted disk, the store of a site, a download by other means.

What is copied is always proven, by one of three: the folder's manifest, a list of checksums that the user gives, or
the Hub's listing. A folder with none of them is refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import typing as t
from dataclasses import replace

from .._errors import ModelopsError
from .._findings import Finding, error, info
from .._weights import manifest as manifests
from .._weights.checks import Check, RemoteFile
from .._weights.checksums import read_checksums
from .._weights.index import weight_map
from .._weights.manifest import Manifest, Selection
from .._weights.selection import Listing, choose, indices_among
from .errors import Failure, ListingError
from .listing import HubApi
from .request import Request
from .staging import Staging

_CHUNK = 1 << 30

# The books of this collection, of huggingface_hub and of git are no part of a snapshot.
_BOOKS = (manifests.FOLDER, ".cache", ".git")

_READABLE = 0o444


class FolderSource:
    """Copies or links files of ``source_dir``."""

    def __init__(self, request: Request) -> None:
        self._request, self._folder = request, request.source_dir
        if not os.path.isdir(self._folder):
            raise ModelopsError(f"source_dir {self._folder} is not a folder.", "Mount it, or correct the path.")
        here, there = os.path.realpath(request.dest), os.path.realpath(self._folder)
        if os.path.commonpath([here, there]) in (here, there):
            raise ModelopsError(
                f"source_dir {self._folder} and dest {request.dest} are one folder, or one is inside the other.",
                "Give two folders; hf_snapshot without source_dir adopts what is in dest.",
            )
        self._manifest = manifests.load(self._folder)
        if self._manifest:
            self._require_wanted(self._manifest)

    def _require_wanted(self, found: Manifest) -> None:
        r = self._request
        if found.repo != r.repo or (r.pinned and found.commit != r.revision):
            raise ModelopsError(
                f"source_dir {self._folder} holds {found.repo} at {found.commit}, not {r.repo} at {r.revision}.",
                "Give the folder of that snapshot.",
            )
        if not _covers(found.selection, r.selection):
            raise ModelopsError(
                f"source_dir {self._folder} was made with other patterns ({_shown(found.selection)}) than those of "
                f"this task ({_shown(r.selection)}), so it may lack files that the task asks for.",
                "Use the same allow_patterns, ignore_patterns and allow_pickle for both.",
            )

    def listing(self, known: str) -> Listing:
        """What the manifest records, the checksums list, or the Hub tells; ModelopsError when nothing proves it."""
        r = self._request
        if self._manifest and self._manifest.commit == known and not r.source_checksums:
            return Listing(known, {})
        if r.source_checksums:
            return self._checked(self._by_checksums(self._without_itself(read_checksums(r.source_checksums))))
        if self._manifest:
            return self._checked(self._by_manifest(self._manifest))
        return self._by_hub(known)

    def _by_manifest(self, found: Manifest) -> Listing:
        files = found.remotes()
        said = []
        if not self._request.pinned:
            message = f"Nothing tells whether {self._request.revision} is still {found.commit}, which source_dir holds."
            said.append(info("revision-unproven", message))
        return Listing(found.commit, files, self._indices(files), tuple(said))

    def _by_checksums(self, sums: t.Mapping[str, str]) -> Listing:
        """The files of the folder with the hashes of the list; those of a manifest must be the same."""
        r, found = self._request, self._manifest
        if found:
            recorded = {n: f.sha256 for n, f in found.remotes().items() if f.sha256}
            for name in sorted(recorded.keys() & sums.keys()):
                if recorded[name] != sums[name]:
                    raise ModelopsError(
                        f"The manifest of source_dir {self._folder} records another SHA-256 of {name} than "
                        f"{r.source_checksums} does.",
                        "Find out which is right: nothing was copied.",
                    )
            files = {n: replace(f, sha256=sums.get(n)) for n, f in found.remotes().items()}
            return Listing(found.commit, files, self._indices(files))
        if not r.pinned:
            raise ModelopsError(
                f"With source_checksums and a source_dir without a manifest, revision {r.revision!r} must be a commit.",
                "Give the 40 hexadecimal digits of the commit that the files are from.",
            )
        files = {n: RemoteFile(n, self._size(n), sums.get(n)) for n in {*self._names(), *sums}}
        message = f"The checksums of {r.source_checksums} prove the copies; that they are of {r.revision}, you say."
        return Listing(r.revision, files, self._indices(files), (info("commit-unproven", message),))

    def _without_itself(self, sums: t.Mapping[str, str]) -> dict[str, str]:
        """The checksums without the one of their own list: ``sha256sum * > LIST`` adds it before the list is whole."""
        path = self._request.source_checksums

        def is_list(name: str) -> bool:
            place = os.path.join(self._folder, name)
            moved = name == os.path.basename(path) and not os.path.lexists(place)
            return moved or os.path.realpath(place) == os.path.realpath(path)

        return {name: digest for name, digest in sums.items() if not is_list(name)}

    def _by_hub(self, known: str) -> Listing:
        try:
            return HubApi(self._request).listing(known)
        except ListingError as e:
            message = (
                f"source_dir {self._folder} has no manifest and no source_checksums are given, so only the Hub can "
                f"prove what is in it. {e.failure.message}"
            )
            remedy = "Give source_checksums, make the folder with hf_snapshot, or let the node reach the Hub."
            # A Hub that is busy is asked again; without a network there is nothing to wait for.
            passing = e.failure.passing and e.failure.id != "connection"
            raise ListingError(replace(e.failure, message=message, remedy=remedy, passing=passing)) from e

    def _checked(self, listing: Listing) -> Listing:
        """The listing, after every file that it selects was found to have a hash and to be in the folder."""
        r = self._request
        target = choose(r.repo, listing, r.selection)
        unlisted = sorted(n for n in target.files if r.source_checksums and not listing.files[n].sha256)
        if unlisted:
            raise ModelopsError(
                f"{r.source_checksums} lacks {len(unlisted)} of the files to copy: {', '.join(unlisted[:5])}.",
                "List them too, or leave them out with ignore_patterns.",
            )
        if not self._manifest:
            self.require_fetchable(target.files.values())
        return listing

    def _indices(self, names: t.Collection[str]) -> dict[str, str]:
        """The texts of the indices; without those whose weights were left out on purpose, all of them."""
        out = {}
        for name in indices_among(names):
            try:
                with open(os.path.join(self._folder, name), encoding="utf-8") as f:
                    text = f.read()
            except (OSError, UnicodeDecodeError) as e:
                reason = e.strerror if isinstance(e, OSError) else "it is not UTF-8"
                raise ModelopsError(f"{name} cannot be read in {self._folder}: {reason}.", "Mend it there.") from e
            shards = set(weight_map(text, name).values())
            absent = sorted(shards - set(names))
            if not absent:
                out[name] = text
            elif len(absent) < len(shards) or not (self._manifest or self._request.selection.allow_patterns):
                message = (
                    f"source_dir {self._folder} lacks {len(absent)} of the {len(shards)} shards that {name} names: "
                    f"{', '.join(absent[:5])}."
                )
                raise _refused("source-incomplete", message, "Complete the folder and its list of checksums.", absent)
        return out

    def _names(self) -> list[str]:
        """The files in the folder and below its links, without books and without the list of checksums itself."""
        out = []
        listed = os.path.realpath(self._request.source_checksums)
        for folder, folders, names in os.walk(self._folder, followlinks=True):
            if self._leads_back(folder):
                folders.clear()
                continue
            if folder == self._folder:
                folders[:] = [f for f in folders if f not in _BOOKS]
            paths = (os.path.join(folder, n) for n in names)
            out += [os.path.relpath(p, self._folder) for p in paths if os.path.realpath(p) != listed]
        return out

    def _leads_back(self, folder: str) -> bool:
        """Whether a folder is a link to one of those that it is below."""
        real, above = os.path.realpath(folder), folder
        while above != self._folder:
            above = os.path.dirname(above)
            if os.path.realpath(above) == real:
                return True
        return False

    def _size(self, name: str) -> int:
        """The size of a file; -1 for one that is not there."""
        path = os.path.join(self._folder, name)
        return os.stat(path).st_size if os.path.isfile(path) else -1

    def fetch(
        self, files: t.Sequence[RemoteFile], staging: Staging, on_landed: t.Callable[[str], t.Any]
    ) -> Failure | None:
        """Copy or link one file after the other: a disk is not faster for many readers."""
        for file in files:
            source, place = os.path.realpath(os.path.join(self._folder, file.name)), staging.path(file.name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            try:
                if self._request.hardlink:
                    os.link(source, place)
                else:
                    copy_file(source, place)
            except OSError as e:
                with contextlib.suppress(OSError):
                    os.unlink(place)
                return self._explain(file.name, e)
            on_landed(file.name)
        return None

    def _explain(self, name: str, e: OSError) -> Failure:
        if self._request.hardlink:
            message = f"{name} cannot be linked from {self._folder} into {self._request.dest}: {e.strerror}."
            return Failure("link-failed", message, "Set source_transfer to copy: links need one file system.")
        message = f"{name} cannot be copied from {self._folder}: {e.strerror}."
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            return Failure("disk-full", message, "Free space, or give another dest.")
        return Failure("copy-failed", message, "Mend it there.")

    def damaged(self, check: Check) -> Failure:
        """The disk gives the same bytes again: there is nothing to wait for."""
        message = f"{check.name} in source_dir {self._folder} is not what is recorded of it: {check.message}."
        return Failure(check.verdict, message, "Mend the folder: a run of hf_snapshot with it as dest does that.")

    def adapt(self, failure: Failure, files: t.Iterable[RemoteFile]) -> Finding | None:  # noqa: ARG002
        """There is one way to copy."""
        return None

    def require_fetchable(self, files: t.Collection[RemoteFile]) -> list[Finding]:
        """Refuse files that the folder does not have whole, and links to files that others could not read."""
        here = {f.name: self._size(f.name) for f in files}
        bad = sorted(f.name for f in files if here[f.name] != f.size or here[f.name] < 0)
        if bad:
            which = "lacks" if all(here[n] < 0 for n in bad) else "lacks, or has with another size,"
            message = f"source_dir {self._folder} {which} {len(bad)} of the files to copy: {', '.join(bad[:5])}."
            remedy = "Complete the folder, or leave the files out with ignore_patterns."
            raise _refused("source-incomplete", message, remedy, bad)
        closed = sorted(f.name for f in files if self._request.hardlink and not self._open_to_all(f.name))
        if closed:
            message = (
                f"{len(closed)} files of source_dir {self._folder} are not readable by all, and a link has the mode "
                f"of its source: {', '.join(closed[:5])}."
            )
            raise _refused(
                "link-unreadable", message, "Make them readable (0644), or set source_transfer to copy.", closed
            )
        return []

    def _open_to_all(self, name: str) -> bool:
        return os.stat(os.path.join(self._folder, name)).st_mode & _READABLE == _READABLE

    def space_for(self, files: t.Iterable[RemoteFile]) -> int:
        """Bytes that the files take on the file system of the destination; a link takes none."""
        return 0 if self._request.hardlink else sum(f.size for f in files)


def copy_file(source: str, place: str) -> None:
    """Copy the bytes of a file, inside the kernel where it can: on XFS and btrfs that shares the blocks."""
    with open(source, "rb", buffering=0) as f, open(place, "wb", buffering=0) as out:
        with contextlib.suppress(OSError):  # other file systems, old kernels: what is left is copied below
            while os.copy_file_range(f.fileno(), out.fileno(), _CHUNK):
                pass
        shutil.copyfileobj(f, out, 1 << 20)


def _covers(source: Selection, wanted: Selection) -> bool:
    """Whether a snapshot of one selection holds what the other selects, whatever is in the commit."""
    if source == wanted:
        return True
    whole = not (source.allow_patterns or source.ignore_patterns)
    # allow_patterns may ask for the other forms of the weights, which a snapshot without patterns leaves out.
    return whole and not wanted.allow_patterns and (source.allow_pickle or not wanted.allow_pickle)


def _shown(selection: Selection) -> str:
    return (
        f"allow {list(selection.allow_patterns)}, ignore {list(selection.ignore_patterns)}, "
        f"pickle {str(selection.allow_pickle).lower()}"
    )


def _refused(id_: str, message: str, remedy: str, names: list[str]) -> ModelopsError:
    return ModelopsError(message, remedy, findings=[error(id_, message, remedy, files=names).as_dict()])

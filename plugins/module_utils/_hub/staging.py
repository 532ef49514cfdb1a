# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Where files land before they are proven, and how they get to their places.

``dest/.modelops/staging/<commit>`` is on the file system of the destination, so a proven file gets to its place by
a rename: a reader of the destination never sees a part of a file, and an update that fails leaves the old
snapshot whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import typing as t

from .._errors import ModelopsError
from .._weights.checks import RemoteFile
from .._weights.manifest import FOLDER, sync_folder
from .disk import bytes_below

_JOB = "job.json"


class Staging:
    """The staging area of one commit; only the holder of the destination's lock uses it."""

    def __init__(self, dest: str, repo: str, commit: str) -> None:
        self.dest = dest
        self.base = os.path.join(dest, FOLDER)
        self.folder = os.path.join(self.base, "staging", commit)
        self._job = {"repo": repo, "commit": commit}

    def tidy(self) -> None:
        """Remove what runs for other commits left, and unfinished files; nothing is made."""
        parent = os.path.dirname(self.folder)
        for other in os.listdir(parent) if os.path.isdir(parent) else ():
            if other != os.path.basename(self.folder):
                shutil.rmtree(os.path.join(parent, other), ignore_errors=True)
        self.drop_partials()

    def open(self) -> None:
        """Make the area, and note whose destination this is."""
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.base, _JOB), "w", encoding="utf-8") as f:
            json.dump(self._job, f)

    def drop_partials(self) -> None:
        """Remove unfinished files and huggingface_hub's notes: nothing proves what is in them.

        Versions before 1.18 resume from them, and took an HTML page or a sparse Xet file for the first part.
        """
        shutil.rmtree(os.path.join(self.folder, ".cache"), ignore_errors=True)

    def path(self, name: str) -> str:
        """Where a file lands."""
        return os.path.join(self.folder, name)

    def drop(self, name: str) -> None:
        """Remove a file that turned out bad."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(name))

    def bytes_here(self) -> int:
        """Bytes on disk in the area, unfinished files included: it grows while bytes arrive."""
        return bytes_below(self.folder)

    def bytes_of(self, files: t.Iterable[RemoteFile]) -> int:
        """Bytes that arrived of these files: the size of those that landed, and what is on disk of unfinished ones."""
        landed = sum(f.size for f in files if os.path.isfile(self.path(f.name)))
        return landed + bytes_below(os.path.join(self.folder, ".cache"))

    def promote(self, names: t.Iterable[str]) -> None:
        """Move proven files to their places, readable by the service that will load them."""
        folders = {self.dest}
        for name in names:
            place = os.path.join(self.dest, name)
            make_folders(self.dest, os.path.dirname(name))
            if os.path.isdir(place) and not os.path.islink(place):
                raise ModelopsError(f"{place} is a folder, and a file of that name belongs there.", "Move it away.")
            # A hard link has the mode of its source, which belongs to others; it is readable, or was refused.
            if os.stat(self.path(name)).st_nlink == 1:
                os.chmod(self.path(name), 0o644)
            os.replace(self.path(name), place)
            folders.add(os.path.dirname(place))
        for folder in folders:
            sync_folder(folder)

    def close_if_empty(self) -> None:
        """Remove an area that a failed run brought nothing to, so that it claims the destination for nobody."""
        if not _holds_files(os.path.dirname(self.folder)):
            self.close()

    def close(self) -> None:
        """Remove the area after the manifest was written."""
        shutil.rmtree(os.path.dirname(self.folder), ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.base, _JOB))


def make_folders(dest: str, below: str = "") -> list[str]:
    """Make a destination, its parents and folders below it, readable by all whatever the umask.

    Returns the folders that were made, the innermost first; those that exist keep their mode.
    """
    missing = []
    path = os.path.join(dest, below) if below else dest
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another run makes the same parents at this moment
            os.mkdir(folder)
            os.chmod(folder, 0o755)
    return missing


def unfinished(dest: str) -> dict[str, str]:
    """``{"repo", "commit"}`` of a run that did not end, empty when there is none, or when nothing it brought is left.

    A run that brought nothing leaves the destination to whoever comes next: its repository may have been a mistake.
    """
    books = os.path.join(dest, FOLDER)
    try:
        with open(os.path.join(books, _JOB), encoding="utf-8") as f:
            job = json.load(f)
    except (OSError, ValueError, RecursionError):
        return {}
    if not (isinstance(job, dict) and all(isinstance(v, str) for v in job.values())):
        return {}
    return job if _holds_files(os.path.join(books, "staging")) else {}


def _holds_files(area: str) -> bool:
    """Whether files landed below staging areas; huggingface_hub keeps what is unfinished in ``.cache``."""
    for _folder, folders, names in os.walk(area):
        folders[:] = [f for f in folders if f != ".cache"]
        if names:
            return True
    return False

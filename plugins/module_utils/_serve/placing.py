# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The files of a release where systemd and vLLM read them."""

from __future__ import annotations

import contextlib
import os
import typing as t

from . import render
from .release import Release, digest, read_file, sync_folder, write_file


def install(release: Release) -> None:
    """Copy the files of a release to where systemd and vLLM read them. Those that are there already are left alone."""
    for file in release.files:
        text = release.read(file["name"])
        if _same(file["dest"], text, int(file["mode"], 8)):
            continue
        folder = os.path.dirname(file["dest"])
        os.makedirs(folder, mode=0o755, exist_ok=True)
        write_file(file["dest"], text, int(file["mode"], 8))
        sync_folder(folder)


def _same(path: str, text: str, mode: int) -> bool:
    try:
        return read_file(path) == text and os.stat(path).st_mode & 0o777 == mode
    except (OSError, UnicodeDecodeError):
        return False


def restore(release: Release) -> bool:
    """Mend a release from its copies in place, if they are what was staged; whether it is intact now."""
    try:
        copies = {file["name"]: read_file(file["dest"]) for file in release.files}
        if digest(copies, release.record) != release.record["digest"]:
            return False
        for file in release.files:
            write_file(os.path.join(release.path, file["name"]), copies[file["name"]], int(file["mode"], 8))
    except (OSError, UnicodeDecodeError):
        return False
    return release.intact()


def foreign_files(release: Release) -> list[str]:
    """The places of a release where a file is that this collection has not written."""
    found = []
    for file in release.files:
        try:
            text = read_file(file["dest"])
        except (OSError, UnicodeDecodeError):
            text = "" if os.path.exists(file["dest"]) else render.HEADER
        if not text.startswith(render.OURS) and not file["name"].endswith(".json"):
            found.append(file["dest"])
    return found


def uninstall(release: Release, kept: t.Collection[str] = ()) -> None:
    """Remove the files of a release that no other one of its instance (``kept``: their places) has there."""
    for file in release.files:
        if file["dest"] not in kept:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file["dest"])


def installed(release: Release) -> bool:
    """Whether the files in place are those of the release."""
    try:
        return all(read_file(file["dest"]) == release.read(file["name"]) for file in release.files)
    except (OSError, UnicodeDecodeError):
        return False

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Space on the file system of a destination, in bytes, before the first byte is fetched."""

from __future__ import annotations

import contextlib
import os
import re
import typing as t

from .._errors import ModelopsError
from .._findings import error
from .._weights.manifest import FOLDER

# Decimal and binary units are different numbers: at 540 GiB the difference is 40 GB.
_UNITS = {
    "": 1,
    "B": 1,
    **{p + "B": 1000**i for i, p in enumerate("KMGT", start=1)},
    **{p + "iB": 1024**i for i, p in enumerate("KMGT", start=1)},
}

_SIZES = "Give bytes, or a number with a unit, as in 10GB or 10GiB."

# No file system has more bytes: sizes are signed numbers of 64 bits (loff_t).
LARGEST = (1 << 63) - 1

# Folders, the manifest and huggingface_hub's own files.
_SPARE_INODES = 64


def parse_size(text: str, option: str) -> int:
    """Bytes from ``"1GiB"``, ``"10 GB"`` or a plain number; ModelopsError names the option otherwise."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2] not in _UNITS:
        raise ModelopsError(f"{option} is {text!r}, which is not a size.", _SIZES)
    size = float(match[1]) * _UNITS[match[2]]
    if size > LARGEST:
        raise ModelopsError(f"{option} is {text[:40]!r}, which is more than any file system has.", _SIZES)
    return int(size)


def existing_parent(path: str) -> str:
    """The nearest folder that exists, which is on the file system that ``path`` will be on."""
    while not os.path.isdir(path):
        parent = os.path.dirname(path)
        if parent == path:
            break
        path = parent
    return path


def mount_point(path: str) -> str:
    """The mount point of the file system that a folder is on."""
    path = os.path.realpath(path)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def require_space(dest: str, size: int, files: int, reserve: int, freed: int = 0) -> None:
    """Refuse when ``size`` bytes in ``files`` files do not fit beside ``reserve`` bytes that stay free.

    ``freed`` bytes on the disk are removed before the first byte is fetched.
    """
    if not files:
        return
    folder = existing_parent(dest)
    fs = os.statvfs(folder)
    where = f"the file system {mount_point(folder)}"
    free = fs.f_bavail * fs.f_frsize + freed
    short = size + reserve - free
    if short > 0:
        orphans, message, remedy = _orphans(dest), "", "Free space, give another dest, or lower min_free."
        if orphans:
            cache = os.path.join(dest, ".cache", "huggingface")
            message = f" Unfinished downloads of other programs take {orphans} bytes in {cache}."
            remedy = f"Remove {cache} when no other download runs there. {remedy}"
        _refuse(
            "disk-space",
            f"{size} bytes ({size / 1e9:.2f} GB) are to be fetched to {dest}, {reserve} bytes are to stay free, "
            f"and {where} has {free} bytes free: {short} bytes ({short / 1e9:.2f} GB) too few.{message}",
            remedy,
            {"needed": size, "reserve": reserve, "free": free, "short": short, "unfinished": orphans},
        )
    short = files + _SPARE_INODES - fs.f_favail
    if fs.f_files and short > 0:
        _refuse(
            "inodes",
            f"{files} files are to be fetched, and {where} has {fs.f_favail} inodes free: {short} too few.",
            "Remove files, or give another dest.",
            {"needed": files + _SPARE_INODES, "free": fs.f_favail, "short": short},
        )


def bytes_below(folder: str, counts: t.Callable[[str], bool] = lambda _path: True) -> int:
    """Bytes on the disk of the files below a folder, by path those that count; a file that goes meanwhile has none."""
    total = 0
    for place, _folders, names in os.walk(folder):
        for path in filter(counts, (os.path.join(place, n) for n in names)):
            with contextlib.suppress(OSError):
                total += os.lstat(path).st_blocks * 512
    return total


def _orphans(dest: str) -> int:
    """Bytes on the disk of files that huggingface_hub began in a folder and did not finish."""
    return bytes_below(os.path.join(dest, ".cache", "huggingface"), lambda path: path.endswith(".incomplete"))


def freed_by_a_run(dest: str, kept: t.Container[str]) -> int:
    """Bytes on the disk that a run removes first: what is in the staging area but not ``kept`` (paths)."""
    return bytes_below(os.path.join(dest, FOLDER, "staging"), lambda path: path not in kept)


def require_places(dest: str, names: t.Iterable[str]) -> None:
    """Refuse, before anything is fetched, when a folder is where a file belongs, or a file where a folder does."""
    for name in names:
        place = os.path.join(dest, name)
        if os.path.isdir(place):
            raise ModelopsError(f"{place} is a folder, and a file of that name belongs there.", "Move it away.")
        parent = os.path.dirname(place)
        while parent != dest and not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if not os.path.isdir(parent) and os.path.lexists(parent):
            raise ModelopsError(f"{parent} is no folder, and {name} belongs below it.", "Move it away.")


def _refuse(id_: str, message: str, remedy: str, numbers: dict[str, int]) -> t.NoReturn:
    raise ModelopsError(message, remedy, findings=[error(id_, message, remedy, **numbers).as_dict()])

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Space on the file system of a destination, in bytes, before the first byte is fetched."""

from __future__ import annotations

import os
import re
import typing as t

from .._errors import ModelopsError
from .._findings import error

# Decimal and binary units are different numbers: at 540 GiB the difference is 40 GB.
_UNITS = {
    "": 1,
    "B": 1,
    **{p + "B": 1000**i for i, p in enumerate("KMGT", start=1)},
    **{p + "iB": 1024**i for i, p in enumerate("KMGT", start=1)},
}

# Folders, the manifest and huggingface_hub's own files.
_SPARE_INODES = 64


def parse_size(text: str, option: str) -> int:
    """Bytes from ``"1GiB"``, ``"10 GB"`` or a plain number; ModelopsError names the option otherwise."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2] not in _UNITS:
        raise ModelopsError(
            f"{option} is {text!r}, which is not a size.", "Give bytes, or a number with a unit, as in 10GB or 10GiB."
        )
    return int(float(match[1]) * _UNITS[match[2]])


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


def require_space(dest: str, size: int, files: int, reserve: int) -> None:
    """Refuse when ``size`` bytes in ``files`` files do not fit beside ``reserve`` bytes that stay free."""
    if not files:
        return
    folder = existing_parent(dest)
    fs = os.statvfs(folder)
    where = f"the file system {mount_point(folder)}"
    free = fs.f_bavail * fs.f_frsize
    short = size + reserve - free
    if short > 0:
        _refuse(
            "disk-space",
            f"{size} bytes ({size / 1e9:.2f} GB) are to be fetched to {dest}, {reserve} bytes are to stay free, "
            f"and {where} has {free} bytes free: {short} bytes ({short / 1e9:.2f} GB) too few.",
            "Free space, give another dest, or lower min_free.",
            {"needed": size, "reserve": reserve, "free": free, "short": short},
        )
    short = files + _SPARE_INODES - fs.f_favail
    if fs.f_files and short > 0:
        _refuse(
            "inodes",
            f"{files} files are to be fetched, and {where} has {fs.f_favail} inodes free: {short} too few.",
            "Remove files, or give another dest.",
            {"needed": files + _SPARE_INODES, "free": fs.f_favail, "short": short},
        )


def _refuse(id_: str, message: str, remedy: str, numbers: dict[str, int]) -> t.NoReturn:
    raise ModelopsError(message, remedy, findings=[error(id_, message, remedy, **numbers).as_dict()])

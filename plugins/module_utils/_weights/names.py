# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Names of files in a repository: which are safe to write, which match a pattern, which are weights."""

from __future__ import annotations

import fnmatch
import re
import typing as t
import unicodedata

INDEX_SUFFIX = ".safetensors.index.json"
PICKLE_INDEX_SUFFIX = ".bin.index.json"

# Formats that hold weights. Pickles run code when they are loaded (torch.load with weights_only was escaped
# in CVE-2025-32434), so they are a class of their own. In any folder and in any case: a loader goes by the content.
# Arrays of NumPy may hold pickled objects.
WEIGHT_SUFFIXES = (".safetensors", ".gguf")
_PICKLES = (
    "*.bin",
    "*.pt",
    "*.pt2",
    "*.pth",
    "*.pth.tar",
    "*.ckpt",
    "*.pkl*",
    "*.pickle*",
    "*.joblib*",
    "*.dill*",
    "*.t7",
    "*.npy",
    "*.npz",
)

# A part of a split GGUF file, as llama.cpp's gguf-split names it (1-based), and of one that was cut by other tools.
_GGUF_PART = re.compile(r"^(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})\.gguf$")
_GGUF_PIECE = re.compile(r"^(?P<stem>.+\.gguf)\.part\d{1,5}of(?P<count>\d{1,5})$")

# A part of a checkpoint of pickles. Which parts there are, its index tells.
_PICKLE_PART = re.compile(r"^(?P<stem>.+)-\d+-of-(?P<count>\d+)\.(?P<format>bin|pt|pth)$", re.IGNORECASE)

# The longest name that the file systems of Linux take.
_MAX_NAME = 255

_RESERVED = (".modelops", ".git")


def unsafe_reason(name: str) -> str:
    """Why a name from a listing or an index must not be written below a destination; empty when it may."""
    parts = name.split("/")
    rules = (
        (not name or "\0" in name, "it is empty or contains NUL"),
        (name.startswith("/") or re.match(r"^[A-Za-z]:", name), "it is absolute"),
        ("\\" in name, "it contains a backslash"),
        (any(part in ("", ".", "..") for part in parts), "it leaves its folder or has an empty part"),
        (parts[0] in _RESERVED, f"{parts[0]} is reserved"),
        # A lone surrogate is no character: no file can have such a name.
        (any(unicodedata.category(c) in ("Cc", "Cs") for c in name), "it has control characters, or is no text"),
        (
            any(len(part.encode("utf-8", "replace")) > _MAX_NAME for part in parts),
            f"a part of it is over {_MAX_NAME} bytes",
        ),
    )
    return next((reason for broken, reason in rules if broken), "")


def matches(name: str, patterns: t.Iterable[str]) -> bool:
    """Whether a name matches one of the patterns by the Hub's rules: ``*`` crosses ``/``, ``dir/`` is all below."""
    return any(fnmatch.fnmatchcase(name, p + "*" if p.endswith("/") else p) for p in patterns)


def is_index(name: str) -> bool:
    """Whether this is a safetensors index in the root of the repository."""
    return "/" not in name and name.endswith(INDEX_SUFFIX)


def is_nested_index(name: str) -> bool:
    """Whether this is a safetensors index in a folder: of one component, as in repositories for diffusers."""
    return "/" in name and name.endswith(INDEX_SUFFIX)


def is_pickle_index(name: str) -> bool:
    """Whether this is the index of a checkpoint of pickles, in the root or in a folder."""
    return name.endswith(PICKLE_INDEX_SUFFIX)


def is_pickle(name: str) -> bool:
    """Whether this file runs code when a program loads it."""
    return matches(name.rpartition("/")[2].lower(), _PICKLES)


def is_weight(name: str) -> bool:
    """Whether this file holds weights, in a safe format or as a pickle."""
    return name.endswith(WEIGHT_SUFFIXES) or is_pickle(name) or is_gguf(name)


def is_gguf(name: str) -> bool:
    """Whether this is a GGUF file or a part of one."""
    return name.endswith(".gguf") or _GGUF_PIECE.match(name) is not None


def gguf_model(name: str) -> str:
    """What the parts of one split GGUF file share, or the name itself."""
    part = _GGUF_PART.match(name) or _GGUF_PIECE.match(name)
    return f"{part['stem']}-of-{part['count']}" if part else name


def gguf_parts(name: str) -> list[str]:
    """The names of all parts of the split GGUF file that this is a part of; empty for a file that is none."""
    part = _GGUF_PART.match(name)
    if part:
        return [f"{part['stem']}-{i:05d}-of-{part['count']}.gguf" for i in range(1, int(part["count"]) + 1)]
    piece = _GGUF_PIECE.match(name)
    if piece:
        return [f"{piece['stem']}.part{i}of{piece['count']}" for i in range(1, int(piece["count"]) + 1)]
    return []


def pickle_model(name: str) -> str:
    """What the parts of one checkpoint of pickles share; empty for a file that is no part of one."""
    part = _PICKLE_PART.match(name)
    return f"{part['stem']}-of-{part['count']}.{part['format']}" if part else ""

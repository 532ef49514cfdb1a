# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Names of files in a repository: which are safe to write, which match a pattern, which are weights."""

from __future__ import annotations

import fnmatch
import re
import typing as t

INDEX_SUFFIX = ".safetensors.index.json"

# Formats that hold weights. Pickles run code when they are loaded (torch.load with weights_only was escaped
# in CVE-2025-32434), so they are a class of their own.
WEIGHT_SUFFIXES = (".safetensors", ".gguf")
_PICKLES = (
    "*.pth",
    "*.pt",
    "*.ckpt",
    "*.pkl",
    "*.pickle",
    "pytorch_model*.bin",
    "*/pytorch_model*.bin",
    "adapter_model.bin",
    "training_args.bin",
)

# A part of a split GGUF file, as llama.cpp's gguf-split names it (1-based), and of one that was cut by other tools.
_GGUF_PART = re.compile(r"^(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})\.gguf$")
_GGUF_PIECE = re.compile(r"^(?P<stem>.+\.gguf)\.part\d+of(?P<count>\d+)$")

_RESERVED = (".modelops", ".git")


def unsafe_reason(name: str) -> str:
    """Why a name from a listing or an index must not be written below a destination; empty when it may."""
    if not name or "\0" in name:
        return "it is empty or contains NUL"
    if name.startswith("/") or re.match(r"^[A-Za-z]:", name):
        return "it is absolute"
    if "\\" in name:
        return "it contains a backslash"
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "it leaves its folder or has an empty part"
    if parts[0] in _RESERVED:
        return f"{parts[0]} is reserved"
    return ""


def matches(name: str, patterns: t.Iterable[str]) -> bool:
    """Whether a name matches one of the patterns by the Hub's rules: ``*`` crosses ``/``, ``dir/`` is all below."""
    return any(fnmatch.fnmatchcase(name, p + "*" if p.endswith("/") else p) for p in patterns)


def is_index(name: str) -> bool:
    """Whether this is a safetensors index in the root of the repository."""
    return "/" not in name and name.endswith(INDEX_SUFFIX)


def is_nested_index(name: str) -> bool:
    """Whether this is a safetensors index in a folder: of one component, as in repositories for diffusers."""
    return "/" in name and name.endswith(INDEX_SUFFIX)


def is_pickle(name: str) -> bool:
    """Whether this file runs code when a program loads it."""
    return matches(name, _PICKLES)


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

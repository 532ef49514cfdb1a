# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Whether the files in a destination without a manifest are of the wanted repository, or somebody else's."""

from __future__ import annotations

import os
import typing as t

from .checks import Check, RemoteFile, is_sparse
from .names import is_weight
from .safetensors import HeaderError, tensor_names, text_instead

# Bytes. A git-lfs pointer is smaller (git-lfs/docs/spec.md), weights are larger.
_POINTER = 1024


def stranger(dest: str, files: t.Mapping[str, RemoteFile], commit: str, checks: t.Mapping[str, Check]) -> str:
    """Why the files must not be replaced, empty when they may.

    ``files`` are the wanted ones and ``checks`` the verdicts on what is in their places. Weights that are whole but
    not the wanted ones are a model that somebody put there; a damaged download is not whole.
    """
    here = {n: c for n, c in checks.items() if c.verdict != "missing"}
    if any(c.ok and is_weight(n) for n, c in here.items()):
        return ""
    if any(_noted_by_hub(dest, files[n], commit) for n in here):
        return ""
    whole = [n for n in here if is_weight(n) and _is_whole(os.path.join(dest, n))]
    if whole:
        return f"{min(whole)} holds whole weights that are not those of this commit"
    others = sorted(n for n in _root_files(dest) if is_weight(n) and n not in files)
    if others:
        return f"{others[0]} does not belong to this commit, and no weights that do are there"
    if "config.json" in here and not here["config.json"].ok:
        return "config.json is another model's"
    return ""


def _noted_by_hub(dest: str, file: RemoteFile, commit: str) -> bool:
    """Whether huggingface_hub noted (commit, etag, time) that it fetched this commit, or these weights, to this place.

    Other files prove nothing: a family of models shares its tokenizer, and often its config.
    """
    note = os.path.join(dest, ".cache", "huggingface", "download", file.name + ".metadata")
    try:
        with open(note, encoding="utf-8") as f:
            lines = f.read().split("\n")
    except (OSError, ValueError):
        return False
    return lines[0] == commit or (is_weight(file.name) and lines[1:2] == [file.sha256])


def _is_whole(path: str) -> bool:
    """Whether a file looks like weights that somebody made, not like what a broken download leaves.

    Only safetensors tell where they end. The beginning of another format is taken for the whole: to fetch a damaged
    file again by hand costs an hour, and a fine-tune that was overwritten is lost.
    """
    try:
        if path.endswith(".safetensors"):
            tensor_names(path)
            return True
        with open(path, "rb") as f:
            head = f.read(_POINTER + 1)
    except (HeaderError, OSError):
        return False
    if path.endswith(".gguf"):
        return head.startswith(b"GGUF") and not is_sparse(path)
    # A text in place of the weights, or the zeros of a file that was made in its full size and not filled.
    empty = text_instead(head) or not head.strip(b"\0")
    return len(head) > _POINTER and not empty and not is_sparse(path)


def _root_files(dest: str) -> list[str]:
    return [entry.name for entry in os.scandir(dest) if entry.is_file()] if os.path.isdir(dest) else []

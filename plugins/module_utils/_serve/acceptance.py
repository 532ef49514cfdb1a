# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What an installed vLLM is known to accept, so that a second run need not ask it again.

A stamp holds the identity of the installation, its flags, and the digest of the args file that its parser took.
It is a cache: anything unreadable in it means that the question is asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

from .flags import Flag

_SCHEMA = 1


def identity(binary: str, python: str, version: str) -> str:
    """Changes whenever the executable, its Python or the version changes."""
    parts = [version]
    for path in (binary, python):
        try:
            stat = os.stat(path)
            parts.append(f"{os.path.realpath(path)}:{stat.st_mtime_ns}:{stat.st_size}")
        except OSError:
            parts.append(path)
    return digest("\n".join(parts))


def digest(text: str) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write(identity_: str, flags: t.Sequence[Flag], accepted: str, findings: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """The text of a stamp. ``accepted`` is the digest of what was accepted, ``findings`` what was said about it."""
    content = {
        "schema": _SCHEMA,
        "vllm": identity_,
        "accepted": accepted,
        "findings": list(findings),
        "flags": [flag.as_dict() for flag in flags],
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")) + "\n"


class Stamp(t.NamedTuple):
    """A stamp that belongs to the installation at hand."""

    flags: list[Flag]
    accepted: str
    findings: list[dict[str, t.Any]]


def read(path: str, identity_: str) -> Stamp | None:
    """The stamp at ``path``; None when there is none for this installation."""
    try:
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
        if content["schema"] != _SCHEMA or content["vllm"] != identity_:
            return None
        flags = [
            Flag(tuple(x["names"]), tuple(x["short"]), tuple(x["choices"]), str(x["plugin"])) for x in content["flags"]
        ]
        return Stamp(flags, str(content["accepted"]), list(content["findings"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None

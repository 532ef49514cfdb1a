# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""A list of checksums as sha256sum writes it."""

from __future__ import annotations

import re

from .._errors import ModelopsError
from .names import unsafe_reason

# "HASH  name" or "HASH *name" (text and binary), and "SHA256 (name) = HASH" of --tag.
# Blanks at the end come from editors and web pages.
_PLAIN = re.compile(r"(?P<hash>[0-9a-fA-F]{64}) [ *](?P<name>.+)")
_TAGGED = re.compile(r"SHA256 \((?P<name>.+)\) = (?P<hash>[0-9a-fA-F]{64})")

# 10,000 files with long names have 2 MB.
_LIMIT = 64 << 20


def parse_checksums(text: str, path: str) -> dict[str, str]:
    """File name to SHA-256 in lower case; ``path`` is for messages.

    Raises ModelopsError with the number of a line that is none, that names a file outside the folder, or that
    gives a file another hash than a line before it.
    """
    out: dict[str, str] = {}
    # str.splitlines would end a line at characters that a name may hold.
    lines = re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff"))
    for number, line in enumerate((x.rstrip(" \t") for x in lines), start=1):
        if not line or line.startswith("#"):
            continue
        match = _PLAIN.fullmatch(line) or _TAGGED.fullmatch(line)
        if not match:
            raise _refused(path, number, "is not a line of sha256sum")
        name = match["name"].removeprefix("./")
        reason = unsafe_reason(name)
        if reason:
            raise _refused(path, number, f"names {name!r}, which is refused: {reason}")
        digest = match["hash"].lower()
        if out.setdefault(name, digest) != digest:
            raise _refused(path, number, f"gives {name} another checksum than a line before")
    if not out:
        raise ModelopsError(f"source_checksums {path} lists no file.", _REMEDY)
    return out


def read_checksums(path: str) -> dict[str, str]:
    """:func:`parse_checksums` of a file; ModelopsError when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read(_LIMIT + 1)
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
        raise ModelopsError(f"source_checksums {path} cannot be read: {reason}.", _REMEDY) from e
    if len(text) > _LIMIT:
        raise ModelopsError(f"source_checksums {path} has more than {_LIMIT} characters.", _REMEDY)
    return parse_checksums(text, path)


_REMEDY = "Give a list made by sha256sum in the folder of the snapshot."


def _refused(path: str, number: int, what: str) -> ModelopsError:
    return ModelopsError(f"Line {number} of source_checksums {path} {what}.", _REMEDY)

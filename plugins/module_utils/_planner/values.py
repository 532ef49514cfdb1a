# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Values as people and AWX hand them over, turned into numbers or refused by name."""

from __future__ import annotations

import re
import typing as t

from .._errors import ModelopsError

Version = tuple[int, int, int]

# 0.26.0, v0.26.0, 0.26, 0.26.0rc1, 0.26.0.post1, 0.26.0.dev3+gabc, 0.26.0+cu129
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:(?:a|b|rc)\d+|[.]?(?:dev|post)\d+)*(?:\+[0-9a-zA-Z.-]+)?")


def whole(value: t.Any, name: str, least: int | None = 1) -> int:
    """``value`` as an int of at least ``least``; a digit string counts, a bool or a fraction does not."""
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif (isinstance(value, float) and value.is_integer()) or (
        isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+\s*", value)
    ):
        number = int(value)
    if number is None:
        raise ModelopsError(f"{name} is {value!r}, which is not a whole number.", f"Give {name} as an integer.")
    if least is not None and number < least:
        raise ModelopsError(f"{name} is {number}, the least that makes sense is {least}.", f"Correct {name}.")
    return number


def whole_or_none(value: t.Any, name: str, least: int | None = 1) -> int | None:
    """As :func:`whole`, with None and the empty string for "not given"."""
    return None if value is None or value == "" else whole(value, name, least)


def truth(value: t.Any, name: str) -> bool:
    """``value`` as a bool; the words that YAML and AWX use are understood."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0", "", "none"):
        return False
    raise ModelopsError(f"{name} is {value!r}, which is neither true nor false.", f"Give {name} as a boolean.")


def parse_version(text: t.Any) -> Version | None:
    """A vLLM version as (major, minor, patch), None when it was not given.

    A pre-release counts as its release, since it carries the code that the rules are about; local parts
    such as ``+cu129`` say nothing about the rules.
    """
    if text is None or str(text).strip() == "":
        return None
    match = _VERSION.fullmatch(str(text).strip())
    if match is None:
        raise ModelopsError(
            f"vllm_version is {str(text)!r}, which is not a vLLM version.",
            "Give the number that `vllm --version` prints, for example 0.26.0.",
        )
    return int(match[1]), int(match[2]), int(match[3] or 0)


def version_of(text: str) -> Version:
    """A version of the tables, written as ``0.26.0``."""
    major, minor, patch = map(int, text.split("."))
    return major, minor, patch


def version_text(version: Version) -> str:
    """(0, 26, 0) as ``0.26.0``."""
    return ".".join(map(str, version))


def parse_compute_cap(value: t.Any) -> tuple[int, int] | None:
    """A compute capability such as ``"12.0"`` (or YAML's 12.0) as (12, 0), None when it was not given."""
    if value is None or value == "":
        return None
    match = re.fullmatch(r"(\d{1,2})(?:\.(\d))?", str(value).strip())
    if match is None:
        raise ModelopsError(
            f"compute_cap is {value!r}, which is not a compute capability.",
            'Give what `nvidia-smi --query-gpu=compute_cap` prints, for example "12.0".',
        )
    return int(match[1]), int(match[2] or 0)

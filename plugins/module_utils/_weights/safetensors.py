# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The header of a safetensors file, read and checked without loading a tensor.

Format (huggingface/safetensors, 24b0b285): u64 little endian N, N bytes of JSON, then the data. The offsets of the
tensors tile the data without holes, and 8 + N + the last end is the size of the file, exactly.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import struct
import typing as t

# The library refuses longer headers; a longer one here is text that was read as a number.
_MAX_HEADER = 100_000_000

# Tensors have a handful; a product over millions of numbers would take hours.
_MAX_DIMENSIONS = 64

# Bits an element. The library knows types below a byte since 0.6.
_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "F64": 64,
    "I64": 64,
    "U64": 64,
    "C64": 64,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
}


class HeaderError(Exception):
    """The file is not a whole safetensors file; ``verdict`` is truncated, pointer or corrupt."""

    def __init__(self, verdict: str, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict


def text_instead(head: bytes) -> tuple[str, str] | None:
    """(verdict, message) when a file starts like one of the texts that arrive in place of weights."""
    if head.startswith(b"version https://git-lfs"):
        return "pointer", "a git-lfs pointer text is in the place of the file"
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "corrupt", "an HTML page is in the place of the file"
    return None


def tensor_names(path: str) -> frozenset[str]:
    """The names of the tensors in a file whose header and size are right.

    Raises :class:`HeaderError` otherwise, OSError when the file cannot be read.
    """
    size = os.stat(path).st_size
    with open(path, "rb") as f:
        head = f.read(512)
        text = text_instead(head)
        if text:
            raise HeaderError(*text)
        if len(head) < 8:
            raise HeaderError("truncated", f"the file has {size} bytes, a safetensors header needs at least 8")
        (length,) = struct.unpack("<Q", head[:8])
        if length > _MAX_HEADER:
            raise HeaderError("corrupt", f"a header of {length} bytes is announced, at most {_MAX_HEADER} are allowed")
        if 8 + length > size:
            raise HeaderError("truncated", f"the file ends inside its header, at {size} of {8 + length} bytes")
        f.seek(8)
        raw = f.read(length)
    return _names(_parse(raw), 8 + length, size)


def _parse(raw: bytes) -> dict[str, t.Any]:
    try:
        header = json.loads(raw) if raw[:1] == b"{" else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise HeaderError("corrupt", "the header is not a JSON object")
    header.pop("__metadata__", None)
    return header


def _require_numbers(header: dict[str, t.Any]) -> None:
    """KeyError, TypeError or ValueError for shapes and offsets that the library could not hold in its 64 bits.

    All tensors at once: there are 100,000 of them in a large model, and a call for each takes longer than the rest.
    """
    lists = [values for tensor in header.values() for values in (tensor["shape"], tensor["data_offsets"])]
    if not {list}.issuperset(map(type, lists)):
        raise TypeError("a shape is no list")
    if max(map(len, lists), default=0) > _MAX_DIMENSIONS:
        raise ValueError(f"a shape of more than {_MAX_DIMENSIONS} dimensions")
    numbers = list(itertools.chain.from_iterable(lists))
    if not {int}.issuperset(map(type, numbers)):  # True would pass isinstance
        raise TypeError("not an integer")
    if min(numbers, default=0) < 0 or max(numbers, default=0) >= 1 << 64:
        raise ValueError("a number is out of range")


def _names(header: dict[str, t.Any], start: int, size: int) -> frozenset[str]:
    end = 0
    try:
        _require_numbers(header)
        for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            first, last = tensor["data_offsets"]
            if first != end or last < first:
                raise HeaderError("corrupt", f"a hole or an overlap before tensor {name}")
            bits = _BITS.get(tensor["dtype"])
            if bits is not None and math.prod(tensor["shape"]) * bits != 8 * (last - first):
                raise HeaderError("corrupt", f"shape and type of tensor {name} do not give its {last - first} bytes")
            end = last
    except (ArithmeticError, KeyError, TypeError, ValueError) as e:
        raise HeaderError("corrupt", f"the header describes a tensor without type, shape or offsets ({e!r})") from e
    want = start + end
    if size < want:
        raise HeaderError("truncated", f"the file has {size} of the {want} bytes that its header describes")
    if size > want:
        raise HeaderError("corrupt", f"{size - want} bytes follow the last tensor")
    return frozenset(header)

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import struct
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._weights.safetensors import HeaderError, tensor_names
from ansible_collections.modelops.vllm.tests.support.tiny_files import HTML, POINTER, safetensors


def raw(header: t.Any, data: int = 0) -> bytes:
    """A file with this header, whether it is right or not, and so many bytes of data."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + bytes(data)


def tensor(dtype: str, shape: list[int], start: int, end: int) -> dict[str, t.Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.fixture
def names(tmp_path: Path) -> t.Callable[[bytes], frozenset[str]]:
    def of(data: bytes) -> frozenset[str]:
        (tmp_path / "x.safetensors").write_bytes(data)
        return tensor_names(str(tmp_path / "x.safetensors"))

    return of


def test_names_of_a_whole_file(names) -> None:
    assert names(safetensors({"a": 10, "b": 0, "c": 3})) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("BF16", [3, 5], 30),
        ("F8_E4M3", [128, 128], 16384),
        ("F4", [3, 4], 6),
        ("F6_E2M3", [4], 3),
        ("F32", [], 4),
        ("C64", [2], 16),
        ("I64", [0, 7], 0),
        ("OF_TOMORROW", [9], 5),
    ],
)
def test_types_of_all_widths(names, dtype: str, shape: list[int], size: int) -> None:
    assert names(raw({"__metadata__": {"format": "pt"}, "t": tensor(dtype, shape, 0, size)}, size)) == {"t"}


def test_a_padded_header_is_right(names) -> None:
    head = json.dumps({"t": tensor("U8", [4], 0, 4)}).encode() + b" " * 13
    assert names(raw(head, 4)) == {"t"}


@pytest.mark.parametrize(
    ("data", "verdict", "says"),
    [
        pytest.param(b"", "truncated", "0 bytes", id="empty"),
        pytest.param(safetensors({"a": 100})[:-1], "truncated", "of the", id="one-byte-short"),
        pytest.param(safetensors({"a": 100})[:20], "truncated", "header", id="short-in-the-header"),
        pytest.param(safetensors({"a": 100}) + b"\0", "corrupt", "1 bytes follow", id="one-byte-long"),
        pytest.param(POINTER, "pointer", "git-lfs", id="pointer"),
        pytest.param(HTML, "corrupt", "HTML", id="html"),
        pytest.param(b"\n <html>" + bytes(50), "corrupt", "HTML", id="html-after-blanks"),
        pytest.param(b"PK\x03\x04" + b"\xff" * 60, "corrupt", "header of", id="zip"),
        pytest.param(bytes(64), "corrupt", "JSON", id="zeros"),
        pytest.param(raw(b"[1]"), "corrupt", "JSON", id="list"),
        pytest.param(raw(b'{"a": '), "corrupt", "JSON", id="half-json"),
        pytest.param(raw(b'{"a": ' * 100_000), "corrupt", "JSON", id="deep-json"),
        pytest.param(raw({"a": tensor("U8", [2], 1, 3)}, 3), "corrupt", "hole", id="hole"),
        pytest.param(
            raw({"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 1, 3)}, 3), "corrupt", "overlap", id="overlap"
        ),
        pytest.param(raw({"a": tensor("F16", [3], 0, 5)}, 5), "corrupt", "shape", id="shape"),
        pytest.param(raw({"a": {"dtype": "U8"}}, 5), "corrupt", "offsets", id="no-offsets"),
        pytest.param(raw({"a": tensor("U8", [10**400, 0.5], 0, 2)}, 2), "corrupt", "shape", id="huge-and-float"),
        pytest.param(raw({"a": tensor("U8", [2.0], 0, 2)}, 2), "corrupt", "shape", id="float"),
        pytest.param(raw({"a": tensor("U8", [True, 2], 0, 2)}, 2), "corrupt", "shape", id="bool"),
        pytest.param(raw({"a": tensor("U8", [-1, -2], 0, 2)}, 2), "corrupt", "shape", id="negative"),
        pytest.param(raw({"a": tensor("OF_TOMORROW", [2], 0, 2.0)}, 2), "corrupt", "offsets", id="float-offset"),
        pytest.param(raw({"a": tensor("U8", [1 << 63] * 65, 0, 2)}, 2), "corrupt", "shape", id="many-dimensions"),
    ],
)
def test_what_is_wrong_is_named(names, data: bytes, verdict: str, says: str) -> None:
    with pytest.raises(HeaderError, match=says) as e:
        names(data)
    assert e.value.verdict == verdict


@pytest.mark.case("xet-sparse-then-disable-xet")
def test_zeros_in_the_data_are_not_seen(names) -> None:
    """Why a header proves less than a hash."""
    whole = safetensors({"a": 1000})
    assert names(whole[:-900] + bytes(900)) == {"a"}

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checksums import parse_checksums, read_checksums

A, B = "a" * 64, "b" * 64


def test_the_forms_of_sha256sum_are_understood() -> None:
    text = f"# made today\n{A}  config.json\n\n{B} *sub/two words.bin\nSHA256 (c (1).txt) = {A.upper()}\n{B}  ./d\n"
    assert parse_checksums(text, "sums") == {
        "config.json": A,
        "sub/two words.bin": B,
        "c (1).txt": A,
        "d": B,
    }
    assert parse_checksums(f"{A}  x\r\n{A}  ./x\n", "sums") == {"x": A}
    assert parse_checksums(f"{A}  a\u2028b", "sums") == {"a\u2028b": A}


def test_what_editors_leave_is_no_part_of_a_name() -> None:
    assert parse_checksums(f"\ufeff{A}  x \n{B} *y\t\r\n  \nSHA256 (z) = {A}  \n", "sums") == {"x": A, "y": B, "z": A}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{A}  x\nnonsense\n", "Line 2"),
        (f"{A[:-1]}  x\n", "Line 1"),
        (f"{A} x\n", "Line 1"),
        (f"{A}  ../x\n", "leaves its folder"),
        (f"{A}  /etc/x\n", "absolute"),
        (f"\\{A}  a\\\\b\n", "Line 1"),
        (f"{A}  x\n{B}  x\n", "another checksum"),
        ("# nothing\n", "lists no file"),
        ("", "lists no file"),
    ],
)
def test_what_is_no_list_is_refused_by_line(text: str, says: str) -> None:
    with pytest.raises(ModelopsError, match=says) as e:
        parse_checksums(text, "/mnt/sums")
    assert "/mnt/sums" in str(e.value)


def test_a_list_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelopsError, match="No such file"):
        read_checksums(str(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ModelopsError, match="not UTF-8"):
        read_checksums(str(tmp_path / "binary"))

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import (
    RemoteFile,
    check_file,
    check_many,
    digests,
    is_sparse,
)
from ansible_collections.modelops.vllm.tests.support.tiny_files import HTML, POINTER, safetensors, sha256

WHOLE = safetensors({"a": 100, "b": 50})


def remote(data: bytes, name: str = "m.safetensors") -> RemoteFile:
    return RemoteFile(name, len(data), sha256(data))


def test_digests_are_those_of_sha256_and_git(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"hello\n")
    # `printf 'hello\n' | git hash-object --stdin`
    assert digests(str(tmp_path / "x"), 6) == (
        hashlib.sha256(b"hello\n").hexdigest(),
        "ce013625030ba8dba906f756967f9e9ca394464a",
    )


@pytest.mark.parametrize(
    ("data", "by_hash", "by_header"),
    [
        pytest.param(WHOLE, "ok", "ok", id="whole"),
        pytest.param(WHOLE[:-1], "truncated", "truncated", id="short"),
        pytest.param(b"", "truncated", "truncated", id="empty"),
        pytest.param(WHOLE + b"x", "corrupt", "corrupt", id="long"),
        pytest.param(WHOLE[:-1] + b"\0", "corrupt", "ok", id="flipped"),
        pytest.param(POINTER, "pointer", "pointer", id="pointer"),
        pytest.param(POINTER.ljust(len(WHOLE)), "pointer", "pointer", id="pointer-of-the-same-size"),
        pytest.param(HTML, "corrupt", "corrupt", id="html"),
    ],
)
def test_verdicts_by_hash_and_by_header(tmp_path: Path, data: bytes, by_hash: str, by_header: str) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    check = check_file(str(path), remote(WHOLE), "sha256")
    assert check.verdict == by_hash
    assert (check.level, check.sha256) == (("sha256", sha256(WHOLE)) if by_hash == "ok" else ("none", None))
    assert check_file(str(path), remote(WHOLE), "header").verdict == by_header


def test_what_is_right_and_broken_is_the_publishers(tmp_path: Path) -> None:
    broken = WHOLE[:-10]
    (tmp_path / "m.safetensors").write_bytes(broken)
    assert check_file(str(tmp_path / "m.safetensors"), remote(broken), "sha256").verdict == "upstream-inconsistent"
    # Without the hash nobody can tell whose fault it is.
    assert check_file(str(tmp_path / "m.safetensors"), remote(broken), "header").verdict == "truncated"


def test_small_files_are_proven_at_level_header_too(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"hellx\n")
    want = RemoteFile("config.json", 6, None, "ce013625030ba8dba906f756967f9e9ca394464a")
    assert check_file(str(tmp_path / "config.json"), want, "header").verdict == "corrupt"
    (tmp_path / "config.json").write_bytes(b"hello\n")
    assert check_file(str(tmp_path / "config.json"), want, "header").level == "sha256"


@pytest.mark.parametrize(("name", "verdict"), [("tokenizer.json", "corrupt"), ("m.gguf", "ok")])
def test_a_tokenizer_that_the_hub_keeps_as_lfs_is_small_too(tmp_path: Path, name: str, verdict: str) -> None:
    data = b"GGUF" + bytes(96)
    (tmp_path / name).write_bytes(data[:-1] + b"x")
    assert check_file(str(tmp_path / name), remote(data, name), "header").verdict == verdict


def test_what_is_no_file_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").mkdir()
    assert check_file(str(tmp_path / "m.safetensors"), remote(WHOLE), "sha256").verdict == "corrupt"
    os.symlink(tmp_path / "nowhere", tmp_path / "link")
    assert check_file(str(tmp_path / "link"), remote(WHOLE), "sha256").verdict == "missing"


def test_many_files_have_one_verdict_each(tmp_path: Path) -> None:
    wanted = [remote(WHOLE, f"{i}.safetensors") for i in range(20)]
    for file in wanted[:-1]:
        (tmp_path / file.name).write_bytes(WHOLE)
    checks = check_many(str(tmp_path), wanted, "sha256")
    assert [c.name for c in checks.values() if not c.ok] == ["19.safetensors"]
    assert len(checks) == 20


def test_holes_are_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"")
    os.truncate(path, 10_000_000)
    assert is_sparse(str(path))
    path.write_bytes(os.urandom(2_000_000))
    os.sync()
    assert not is_sparse(str(path))

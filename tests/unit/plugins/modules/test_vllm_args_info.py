# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vllm_args_info where no vLLM is installed, and with an executable that is no Python script."""

from __future__ import annotations

import stat
import typing as t
from pathlib import Path

import pytest
import yaml

Run = t.Callable[..., t.Any]
MANAGED = {
    "model": "/srv/m",
    "served_model_name": "m",
    "host": "127.0.0.1",
    "port": 8000,
    "layout": {"tp": 8, "ep": True},
}


@pytest.fixture
def wrapper(tmp_path: Path, load_fixture: t.Callable[[str], str]) -> str:
    """A vllm that is a shell script: it knows its version and its help, and has no Python to ask."""
    (tmp_path / "help.txt").write_text(load_fixture("vllm_serve_help.txt"))
    path = tmp_path / "vllm"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 0.26.0 || cat {tmp_path}/help.txt\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_without_vllm_the_assumed_version_is_returned(run_module: Run, tmp_path: Path) -> None:
    params = {"vllm_bin": str(tmp_path / "none"), "assume_version": "0.32.0"}
    result = run_module("vllm_args_info", params)
    assert (result.rc, result["installed"], result["version"], result["release"]) == (0, False, "0.32.0", "0.32.0")
    judged = run_module("vllm_args_info", params | {"managed": MANAGED})
    assert judged["valid"]
    assert not judged["asked"]
    assert yaml.safe_load(judged["content"])["enable-expert-parallel"] is True


def test_the_names_are_checked_and_the_gap_is_said(run_module: Run, wrapper: str) -> None:
    result = run_module("vllm_args_info", {"vllm_bin": wrapper, "managed": MANAGED, "user_args": {"seed": 1}})
    assert (result["version"], result["valid"], result["asked"]) == ("0.26.0", True, True)
    assert [f["id"] for f in result["findings"]] == ["values-not-checked"]
    assert yaml.safe_load(result["content"]) == {
        "model": "/srv/m",
        "served-model-name": "m",
        "host": "127.0.0.1",
        "port": 8000,
        "tensor-parallel-size": 8,
        "enable-expert-parallel": True,
        "seed": 1,
    }


def test_an_unknown_flag_is_a_result_and_no_failure(run_module: Run, wrapper: str) -> None:
    result = run_module("vllm_args_info", {"vllm_bin": wrapper, "managed": MANAGED, "user_args": {"swap-space": 4}})
    assert (result.rc, result["valid"], result["content"], result["stamp"]) == (0, False, "", "")
    assert [f["id"] for f in result["findings"]] == ["flag-unknown"]


def test_replicas_have_the_flags_of_one_engine(run_module: Run) -> None:
    managed = MANAGED | {"layout": {"tp": 4, "replicas": 2}}
    params = {"vllm_bin": "/nowhere/vllm", "assume_version": "0.32.0", "managed": managed}
    assert run_module("vllm_args_info", params)["args"]["tensor-parallel-size"] == 4


def test_an_executable_that_is_not_vllm_is_an_error(run_module: Run) -> None:
    result = run_module("vllm_args_info", {"vllm_bin": "/bin/false"})
    assert result.rc == 1
    assert "serve_vllm_bin" in result["msg"]

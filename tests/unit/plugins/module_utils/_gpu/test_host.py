# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running nvidia-smi: bounded, and in English."""

from __future__ import annotations

import stat

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._gpu import host


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_output_and_status(tmp_path):
    command = script(tmp_path / "smi", 'echo "$LC_ALL $1"; echo oops >&2; exit 9')
    output = host.runner(command, 10)(["a b;c"])
    assert (output.stdout, output.stderr, output.rc) == ("C a b;c\n", "oops\n", 9)


def test_a_missing_program():
    assert host.runner("/no/such/nvidia-smi", 1)(["-L"]).missing


def test_a_file_that_is_no_program(tmp_path):
    path = tmp_path / "smi"
    path.write_text("x", encoding="utf-8")
    output = host.runner(str(path), 1)(["-L"])
    assert (output.missing, output.rc) == (False, None)
    assert "Permission denied" in output.stderr


@pytest.mark.slow
def test_a_hanging_program_is_left_behind_and_the_budget_is_for_all_calls(tmp_path):
    run = host.runner(script(tmp_path / "smi", "exec sleep 20"), 0.3)
    assert run(["-L"]) == host.Output(timed_out=True)
    assert run(["-L"]) == host.Output(timed_out=True)

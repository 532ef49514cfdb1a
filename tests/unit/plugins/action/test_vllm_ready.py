# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lines of a wait are about. The job itself is tested with hf_snapshot."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest
from ansible_collections.modelops.vllm.plugins.action.vllm_ready import ActionModule


@pytest.mark.parametrize(
    ("args", "label"),
    [
        ({"unit": "vllm-main.service", "url": "http://127.0.0.1:8000"}, "vllm-main.service"),
        ({"url": "http://gpu01.example.com:8000"}, "http://gpu01.example.com:8000"),
        ({"url": "http://user:hidden@127.0.0.1:8000"}, "127.0.0.1:8000"),
        ({}, "vllm"),
    ],
)
def test_the_label_names_the_unit_or_the_address(args: dict[str, t.Any], label: str) -> None:
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args=args)
    assert action.job_label() == label
    assert action.job_progress_path() is None
    assert action.job_line({"line": "12 s: loading weights"}) == "12 s: loading weights"

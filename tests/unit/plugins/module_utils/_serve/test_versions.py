# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which versions of vLLM serve a model."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import versions


@pytest.mark.parametrize(
    ("installed", "minimum", "good"),
    [("0.32.0+cpu", "0.32.0", True), ("0.9.2", "0.10.0", False), ("0.32.0", "", True), ("0.33.1rc1", "0.33", True)],
)
def test_versions_are_compared_as_numbers(installed: str, minimum: str, good: bool) -> None:
    assert (versions.old_version(installed, minimum) == []) is good


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.22.0", ["vllm-known-bad"]), ("0.22.0+cu129", ["vllm-known-bad"]), ("0.22.1", []), ("", [])],
)
def test_a_version_that_is_known_to_fail_is_warned_of(version: str, expected: list[str]) -> None:
    found = versions.bad_version(version, [{"version": "0.22.0", "why": "It crashes."}, {"version": "0.9"}])
    assert [f.id for f in found] == expected
    assert all(f.severity == "warning" and "It crashes." in f.message for f in found)

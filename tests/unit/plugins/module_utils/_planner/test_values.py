# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values as people and AWX hand them over."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._planner import values


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.26.0", (0, 26, 0)),
        ("v0.26.0", (0, 26, 0)),
        ("0.26", (0, 26, 0)),
        ("0.26.0+cu129", (0, 26, 0)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("0.26.0rc1", (0, 26, 0)),
        ("0.26.1.post1", (0, 26, 1)),
        ("0.23.1rc1.dev90+gb09977fdb", (0, 23, 1)),
        ("", None),
        (None, None),
    ],
)
def test_versions_of_vllm(text, version):
    assert values.parse_version(text) == version


@pytest.mark.parametrize("text", ["latest", "0", "26", "0.26.0-", "0.26.0 beta", "nightly"])
def test_nonsense_is_not_a_version(text):
    with pytest.raises(ModelopsError, match="not a vLLM version") as e:
        values.parse_version(text)
    assert repr(text) in e.value.message


def test_digits_of_awx_are_numbers():
    assert values.whole("8", "tp") == 8
    assert values.whole(8.0, "tp") == 8


@pytest.mark.parametrize("value", ["eight", "8.5", 8.5, True, None, "", []])
def test_what_is_not_a_whole_number_is_named(value):
    with pytest.raises(ModelopsError, match=r"nodes is .* not a whole number"):
        values.whole(value, "nodes")


def test_zero_is_below_the_least():
    with pytest.raises(ModelopsError, match="nodes is 0"):
        values.whole("0", "nodes")


@pytest.mark.parametrize(
    ("value", "cap"), [("12.0", (12, 0)), (12.0, (12, 0)), (8.9, (8, 9)), ("9", (9, 0)), (None, None), ("", None)]
)
def test_compute_capabilities(value, cap):
    assert values.parse_compute_cap(value) == cap


def test_a_name_is_not_a_compute_capability():
    with pytest.raises(ModelopsError, match="sm_120"):
        values.parse_compute_cap("sm_120")


@pytest.mark.parametrize(("value", "truth"), [("yes", True), ("False", False), (True, True), (0, False), ("", False)])
def test_booleans_of_awx(value, truth):
    assert values.truth(value, "ep") is truth


def test_what_is_no_boolean_is_named():
    with pytest.raises(ModelopsError, match="'maybe'"):
        values.truth("maybe", "ep")

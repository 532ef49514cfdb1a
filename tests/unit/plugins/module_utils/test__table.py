# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables for a terminal."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._table import aligned, number


def test_words_begin_alike_and_numbers_end_alike() -> None:
    assert aligned([("node", "tok/s", "why"), ("a", "1,000", ""), ("gpu10", "5", "slow")], {0, 2}) == [
        "node   tok/s  why",
        "a      1,000",
        "gpu10      5  slow",
    ]


@pytest.mark.parametrize(("value", "digits", "text"), [(None, 1, "-"), (1234567, 0, "1,234,567"), (2.25, 1, "2.2")])
def test_a_number(value: float | None, digits: int, text: str) -> None:
    assert number(value, digits) == text

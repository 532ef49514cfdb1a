# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A key is sent as it was meant, or refused without being shown."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._key import bearer, clean


@pytest.mark.parametrize(
    ("key", "cleaned"),
    [("sk-1", "sk-1"), ("sk-1\n", "sk-1"), (" \tsk 1\r\n", "sk 1"), ("", None), ("\n", None), (None, None)],
)
def test_white_space_at_the_ends_is_no_part_of_a_key(key: str | None, cleaned: str | None) -> None:
    assert clean(key) == cleaned
    assert bearer(key) == ({"Authorization": f"Bearer {cleaned}"} if cleaned else {})


@pytest.mark.parametrize("key", ["sk-secret\nsecond", "sk-secret\x00", "sk-secret\x7f", "sk-secret-ü", "sk-secret-键"])
def test_a_key_that_no_header_holds_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(
        ModelopsError, match=r"^No header can hold serve_api_key, which has a control character"
    ) as found:
        clean(key, "serve_api_key")
    assert "secret" not in str(found.value)

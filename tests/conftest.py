# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that is marked with the ids of published cases is found by them: ``pytest -k lock-wait-forever``."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make the ids keywords of the test, before -k chooses."""
    for item in items:
        for marker in item.iter_markers("case"):
            item.extra_keyword_matches.update(marker.args)

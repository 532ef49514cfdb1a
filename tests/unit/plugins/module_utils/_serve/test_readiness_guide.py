# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide on readiness shows all causes and findings of the code (tests/support/causes_guide.py prints them)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ansible_collections.modelops.vllm.plugins.module_utils._serve import causes

ROOT = Path(__file__).parents[5]


def test_the_tables_of_the_guide_are_those_of_the_code() -> None:
    spec = importlib.util.spec_from_file_location("causes_guide", ROOT / "tests" / "support" / "causes_guide.py")
    assert spec is not None
    assert spec.loader is not None
    guide = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guide)
    text = (ROOT / "docs" / "docsite" / "rst" / "guide_readiness.rst").read_text(encoding="utf-8")
    assert guide.tables() in text
    assert guide.deviations() in text
    assert [rule.id for rule in causes.RULES if f"``{rule.id}``" not in text] == []

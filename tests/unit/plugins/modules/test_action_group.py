# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``module_defaults`` of the group reach every module, and the documentation says so."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[4]
MODULES = {p.stem: p.read_text() for p in (ROOT / "plugins" / "modules").glob("*.py")}


def test_every_module_is_in_the_action_group_and_says_so() -> None:
    group = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["action_groups"]["vllm"]
    assert group == sorted(MODULES)
    assert [name for name, text in MODULES.items() if "_attributes.action_group" not in text] == []

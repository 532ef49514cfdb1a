# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.modelops.vllm.plugins.module_utils._planner.choice import chosen

DOCUMENTATION = r"""
name: chosen_layout
short_description: The layout that is deployed when none is asked for
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - What C(serve_layout=auto) takes of the layouts that M(modelops.vllm.layout_info) has judged. That is the first valid
    one of the preferred ones, else the recommended one, else the first valid one.
positional: _input, wanted
options:
  _input:
    description: The result of M(modelops.vllm.layout_info).
    type: dict
    required: true
  wanted:
    description: Layout ids in the order of preference.
    type: list
    elements: str
    required: true
  one_engine:
    description:
      - Whether one engine spans several nodes. Then there are no replicas, and no GPU may be left over.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Say what would be deployed
  ansible.builtin.debug:
    msg: "{{ plan | modelops.vllm.chosen_layout(['tp8-ep', 'tp4']) }}"
"""

RETURN = r"""
_value:
  description: Its id, empty when no layout is valid.
  type: str
"""


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"chosen_layout": chosen}

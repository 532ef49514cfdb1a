# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.modelops.vllm.plugins.module_utils._planner.choice import preferred

DOCUMENTATION = r"""
name: preferred_layouts
short_description: The layouts that two profiles prefer
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - The C(layouts) of the hardware profile, else those that the model profile has in C(layouts_by_link) for the link
    between its GPUs, else the C(layouts) of the model profile.
positional: _input, hardware
options:
  _input:
    description: The model profile.
    type: dict
    required: true
  hardware:
    description: The hardware profile.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Say what is tried first
  ansible.builtin.debug:
    msg: "{{ vllm_model | modelops.vllm.preferred_layouts(vllm_hardware) }}"
"""

RETURN = r"""
_value:
  description: Layout ids in the order of preference.
  type: list
  elements: str
"""


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., list[str]]]:
        return {"preferred_layouts": preferred}

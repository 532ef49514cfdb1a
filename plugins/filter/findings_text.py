# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: findings_text
short_description: Findings as lines for people
version_added: 1.0.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - One line for each finding that the modules of this collection return, errors first.
positional: _input
options:
  _input:
    description: Findings, each with C(id), C(severity), C(message) and C(remedy).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Stop when there is an error
  ansible.builtin.assert:
    that: args.valid
    fail_msg: "{{ args.findings | modelops.vllm.findings_text }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: str
"""

_ORDER = {"error": 0, "warning": 1, "info": 2}


def findings_text(findings: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """``ERROR port-taken: message remedy``, a line each."""
    ordered = sorted(findings, key=lambda f: _ORDER.get(str(f.get("severity")), len(_ORDER)))
    return "\n".join(
        f"{str(f.get('severity', '')).upper()} {f.get('id', '')}: {f.get('message', '')} {f.get('remedy', '')}".strip()
        for f in ordered
    )


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"findings_text": findings_text}

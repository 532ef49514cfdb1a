# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._findings import as_dicts
from ansible_collections.modelops.vllm.plugins.module_utils._serve.versions import bad_version, old_version

DOCUMENTATION = r"""
name: version_findings
short_description: Whether a version of vLLM serves a model
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - An error for a version that is older than the model needs, and a warning for one that is known to fail with it.
positional: _input, minimum, bad
options:
  _input:
    description: The version of vLLM. Nothing is said of an empty one.
    type: str
    required: true
  minimum:
    description: The oldest version that serves the model, empty when none is known.
    type: str
    required: true
  bad:
    description: Versions that are known to fail with the model, each with C(version) and C(why).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Stop before the download when this vLLM cannot serve the model
  ansible.builtin.assert:
    that: findings | selectattr('severity', 'eq', 'error') | length == 0
    fail_msg: "{{ findings | modelops.vllm.findings_text }}"
  vars:
    findings: "{{ '0.32.0' | modelops.vllm.version_findings(vllm_model.min_vllm, vllm_model.bad_vllm | default([])) }}"
"""

RETURN = r"""
_value:
  description: The findings, each with C(id), C(severity), C(message), C(numbers) and C(remedy).
  type: list
  elements: dict
"""


def version_findings(
    version: t.Any, minimum: t.Any, bad: t.Sequence[t.Mapping[str, t.Any]] | None
) -> list[dict[str, t.Any]]:
    """``vllm-too-old`` and ``vllm-known-bad``."""
    text = str(version or "")
    try:
        return as_dicts([*old_version(text, str(minimum or "")), *bad_version(text, bad or [])])
    except ModelopsError as e:
        raise AnsibleFilterError(f"{e.message} {e.remedy}") from e


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., list[dict[str, t.Any]]]]:
        return {"version_findings": version_findings}

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import render

DOCUMENTATION = r"""
name: env_file
short_description: Text of a file for systemd's EnvironmentFile
version_added: 1.0.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Quotes each value so that systemd hands it to the service unchanged. Errors never quote a value, it may be a secret.
positional: _input
options:
  _input:
    description: Names and values of environment variables.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Install the secrets of an instance
  ansible.builtin.copy:
    content: "{{ {'VLLM_API_KEY': vault_key} | modelops.vllm.env_file }}"
    dest: /etc/vllm/main.env
    mode: "0600"
  no_log: true
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
"""

_PLAIN = (bool, int, float, list, dict, type(None))


def env_file(env: t.Mapping[str, t.Any]) -> str:
    """The text of the file; raises AnsibleFilterError for a value that it cannot carry."""
    # Before ansible-core 2.19 a vaulted value is an object of its own, whose text is str() of it.
    texts = {str(name): value if isinstance(value, _PLAIN) else str(value) for name, value in env.items()}
    try:
        return render.env_file(texts)
    except ModelopsError as e:
        raise AnsibleFilterError(str(e)) from None


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"env_file": env_file}

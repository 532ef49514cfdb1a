# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import render

DOCUMENTATION = r"""
name: unit_file
short_description: Text of a systemd service from a mapping of sections
version_added: 1.0.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Renders sections, a command, an environment and mount points so that systemd reads each value unchanged, whatever
    quotes, backslashes, C(%) or C($) it holds.
  - An override that would leave the node without service (another command or user, a kill mode that leaves orphans) is
    refused.
positional: _input
options:
  _input:
    description:
      - Sections, each a mapping of directives. A list gives a directive several times, V(null) leaves it out.
    type: dict
    required: true
  argv:
    description: The command for C(ExecStart=), word by word.
    type: list
    elements: str
    required: true
  environment:
    description: Variables for C(Environment=). Never a secret, since everyone can read a unit.
    type: dict
    default: {}
  mounts:
    description: Paths whose file systems must be mounted before the start.
    type: list
    elements: str
    default: []
  overrides:
    description: Sections that win over the input, directive by directive.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Install a unit
  ansible.builtin.copy:
    content: "{{ sections | modelops.vllm.unit_file(argv=argv) }}"
    dest: /etc/systemd/system/vllm-main.service
    mode: "0644"
  vars:
    argv: [/opt/vllm/bin/vllm, serve, --config, /etc/vllm/main.yaml]
"""

RETURN = r"""
_value:
  description: The text of the unit file.
  type: str
"""

Sections: t.TypeAlias = "t.Mapping[str, t.Mapping[str, t.Any]]"


def unit_file(
    sections: Sections,
    argv: t.Sequence[str],
    environment: t.Mapping[str, t.Any] | None = None,
    mounts: t.Sequence[str] = (),
    overrides: Sections | None = None,
) -> str:
    """The text of the service; raises AnsibleFilterError for values that systemd would read differently."""
    try:
        merged = render.unit_with_overrides(sections, overrides or {})
        if mounts:
            merged["Unit"]["RequiresMountsFor"] = " ".join(render.quote(path) for path in mounts)
        service = merged["Service"]
        service["Environment"] = render.unit_environment(environment or {})
        service["ExecStart"] = render.exec_line(argv)
        return render.unit(merged)
    except ModelopsError as e:
        raise AnsibleFilterError(str(e)) from e


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"unit_file": unit_file}

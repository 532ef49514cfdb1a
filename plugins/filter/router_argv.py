# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import routing

DOCUMENTATION = r"""
name: router_argv
short_description: The arguments of vllm-router
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Words for the command line of C(vllm-router) in front of the backends.
  - Refuses what its own parser would let pass, such as a backend that is the router itself, or a key that everyone on
    the node could read.
positional: _input
options:
  _input:
    description: The URLs of the backends with their ports, as a list or as a text with commas.
    type: raw
    required: true
  host:
    description: The address to listen on.
    type: str
    required: true
  port:
    description: The port to listen on.
    type: int
    required: true
  policy:
    description: How a backend is chosen.
    type: str
    required: true
  metrics_host:
    description: The IP address of the metrics. A name is an error, for which C(vllm-router) takes all addresses.
    type: str
    required: true
  metrics_port:
    description: The port of the metrics.
    type: int
    required: true
  health_interval:
    description: Seconds between two health checks of a backend.
    type: int
    required: true
  startup_timeout:
    description: Seconds to wait for the first backend.
    type: int
    required: true
  args:
    description: Further flags by their long names without dashes. A list gives a flag several values.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the command
  ansible.builtin.debug:
    msg: "{{ ['/opt/vllm-router/bin/vllm-router'] + (backends | modelops.vllm.router_argv(**options)) }}"
  vars:
    backends: [http://127.0.0.1:8001, http://127.0.0.1:8002]
    options:
      host: 127.0.0.1
      port: 8000
      policy: round_robin
      metrics_host: 127.0.0.1
      metrics_port: 29000
      health_interval: 10
      startup_timeout: 3600
"""

RETURN = r"""
_value:
  description: The words after the name of the program.
  type: list
  elements: str
"""


def router_argv(backends: t.Any, **options: t.Any) -> list[str]:
    """The words; raises AnsibleFilterError for a router that would not serve or would show a secret."""
    try:
        return routing.argv(backends, **options)
    except ModelopsError as e:
        raise AnsibleFilterError(str(e)) from e


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., list[str]]]:
        return {"router_argv": router_argv}

#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_port_info
short_description: Say whether an instance may serve on an address, and who holds it
version_added: 1.0.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - vLLM with several API servers starts on a port that another vLLM serves already, and both answer in turn. With one
    API server it fails after it has loaded. So the port is checked before anything is started.
  - Needs root to name the processes of other users.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.read_only
  - modelops.vllm._attributes.action_group
options:
  host:
    description:
      - The address to listen on.
    type: str
    default: 127.0.0.1
  port:
    description:
      - The port to listen on, from 1024 to 65535.
    type: int
    required: true
  unit:
    description:
      - The unit that may hold the port already, since it will be restarted.
    type: str
    default: ""
  state_dir:
    description:
      - The state directory of the node. The units of all instances below it may hold the port, since
        M(modelops.vllm.vllm_switch) says which of them go.
    type: path
    version_added: 1.1.0
"""

EXAMPLES = r"""
- name: Look at the port
  modelops.vllm.vllm_port_info:
    port: 8000
    unit: vllm-main.service
  register: port
  failed_when: not port.valid
"""

RETURN = r"""
free:
  description: Whether nothing holds the address.
  returned: always
  type: bool
valid:
  description: Whether O(unit) may serve there.
  returned: always
  type: bool
owners:
  description: The processes that listen there, on O(host) or on all addresses.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: Process id, 0 when it cannot be seen from here.
      type: int
    process:
      description: Name of the process.
      type: str
    unit:
      description: Its systemd service.
      type: str
findings:
  description: What is wrong, each with C(id), C(severity), C(message), C(numbers) and C(remedy).
  returned: always
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._serve.shells import judge_port


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "default": "127.0.0.1"},
            "port": {"type": "int", "required": True},
            "unit": {"type": "str", "default": ""},
            "state_dir": {"type": "path"},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        module.exit_json(changed=False, **judge_port(module))


if __name__ == "__main__":
    main()

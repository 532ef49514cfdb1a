#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_release
short_description: Stage a release of a vLLM instance without touching what runs
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Writes the args, the secrets and the unit of an instance into a directory of their own, with what they serve.
    Nothing that runs sees it; M(modelops.vllm.vllm_switch) activates it.
  - A release is known by its content. Staging the same content again finds the release that is there and changes
    nothing.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - The difference to the current release, with the names of secrets and without their values.
  idempotent:
    support: full
options:
  state_dir:
    description: The state directory of the node.
    type: path
    default: /var/lib/vllm
  config_dir:
    description: Where activation puts the args and the secrets.
    type: path
    default: /etc/vllm
  instance:
    description: Name of the instance.
    type: str
    required: true
  service:
    description:
      - Name that the instances of one service share, such as the replicas of a model. By default that of the instance.
      - A switch stops the instances of the service that it is not given.
    type: str
  unit:
    description: Name of the systemd unit. By default C(vllm-<instance>.service).
    type: str
  engine:
    description: Whether O(unit_text) is a service of systemd or a container file of Quadlet.
    type: str
    choices: [venv, podman]
    default: venv
  unit_text:
    description: The text of the unit. systemd reads it before the release is kept.
    type: str
    required: true
  args_text:
    description: The text of the file for C(vllm serve --config).
    type: str
  secrets:
    description: Variables of the environment that nobody but root and the service may read.
    type: dict
    default: {}
  model:
    description: The served model name.
    type: str
  model_dir:
    description: The directory of the snapshot.
    type: path
  repo_id:
    description: The repository of the model at the Hub.
    type: str
  commit:
    description: The commit of the snapshot. Another one makes another release.
    type: str
  vllm_version:
    description: The vLLM version. Another one makes another release.
    type: str
  layout:
    description: The id of the layout.
    type: str
  devices:
    description: Indices of the GPUs that the instance uses. Two instances that share one cannot run at once.
    type: list
    elements: str
    default: []
  host:
    description: The address that the instance listens on.
    type: str
    default: 127.0.0.1
  port:
    description: The port that it listens on.
    type: int
  ports:
    description:
      - Where it listens besides, such as the metrics of a router. M(modelops.vllm.vllm_switch) stops nothing while one
        of them is held by what stays.
    type: list
    elements: dict
    default: []
    suboptions:
      host:
        description: The address.
        type: str
        required: true
      port:
        description: The port.
        type: int
        required: true
      variable:
        description: The variable that sets the port, for messages.
        type: str
        required: true
  vram_fraction:
    description: The part of the memory of each GPU that it takes, from 0 to 1. By default that of vLLM.
    type: float
  question:
    description:
      - How the instance is asked whether it is ready, the options of M(modelops.vllm.vllm_ready) without the API key,
        which is the C(VLLM_API_KEY) of O(secrets).
    type: dict
    required: true
  group:
    description:
      - For one engine on several nodes, C(name), C(members) (C(host) and C(address) of each, rank 0 first), the C(rank)
        of this node, and the TCP C(port) on which the nodes show each other their state.
      - Empty for an engine on one node.
    type: dict
    default: {}
  watch_text:
    description: The text of the unit that watches the group, C(vllm-<instance>-watch.service). Needed with O(group).
    type: str
    default: ""
  plan:
    description: What the planner expects of it, kept beside it.
    type: dict
    default: {}
seealso:
  - module: modelops.vllm.vllm_switch
"""

EXAMPLES = r"""
- name: Stage a release
  modelops.vllm.vllm_release:
    instance: main
    unit_text: "{{ sections | modelops.vllm.unit_file(argv=argv) }}"
    args_text: "{{ gate.content }}"
    model: minimax-m2.5
    model_dir: /srv/models/MiniMax-M2.5
    layout: tp8-ep
    devices: ["0", "1", "2", "3", "4", "5", "6", "7"]
    port: 8000
    question:
      url: http://127.0.0.1:8000
      model: minimax-m2.5
  register: staged
"""

RETURN = r"""
release:
  description: The id of the release. Empty in check mode when it is not there yet.
  returned: always
  type: str
  sample: 20261130T093619Z-3f2a9c1b
path:
  description: Its directory.
  returned: always
  type: str
instance:
  description: The instance, as given.
  returned: always
  type: str
current:
  description: The release that was activated last. Empty for none.
  returned: always
  type: str
last_good:
  description: The release that answered last. Empty for none.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._serve.switching import stage_release


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state_dir": {"type": "path", "default": "/var/lib/vllm"},
            "config_dir": {"type": "path", "default": "/etc/vllm"},
            "instance": {"type": "str", "required": True},
            "service": {"type": "str"},
            "unit": {"type": "str"},
            "engine": {"type": "str", "choices": ["venv", "podman"], "default": "venv"},
            "unit_text": {"type": "str", "required": True},
            "args_text": {"type": "str"},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "model": {"type": "str"},
            "model_dir": {"type": "path"},
            "repo_id": {"type": "str"},
            "commit": {"type": "str"},
            "vllm_version": {"type": "str"},
            "layout": {"type": "str"},
            "devices": {"type": "list", "elements": "str", "default": []},
            "host": {"type": "str", "default": "127.0.0.1"},
            "port": {"type": "int"},
            "ports": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "host": {"type": "str", "required": True},
                    "port": {"type": "int", "required": True},
                    "variable": {"type": "str", "required": True},
                },
            },
            "vram_fraction": {"type": "float"},
            "question": {"type": "dict", "required": True},
            "group": {"type": "dict", "default": {}},
            "watch_text": {"type": "str", "default": ""},
            "plan": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        module.exit_json(**stage_release(module))


if __name__ == "__main__":
    main()

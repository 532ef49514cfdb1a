#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_mirror
version_added: 1.1.0
short_description: Serve a verified snapshot to the other nodes of a site
description:
  - Starts a small read-only Hub on a node that has a snapshot of M(modelops.vllm.hf_snapshot), so that other nodes can
    give its address to that module as O(modelops.vllm.hf_snapshot#module:endpoint). The public Hub then sees each file
    once.
  - It serves the files of the manifest and nothing else, and each of them only as long as nobody has written to it
    since it was verified. The other nodes verify what they get themselves.
  - It runs as a transient service of systemd without rights, outlives the connection that started it, and ends by
    itself after O(lifetime).
  - It speaks HTTP without encryption. The token that it asks for is as public as the network between the nodes, so use
    it once. Whoever reads it there can read the model.
author:
  - The modelops.vllm contributors (@modelops)
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
attributes:
  check_mode:
    support: full
    details:
      - Judges the snapshot and the options. Starts and stops nothing.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - Each start makes a mirror of its own, with its own token, so that none ends while somebody fetches from it.
      - Stopping one that has ended changes nothing.
requirements:
  - systemd 240 or newer
options:
  state:
    description:
      - V(started) starts a mirror of O(dest).
      - V(stopped) stops the one that O(unit) names.
    type: str
    choices:
      - started
      - stopped
    default: started
  dest:
    description: Absolute path of the folder with the snapshot. Required to start one.
    type: path
  token:
    description:
      - What a client must send as its token, 20 characters or more. Required to start one.
      - It appears in no argument list, environment, unit or result.
    type: str
  address:
    description:
      - Address under which the other nodes reach this node. The mirror listens there only.
      - By default the address with which the node reaches its default gateway.
    type: str
  port:
    description: Port to listen on, from V(1024). V(0) takes any that is free.
    type: int
    default: 0
  lifetime:
    description: Seconds after which the mirror ends by itself.
    type: int
    default: 86400
  unit:
    description: The service to stop, as RV(unit) named it. Required to stop one.
    type: str
seealso:
  - module: modelops.vllm.hf_snapshot
"""

EXAMPLES = r"""
- name: Serve the weights of this node to one other
  modelops.vllm.hf_mirror:
    dest: /srv/models/MiniMaxAI/MiniMax-M2.5
    token: "{{ one_time_token }}"
  delegate_to: gpu1
  register: mirror

- name: Have them here as well, proven
  modelops.vllm.hf_snapshot:
    repo_id: MiniMaxAI/MiniMax-M2.5
    revision: "{{ mirror.commit }}"
    dest: /srv/models/MiniMaxAI/MiniMax-M2.5
    endpoint: "{{ mirror.url }}"
    token: "{{ one_time_token }}"
    python: /opt/modelops/hub/bin/python

- name: Stop serving
  modelops.vllm.hf_mirror:
    state: stopped
    unit: "{{ mirror.unit }}"
  delegate_to: gpu1
"""

RETURN = r"""
unit:
  description: The service of systemd. Empty in check mode when O(state=started).
  returned: always
  type: str
  sample: modelops-mirror-3f9a1c20b4d7.service
url:
  description: The address to give to other nodes as endpoint. Empty in check mode.
  returned: when O(state=started)
  type: str
  sample: http://10.0.0.11:40123
repo_id:
  description: The repository by the manifest.
  returned: when O(state=started)
  type: str
commit:
  description: The commit by the manifest, the only one that is served.
  returned: when O(state=started)
  type: str
files:
  description: Number of files that are served.
  returned: when O(state=started)
  type: int
bytes_total:
  description: Size of these files in bytes.
  returned: when O(state=started)
  type: int
checksums:
  description:
    - SHA-256 of each file by the manifest, by name. A node that fetched from the mirror has the same in its manifest.
    - The value is null for a file that was verified by its header and that the Hub has no SHA-256 of.
  returned: when O(state=started)
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._hub import mirror_unit
from ansible_collections.modelops.vllm.plugins.module_utils._hub.request import absolute


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "dest": {"type": "path"},
            "token": {"type": "str", "no_log": True},
            "address": {"type": "str"},
            "port": {"type": "int", "default": 0},
            "lifetime": {"type": "int", "default": 86400},
            "unit": {"type": "str"},
        },
        required_if=[("state", "started", ["dest", "token"]), ("state", "stopped", ["unit"])],
        supports_check_mode=True,
    )
    p = module.params
    with guarded(module):
        if p["state"] == "stopped":
            module.exit_json(**mirror_unit.stop(p["unit"], _runner(module), module.check_mode))
        offer = mirror_unit.Offer(absolute(p["dest"], "dest"), p["token"], p["address"] or "", p["port"], p["lifetime"])
        module.exit_json(**mirror_unit.start(offer, _runner(module), module.check_mode))


def _runner(module: AnsibleModule) -> mirror_unit.Runner:
    """Commands of systemd, found where the module looks for programs."""
    return lambda command: module.run_command([module.get_bin_path(command[0], required=True), *command[1:]])


if __name__ == "__main__":
    main()

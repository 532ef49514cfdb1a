#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_snapshot_info
version_added: 1.0.0
short_description: Tell whether a folder holds a complete snapshot of a model
description:
  - Judges a folder by its manifest, which M(modelops.vllm.hf_snapshot) wrote, or without one by its index and the
    headers of its safetensors files.
  - Needs neither huggingface_hub nor the network, and writes nothing. It works on a read-only file system.
  - The task does not fail when the snapshot is incomplete. Look at RV(complete).
author:
  - The modelops.vllm contributors (@modelops)
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.read_only
  - modelops.vllm._attributes.action_group
options:
  dest:
    description: Absolute path of the folder.
    type: path
    required: true
  repo_id:
    description: The repository that the folder should hold. A manifest of another one makes the verdict V(foreign).
    type: str
  revision:
    description:
      - The commit that the folder should hold. A manifest of another one makes the verdict V(foreign).
      - A branch or tag cannot be compared without the Hub, which a finding says.
    type: str
  verify:
    description:
      - V(none) compares sizes and times with the manifest.
      - V(header) also hashes each file that was written to since it was verified. Without a manifest it checks the
        header and the size of each safetensors file.
      - V(sha256) hashes every file, and needs a manifest.
    type: str
    choices:
      - none
      - header
      - sha256
    default: header
seealso:
  - module: modelops.vllm.hf_snapshot
"""

EXAMPLES = r"""
- name: Look at a snapshot
  modelops.vllm.hf_snapshot_info:
    dest: /srv/models/MiniMaxAI/MiniMax-M2.5
    repo_id: MiniMaxAI/MiniMax-M2.5
  register: snapshot

- name: Stop when something is missing
  ansible.builtin.assert:
    that: snapshot.complete
    fail_msg: "{{ snapshot.verdict }}: {{ snapshot.shards.missing + snapshot.shards.bad }}"
"""

RETURN = r"""
complete:
  description: Whether everything is there, proven at the level that RV(verified) names.
  returned: always
  type: bool
verdict:
  description:
    - V(complete), V(incomplete) when files are missing, V(corrupt) when files are truncated or otherwise damaged,
      V(foreign) when it is another repository or commit, V(absent) when there is nothing.
    - V(upstream-inconsistent) when the files are as published and cannot be used.
    - V(unverified) when nothing wrong was seen and nothing proves that the snapshot is complete at this level.
  returned: always
  type: str
verified:
  description: What is proven of every file, V(sha256), V(header) or V(none).
  returned: always
  type: str
repo_id:
  description: The repository by the manifest, empty without one.
  returned: always
  type: str
commit:
  description: The commit by the manifest, empty without one.
  returned: always
  type: str
files:
  description: Number of files in the snapshot.
  returned: always
  type: int
bytes_total:
  description: Size of all files in bytes.
  returned: always
  type: int
shards:
  description: The files that hold weights.
  returned: always
  type: dict
  contains:
    expected:
      description: Number of shards by the manifest or the index.
      type: int
    present:
      description: Number of shards without a fault.
      type: int
    missing:
      description: Names of shards that are not there.
      type: list
      elements: str
    bad:
      description: Names of shards that are truncated, corrupt or pointers.
      type: list
      elements: str
findings:
  description: What there is to know, each with C(id), C(severity), C(message), C(numbers) and C(remedy).
  returned: always
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._hub.info import describe


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "repo_id": {"type": "str"},
            "revision": {"type": "str"},
            "verify": {"type": "str", "choices": ["none", "header", "sha256"], "default": "header"},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        module.exit_json(changed=False, **describe(module.params))


if __name__ == "__main__":
    main()

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
  - With O(against=hub) it compares the folder with a commit at the Hub.
  - Needs no huggingface_hub, and no network but for O(against=hub). It writes nothing, and works on a read-only
    file system.
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
    description:
      - The repository that the folder should hold. A manifest of another one makes the verdict V(foreign).
      - With O(against=hub) the repository to compare with, by default the one that the manifest names.
    type: str
  revision:
    description:
      - The commit that the folder should hold. A manifest of another one makes the verdict V(foreign).
      - A branch or tag cannot be compared without the Hub, which a finding says.
      - With O(against=hub) the branch, tag or commit to compare with, by default the commit that the manifest names,
        and V(main) without a manifest.
    type: str
  against:
    description:
      - What the folder is compared with.
      - V(auto) is V(manifest) where there is one and V(structure) otherwise.
      - V(manifest) is the record that M(modelops.vllm.hf_snapshot) wrote. Without one the verdict is V(unverified).
      - V(structure) is the index and the headers of the files. A manifest is not looked at.
      - V(hub) is the listing of a commit at the Hub. Files that the commit has and the folder lacks are missing, and
        weights that the commit does not have are named as stale.
    type: str
    choices:
      - auto
      - manifest
      - hub
      - structure
    default: auto
    version_added: 1.1.0
  endpoint:
    description: Address of the Hub or of a mirror, for O(against=hub). The variable E(HF_ENDPOINT) is not read.
    type: str
    default: https://huggingface.co
    version_added: 1.1.0
  token:
    description:
      - Access token for gated and private repositories, for O(against=hub).
      - Without O(token) and O(token_file) the environment variable E(HF_TOKEN) of the task is used.
    type: str
    version_added: 1.1.0
  token_file:
    description: Path of a file on the node that holds the token and nothing else. Mutually exclusive with O(token).
    type: path
    version_added: 1.1.0
  allow_patterns:
    description:
      - The files that the folder should hold, as in M(modelops.vllm.hf_snapshot), for O(against=hub).
      - Without any of O(allow_patterns), O(ignore_patterns) and O(allow_pickle) those of the manifest are used.
    type: list
    elements: str
    version_added: 1.1.0
  ignore_patterns:
    description: Files that the folder need not hold, for O(against=hub).
    type: list
    elements: str
    version_added: 1.1.0
  allow_pickle:
    description: Whether the folder should hold weights in pickle formats, for O(against=hub).
    type: bool
    default: false
    version_added: 1.1.0
  verify:
    description:
      - V(none) compares sizes and times with the manifest, or sizes with the Hub.
      - V(header) also hashes each file that was written to since it was verified. Without a manifest it checks the
        header and the size of each safetensors file. Against the Hub it checks sizes, headers, and the content of
        small files.
      - V(sha256) hashes every file, and needs a manifest or the Hub.
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

- name: Compare a folder that somebody else downloaded with a commit at the Hub
  modelops.vllm.hf_snapshot_info:
    dest: /srv/models/MiniMaxAI/MiniMax-M2.5
    repo_id: MiniMaxAI/MiniMax-M2.5
    revision: 0123456789abcdef0123456789abcdef01234567
    against: hub
    verify: sha256

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
  description: The repository by the manifest, or that of the Hub with O(against=hub), empty otherwise.
  returned: always
  type: str
commit:
  description: The commit by the manifest, or that of the Hub with O(against=hub), empty otherwise.
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
      description: Number of shards by the manifest, the index, or the Hub.
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
from ansible_collections.modelops.vllm.plugins.module_utils._hub.request import read_token


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "repo_id": {"type": "str"},
            "revision": {"type": "str"},
            "against": {"type": "str", "choices": ["auto", "manifest", "hub", "structure"], "default": "auto"},
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "token": {"type": "str", "no_log": True},
            "token_file": {"type": "path", "no_log": False},
            "allow_patterns": {"type": "list", "elements": "str"},
            "ignore_patterns": {"type": "list", "elements": "str"},
            "allow_pickle": {"type": "bool", "default": False},
            "verify": {"type": "str", "choices": ["none", "header", "sha256"], "default": "header"},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        token = read_token(module.params) if module.params["against"] == "hub" else ""
        if token:  # it may come from a file or the environment, of which AnsibleModule knows nothing
            module.no_log_values.add(token)
        module.exit_json(changed=False, **describe(module.params, token))


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_args_info
short_description: Judge the flags of a vLLM instance by the installed vLLM, without starting it
version_added: 1.0.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Reads the version of an installed vLLM in milliseconds.
  - With O(managed) it merges the flags of the role, of the profiles and of the user, refuses those that the installed
    vLLM does not list in C(vllm serve --help=all), has the rest read by vLLM's own parser without starting the engine,
    and returns the text for C(vllm serve --config).
  - All findings are returned at once. The module does not fail because of them, look at RV(valid).
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.read_only
  - modelops.vllm._attributes.action_group
options:
  vllm_bin:
    description:
      - The C(vllm) executable. With O(container) its path in the image, or its name.
    type: path
    required: true
  container:
    description:
      - Ask the vLLM of an image, by podman. Each question runs in a container of its own, without a network.
    type: dict
    version_added: 1.1.0
    suboptions:
      image:
        description: The image, as RV(modelops.vllm.vllm_image#module:reference) has it.
        type: str
        required: true
      volumes:
        description: Volumes of the instance whose source is on the node already.
        type: list
        elements: str
        default: []
      devices:
        description: Devices of the instance. A vLLM for CUDA cannot be asked without the driver that comes with them.
        type: list
        elements: str
        default: []
  assume_version:
    description:
      - The version to report where O(vllm_bin) does not exist, as in check mode before the installation.
    type: str
    default: ""
  bad_versions:
    description:
      - Versions that are known to fail with the model, each with C(version) and C(why). The installed one is warned of.
    type: list
    elements: dict
    default: []
    version_added: 1.1.0
  min_version:
    description:
      - The oldest version that serves the model.
    type: str
    default: ""
  managed:
    description:
      - The flags that the role sets. Without it only the version is read.
    type: dict
    suboptions:
      model:
        description: The directory of the model.
        type: path
        required: true
      served_model_name:
        description: The name that clients use.
        type: str
        required: true
      host:
        description: The address to listen on.
        type: str
        required: true
      port:
        description: The port to listen on.
        type: int
        required: true
      layout:
        description: The parallel layout, as RV(modelops.vllm.layout_info#module:layouts) has it.
        type: dict
        required: true
        suboptions:
          tp:
            description: Tensor parallel size.
            type: int
            default: 1
          pp:
            description: Pipeline parallel size.
            type: int
            default: 1
          dp:
            description: Data parallel size.
            type: int
            default: 1
          ep:
            description: Expert parallelism.
            type: bool
            default: false
          replicas:
            description: Number of instances, which all have the same flags but the port.
            type: int
            default: 1
      cluster:
        description: The C(args) of the filter P(modelops.vllm.cluster_ranks#filter), for one engine on several nodes.
        type: dict
        default: {}
        version_added: 1.1.0
      max_model_len:
        description: Context length in tokens.
        type: int
      max_num_seqs:
        description: Sequences in one batch.
        type: int
      gpu_memory_utilization:
        description: Part of the GPU memory that vLLM may use.
        type: float
      kv_cache_dtype:
        description: Data type of the KV cache.
        type: str
      trust_remote_code:
        description: Run Python code of the model repository.
        type: bool
        default: false
  profile_args:
    description:
      - Flags that the profiles suggest, by their long names without dashes.
    type: dict
    default: {}
  user_args:
    description:
      - Flags of the user. They win over O(profile_args), and V(null) takes a flag of a profile away.
    type: dict
    default: {}
  env:
    description:
      - Environment of the instance without secrets, to warn of variables that this vLLM does not know.
      - C(VLLM_SERVER_DEV_MODE) is an error, since it opens routes that stop the server.
    type: dict
    default: {}
  protected:
    description:
      - Whether an API key is set.
    type: bool
    default: false
  stop_timeout:
    description:
      - Seconds that the unit gives vLLM to stop, to be compared with its own C(shutdown-timeout).
    type: int
    version_added: 1.1.0
  commit:
    description:
      - The commit of the snapshot, empty when nothing proves one. Python code of the repository is refused then.
    type: str
    version_added: 1.1.0
  stamp:
    description:
      - File with RV(stamp) of an earlier run. The same question about the same installation is then answered from it.
    type: path
seealso:
  - module: modelops.vllm.vllm_ready
"""

EXAMPLES = r"""
- name: Read the version
  modelops.vllm.vllm_args_info:
    vllm_bin: /opt/vllm/bin/vllm
  register: vllm

- name: Judge the flags
  modelops.vllm.vllm_args_info:
    vllm_bin: /opt/vllm/bin/vllm
    managed:
      model: /srv/models/MiniMaxAI/MiniMax-M2.5
      served_model_name: minimax-m2.5
      host: 127.0.0.1
      port: 8000
      layout: {tp: 8, ep: true}
    user_args:
      max-num-batched-tokens: 16384
  register: args
  failed_when: not args.valid
"""

RETURN = r"""
installed:
  description: Whether O(vllm_bin) is an executable file, or the image of O(container) is on the node.
  returned: always
  type: bool
version:
  description: The version, or O(assume_version).
  returned: always
  type: str
  sample: 0.32.0+cpu
release:
  description: The three numbers of RV(version).
  returned: always
  type: str
  sample: 0.32.0
valid:
  description: Whether no finding is an error.
  returned: when O(managed) is given
  type: bool
findings:
  description: What is wrong, each with C(id), C(severity), C(message), C(numbers) and C(remedy).
  returned: when O(managed) is given
  type: list
  elements: dict
args:
  description: The merged flags.
  returned: when O(managed) is given
  type: dict
content:
  description: The text for C(vllm serve --config). Empty when RV(valid) is V(false).
  returned: when O(managed) is given
  type: str
stamp:
  description: What to store for O(stamp). Empty when nothing was accepted.
  returned: when O(managed) is given
  type: str
asked:
  description: Whether the installed vLLM was asked in this run.
  returned: when O(managed) is given
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._serve.shells import judge_args

LAYOUT = {
    "tp": {"type": "int", "default": 1},
    "pp": {"type": "int", "default": 1},
    "dp": {"type": "int", "default": 1},
    "ep": {"type": "bool", "default": False},
    "replicas": {"type": "int", "default": 1},
}
MANAGED = {
    "model": {"type": "path", "required": True},
    "served_model_name": {"type": "str", "required": True},
    "host": {"type": "str", "required": True},
    "port": {"type": "int", "required": True},
    "layout": {"type": "dict", "required": True, "options": LAYOUT},
    "cluster": {"type": "dict", "default": {}},
    "max_model_len": {"type": "int"},
    "max_num_seqs": {"type": "int"},
    "gpu_memory_utilization": {"type": "float"},
    "kv_cache_dtype": {"type": "str"},
    "trust_remote_code": {"type": "bool", "default": False},
}

CONTAINER = {
    "image": {"type": "str", "required": True},
    "volumes": {"type": "list", "elements": "str", "default": []},
    "devices": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "vllm_bin": {"type": "path", "required": True},
            "container": {"type": "dict", "options": CONTAINER},
            "assume_version": {"type": "str", "default": ""},
            "min_version": {"type": "str", "default": ""},
            "bad_versions": {"type": "list", "elements": "dict", "default": []},
            "managed": {"type": "dict", "options": MANAGED},
            "profile_args": {"type": "dict", "default": {}},
            "user_args": {"type": "dict", "default": {}},
            "env": {"type": "dict", "default": {}},
            "protected": {"type": "bool", "default": False},
            "stop_timeout": {"type": "int"},
            "commit": {"type": "str"},
            "stamp": {"type": "path"},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        module.exit_json(changed=False, **judge_args(module))


if __name__ == "__main__":
    main()

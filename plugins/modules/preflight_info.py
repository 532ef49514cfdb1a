#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_info
short_description: All checks of a node before a deployment, with one verdict
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Takes what M(modelops.vllm.gpu_info), M(modelops.vllm.layout_info) and M(modelops.vllm.vllm_port_info) found, looks
    at the host itself (free GPU memory and who holds the rest, driver, disk, shared memory, limits, clock, host name,
    service user and its directories), and says at once whether the node can serve.
  - Nothing is changed, no kernel parameter is set, and no process is ended but those of its own test of peer access.
  - The module does not fail because of what it finds, look at RV(passed).
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
  - modelops.vllm._attributes.read_only
options:
  accelerator:
    description:
      - What vLLM computes on.
    type: str
    choices: [cuda, cpu]
    default: cuda
  gpu_info:
    description:
      - The result of M(modelops.vllm.gpu_info). Without it nothing is said about GPUs.
    type: dict
    default: {}
  layout_info:
    description:
      - The result of M(modelops.vllm.layout_info). Without it no layout is judged.
    type: dict
    default: {}
  layout:
    description:
      - Id of the layout of O(layout_info) that will be served. When it is empty or not valid, no layout can serve.
    type: str
    default: ""
  port_info:
    description:
      - The result of M(modelops.vllm.vllm_port_info). Without it nothing is said about the port.
    type: dict
    default: {}
  nodes:
    description:
      - Nodes that one deployment spans.
    type: int
    default: 1
  expected_nodes:
    description:
      - Nodes that the hardware profile is made of. With more than one, O(nodes) has to be the same.
    type: int
    default: 1
  pinned:
    description:
      - Whether the role serve sets C(VLLM_HOST_IP), C(GLOO_SOCKET_IFNAME) and C(NCCL_SOCKET_IFNAME) of each rank, as it
        does for the hosts of C(serve_nodes_group). Then it does not matter where the host name leads.
    type: bool
    default: false
  vllm_findings:
    description:
      - What the filter P(modelops.vllm.version_findings#filter) says of the vLLM that will serve. Without it nothing is
        said about its version.
    type: list
    elements: dict
  address:
    description:
      - The address of this node by which the others reach it, to find its network interface.
    type: str
    default: ""
  unit:
    description:
      - The systemd service of the instance. What it holds is free when it is replaced.
    type: str
    default: ""
  state_dir:
    description:
      - The state directory of the role serve. What the units of all instances below it hold counts as free, since
        M(modelops.vllm.vllm_switch) stops those that are in the way.
    type: path
  user:
    description:
      - The user of the service.
    type: str
    default: ""
  home:
    description:
      - The home of the service.
    type: path
  env:
    description:
      - Environment of the instance, without secrets.
    type: dict
    default: {}
  args:
    description:
      - Flags of the instance by their long names without dashes.
    type: dict
    default: {}
  vllm_bin:
    description:
      - The C(vllm) executable. Where it does not exist yet, what needs it is not checked.
    type: path
  gpu_memory_utilization:
    description:
      - Part of the memory of a GPU that vLLM will use, V(0) for vLLM's default.
    type: float
    default: 0
  weights_dest:
    description:
      - Directory of the snapshot.
    type: path
  weights_bytes:
    description:
      - Size of the snapshot in bytes, V(0) when it is not known.
    type: int
    default: 0
  p2p_test:
    description:
      - Try peer access with an all-reduce of two ranks between the two GPUs that are farthest from each other, by the
        PyTorch beside O(vllm_bin) and with O(env).
      - It needs about 1 GiB of memory on both.
    type: bool
    default: false
  p2p_timeout:
    description:
      - Seconds that the test may take. A test that does not end in this time means that peer access is broken.
    type: int
    default: 60
  ignore:
    description:
      - Ids of findings that shall not matter. They are shown as ignored. An id that no check finds is an error.
    type: list
    elements: str
    default: []
seealso:
  - module: modelops.vllm.gpu_info
  - module: modelops.vllm.layout_info
  - module: modelops.vllm.vllm_port_info
"""

EXAMPLES = r"""
- name: Look at the GPUs
  modelops.vllm.gpu_info:
  register: gpus

- name: Judge the node
  modelops.vllm.preflight_info:
    gpu_info: "{{ gpus }}"
    unit: vllm-main.service
    user: vllm
    vllm_bin: /opt/vllm/bin/vllm
    weights_dest: /srv/models/MiniMaxAI/MiniMax-M2.5
    weights_bytes: 230119973888
    ignore: [clock-unsynchronised]
  register: node
  failed_when: not node.passed
"""

RETURN = r"""
passed:
  description: Whether no finding is an error.
  returned: success
  type: bool
checks:
  description: All checks in their order.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Name of the check.
      type: str
      sample: vram
    status:
      description: V(ok), V(info), V(warning), V(error), V(ignored), or V(skipped) when it does not apply here.
      type: str
    findings:
      description: Ids of what it found.
      type: list
      elements: str
findings:
  description:
    - What was found, each with C(id), C(severity), C(message), C(numbers), C(remedy) and C(ignored).
  returned: success
  type: list
  elements: dict
ignored:
  description: The ids of O(ignore) that hid an error or a warning.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError, guarded
from ansible_collections.modelops.vllm.plugins.module_utils._preflight.checks import (
    findings_of,
    judge,
    judge_layouts,
    require_known,
)
from ansible_collections.modelops.vllm.plugins.module_utils._preflight.question import Question
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Store


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "accelerator": {"type": "str", "choices": ["cuda", "cpu"], "default": "cuda"},
            "gpu_info": {"type": "dict", "default": {}},
            "layout_info": {"type": "dict", "default": {}},
            "layout": {"type": "str", "default": ""},
            "port_info": {"type": "dict", "default": {}},
            "nodes": {"type": "int", "default": 1},
            "expected_nodes": {"type": "int", "default": 1},
            "pinned": {"type": "bool", "default": False},
            "vllm_findings": {"type": "list", "elements": "dict"},
            "address": {"type": "str", "default": ""},
            "unit": {"type": "str", "default": ""},
            "state_dir": {"type": "path"},
            "user": {"type": "str", "default": ""},
            "home": {"type": "path"},
            "env": {"type": "dict", "default": {}},
            "args": {"type": "dict", "default": {}},
            "vllm_bin": {"type": "path"},
            "gpu_memory_utilization": {"type": "float", "default": 0},
            "weights_dest": {"type": "path"},
            "weights_bytes": {"type": "int", "default": 0},
            "p2p_test": {"type": "bool", "default": False},
            "p2p_timeout": {"type": "int", "default": 60},
            "ignore": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        p = module.params
        if p["p2p_timeout"] < 1 or p["nodes"] < 1:
            raise ModelopsError(f"p2p_timeout is {p['p2p_timeout']}, nodes is {p['nodes']}.", "Both are at least 1.")
        require_known(p["ignore"])
        layout_findings, layout = judge_layouts(p["layout_info"], p["layout"])
        question = Question(
            accelerator=p["accelerator"],
            gpu_info=p["gpu_info"],
            layout=layout,
            nodes=p["nodes"],
            expected_nodes=p["expected_nodes"],
            pinned=p["pinned"],
            address=p["address"],
            unit=p["unit"],
            siblings=frozenset(Store(p["state_dir"]).units()) if p["state_dir"] else frozenset(),
            user=p["user"],
            home=p["home"] or "",
            env=p["env"],
            args=p["args"],
            vllm_bin=p["vllm_bin"] or "",
            utilization=p["gpu_memory_utilization"],
            weights_dest=p["weights_dest"] or "",
            weights_bytes=p["weights_bytes"],
            p2p_test=p["p2p_test"],
            p2p_timeout=p["p2p_timeout"],
        )
        made = {
            "gpus": findings_of(p["gpu_info"]),
            "port": findings_of(p["port_info"]),
            "vllm": findings_of({"findings": p["vllm_findings"]}),
            "layout": layout_findings,
        }
        module.exit_json(changed=False, **judge(question, made, p["ignore"]))


if __name__ == "__main__":
    main()

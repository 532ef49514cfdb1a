#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_status_info
short_description: What the vLLM instances of a node are and do
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Reads which instances of this collection a node has, which release each of them runs, what systemd says about it,
    what its server answers and how much it has to do, and what GPU memory its processes hold. Nothing is changed.
  - Instances that modelops.vllm 1.0.0 deployed are told as well, with what can be known of them.
  - Needs root, since releases hold secrets. No secret is returned.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
  - modelops.vllm._attributes.read_only
options:
  state_dir:
    description: The state directory of the instances, which the role C(serve) calls C(serve_state_dir).
    type: path
    default: /var/lib/vllm
  instances:
    description: Names of the instances or services to look at, all of the node when empty.
    type: list
    elements: str
    default: []
  nvidia_smi:
    description: Name or path of nvidia-smi.
    type: str
    default: nvidia-smi
  sample_seconds:
    description:
      - Seconds between the two looks at the counters of the servers, from 0 to 60. The rates are means of this time.
      - With V(0) there is one look and there are no rates.
    type: float
    default: 2
  timeout:
    description: Seconds that each request to a server, and all calls of nvidia-smi together, may take. From 1 to 600.
    type: int
    default: 20
seealso:
  - module: modelops.vllm.gpu_info
  - module: modelops.vllm.vllm_ready
"""

EXAMPLES = r"""
- name: Look at all instances
  modelops.vllm.vllm_status_info:
  register: status

- name: Stop when one does not serve
  ansible.builtin.assert:
    that: status.findings | selectattr('severity', 'eq', 'error') | length == 0
    fail_msg: "{{ status.findings | modelops.vllm.findings_text }}"
"""

RETURN = r"""
instances:
  description: The instances, by name. A value that is not known is null.
  returned: success
  type: list
  elements: dict
  contains:
    instance:
      description: Name of the instance.
      type: str
    unit:
      description: Its systemd service.
      type: str
    service:
      description: The service that it belongs to with others, such as the replicas of a layout. Else its own name.
      type: str
    kind:
      description: V(engine), or V(router) for a vllm-router in front of replicas.
      type: str
    state:
      description:
        - V(serving) when the server is healthy, V(unhealthy) when it says that it is not, V(starting) while it does not
          answer yet, V(running) for a unit that has no server of its own (the second node of an engine).
        - V(restarting) while systemd waits before it starts the unit again, V(stopping), V(stopped), V(failed), and
          V(missing) when there is no unit.
      type: str
    active_state:
      description: ActiveState of the unit.
      type: str
    sub_state:
      description: SubState of the unit.
      type: str
    result:
      description: Result of the unit, as systemd calls how it ended last.
      type: str
    enabled:
      description: Whether it starts at boot.
      type: bool
    since:
      description: When the unit came into its state, in seconds since the epoch.
      type: int
    uptime_seconds:
      description: Seconds that it has been active, null when it is not.
      type: int
    restarts:
      description: How often systemd has started it again by itself.
      type: int
    pid:
      description: Its main process.
      type: int
    current:
      description: Id of the release that was activated last, null on a node of modelops.vllm 1.0.0.
      type: str
    last_good:
      description: Id of the release that last proved that it answers.
      type: str
    proven:
      description: Whether the release that was activated last is the one that last proved itself.
      type: bool
    model:
      description: The served model name of the release.
      type: str
    model_dir:
      description: Directory of the weights.
      type: str
    repo_id:
      description: Repository of the weights.
      type: str
    commit:
      description: Commit of the weights.
      type: str
    layout:
      description: Id of the layout.
      type: str
    vllm_version:
      description: Version of vLLM that the release was made for.
      type: str
    devices:
      description: Indices of its GPUs, empty on a node without GPUs.
      type: list
      elements: str
    host:
      description: The address that it listens on.
      type: str
    port:
      description: The port that it listens on.
      type: int
    url:
      description: Where it was asked.
      type: str
    health:
      description: HTTP status of C(/health), null when nothing answered or the unit is not active.
      type: int
    served_names:
      description: Model names that the server says it serves.
      type: list
      elements: str
    requests_running:
      description: Requests that are computed now.
      type: int
    requests_waiting:
      description: Requests that wait now.
      type: int
    kv_cache_usage:
      description: Part of the KV cache that is used, from 0 to 1. That of the fullest engine.
      type: float
    preemptions:
      description: Requests that were put back since the start because the KV cache was full.
      type: int
    tokens_per_second:
      description:
        - Generated tokens per second between the two looks, all engines together. Null when the counters started again
          in between.
      type: float
    prompt_tokens_per_second:
      description: Prompt tokens per second between the two looks.
      type: float
    vram_mib:
      description: GPU memory in MiB that its processes hold, null without GPUs or where the driver does not say it.
      type: int
  sample:
    - instance: main
      unit: vllm-main.service
      state: serving
      model: MiniMax-M2.5
      layout: tp8-ep
      uptime_seconds: 86400
      requests_running: 12
      tokens_per_second: 911.5
gpu_status:
  description: Whether there are GPUs to use, as in RV(modelops.vllm.gpu_info#module:status). Empty without an instance.
  returned: success
  type: str
findings:
  description:
    - What is wrong or worth knowing, each with C(id), C(severity), C(message), C(numbers) and C(remedy).
    - The ids are V(instance-down), V(instance-unhealthy), V(instance-not-enabled), V(instance-restarted),
      V(instance-unknown), V(served-name), V(release-unproven), V(switch-running), V(switch-unfinished), V(gpu-shared)
      and those of M(modelops.vllm.gpu_info) for GPUs that do not answer.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import check_bounds, guarded
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.host import runner
from ansible_collections.modelops.vllm.plugins.module_utils._serve.shells import run_command
from ansible_collections.modelops.vllm.plugins.module_utils._serve.status_node import look

BOUNDS = {"sample_seconds": (0, 60), "timeout": (1, 600)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state_dir": {"type": "path", "default": "/var/lib/vllm"},
            "instances": {"type": "list", "elements": "str", "default": []},
            "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
            "sample_seconds": {"type": "float", "default": 2},
            "timeout": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        p = module.params
        check_bounds(p, BOUNDS, " seconds")
        result = look(
            p["state_dir"],
            [name for name in p["instances"] if name],
            lambda argv: run_command(module, argv),
            runner(p["nvidia_smi"], p["timeout"]),
            sample_seconds=p["sample_seconds"],
            timeout=p["timeout"],
        )
        module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

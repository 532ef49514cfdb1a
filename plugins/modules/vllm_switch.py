#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_switch
short_description: Switch a node to staged releases, and back when they do not answer
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Makes releases of M(modelops.vllm.vllm_release) serve, as one transaction on the node. The instances that use the
    same GPUs or belong to the same service are stopped and disabled, the memory of the GPUs is waited for, the releases
    are activated, started, and asked until they answer.
  - Ports and GPUs are looked at first. When another process is in the way, nothing is stopped and the process is named.
    No process of others is ever killed.
  - When a release does not answer, everything that served before is started again and asked in the same way, and the
    module fails with both stories. Without anything to go back to the new units are stopped.
  - The work is a job on the node that ends without its controller too. One switch is done at a time; a run that finds
    the same switch going on waits for it, a run with another one is refused.
  - A switch that was cut off by a reboot is taken up by the next run, which still knows what served before it.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details:
      - M(modelops.vllm.vllm_release) shows the difference.
  idempotent:
    support: full
options:
  state_dir:
    description: The state directory of the node.
    type: path
    default: /var/lib/vllm
  instances:
    description: What shall serve, be stopped, or go back.
    type: list
    elements: dict
    required: true
    suboptions:
      instance:
        description:
          - Name of an instance. To stop, that of a service means all its instances.
          - With O(state=rolled_back) the name of any instance means its service. Replicas go back together.
        type: str
        required: true
      release:
        description:
          - Id of a staged release. Needed with O(state=switched), but in check mode.
          - With O(state=rolled_back) the release to go back to, by default what served before the last switch. What
            served beside it comes back with it. A release of a replica is refused where nothing says what did.
        type: str
        default: ""
  state:
    description:
      - V(switched) has the releases serve.
      - V(rolled_back) has serve what did so before the last switch of the service that the instance belongs to.
      - V(stopped) stops the instances, also while they load, and keeps them from starting at boot. Their releases stay.
    type: str
    choices: [switched, rolled_back, stopped]
    default: switched
  together:
    description:
      - Of releases on several nodes, start this node's anew even when it runs already, since another node of the group
        has to switch. All nodes of a group switch together, and wait for each other before anything is stopped.
    type: bool
    default: false
  nvidia_smi:
    description: The C(nvidia-smi) of the node. Empty on a node without GPUs.
    type: str
    default: ""
  ready_timeout:
    description: How long a release may take to answer, in seconds, from 1 to 86400. Going back may take as long again.
    type: int
    default: 3600
  stop_timeout:
    description: How long an instance that serves may take to stop, in seconds, as its unit has it.
    type: int
    default: 120
  gpu_timeout:
    description: How long to wait for the memory of the GPUs after the stop, in seconds.
    type: int
    default: 120
  keep_releases:
    description:
      - How many releases of an instance are kept. What is current, last good or gone back to next is kept besides.
    type: int
    default: 5
  progress_interval:
    description: Seconds between two lines of progress, V(0) for none and for no job.
    type: int
    default: 30
seealso:
  - module: modelops.vllm.vllm_release
  - module: modelops.vllm.vllm_ready
"""

EXAMPLES = r"""
- name: Have the staged release serve
  modelops.vllm.vllm_switch:
    instances:
      - instance: main
        release: "{{ staged.release }}"
    nvidia_smi: nvidia-smi

- name: Go back to what served before
  modelops.vllm.vllm_switch:
    instances:
      - instance: main
    state: rolled_back
    nvidia_smi: nvidia-smi
"""

RETURN = r"""
ready:
  description: Whether the wanted releases answer. V(null) in check mode, V(false) with O(state=stopped).
  returned: always
  type: bool
seconds:
  description: How long it took.
  returned: always
  type: float
seconds_without_service:
  description:
    - From the first stop of a unit that answered until everything answered again, the new releases or the old ones.
      V(null) when nothing served before.
  returned: success or failed after the stop
  type: float
stopped:
  description: The units of other instances that were stopped and disabled to make room.
  returned: always
  type: list
  elements: str
pruned:
  description: The releases that were removed.
  returned: success
  type: list
  elements: str
instances:
  description: The wanted releases.
  returned: always
  type: list
  elements: dict
  contains:
    instance:
      description: The instance.
      type: str
    release:
      description: The release.
      type: str
    unit:
      description: Its unit.
      type: str
    engine:
      description: What the engine said about itself, as RV(modelops.vllm.vllm_ready#module:engine).
      type: dict
    seconds:
      description: How long it took to answer.
      type: float
cause:
  description: Why the new releases do not serve. V(null) when they do.
  returned: success or failed after the stop
  type: dict
  contains:
    id:
      description: Stable name of the cause.
      type: str
    line:
      description: The line that shows it.
      type: str
    remedy:
      description: What to do.
      type: str
log_tail:
  description: The last lines of the journal of the release that failed.
  returned: success or failed after the stop
  type: list
  elements: str
rollback:
  description: How going back ended.
  returned: failed after the stop
  type: dict
  contains:
    serves:
      description: The releases that serve again.
      type: list
      elements: dict
    seconds:
      description: How long the slowest took to answer.
      type: float
    nothing_serves:
      description: Whether that failed too.
      type: bool
findings:
  description: What is worth knowing, each with C(id), C(severity), C(message), C(numbers) and C(remedy).
  returned: always
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._serve.switching import switch


def main() -> None:
    instance = {"instance": {"type": "str", "required": True}, "release": {"type": "str", "default": ""}}
    module = AnsibleModule(
        argument_spec={
            "state_dir": {"type": "path", "default": "/var/lib/vllm"},
            "instances": {"type": "list", "elements": "dict", "required": True, "options": instance},
            "state": {"type": "str", "choices": ["switched", "rolled_back", "stopped"], "default": "switched"},
            "together": {"type": "bool", "default": False},
            "nvidia_smi": {"type": "str", "default": ""},
            "ready_timeout": {"type": "int", "default": 3600},
            "stop_timeout": {"type": "int", "default": 120},
            "gpu_timeout": {"type": "int", "default": 120},
            "keep_releases": {"type": "int", "default": 5},
            "progress_interval": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        switch(module)


if __name__ == "__main__":
    main()

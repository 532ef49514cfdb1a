#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_ready
short_description: Wait until a vLLM instance answers, or say within seconds why it never will
version_added: 1.0.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Asks a running vLLM for its health, its served model and a completion, and looks at its systemd unit and journal
    meanwhile.
  - An instance is ready when it has answered a completion. Health alone is no proof, several broken layouts are healthy
    and die with the first request.
  - A fatal line in the log, a failed unit, or a growing restart counter ends the wait at once, with the line, its cause
    and the remedy. Lines that are known to be harmless do not.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
attributes:
  check_mode:
    support: full
    details:
      - In check mode the module does not wait and returns V(null) as RV(ready).
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
    details:
      - This action does not modify state.
options:
  unit:
    description:
      - The systemd unit of the instance. Without it only the server at O(url) is asked, and a start that cannot
        succeed is noticed at the O(timeout) only.
    type: str
    default: ""
  url:
    description:
      - Address of the server without a path.
    type: str
    default: http://127.0.0.1:8000
  model:
    description:
      - The served model name that must be there. Without it the first served name is asked.
    type: str
    default: ""
  api_key:
    description:
      - The API key of the server.
    type: str
  timeout:
    description:
      - How long to wait, in seconds. Hundreds of GiB take minutes to load, and a first start compiles kernels.
      - From 1 to 86400.
    type: int
    default: 3600
  poll:
    description:
      - Seconds between two looks, from 1 to 60.
    type: int
    default: 2
  completion_timeout:
    description:
      - How long one completion may take, in seconds, from 1 to 3600.
    type: int
    default: 300
  smoke:
    description:
      - Ask a question as well and refuse an answer that makes no sense, such as one token repeated, replacement
        characters, or no 5 for 2+3.
      - With V(false) a completion of one token is enough, as a model with random weights needs it.
    type: bool
    default: true
seealso:
  - module: modelops.vllm.layout_info
"""

EXAMPLES = r"""
- name: Wait until the instance serves
  modelops.vllm.vllm_ready:
    unit: vllm-main.service
    url: http://127.0.0.1:8000
    model: minimax-m2.5
    timeout: 3600
  register: ready

- name: Ask a server elsewhere, of which only the address is known
  modelops.vllm.vllm_ready:
    url: http://gpu01.example.com:8000
    model: minimax-m2.5
    api_key: "{{ vllm_api_key }}"
    timeout: 60
"""

RETURN = r"""
ready:
  description: Whether the instance answers. V(null) in check mode.
  returned: always
  type: bool
  sample: true
seconds:
  description: How long the wait took.
  returned: always
  type: float
  sample: 63.4
cause:
  description: Why the instance is not ready. V(null) when it is.
  returned: always
  type: dict
  contains:
    id:
      description: Stable name of the cause.
      type: str
      sample: kv-cache-too-small
    line:
      description: The line of the log or the answer that shows it.
      type: str
    remedy:
      description: What to do.
      type: str
log_tail:
  description: The last lines of the journal of the current invocation. Empty without O(unit).
  returned: always
  type: list
  elements: str
engine:
  description:
    - What the engine said about itself while it started, a key for each figure that its log holds.
    - The scarcest rank counts for the KV cache, the largest for weights and times.
  returned: always
  type: dict
  contains:
    vllm_version:
      description: The version that runs.
      type: str
    weights_gib:
      description: Weights on one GPU, in GiB.
      type: float
    weights_load_seconds:
      description: Time to load the weights, in seconds.
      type: float
    kv_cache_gib:
      description: Memory for the KV cache on one GPU, in GiB.
      type: float
    kv_tokens:
      description: Tokens that the KV cache of one engine holds.
      type: int
    max_concurrency:
      description: Requests of the full context length that fit at once.
      type: float
    max_model_len:
      description: Context length in tokens.
      type: int
    init_seconds:
      description: Time to profile, to make the KV cache and to warm up, in seconds.
      type: float
    compile_seconds:
      description: Time of torch.compile, in seconds.
      type: float
    graph_capture_seconds:
      description: Time to capture CUDA graphs, in seconds.
      type: float
unit:
  description: The state of the unit. V(null) without O(unit).
  returned: always
  type: dict
  contains:
    active_state:
      description: ActiveState of systemd.
      type: str
    sub_state:
      description: SubState of systemd.
      type: str
    result:
      description: Result of systemd.
      type: str
    restarts:
      description: How often systemd restarted the unit by itself.
      type: int
    exit_status:
      description: Exit status or signal of the last main process.
      type: int
    invocation_id:
      description: Id of the current run of the unit.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._serve.shells import wait_and_report


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "default": ""},
            "url": {"type": "str", "default": "http://127.0.0.1:8000"},
            "model": {"type": "str", "default": ""},
            "api_key": {"type": "str", "no_log": True},
            "timeout": {"type": "int", "default": 3600},
            "poll": {"type": "int", "default": 2},
            "completion_timeout": {"type": "int", "default": 300},
            "smoke": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        wait_and_report(module)


if __name__ == "__main__":
    main()

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
      - White space at its ends is left out. Control characters and what is not ASCII are refused.
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
      - An answer without sense is asked for once more with the sampling of the model's own generation config, as some
        thinking models never come to an end without it.
      - An answer that was cut off while the model thought is judged by what it holds, and RV(findings) says so.
    type: bool
    default: true
  tool_call:
    description:
      - Offer a tool to the model as part of the smoke test, and refuse an answer that is no parsed call of it with
        the city that was asked about.
      - It finds a tool call parser or a chat template of another model. Use it for models that call tools.
    type: bool
    default: false
    version_added: 1.1.0
  reasoning:
    description:
      - Where the smoke test expects the thinking of the model.
      - V(split) requires it in a field of its own, C(reasoning) or C(reasoning_content), and no marks of thinking in
        the content. It is for models with a reasoning parser that splits, such as C(minimax_m2).
      - V(append) accepts it in the content, where parsers such as C(minimax_m2_append_think) leave it.
      - V(none) accepts it anywhere, and says in RV(findings) when clients will see it as the answer.
    type: str
    choices:
      - none
      - split
      - append
    default: none
    version_added: 1.1.0
  plan:
    description:
      - What M(modelops.vllm.layout_info) planned for the instance. RV(findings) tells where RV(engine) is far from it.
      - What is not given is not compared.
    type: dict
    version_added: 1.1.0
    suboptions:
      weights_gib:
        description: Weights on the fullest GPU in GiB, C(weights_gib_per_gpu) of the layout.
        type: float
      kv_tokens:
        description: Tokens that the KV cache of one engine and data parallel rank holds, C(kv_tokens) of the layout.
        type: int
      max_concurrency:
        description: Requests of the full length that fit into it at once, C(max_concurrency) of the layout.
        type: float
      max_model_len:
        description: Longest request in tokens.
        type: int
  progress_interval:
    description:
      - Seconds between two lines that tell how far the start is, such as the shards that are loaded. V(0) for none.
      - The lines go to standard error, and AWX shows them in the output of the job.
      - Unless it is V(0), the module runs as a job on the node, and the task waits for a lost connection to come back.
    type: int
    default: 30
    version_added: 1.1.0
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

- name: Prove that tools and thinking reach the clients as they should, and compare with the plan
  modelops.vllm.vllm_ready:
    unit: vllm-main.service
    model: minimax-m2.5
    tool_call: true
    reasoning: split
    plan:
      weights_gib: 53.7
      kv_tokens: 434000
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
findings:
  description:
    - What there is to know about an instance that is ready, each with C(id), C(severity), C(message), C(numbers) and
      C(remedy). None of them fails the task.
    - V(plan-weights-differ), V(plan-kv-tokens-differ), V(plan-concurrency-differs) and V(plan-max-model-len-differs)
      are deviations from O(plan).
    - V(smoke-cut-off), V(tool-call-undecided) and V(think-tag-in-content) are about the answers of the smoke test.
  returned: always
  type: list
  elements: dict
  version_added: 1.1.0
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
from ansible_collections.modelops.vllm.plugins.module_utils._serve.waiting import wait_and_report


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
            "tool_call": {"type": "bool", "default": False},
            "reasoning": {"type": "str", "choices": ["none", "split", "append"], "default": "none"},
            "plan": {
                "type": "dict",
                "options": {
                    "weights_gib": {"type": "float"},
                    "kv_tokens": {"type": "int", "no_log": False},
                    "max_concurrency": {"type": "float"},
                    "max_model_len": {"type": "int"},
                },
            },
            "progress_interval": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        wait_and_report(module)


if __name__ == "__main__":
    main()

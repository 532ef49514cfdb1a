#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: layout_info
short_description: All layouts of a model on GPUs, valid or why not
version_added: 1.0.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Judges tensor, pipeline, data and expert parallel layouts of a model for a number of GPUs and a version of vLLM,
    without a GPU, without vLLM and without a download.
  - Every layout that is not valid says why, with the numbers and the nearest valid layouts. Every layout that is valid
    says how much memory its weights take and how many tokens its KV cache holds.
  - An invalid layout is a result, not a failure of the module.
  - Weights are measured from the headers of the shards where O(model_dir) has them all, and otherwise computed from the
    shape of the model. Computed ones leave out norms, biases and MTP layers, which is below 1 % for the models that
    this was checked with.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
  - modelops.vllm._attributes.read_only
options:
  config:
    description:
      - The content of the model's C(config.json), or the part of it that is known. Rules that need a missing key
        are not judged, and a finding says so.
      - Exactly one of O(config) and O(model_dir) is needed.
    type: dict
  model_dir:
    description:
      - Directory of a snapshot on the node, from which C(config.json), C(hf_quant_config.json) and the headers of the
        shards are read.
    type: path
  gpus:
    description:
      - The GPUs of one node, as the list that M(modelops.vllm.gpu_info) returns, or as a dictionary with
        C(count), C(name), C(memory_mib) (as nvidia-smi shows it), C(compute_cap), C(link) (V(nvlink) or V(pcie)) and
        C(unified_memory). Only C(count) is required. The name V(cpu) stands for the CPU build of vLLM.
      - Needed unless O(layouts) is given.
    type: raw
  nodes:
    description: Number of nodes with these GPUs.
    type: int
    default: 1
  vllm_version:
    description:
      - Version of vLLM, for example V(0.26.0). Without it the strictest form of each rule is used.
    type: str
  layouts:
    description:
      - Layouts to judge, each an id such as V(tp8), V(tp8-ep), V(tp4-r2), V(tp4-dp2-ep) or V(tp8-pp2), or a
        dictionary with C(tp), C(pp), C(dp), C(ep), C(dcp) and C(replicas).
      - Decode context parallelism (V(tp8-dcp8), C(dcp)) is understood since 1.1.0, and judged only when asked for.
      - By default all layouts that make sense for O(gpus) are judged.
    type: list
    elements: raw
  max_model_len:
    description:
      - Longest request in tokens. By default that of the model.
    type: int
  max_num_seqs:
    description:
      - Most requests at a time in one engine. With it the memory for activations is estimated, without it
        8 GiB a GPU are set aside, the most that was seen.
    type: int
  kv_cache_dtype:
    description:
      - Type of the KV cache as vLLM names it. V(auto) follows the checkpoint.
    type: str
    default: auto
  gpu_memory_utilization:
    description:
      - Part of the memory of a GPU that vLLM may use. By default that of O(vllm_version), V(0.92) since 0.20.
    type: float
  attention_backend:
    description:
      - The attention backend that vLLM is forced to use, as its flag C(--attention-backend) names it. It must take the
        attention of this model on these GPUs.
      - By default vLLM chooses, see RV(layouts[].attention_backends).
    type: str
    version_added: 1.1.0
  moe_backend:
    description:
      - The MoE backend that vLLM is forced to use, as its flag C(--moe-backend) names it.
      - By default vLLM chooses, see RV(layouts[].moe_backends).
    type: str
    version_added: 1.1.0
  eplb:
    description:
      - Whether the expert load balancer is on (C(--enable-eplb)), which wants as many experts on each rank.
    type: bool
    default: false
    version_added: 1.1.0
  redundant_experts:
    description:
      - Experts that the expert load balancer holds twice, see O(eplb).
    type: int
    default: 0
    version_added: 1.1.0
  mm_encoder_tp_mode:
    description:
      - V(weights) cuts the vision tower over tensor parallel ranks, V(data) gives each rank the whole of it
        (C(--mm-encoder-tp-mode)).
    type: str
    choices: [weights, data]
    default: weights
    version_added: 1.1.0
  data_parallel_backend:
    description:
      - The backend of data parallel ranks (C(--data-parallel-backend)). Over several O(nodes) only V(mp) works.
    type: str
    choices: [mp, ray]
    default: mp
    version_added: 1.1.0
  trust_remote_code:
    description:
      - Whether code of the model's repository may run. When it is V(false) and the config names such code, all layouts
        are invalid.
      - By default this is not judged.
    type: bool
    version_added: 1.1.0
  objective:
    description:
      - What RV(recommended) is chosen for.
    type: str
    choices: [latency, throughput, capacity]
    default: throughput
seealso:
  - module: modelops.vllm.gpu_info
"""

EXAMPLES = r"""
- name: Judge all layouts of a model on the GPUs of this node
  modelops.vllm.layout_info:
    model_dir: /srv/models/MiniMax-M2.5
    gpus: "{{ gpus.gpus }}"
    vllm_version: 0.26.0
  register: plan

- name: Is this layout valid, before anything is downloaded
  modelops.vllm.layout_info:
    config: "{{ vllm_model.config }}"
    gpus:
      count: 8
      memory_mib: 97887
      compute_cap: "12.0"
      link: pcie
    vllm_version: 0.26.0
    layouts:
      - tp8-ep
"""

RETURN = r"""
layouts:
  description: The layouts, in the order of O(layouts), or from the largest tensor parallel size down.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Id of the layout.
      type: str
      sample: tp8-ep
    tp:
      description: Tensor parallel size.
      type: int
    pp:
      description: Pipeline parallel size.
      type: int
    dp:
      description: Data parallel size.
      type: int
    dcp:
      description: Decode context parallel size, the tensor parallel ranks that share one KV cache.
      type: int
      version_added: 1.1.0
    ep:
      description: Whether experts are spread over TP x DP.
      type: bool
    replicas:
      description: Number of independent engines.
      type: int
    gpus:
      description: GPUs that all engines use.
      type: int
    idle_gpus:
      description: GPUs that are left over.
      type: int
    valid:
      description: Whether vLLM starts with it, as far as the rules tell.
      type: bool
    findings:
      description: What the rules say, each with C(id), C(severity), C(message), C(numbers) and C(remedy).
      type: list
      elements: dict
    weights_gib_per_gpu:
      description: Weights on the fullest GPU in GiB.
      type: float
    overhead_gib_per_gpu:
      description: Memory set aside for activations, CUDA graphs and communication in GiB.
      type: float
    overhead_gib_range:
      description: The least and the most of RV(layouts[].overhead_gib_per_gpu) that was seen, in GiB.
      type: list
      elements: float
      version_added: 1.1.0
    kv_bytes_per_token:
      description: KV cache bytes of one token on one GPU.
      type: int
    kv_tokens:
      description: KV cache tokens of one engine and data parallel rank, which vLLM logs as C(GPU KV cache size).
      type: int
    kv_tokens_range:
      description: RV(layouts[].kv_tokens) with the most and the least of RV(layouts[].overhead_gib_range).
      type: list
      elements: int
      version_added: 1.1.0
    kv_tokens_total:
      description: KV cache tokens of all data parallel ranks and replicas.
      type: int
    max_concurrency:
      description: Requests of full length that RV(layouts[].kv_tokens) holds.
      type: float
    max_concurrency_total:
      description: Requests of full length that all data parallel ranks and replicas hold.
      type: float
    max_model_len_fit:
      description: The largest max_model_len with which this layout starts.
      type: int
    attention_backends:
      description:
        - The attention backends that vLLM tries for this model on these GPUs, in their order. The first one that is
          installed is taken. Null when it cannot be told.
      type: list
      elements: str
      version_added: 1.1.0
    moe_backends:
      description:
        - The MoE backends in the same way. Null for dense models, and for vLLM before 0.24, where environment variables
          chose.
      type: list
      elements: str
      version_added: 1.1.0
    tuned_moe_config:
      description:
        - Whether vLLM ships a configuration of its Triton MoE kernel for this layout on a GPU of exactly this name.
          Null when that is not known or Triton is not in question.
      type: bool
      version_added: 1.1.0
recommended:
  description: Id of the layout to take, null when none is valid.
  returned: success
  type: str
  sample: tp4-dp2-ep
recommendation:
  description: Why, and how sure that is.
  returned: success
  type: dict
  contains:
    objective:
      description: What was chosen for.
      type: str
    reason:
      description: Why, in words.
      type: str
    ties:
      description: Ids that are as good by the cost model, which only a measurement tells apart.
      type: list
      elements: str
    confidence:
      description:
        - V(clear), V(tie) when there are ties, V(low) when the cost model had to assume something, V(none) when no
          layout is valid.
      type: str
      version_added: 1.1.0
    ranking:
      description: All candidates, each with C(id) and C(score), its part of the best score.
      type: list
      elements: dict
      version_added: 1.1.0
weights_source:
  description: V(headers) when the weights were measured, V(config) when computed, null when they are not known.
  returned: success
  type: str
  version_added: 1.1.0
first_valid:
  description: Id of the first valid layout in the order of O(layouts), null when none is valid.
  returned: success
  type: str
findings:
  description: What holds for the whole plan.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._planner.api import (
    DATA_PARALLEL_BACKENDS,
    ENCODER_MODES,
    OBJECTIVES,
    layout_info,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict"},
            "model_dir": {"type": "path"},
            "gpus": {"type": "raw"},
            "nodes": {"type": "int", "default": 1},
            "vllm_version": {"type": "str"},
            "layouts": {"type": "list", "elements": "raw"},
            "max_model_len": {"type": "int"},
            "max_num_seqs": {"type": "int"},
            "kv_cache_dtype": {"type": "str", "default": "auto"},
            "gpu_memory_utilization": {"type": "float"},
            "attention_backend": {"type": "str"},
            "moe_backend": {"type": "str"},
            "eplb": {"type": "bool", "default": False},
            "redundant_experts": {"type": "int", "default": 0},
            "mm_encoder_tp_mode": {"type": "str", "choices": list(ENCODER_MODES), "default": "weights"},
            "data_parallel_backend": {"type": "str", "choices": list(DATA_PARALLEL_BACKENDS), "default": "mp"},
            "trust_remote_code": {"type": "bool"},
            "objective": {"type": "str", "choices": list(OBJECTIVES), "default": "throughput"},
        },
        mutually_exclusive=[("config", "model_dir")],
        required_one_of=[("config", "model_dir")],
        supports_check_mode=True,
    )
    with guarded(module):
        module.exit_json(changed=False, **layout_info(module.params))


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bench_tournament
short_description: Keep the score of a tournament of layouts
version_added: 1.1.0
description:
  - Says which candidates are to be deployed and measured next, takes their outcomes, and names the winner with the
    reason why each other candidate lost.
  - It deploys and measures nothing. The playbook C(modelops.vllm.tournament) does, with the roles of this collection.
  - Every candidate is tried once, and once more when a point has no valid figures. One whose server dies under load has
    lost. The leaders are then started and measured again in turns, since repeats of one start
    do not show what changes between starts.
  - A tournament is known by all that makes it one, the candidates, the rules, and O(identity). Declared again it is
    continued where it was left.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  dir:
    description:
      - Directory in which each tournament makes a directory, with its C(tournament.json).
      - Needed to declare a tournament. Either this or O(state_file).
    type: path
  candidates:
    description:
      - Who takes part, as ids of layouts, or as mappings with C(layout), C(args) (flags of vLLM by their long names
        without dashes) and C(env).
      - They may not differ in a secret, which would be in their names.
      - Empty for the valid ones of O(layouts).
    type: list
    elements: raw
    default: []
  layouts:
    description: What RV(modelops.vllm.layout_info#module:layouts) says of the node. Invalid ones do not take part.
    type: list
    elements: dict
    default: []
  preferred:
    description: Ids of layouts that go first when O(candidates) is empty.
    type: list
    elements: str
    default: []
  axes:
    description:
      - Settings that each candidate is tried with, in all combinations. V(null) in a list is the setting as it is.
    type: dict
    default: {}
    suboptions:
      args:
        description: Flags of vLLM by their long names without dashes, each with a list of values.
        type: dict
        default: {}
      env:
        description: Names of environment variables, each with a list of values.
        type: dict
        default: {}
  limit:
    description: How many of O(layouts) take part when O(candidates) is empty.
    type: int
    default: 4
  objective:
    description:
      - What the winner is best in.
      - V(single_stream) is the output tokens a second of one stream, from the request to the last token.
      - V(throughput) is the output tokens a second of the best point, V(tokens_per_joule) those of the GPUs' energy.
    type: str
    choices: [single_stream, throughput, tokens_per_joule]
    default: throughput
  bounds:
    description: Medians that a point must keep to count.
    type: dict
    default: {}
    suboptions:
      ttft_ms:
        description: Longest time to the first token in milliseconds.
        type: float
      tpot_ms:
        description: Longest time for each further token in milliseconds.
        type: float
      e2e_ms:
        description: Longest time for the whole answer in milliseconds.
        type: float
  sessions:
    description: How many starts of each leader are measured, the first one included.
    type: int
    default: 3
  leaders:
    description: How many candidates are measured again, at most.
    type: int
    default: 2
  margin:
    description: How far behind the best a leader may be, as a share.
    type: float
    default: 0.1
  concurrency:
    description: The concurrencies that are measured.
    type: list
    elements: int
    default: []
  energy:
    description:
      - Whether the node has GPUs whose energy can be read. Without them O(objective=tokens_per_joule) is refused,
        before anything is deployed for it.
    type: bool
    default: true
  points:
    description:
      - The points that each session is to have, with C(id) and C(concurrency), as check mode of
        M(modelops.vllm.vllm_bench) says. A session that lacks one is repeated, and does not count.
    type: list
    elements: dict
    default: []
  identity:
    description: What is the same for all candidates, such as model, commit, hardware, version of vLLM and load.
    type: dict
    default: {}
  base:
    description: What the user has set for the serve role, to which the settings of a candidate are added.
    type: dict
    default: {}
    suboptions:
      args:
        description: The role's C(serve_args).
        type: dict
        default: {}
      env:
        description: The role's C(serve_env).
        type: dict
        default: {}
      max_model_len:
        description: The role's C(serve_max_model_len).
        type: str
        default: ""
      max_num_seqs:
        description: The role's C(serve_max_num_seqs).
        type: str
        default: ""
      gpu_memory_utilization:
        description: The role's C(serve_gpu_memory_utilization).
        type: str
        default: ""
      kv_cache_dtype:
        description: The role's C(serve_kv_cache_dtype).
        type: str
        default: ""
  resume:
    description: Whether to continue a tournament that was declared before. With V(false) it begins anew.
    type: bool
    default: true
  retry:
    description: Candidates that have failed and are tried again, for example after a mended cause.
    type: list
    elements: str
    default: []
  before:
    description:
      - What serves on the node before the first step. It is kept until O(settled), also when a tournament is cut off.
    type: list
    elements: dict
    suboptions:
      instance:
        description: The instance.
        type: str
        required: true
      release:
        description: Its release.
        type: str
        required: true
  state_file:
    description:
      - The RV(state_file) of a tournament that was declared, to look at it or to note an O(outcome).
      - Of the other options only O(base) matters then.
    type: path
  outcome:
    description: What became of one candidate.
    type: dict
    suboptions:
      candidate:
        description: The candidate.
        type: str
        required: true
      results:
        description: The C(points.jsonl) of its measurement. Without it the candidate has failed and is out.
        type: path
      phase:
        description: Where it failed, while it was V(checked), V(deployed) or V(measured).
        type: str
        choices: [checked, deployed, measured]
        default: deployed
      reason:
        description: How it failed.
        type: str
        default: ""
      cause:
        description:
          - The classified cause, as RV(modelops.vllm.vllm_switch#module:cause).
          - Without one, or with one that is a fault of the node, the module fails and notes nothing, but for
            V(checked).
        type: dict
  settled:
    description: The node is back at O(before), or serves the winner.
    type: bool
    default: false
author:
  - The modelops.vllm contributors (@modelops)
seealso:
  - module: modelops.vllm.bench_report
  - module: modelops.vllm.layout_info
"""

EXAMPLES = r"""
- name: Declare a tournament of three candidates
  modelops.vllm.bench_tournament:
    dir: /var/lib/vllm-benchmark/tournaments
    candidates:
      - tp8-ep
      - tp4
      - layout: tp8-ep
        env:
          NCCL_P2P_DISABLE: "1"
    concurrency: [1, 64]
    bounds:
      tpot_ms: 50
    identity:
      model: minimax-m2.5
  register: tournament

- name: Note that a candidate did not start
  modelops.vllm.bench_tournament:
    state_file: "{{ tournament.state_file }}"
    outcome:
      candidate: tp8-ep
      reason: The engine died.
"""

RETURN = r"""
state_file:
  description: The file that has the whole tournament. M(modelops.vllm.bench_report) makes a report of it.
  returned: success
  type: str
todo:
  description:
    - What is to deploy and measure next, one round of it. Empty when the tournament is over.
  returned: success
  type: list
  elements: dict
  contains:
    candidate:
      description: The candidate.
      type: str
      returned: success
    session:
      description: Which of its starts this is, from 1.
      type: int
      returned: success
    results_dir:
      description: Directory for its results.
      type: str
      returned: success
    layout:
      description: Its layout.
      type: str
      returned: success
    args:
      description: Its C(serve_args), those of O(base) included. So are the others that O(base) has.
      type: dict
      returned: success
    env:
      description: Its C(serve_env), that of O(base) included.
      type: dict
      returned: success
verdict:
  description: V(open) while something is to do, then V(winner) or V(no_winner).
  returned: success
  type: str
headline:
  description: The verdict as a sentence.
  returned: success
  type: str
winner:
  description: The winner with its settings as in RV(todo). Empty without one.
  returned: success
  type: dict
standings:
  description: All candidates, the best first.
  returned: success
  type: list
  elements: dict
  contains:
    candidate:
      description: The candidate.
      type: str
      returned: success
    value:
      description: Its score, the median of RV(standings[].values). V(null) without one.
      type: float
      returned: success
    values:
      description: The score of each of its starts.
      type: list
      elements: float
      returned: success
    point:
      description: The load at which it was reached.
      type: str
      returned: success
    outcome:
      description: V(winner), V(lost), V(failed) or V(open).
      type: str
      returned: success
    why:
      description: The reason as a sentence.
      type: str
      returned: success
excluded:
  description: What does not take part, each with C(id) and C(reason).
  returned: success
  type: list
  elements: dict
before:
  description: What O(before) was when the first step began. V(null) when there is nothing to go back to by now.
  returned: success
  type: list
  elements: dict
table:
  description: The standings as text for a terminal.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._bench import tournament_entry
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded


def main() -> None:
    module = AnsibleModule(
        argument_spec=tournament_entry.TOURNAMENT_SPEC,
        required_one_of=[("dir", "state_file")],
        mutually_exclusive=[("dir", "state_file"), ("dir", "outcome")],
        supports_check_mode=True,
    )
    with guarded(module):
        result = tournament_entry.run(module.params, write=not module.check_mode)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

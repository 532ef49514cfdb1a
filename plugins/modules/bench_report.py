#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bench_report
short_description: Report on benchmark results, and compare them with a baseline
version_added: 1.0.0
description:
  - Writes what M(modelops.vllm.vllm_bench) measured as a self-contained HTML page and as Markdown.
  - The page has diagrams when matplotlib is there. Without it the page has its tables only and says so.
  - With O(baseline) it compares two results by the medians of their repeats. A change counts only when it leaves the
    band of noise and the ranges of both sides do not overlap. Results that are not alike are not compared, and the
    difference is named.
  - The same results give the same files.
requirements:
  - matplotlib 3.7 or newer on the host that writes the report, for the diagrams
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  results:
    description:
      - A C(points.jsonl) or the directory of a run that has one.
      - Since 1.1.0 also the RV(modelops.vllm.bench_tournament#module:state_file) of a tournament, or its directory.
    type: path
    required: true
  baseline:
    description:
      - Results to compare with, in the same form. Keep this file under version control instead of comparing with the
        last run.
      - Both sides need three valid repeats of each point. Use five where the verdict fails a build, since three repeats
        tell little about noise.
      - A point of the baseline that the result lacks, or a figure that has values, but fewer than three on one side, is
        named in RV(reasons). What is worse elsewhere is told all the same, and else the verdict is V(not_comparable).
      - It must be of another run than the results, and each side of one server and one configuration.
      - Figures that were published and not measured are compared with nothing. Each of their records says so, with an
        C(origin) that has the C(kind) C(published) and a C(source).
    type: path
  formats:
    description:
      - The forms to write. V(txt) is RV(table), for a terminal.
      - V(csv) has one line for each measurement, with every figure. It is there since 1.1.0.
    type: list
    elements: str
    choices: [html, md, txt, csv]
    default: [html, md]
  dest:
    description: Directory for C(report.html) and its like. The default is the directory of the results.
    type: path
author:
  - The modelops.vllm contributors (@modelops)
seealso:
  - module: modelops.vllm.vllm_bench
  - module: modelops.vllm.bench_tournament
"""

EXAMPLES = r"""
- name: Write a report beside the results
  modelops.vllm.bench_report:
    results: /var/lib/vllm-benchmark/20260314T150926Z-8f0a1c

- name: Compare with the accepted figures
  modelops.vllm.bench_report:
    results: reports/gpu01/points.jsonl
    baseline: baselines/minimax-tp8-ep.jsonl
    dest: reports/gpu01
  register: gate
  failed_when: gate is failed or gate.verdict in ['worse', 'not_comparable', 'invalid']
"""

RETURN = r"""
verdict:
  description:
    - V(recorded) for valid results without a baseline, V(invalid) when a point may not be believed, whatever the
      baseline is.
    - V(better), V(same), V(worse) or V(not_comparable) against the baseline.
    - V(published) for figures that were not measured.
    - V(winner), V(no_winner) or V(open) for a tournament.
  returned: success
  type: str
headline:
  description: The verdict as a sentence.
  returned: success
  type: str
files:
  description: Paths of the reports, in the order of O(formats).
  returned: success
  type: list
  elements: str
table:
  description: The summary as text for a terminal.
  returned: success
  type: str
comparison:
  description: One entry for each compared figure of each point.
  returned: success
  type: list
  elements: dict
  contains:
    point:
      description: Name of the load.
      type: str
      returned: success
    figure:
      description: What is compared.
      type: str
      returned: success
    baseline:
      description: Median of the baseline's repeats.
      type: float
      returned: success
    result:
      description: Median of the result's repeats.
      type: float
      returned: success
    difference:
      description: Change as a share of the baseline.
      type: float
      returned: success
    band:
      description: Half width of the band of noise, as a share of the baseline.
      type: float
      returned: success
    overlap:
      description: Whether the ranges of both sides overlap.
      type: bool
      returned: success
    verdict:
      description: V(better), V(same) or V(worse).
      type: str
      returned: success
reasons:
  description:
    - Why the results are invalid or not comparable, and what of the baseline is missing.
    - For a tournament why each candidate stands where it does.
  returned: success
  type: list
  elements: str
differences:
  description: Differences of the identity that a comparison may be about, such as the layout.
  returned: success
  type: list
  elements: str
findings:
  description: The findings of the results, errors first.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._bench import reporting
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded


def main() -> None:
    module = AnsibleModule(argument_spec=reporting.REPORT_SPEC, supports_check_mode=True)
    with guarded(module):
        result = reporting.reported(module.params, write=not module.check_mode)
    if hint := reporting.hint(module.params):
        module.warn(hint)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

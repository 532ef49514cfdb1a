#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_bench
short_description: Measure a running vLLM server with figures that can be trusted
version_added: 1.0.0
description:
  - Runs a benchmark client against a server, once for each point and repeat, and judges every request. The client is
    the deployed vLLM's own C(vllm bench serve) where there is one.
  - The client's exit status and summary are not believed. The figures are computed again from the single requests, a
    point with a failed request is invalid, and the server's own counters confirm requests and tokens.
  - Every point and repeat has prompts of its own, so that nothing comes out of the prefix cache. Before each one the
    module sends one wave of other prompts itself (the warm-up), checks the streams strictly, and waits until the
    server is idle.
  - A point that cannot be measured is a result with RV(points[].valid=false) and the reason; the others are measured
    all the same. The module fails only when nothing can be measured.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
attributes:
  check_mode:
    support: full
    details:
      - Checks the options and returns the points that would be measured. Nothing is asked of the server or of this
        vLLM.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each run measures again and writes a new directory.
options:
  url:
    description:
      - Root of the server's API. A trailing C(/v1) is removed.
      - Measure the vLLM server itself. Proxies add delays and keep-alives, and hide the server's counters. For replicas
        behind a router see O(metrics_urls).
    type: str
    required: true
  metrics_urls:
    description:
      - Roots of the replicas behind a router at O(url). Their counters at C(/metrics) are added up, so that requests,
        tokens, cache hits and other traffic are checked as those of a single server are.
      - All replicas must be named. O(api_key) is sent to each.
      - Without it the counters are those of O(url) itself.
    type: list
    elements: str
    default: []
    version_added: 1.1.0
  model:
    description: Served name of the model.
    type: str
    required: true
  tokenizer:
    description:
      - Directory with the model's tokenizer on this host. Nothing is looked up on a network.
      - vLLM's clients and aiperf need it, the builtin client does not. It was required before 1.1.0.
    type: path
  trust_remote_code:
    description:
      - Whether the client may run code from the tokenizer's directory. Some models have their tokenizer as code.
    type: bool
    default: false
  api_key:
    description:
      - Key of the server.
      - Handed over in the environment, and never part of a command line, a log or a result.
      - White space at its ends is left out. Control characters and what is not ASCII are refused.
    type: str
  vllm:
    description:
      - Name or path of the C(vllm) executable whose client measures, vLLM 0.12 or newer.
    type: path
    default: vllm
  engine:
    description:
      - Which client measures. RV(engine) says which one ran; results of different engines are not compared.
      - V(auto) takes vLLM's Rust client where this vLLM ships one, since its own delays are much smaller, and else
        V(python). Where there is no vLLM or no O(tokenizer), and for chats, it takes V(builtin), which the finding
        C(engine-builtin) tells.
      - V(builtin) is a small client that comes with the collection. It needs the Python package C(aiohttp) (3.8 or
        newer, C(python3-aiohttp) on Debian and Ubuntu) for the interpreter that runs this module, or that of O(vllm),
        and no tokenizer. Since 1.1.0.
      - V(aiperf) is NVIDIA's client, 0.13 or newer. Its records of the single requests are judged as those of the
        others are, its own figures are not used. Since 1.1.0.
    type: str
    choices: [auto, python, rust, aiperf, builtin]
    default: auto
  aiperf:
    description: Name or path of the C(aiperf) executable, for O(engine=aiperf).
    type: path
    default: aiperf
    version_added: 1.1.0
  endpoint:
    description:
      - What is asked of the server, C(/v1/completions) or C(/v1/chat/completions).
      - In a chat the time to first token is that of the first reasoning or content, and C(ttfo_ms) is the time to the
        first content, which for models that think is much later.
      - Chats are measured by V(builtin) or V(aiperf). vLLM's own clients take the role, which a server may send early,
        for the first token, and do not tell reasoning from content.
    type: str
    choices: [completions, chat]
    default: completions
    version_added: 1.1.0
  points:
    description:
      - The loads to measure. Replaces O(concurrency).
      - They are measured in ascending order, the whole list once for each repeat.
    type: list
    elements: dict
    suboptions:
      concurrency:
        description: Number of requests that are always under way. Each point needs it or O(points[].rate), not both.
        type: int
      rate:
        description:
          - Requests a second, sent at random moments whether or not earlier ones are answered, without a limit.
          - With a limit of streams beside the rate, requests would wait at the client, and no latency would show it.
        type: float
        version_added: 1.1.0
      input_len:
        description: Prompt length in tokens. The default is O(input_len).
        type: int
      output_len:
        description: Output length in tokens. The default is O(output_len).
        type: int
      num_prompts:
        description: Number of requests. The default is O(num_prompts).
        type: int
  concurrency:
    description: Short form of O(points) for loads that differ in their concurrency only.
    type: list
    elements: int
    default: [1, 8]
  rates:
    description:
      - Short form of O(points) for open loops, in requests a second. They are measured beside O(concurrency); set that
        to an empty list for rates alone.
    type: list
    elements: float
    default: []
    version_added: 1.1.0
  input_len:
    description: Prompt length in tokens. Prompts of O(dataset_file) have their own.
    type: int
    default: 512
  output_len:
    description: Output length in tokens, at least 2. The server is told to ignore the end of the text.
    type: int
    default: 128
  num_prompts:
    description:
      - Number of requests of a point.
      - With V(0) it is ten times the concurrency and at least 64. A single stream gets 11, of which the first is not
        counted. A point with a rate gets a minute of arrivals and at least 64.
    type: int
    default: 0
  dataset:
    description:
      - What the prompts are. No prompt is sent twice in a run, since the server would have it in its prefix cache.
      - V(random) are random tokens, with exact lengths.
      - V(text) are English verses that come with the collection, cut to about O(input_len) tokens. Use it for servers
        that decode speculatively.
      - V(file) are the prompts of O(dataset_file).
      - The Python client needs pandas for V(text) and V(file), the Rust client does not.
      - Results of different datasets are not compared.
    type: str
    choices: [random, text, file]
    default: random
    version_added: 1.1.0
  dataset_file:
    description:
      - JSONL file on this host with one object a line, whose key C(prompt) is sent as it is, without a chat template.
      - It must have a different prompt for each request of all points and repeats.
    type: path
    version_added: 1.1.0
  slo:
    description:
      - Bounds for single requests. RV(points[].metrics) then has a C(goodput), which counts the requests that kept
        all of them.
    type: dict
    version_added: 1.1.0
    suboptions:
      ttft_ms:
        description: Longest time to the first token in milliseconds.
        type: float
      tpot_ms:
        description: Longest time for each further token, the mean of a request, in milliseconds.
        type: float
      e2e_ms:
        description: Longest time for the whole answer in milliseconds.
        type: float
  repeats:
    description: How often each point is measured. Use 3 for a record and 5 for a comparison.
    type: int
    default: 3
  seed:
    description:
      - Base of all seeds. Left out, each run draws its own, which is right unless a single run has to be looked into.
      - The same base again sends the same prompts again, which the server may have in its prefix cache.
    type: int
  results_dir:
    description:
      - Directory for results. Each run makes a directory in it, named by the time in UTC, with C(points.jsonl) (one
        line for each point and repeat) and the client's raw output.
    type: path
    required: true
  gpus:
    description:
      - Number of GPUs that the instance occupies, also the idle ones of its layout. Without it there are no figures
        for each GPU.
    type: int
  gpu_uuids:
    description:
      - UUIDs of the GPUs that the instance occupies, whose energy counters are read before and after the load.
      - Not needed when O(gpus) is the number of all GPUs of the host. Without either no energy is given, since the
        energy of other GPUs would be in it.
      - When O(gpus) is set, the list must name as many, else no energy is given.
      - The server must be on this host, by a loopback address.
    type: list
    elements: str
    default: []
    version_added: 1.1.0
  gpu_hour_price:
    description: Price of one GPU for one hour, for the cost of a million tokens. Needs O(gpus).
    type: float
    version_added: 1.1.0
  currency:
    description: Currency of O(gpu_hour_price), a name for the report.
    type: str
    default: USD
    version_added: 1.1.0
  identity:
    description:
      - What was measured, for example layout, commit of the model, arguments of the server. It is stored with the
        results, and results with different identities are not compared.
      - Values whose name says that they are a secret are removed.
    type: dict
    default: {}
  max_failures:
    description:
      - Number of requests of a point that may fail before the point is invalid.
      - Results with different numbers are not compared.
    type: int
    default: 0
  timeout:
    description:
      - Seconds that one run of the client, or the warm-up before it, may take before it is ended.
      - When the server does not answer anything after that, the run ends with the finding C(server-gone), and the
        measurements that are left are not made.
    type: int
    default: 1800
  max_seconds:
    description:
      - Seconds that the whole run may take. No measurement begins that would take longer, as far as an earlier repeat
        of its point tells; one that is not over by then is ended, and left out.
      - Repeats that are left out are told in RV(findings), and a point without any makes RV(valid) false.
      - V(0) is no limit.
    type: int
    default: 0
    version_added: 1.1.0
  resume:
    description:
      - Whether to continue the newest run in O(results_dir) that measured the same, with the same O(slo),
        O(gpu_uuids), O(gpu_hour_price) and O(currency), when a valid measurement of the asked points and repeats is
        missing in it. Else a new run is made.
      - What is measured again gets new prompts.
    type: bool
    default: false
    version_added: 1.1.0
  client_check_rate:
    description:
      - Output tokens a second that are expected of the server. When given, the client itself is measured first, at the
        largest concurrency, against a server of this module that sends twice as many at a known pace.
      - The finding C(client-checked) or C(client-too-slow) has what the client said beside the truth.
      - V(0) leaves the check out.
    type: int
    default: 0
    version_added: 1.1.0
  progress_interval:
    description:
      - Seconds between two lines that say which measurement is being made and what the last one gave. They are shown by
        the controller, on standard error.
      - The module then runs as a job on the node, which a lost connection does not end. V(0) shows nothing, and runs it
        without a job.
    type: int
    default: 30
    version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
"""

EXAMPLES = r"""
- name: Measure a single stream and eight streams
  modelops.vllm.vllm_bench:
    url: http://127.0.0.1:8000
    model: minimax-m2.5
    tokenizer: /srv/models/MiniMax-M2.5
    vllm: /opt/vllm/bin/vllm
    concurrency: [1, 8]
    results_dir: /var/lib/vllm-benchmark
    gpus: 8
    identity:
      layout: tp8-ep
  register: benchmark

- name: Measure a chat from a host without vLLM
  modelops.vllm.vllm_bench:
    url: http://gpu01:8000
    model: minimax-m2.5
    endpoint: chat
    engine: builtin
    concurrency: [1, 64]
    results_dir: results

- name: Measure points of different lengths
  modelops.vllm.vllm_bench:
    url: http://127.0.0.1:8000
    model: minimax-m2.5
    tokenizer: /srv/models/MiniMax-M2.5
    points:
      - {concurrency: 1, input_len: 1024, output_len: 256}
      - {concurrency: 128, input_len: 8192, output_len: 1024}
    repeats: 5
    results_dir: /var/lib/vllm-benchmark

- name: Measure what an overnight run can, with bounds for single requests, energy and cost
  modelops.vllm.vllm_bench:
    url: http://127.0.0.1:8000
    model: minimax-m2.5
    tokenizer: /srv/models/MiniMax-M2.5
    dataset: text
    concurrency: [1, 32, 128]
    rates: [2, 4]
    slo:
      ttft_ms: 2000
      tpot_ms: 50
    gpus: 8
    gpu_hour_price: 1.5
    max_seconds: 14400
    resume: true
    results_dir: /var/lib/vllm-benchmark
"""

RETURN = r"""
valid:
  description:
    - Whether every point was measured and every measurement is valid. In check mode true, since the options were
      accepted.
  returned: success
  type: bool
complete:
  description: Whether all points were measured as often as asked. In check mode false.
  returned: success
  type: bool
  version_added: 1.1.0
resumed:
  description: Whether measurements of an earlier run are among the points.
  returned: success
  type: bool
  version_added: 1.1.0
points:
  description: One record for each point and repeat, in the order of measuring. In check mode the planned points.
  returned: success
  type: list
  elements: dict
  contains:
    point:
      description: The load, with RV(points[].point.id) as its name.
      type: dict
      returned: success
      contains:
        id:
          description: Name of the load.
          type: str
          returned: success
          sample: c8-i512-o128-n80
    repeat:
      description: Number of the repeat, from 1.
      type: int
      returned: success
    seed:
      description: Seed of this measurement.
      type: int
      returned: success
    valid:
      description: Whether the figures may be believed and compared.
      type: bool
      returned: when measured
    metrics:
      description:
        - The figures of the good requests, or null when not one counts. Rates are per second, latencies in
          milliseconds.
        - A percentile is null when there are too few requests for it (p90 from 64, p95 from 130, p99 from 662).
        - Latencies of tokens are null when the client read first tokens late (finding C(token-times-withheld)).
        - C(ttfo_ms) is the time to the first token of output of a chat, reasoning left out.
        - C(steady) has the latencies without the first wave and the drain, C(goodput) what kept the bounds of O(slo).
        - The file C(definitions.json) beside the results says what each figure means.
      type: dict
      returned: when measured
      sample:
        output_tokens_per_s: 1057.8
        decode_tokens_per_s_per_user: 324.9
        ttft_ms: {n: 80, median: 23.6, p90: 41.6, p95: null, p99: null, max: 42.3}
    energy:
      description:
        - Energy of the instance's GPUs during the load, from their counters. C(valid) is false, with a C(reason), when
          there are no counters or their power says something else.
      type: dict
      returned: when measured
      version_added: 1.1.0
      sample:
        valid: true
        reason: ""
        energy_j: 96210.4
        average_power_w: 3207.0
        joules_per_output_token: 2.59
        output_tokens_per_s_per_w: 0.386
    cost:
      description: Price of a million tokens at O(gpu_hour_price), or null without one.
      type: dict
      returned: when measured
      version_added: 1.1.0
    server:
      description: What the server's counters say about the time of the load, or null without counters.
      type: dict
      returned: when measured
    client:
      description: The client's engine, version, arguments, exit status and CPU share.
      type: dict
      returned: when measured
    findings:
      description: What is wrong or noteworthy with this measurement.
      type: list
      elements: dict
      returned: when measured
    identity:
      description: What was measured with what.
      type: dict
      returned: when measured
findings:
  description: All findings, those of a point with RV(findings[].numbers) naming the point and the repeat.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Stable name of the rule.
      type: str
      returned: success
      sample: requests-failed
    severity:
      description: V(error) makes a point invalid.
      type: str
      returned: success
    message:
      description: What was found, with the numbers.
      type: str
      returned: success
    numbers:
      description: The numbers of the message.
      type: dict
      returned: success
    remedy:
      description: What to do.
      type: str
      returned: success
results_file:
  description: Path of the run's C(points.jsonl); empty in check mode.
  returned: success
  type: str
  sample: /var/lib/vllm-benchmark/20260314T150926Z-8f0a1c/points.jsonl
engine:
  description: The client that measured, V(python), V(rust), V(builtin) or V(aiperf); empty in check mode.
  returned: success
  type: str
vllm_version:
  description: Version of the client's vLLM; empty in check mode, and when the client is not vLLM's.
  returned: success
  type: str
engine_version:
  description: Version of the client, that of aiohttp for the engine V(builtin); empty in check mode.
  returned: success
  type: str
  version_added: 1.1.0
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._bench import entry
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._progress import ProgressFile, own_path, run_id


def main() -> None:
    module = AnsibleModule(argument_spec=entry.BENCH_SPEC, supports_check_mode=True)
    with guarded(module, entry.redactor(module.params["api_key"])):
        options = entry.bench_options(module.params)
        if module.check_mode:
            result = entry.planned(options)
        else:
            with ProgressFile(own_path(module.tmpdir), run_id(module.tmpdir)) as progress:
                result = entry.measured(options, progress.tell)
    module.exit_json(changed=True, **result)


if __name__ == "__main__":
    main()

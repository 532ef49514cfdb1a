# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The engine aiperf: NVIDIA's client sends our requests as they are, and its raw records are read as strictly as ours.

Read in aiperf 0.13.0: what it counts as a success (streams that broke off, errors inside of a stream) and as an error
(tokens without text) is not used, and neither are its figures.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import typing as t

from .._errors import ModelopsError
from . import vllm_client
from .command import Target
from .points import Measurement
from .process import Command
from .streams import PATHS, Answer, Stream, arrays

_BEGIN: t.Final = "phase profiling (profiling) started"
_END: t.Final = "phase profiling (profiling) complete"
_CONFIG, _INPUTS, _ARTIFACTS = "config.json", "inputs.json", "artifacts"

# The key is read from the client's environment, and so is part of no file and no command line.
KEY_VARIABLE: t.Final = "OPENAI_API_KEY"

# The first version whose configuration and records are read here.
MIN_VERSION: t.Final = (0, 13)


def find(executable: str) -> tuple[str, str] | None:
    """Path and version of aiperf; None when there is none. Raises ModelopsError for one that is too old."""
    path = shutil.which(executable)
    if not path:
        return None
    answered = vllm_client.ask([path, "--version"], 120)
    lines = answered.stdout.strip().splitlines()
    version = lines[-1].rpartition(" ")[2] if answered.returncode == 0 and lines else ""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < MIN_VERSION:
        raise ModelopsError(
            f"{path} is aiperf {version or 'of an unknown version'}; it is used from "
            f"{'.'.join(map(str, MIN_VERSION))} on.",
            "Install a newer aiperf, or use engine auto.",
        )
    return path, version


def prepare(
    executable: str,
    target: Target,
    measurement: Measurement,
    bodies: t.Sequence[t.Mapping[str, t.Any]],
    work_dir: str,
    *,
    key: bool,
) -> Command:
    """Write the configuration and the requests; ``key`` says whether the environment holds one."""
    config = configuration(target, measurement, key=key)
    inputs = {"data": [{"session_id": str(index), "payloads": [body]} for index, body in enumerate(bodies)]}
    for name, content in ((_CONFIG, config), (_INPUTS, inputs)):
        with open(os.path.join(work_dir, name), "w", encoding="utf-8") as f:
            json.dump(content, f)
    return Command([executable, "profile", "--config", _CONFIG, "--ui", "none"], _BEGIN, _END)


def environment(client: t.Mapping[str, str]) -> dict[str, str]:
    """The client's environment, without the switches with which aiperf 0.13 takes a directory for a name on the Hub.

    It still looks nothing up: the Hub's address is one where nobody answers.
    """
    kept = {name: value for name, value in client.items() if name not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    return {**kept, "HF_ENDPOINT": "http://127.0.0.1:9"}


def configuration(target: Target, measurement: Measurement, *, key: bool) -> dict[str, t.Any]:
    """What aiperf reads: everything by name, and nothing that asks others than the server under test."""
    point = measurement.point
    load = {"type": "poisson", "rate": point.rate} if point.rate else {"type": "concurrency"}
    return {
        "random_seed": measurement.seed,
        "benchmark": {
            "model": target.model,
            "endpoint": {
                "url": target.url,
                "path": PATHS[target.endpoint],
                "type": target.endpoint,
                "streaming": True,
                "use_server_token_count": True,
                **({"api_key": f"${{{KEY_VARIABLE}}}"} if key else {}),
            },
            "datasets": [
                {"name": "inputs", "type": "file", "path": _INPUTS, "format": "inputs_json", "sampling": "sequential"}
            ],
            "phases": [
                {
                    "name": "profiling",
                    **load,
                    **({"concurrency": point.concurrency} if point.concurrency else {}),
                    "requests": point.num_prompts,
                }
            ],
            "artifacts": {"dir": _ARTIFACTS, "raw": True, "records": ["jsonl"], "summary": ["json"]},
            "gpu_telemetry": {"enabled": False},
            "server_metrics": {"enabled": False},
            "tokenizer": {"name": target.tokenizer, "trust_remote_code": target.trust_remote_code},
        },
    }


def collect(measurement: Measurement, work_dir: str) -> dict[str, t.Any] | None:
    """The arrays of all requests; None when it left no records.

    The records are gathered into one file at the end, which aiperf does not come to when it takes all for failed.
    """
    artifacts = os.path.join(work_dir, _ARTIFACTS)
    paths = glob.glob(os.path.join(artifacts, "*_raw.jsonl")) or glob.glob(
        os.path.join(artifacts, "raw_records", "*.jsonl")
    )
    answers: list[Answer] = []
    try:
        for path in paths:
            with open(path, encoding="utf-8") as f:
                answers += [answer_of(json.loads(line), measurement.point.output_len) for line in f if line.strip()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return arrays(answers, measurement.point.num_prompts) if answers else None


def answer_of(record: t.Mapping[str, t.Any], output_len: int) -> Answer:
    """One raw record, judged anew."""
    begin = record["start_perf_ns"]
    stream = Stream(status=record.get("status") or 0)
    for response in record.get("responses") or []:
        at = (response["perf_ns"] - begin) / 1e9
        for packet in response.get("packets") or []:
            if packet.get("name") == "data" and not stream.done and not stream.kind:
                stream.take(packet.get("value") or "", at)
    failed = record.get("error")
    if failed and not stream.events:
        told = failed.get("message") if isinstance(failed, dict) else failed
        kind = "http-error" if stream.status not in (0, 200) else "no-answer"
        stream.fail(kind, f"HTTP {stream.status}: {str(told)[:300]}")
    return Answer(int(record["metadata"]["conversation_id"]), begin / 1e9, stream.close(output_len))

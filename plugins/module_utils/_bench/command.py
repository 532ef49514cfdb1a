# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The command of the benchmark client, built from its version; and its environment. Pure."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .points import Measurement, Point
from .streams import Endpoint

Engine = t.Literal["python", "rust"]

# The switch that sends prompts of a file as they are: its name in 0.32, and an older one.
SKIP_TEMPLATE: t.Final = "skip-chat-template"
SKIP_TEMPLATE_BEFORE: t.Final = "custom-skip-chat-template"

# The first release whose `vllm bench serve` takes every flag below and writes `failed` (read in the releases' sources).
MIN_VERSION: t.Final = (0, 12)

# Names of the environment that the client may inherit; all others stay behind, VLLM_* and proxies above all.
_INHERITED: t.Final = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True)
class Target:
    """The server under test: ``url`` without a trailing slash or /v1, the served name, the tokenizer's directory (empty
    when there is none), and which of its interfaces is asked."""

    url: str
    model: str
    tokenizer: str
    trust_remote_code: bool = False
    endpoint: Endpoint = "completions"


def parse_version(text: str) -> tuple[int, ...]:
    """The leading numbers of a vLLM version, ``0.32.0+cpu`` -> (0, 32, 0). Raises ModelopsError when there are none."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if not match:
        raise ModelopsError(f"The vLLM version {text.strip()!r} is not readable.", "Point the option vllm at a vLLM.")
    return tuple(int(part) for part in match.groups() if part is not None)


def check_version(version: str) -> None:
    """Refuse a client whose results cannot be validated."""
    if parse_version(version)[:2] < MIN_VERSION:
        raise ModelopsError(
            f"vLLM {version} is too old to measure with; the benchmark client is used from 0.12 on.",
            "Install a newer vLLM and point the option vllm at it; it may be another one than the one that serves.",
        )


def bench_arguments(
    target: Target,
    measurement: Measurement,
    result_dir: str,
    engine: Engine,
    *,
    prompts_file: str | None = None,
    skip_template: str = SKIP_TEMPLATE,
) -> list[str]:
    """Everything after the executable. Nothing is left to a default, since defaults change between releases.

    No ``--num-warmups``: it sends the first prompt of the run, which then comes out of the prefix cache.
    No key: both engines read OPENAI_API_KEY. ``prompts_file`` holds one prompt for each request.
    """
    point = measurement.point
    flags: dict[str, t.Any] = {
        "backend": "openai",
        "base-url": target.url,
        "endpoint": "/v1/completions",
        "model": target.model,
        "tokenizer": target.tokenizer,
        **_dataset(point, prompts_file),
        "num-prompts": point.num_prompts,
        # An open loop has no limit: requests would wait at the client, where no latency shows it.
        **({"max-concurrency": point.concurrency} if point.concurrency else {}),
        "request-rate": f"{point.rate:g}" if point.rate else "inf",
        "burstiness": 1,
        "temperature": 0,
        "seed": measurement.seed,
        "percentile-metrics": "ttft,tpot,itl,e2el",
        "metric-percentiles": "50,90,95,99",
        "ready-check-timeout-sec": 0,
        "result-dir": result_dir,
        "result-filename": f"{measurement.name}.json",
    }
    switches = ["ignore-eos", "save-result", "save-detailed", "disable-tqdm"]
    if target.trust_remote_code:
        switches.append("trust-remote-code")
    if prompts_file:
        switches.append(skip_template)
    elif engine == "rust":
        # Exact lengths without a round of decoding and encoding, which can fail to converge.
        switches.append("prompt-token-ids")
    if engine == "rust":
        # The window is our own.
        switches.append("no-steady-state")
    arguments = ["bench", "serve"]
    for flag, value in flags.items():
        arguments += [f"--{flag}", str(value)]
    return arguments + [f"--{switch}" for switch in switches]


def _dataset(point: Point, prompts_file: str | None) -> dict[str, t.Any]:
    if prompts_file:
        return {"dataset-name": "custom", "dataset-path": prompts_file, "custom-output-len": point.output_len}
    return {
        "dataset-name": "random",
        "random-input-len": point.input_len,
        "random-output-len": point.output_len,
        "random-range-ratio": 0,
        "random-prefix-len": 0,
    }


def bench_environment(inherited: t.Mapping[str, str], host: str, api_key: str | None) -> dict[str, str]:
    """The client's whole environment. ``host`` is the server's, which is never asked through a proxy."""
    environment = {name: inherited[name] for name in _INHERITED if name in inherited}
    environment.update(
        LANG="C.UTF-8",
        NO_COLOR="1",
        NO_PROXY=host,
        no_proxy=host,
        PYTHONUNBUFFERED="1",
        # The tokenizer is a directory: nothing may be looked up on a network.
        HF_HUB_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        DO_NOT_TRACK="1",
        VLLM_NO_USAGE_STATS="1",
    )
    if api_key:
        environment["OPENAI_API_KEY"] = api_key
    return environment

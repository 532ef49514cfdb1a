# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Which client measures, and one run of it. All leave the same arrays, which are judged by one rule."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from . import aiperf, builtin, command, dataset, vllm_client
from .command import Target
from .points import Measurement
from .process import ClientRun, execute
from .streams import PATHS, request_body

Engine = t.Literal["python", "rust", "builtin", "aiperf"]

# Prompts are text, or token ids for the engines that send our own requests.
Prompt: t.TypeAlias = "str | t.Sequence[int]"


@dataclass(frozen=True)
class Client:
    """The client that will measure: which engine, what is executed, its version."""

    engine: Engine
    executable: str
    version: str
    # The switch against chat templates around prompts of a file; it was renamed.
    skip_template: str = command.SKIP_TEMPLATE
    # Whether it can read prompts from a file: the Python client does that with pandas, which vLLM does not require.
    reads_files: bool = True
    # Why auto did not take vLLM's own client; empty when it did, or was not asked.
    fallback: str = ""
    # The versions beside the vLLM of the option vllm: torch, cuda_runtime, nccl, python.
    software: t.Mapping[str, str | None] = field(default_factory=dict, compare=False)

    @property
    def version_field(self) -> dict[str, str]:
        """The version under the name that results have for it."""
        return {"vllm_version" if self.is_vllm else "version": self.version}

    @property
    def is_vllm(self) -> bool:
        """True for vLLM's own clients, which make random prompts themselves."""
        return self.engine in ("python", "rust")


def find_client(vllm: str, wanted: str, target: Target, *, aiperf_path: str = "aiperf") -> Client:
    """The client for the option ``engine``.

    Auto takes vLLM's Rust client where this vLLM ships one that can load the tokenizer, since its own delays are a
    tenth of the Python client's; else the Python one; and the builtin one where there is no vLLM or no tokenizer, or
    where a chat is measured. Raises ModelopsError when what is wanted is not there.
    """
    check(wanted, target)
    if wanted == "aiperf":
        return _aiperf(aiperf_path)
    installation = vllm_client.find(vllm)
    if wanted == "builtin":
        return _builtin(installation)
    lacks = _vllm_lacks(target) if wanted == "auto" else ""
    if not installation:
        lacks = lacks or f"there is no executable {vllm!r} on this host"
    if wanted == "auto" and lacks:
        return _builtin(installation, lacks)
    if not installation:
        raise ModelopsError(
            f"There is no executable {vllm!r} on this host; the engine {wanted} is the deployed vLLM's own client.",
            "Set the option vllm to its path, for example /opt/vllm/bin/vllm, or use engine builtin.",
        )
    return _vllm(installation, wanted, target)


def check(wanted: str, target: Target) -> None:
    """Refuse a client that cannot measure this target, whatever is installed. Raises ModelopsError."""
    lacks = ""
    if wanted in ("python", "rust"):
        lacks = _vllm_lacks(target)
    elif wanted == "aiperf" and not target.tokenizer:
        lacks = "aiperf loads a tokenizer, but tokenizer is not set"
    if lacks:
        raise ModelopsError(f"The engine {wanted} cannot be used: {lacks}.", "Use engine auto or builtin.")


def _vllm_lacks(target: Target) -> str:
    """Why vLLM's clients cannot measure this target; empty when they can."""
    if target.endpoint == "chat":
        return "vLLM's clients take the role of a chat for its first token, and cannot tell reasoning from output"
    return "" if target.tokenizer else "vLLM's clients need the option tokenizer"


def _vllm(installation: vllm_client.Installation, wanted: str, target: Target) -> Client:
    command.check_version(installation.version)
    python = Client(
        "python",
        installation.executable,
        installation.version,
        vllm_client.skip_template(installation.package),
        installation.pandas,
        software=installation.software,
    )
    if wanted == "python":
        return python
    rust = os.path.join(installation.package, "vllm-rs") if installation.package else ""
    lacks = vllm_client.rust_lacks(rust, target)
    if not lacks:
        return Client("rust", rust, installation.version, software=installation.software)
    if wanted == "rust":
        raise ModelopsError(
            f"The Rust client of vLLM {installation.version} cannot be used: {lacks}.", "Use engine auto or python."
        )
    return python


def _builtin(installation: vllm_client.Installation | None, fallback: str = "") -> Client:
    found = builtin.find(installation)
    if not found:
        because = f"{fallback[0].upper()}{fallback[1:]}, and the" if fallback else "The"
        raise ModelopsError(
            f"{because} engine builtin needs the Python package aiohttp, which is not installed on this host.",
            "Install aiohttp for the interpreter that runs this module (python3-aiohttp on Debian and Ubuntu)"
            + (", or set the option vllm to a vLLM." if fallback else "."),
        )
    software = installation.software if installation else {}
    return Client("builtin", *found, fallback=fallback, software=software)


def _aiperf(path: str) -> Client:
    found = aiperf.find(path)
    if not found:
        raise ModelopsError(
            f"There is no executable {path!r} on this host, which the engine aiperf needs.",
            "Install aiperf from PyPI into a virtual environment and set the option aiperf to its path.",
        )
    return Client("aiperf", *found)


def run_client(
    client: Client,
    target: Target,
    measurement: Measurement,
    work_dir: str,
    *,
    environment: t.Mapping[str, str],
    timeout: float,
    sample: t.Callable[[], t.Any] | None = None,
    sample_every: float = 1.0,
    prompts: t.Sequence[Prompt] | None = None,
    cache_salt: str = "",
) -> ClientRun:
    """Run the client once and read its result.

    ``sample`` is called when the load begins, every ``sample_every`` seconds, and when it ends. ``prompts`` has one for
    each request; without them vLLM's clients send random tokens of their own. ``cache_salt`` keeps prompts apart from
    equal ones of earlier measurements in the prefix cache; vLLM's clients send none.
    """
    if client.is_vllm:
        from_file = dataset.write_prompts(work_dir, prompts) if prompts is not None else None
        asked = vllm_client.prepare(
            t.cast(command.Engine, client.engine),
            client.executable,
            target,
            measurement,
            work_dir,
            prompts_file=from_file,
            skip_template=client.skip_template,
        )
        collect = vllm_client.collect
    else:
        output_len = measurement.point.output_len
        salt = {"cache_salt": cache_salt} if cache_salt else {}
        bodies = [
            {**request_body(target.endpoint, target.model, prompt, output_len), **salt} for prompt in prompts or ()
        ]
        if client.engine == "builtin":
            url = target.url + PATHS[target.endpoint]
            asked = builtin.prepare(client.executable, url, measurement, bodies, work_dir)
            collect = builtin.collect
        else:
            key = aiperf.KEY_VARIABLE in environment
            asked = aiperf.prepare(client.executable, target, measurement, bodies, work_dir, key=key)
            collect = aiperf.collect
            environment = aiperf.environment(environment)
    ran = execute(asked, work_dir, environment=environment, timeout=timeout, sample=sample, sample_every=sample_every)
    if not ran.timed_out:
        ran.raw = collect(measurement, work_dir)
    ran.arguments = [argument.replace(work_dir, "WORK_DIR") for argument in asked.argv[1:]]
    return ran

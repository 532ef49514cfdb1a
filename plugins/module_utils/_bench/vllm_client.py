# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""vLLM's own clients, ``vllm bench serve`` in Python and in Rust: where they are, what they need, what they leave."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import subprocess
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from . import command
from .command import Target
from .points import Measurement, Point
from .process import Command

# Asked in the interpreter beside the executable: reading metadata takes 0.1 s where `vllm --version` imports torch.
# Torch's version names its CUDA runtime; NCCL comes as a package of its own, named after the CUDA major version.
_PROBE = """
import importlib.metadata as m, importlib.util as u, json, os, platform
def version(*names):
    for name in names:
        try:
            return m.version(name)
        except m.PackageNotFoundError:
            pass
    return None
spec = u.find_spec("vllm")
print(json.dumps({
    "version": m.version("vllm"),
    "package": os.path.dirname(spec.origin) if spec and spec.origin else "",
    "pandas": bool(u.find_spec("pandas")),
    "aiohttp": version("aiohttp"),
    "software": {
        "torch": version("torch"),
        "cuda_runtime": version("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12"),
        "nccl": version("nvidia-nccl-cu13", "nvidia-nccl-cu12"),
        "python": platform.python_version(),
    },
}))
"""

# Lines between which both engines send the load; the Python client imports and tokenizes before the first one.
_BEGIN: t.Final = "starting main benchmark run"
_END: t.Final = "serving benchmark result"


@dataclass(frozen=True)
class Installation:
    """The vLLM behind an executable. A wrapper has no interpreter beside it, and is believed to have pandas."""

    executable: str
    version: str
    python: str = ""
    package: str = ""
    pandas: bool = True
    aiohttp: str | None = None
    # Versions of what it computes with: torch, cuda_runtime, nccl, python; None for what it has not.
    software: t.Mapping[str, str | None] = field(default_factory=dict)


def find(vllm: str) -> Installation | None:
    """The vLLM that the option ``vllm`` names; None when there is no such executable."""
    executable = shutil.which(vllm)
    return _installed(executable) if executable else None


def skip_template(package: str) -> str:
    """What this vLLM calls the switch, read in the source of its datasets; the newest name where there is none."""
    for path in glob.glob(os.path.join(package, "benchmarks", "datasets*", "**", "*.py"), recursive=True) + glob.glob(
        os.path.join(package, "benchmarks", "datasets.py")
    ):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
            if f'"--{command.SKIP_TEMPLATE}"' not in text and f'"--{command.SKIP_TEMPLATE_BEFORE}"' in text:
                return command.SKIP_TEMPLATE_BEFORE
    return command.SKIP_TEMPLATE


def _installed(executable: str) -> Installation:
    python = os.path.join(os.path.dirname(os.path.realpath(executable)), "python3")
    if os.access(python, os.X_OK):
        probe = ask([python, "-I", "-c", _PROBE], 30)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            answer = json.loads(probe.stdout)
            return Installation(
                executable,
                version=str(answer["version"]),
                python=python,
                package=str(answer["package"]),
                pandas=bool(answer.get("pandas", True)),
                aiohttp=answer.get("aiohttp"),
                software=answer.get("software") or {},
            )
    answered = ask([executable, "--version"], 120)
    if answered.returncode != 0:
        raise ModelopsError(
            f"{executable} --version ended with {answered.returncode}: {answered.stderr.strip()[-300:]}",
            "Repair this vLLM installation or point the option vllm at another one.",
        )
    lines = answered.stdout.strip().splitlines()
    return Installation(executable, lines[-1] if lines else "")


def ask(argv: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a short command in the client's environment. Raises ModelopsError when it does not run or end."""
    environment = command.bench_environment(os.environ, "", None)
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise ModelopsError(
            f"{argv[0]} could not be asked: {e}.", "Repair it, or point the option (vllm, aiperf) at one that works."
        ) from e


def rust_lacks(binary: str, target: Target) -> str:
    """Why this Rust client cannot be used; empty when it can.

    It makes the prompts of a small point without sending them, which shows that it knows each flag and can load the
    tokenizer: early releases (0.26) have no benchmark, and not every tokenizer has a form that it reads.
    """
    if not os.access(binary, os.X_OK):
        return "this vLLM does not ship it"
    trial = Measurement(Point(concurrency=1, input_len=8, output_len=2, num_prompts=1), repeat=1, seed=1)
    answered = ask([binary, *command.bench_arguments(target, trial, os.devnull, "rust"), "--dry-run"], 60)
    if answered.returncode == 0:
        return ""
    lines = answered.stderr.strip().splitlines()
    return f"its trial ended with status {answered.returncode}: {' | '.join(lines[-4:])[-400:]}"


def prepare(
    engine: command.Engine,
    executable: str,
    target: Target,
    measurement: Measurement,
    work_dir: str,
    *,
    prompts_file: str | None,
    skip_template: str,
) -> Command:
    """The command of one measurement; it leaves its result in ``work_dir``."""
    arguments = command.bench_arguments(
        target, measurement, work_dir, engine, prompts_file=prompts_file, skip_template=skip_template
    )
    return Command([executable, *arguments], _BEGIN, _END)


def collect(measurement: Measurement, work_dir: str) -> dict[str, t.Any] | None:
    """The result that the client left; None without a readable one."""
    try:
        with open(os.path.join(work_dir, f"{measurement.name}.json"), encoding="utf-8") as f:
            data = json.load(f)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None

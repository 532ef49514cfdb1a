# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Finding the deployed vLLM's benchmark client, and running it within a time limit."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import resource
import shutil
import signal
import subprocess
import threading
import time
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError, NotBuiltError
from . import command
from .command import Engine, Target
from .points import Measurement, Point

# Asked in the interpreter beside the executable: reading metadata takes 0.1 s where `vllm --version` imports torch.
_PROBE = (
    "import importlib.metadata as m, importlib.util as u, json, os;"
    "s = u.find_spec('vllm');"
    "print(json.dumps({'version': m.version('vllm'),"
    " 'package': os.path.dirname(s.origin) if s and s.origin else '', 'pandas': bool(u.find_spec('pandas'))}))"
)

# Lines between which both engines send the load; the Python client imports and tokenizes before the first one.
_BEGIN: t.Final = "starting main benchmark run"
_END: t.Final = "serving benchmark result"

# File descriptors: one a stream, and room for libraries, pipes and files.
_FILES_PER_STREAM: t.Final = 4
_FILES_SPARE: t.Final = 256

_LOG_LINES: t.Final = 400


@dataclass(frozen=True)
class Client:
    """The client that will measure: which engine, what is executed, its vLLM's version."""

    engine: Engine
    executable: str
    version: str
    # The switch against chat templates around prompts of a file; it was renamed.
    skip_template: str = command.SKIP_TEMPLATE
    # Whether it can read prompts from a file: the Python client does that with pandas, which vLLM does not require.
    reads_files: bool = True


@dataclass
class ClientRun:
    """How one run of the client went. ``raw`` is its result file; CPU and wall seconds are of the load alone."""

    rc: int
    raw: dict[str, t.Any] | None
    log: str
    wall_s: float
    timed_out: bool = False
    load_wall_s: float | None = None
    load_cpu_s: float | None = None
    samples: list[t.Any] = field(default_factory=list)

    @property
    def cpu_share(self) -> float | None:
        """CPU seconds a second of load: 1.0 is one core, which is all that the Python client can use."""
        return self.load_cpu_s / self.load_wall_s if self.load_cpu_s is not None and self.load_wall_s else None


def find_client(vllm: str, wanted: str, target: Target) -> Client:
    """The client for the option ``engine``: auto, python or rust.

    Auto takes the Rust client where this vLLM ships one that can load the tokenizer, since its own delays are a tenth
    of the Python client's, and else the Python one. Raises ModelopsError when there is no vLLM that is new enough.
    """
    if wanted not in ("auto", "python", "rust"):
        raise NotBuiltError(f"The benchmark engine {wanted}", "Use auto, python or rust.")
    executable = shutil.which(vllm)
    if not executable:
        raise ModelopsError(
            f"There is no executable {vllm!r} on this host; the benchmark uses the deployed vLLM's own client.",
            "Set the option vllm to its path, for example /opt/vllm/bin/vllm.",
        )
    version, package, pandas = _installed(executable)
    command.check_version(version)
    python = Client("python", executable, version, _skip_template(package), pandas)
    if wanted == "python":
        return python
    rust = os.path.join(package, "vllm-rs") if package else ""
    lacks = _rust_lacks(rust, target)
    if not lacks:
        return Client("rust", rust, version)
    if wanted == "rust":
        raise ModelopsError(f"The Rust client of vLLM {version} cannot be used: {lacks}.", "Use engine auto or python.")
    return python


def _skip_template(package: str) -> str:
    """What this vLLM calls the switch, read in the source of its datasets; the newest name where there is none."""
    for path in glob.glob(os.path.join(package, "benchmarks", "datasets*", "**", "*.py"), recursive=True) + glob.glob(
        os.path.join(package, "benchmarks", "datasets.py")
    ):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
            if f'"--{command.SKIP_TEMPLATE}"' not in text and f'"--{command.SKIP_TEMPLATE_BEFORE}"' in text:
                return command.SKIP_TEMPLATE_BEFORE
    return command.SKIP_TEMPLATE


def _installed(executable: str) -> tuple[str, str, bool]:
    """Version and package directory of the vLLM behind ``executable``, and whether pandas is beside it.

    A wrapper has no directory that is known, and is believed to have pandas.
    """
    python = os.path.join(os.path.dirname(os.path.realpath(executable)), "python3")
    if os.access(python, os.X_OK):
        probe = _ask([python, "-I", "-c", _PROBE], 30)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            answer = json.loads(probe.stdout)
            return str(answer["version"]), str(answer["package"]), bool(answer.get("pandas", True))
    answered = _ask([executable, "--version"], 120)
    if answered.returncode != 0:
        raise ModelopsError(
            f"{executable} --version ended with {answered.returncode}: {answered.stderr.strip()[-300:]}",
            "Repair this vLLM installation or point the option vllm at another one.",
        )
    lines = answered.stdout.strip().splitlines()
    return (lines[-1] if lines else ""), "", True


def _ask(argv: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
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
        raise ModelopsError(f"{argv[0]} could not be asked: {e}.", "Point the option vllm at a working vLLM.") from e


def _rust_lacks(binary: str, target: Target) -> str:
    """Why this Rust client cannot be used; empty when it can.

    It makes the prompts of a small point without sending them, which shows that it knows each flag and can load the
    tokenizer: early releases (0.26) have no benchmark, and not every tokenizer has a form that it reads.
    """
    if not os.access(binary, os.X_OK):
        return "this vLLM does not ship it"
    trial = Measurement(Point(concurrency=1, input_len=8, output_len=2, num_prompts=1), repeat=1, seed=1)
    answered = _ask([binary, *command.bench_arguments(target, trial, os.devnull, "rust"), "--dry-run"], 60)
    if answered.returncode == 0:
        return ""
    lines = answered.stderr.strip().splitlines()
    return f"its trial ended with status {answered.returncode}: {' | '.join(lines[-4:])[-400:]}"


def raise_file_limit(concurrency: int) -> None:
    """Let this process, and so the client, open a file for each stream. Raises ModelopsError when it may not.

    With too few, a share of the requests fails, and the others look fast.
    """
    needed = _FILES_PER_STREAM * concurrency + _FILES_SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        hard = hard if hard == resource.RLIM_INFINITY else max(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (OSError, ValueError) as e:
        raise ModelopsError(
            f"{concurrency} streams need {needed} open files, but the limit is {soft} and cannot be raised: {e}.",
            f"Raise the limit (ulimit -n {needed}) for the user that runs the benchmark, or become root.",
        ) from e


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
    prompts_file: str | None = None,
) -> ClientRun:
    """Run the client once and read its result file.

    ``sample`` is called when the load begins, every ``sample_every`` seconds, and when it ends; what it returns is
    kept. ``prompts_file`` holds the prompts, when they are not random tokens. After ``timeout`` seconds the client's
    whole process group is killed.
    """
    arguments = command.bench_arguments(
        target, measurement, work_dir, client.engine, prompts_file=prompts_file, skip_template=client.skip_template
    )
    argv = [client.executable, *arguments]
    begin = time.monotonic()
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd=work_dir,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    watch = _Watch(process, sample, sample_every)
    timed_out = False
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _kill_group(process)
        watch.finish()
    return ClientRun(
        rc=process.returncode,
        raw=None if timed_out else _read_result(os.path.join(work_dir, f"{measurement.name}.json")),
        log=watch.log,
        wall_s=time.monotonic() - begin,
        timed_out=timed_out,
        load_wall_s=watch.load_wall_s,
        load_cpu_s=watch.load_cpu_s,
        samples=watch.samples,
    )


def _kill_group(process: subprocess.Popen[str]) -> None:
    """End what the client left running; its session is its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_result(path: str) -> dict[str, t.Any] | None:
    try:
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


class _Watch:
    """Reads the client's output as it comes, and looks at its CPU time and at the server while the load runs."""

    def __init__(self, process: subprocess.Popen[str], sample: t.Callable[[], t.Any] | None, every: float) -> None:
        self._process = process
        self._sample = sample
        self._every = every
        self._lines: list[str] = []
        self._begin: tuple[float, float | None] | None = None
        self._end: tuple[float, float | None] | None = None
        self._over = threading.Event()
        self.samples: list[t.Any] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._sampler = threading.Thread(target=self._look, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        output = self._process.stdout
        for line in output or ():
            lowered = line.lower()
            if self._begin is None and _BEGIN in lowered:
                self._begin = (time.monotonic(), _cpu_seconds(self._process.pid))
                if self._sample:
                    self._sampler.start()
            elif self._begin and self._end is None and _END in lowered:
                self._end = (time.monotonic(), _cpu_seconds(self._process.pid))
                self._over.set()
            self._lines.append(line.rstrip("\n"))
            del self._lines[:-_LOG_LINES]

    def _look(self) -> None:
        over = False
        while self._sample:
            seen = self._sample()
            if seen is not None:
                self.samples.append(seen)
            if over:
                return
            over = self._over.wait(self._every)

    def finish(self) -> None:
        """Wait for the threads; the process is over."""
        self._reader.join(10)
        self._over.set()
        if self._sampler.ident is not None:
            self._sampler.join(15)
        if self._process.stdout:
            self._process.stdout.close()

    @property
    def log(self) -> str:
        return "\n".join(self._lines)

    @property
    def load_wall_s(self) -> float | None:
        return self._end[0] - self._begin[0] if self._begin and self._end else None

    @property
    def load_cpu_s(self) -> float | None:
        if not self._begin or not self._end or self._begin[1] is None or self._end[1] is None:
            return None
        return self._end[1] - self._begin[1]


def _cpu_seconds(pid: int) -> float | None:
    """User and system seconds of a process so far (fields 14 and 15 of /proc/PID/stat)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None

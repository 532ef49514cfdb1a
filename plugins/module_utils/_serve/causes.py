# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Why an instance does not come up, read from its log: which lines may speak, and which of them says most."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from . import rules, rules_host
from .rules import Kind, Rule


@dataclass(frozen=True)
class Cause:
    """One reason: a stable id, the log line that shows it, what to do."""

    id: str
    line: str
    remedy: str

    def as_dict(self) -> dict[str, str]:
        return {"id": self.id, "line": self.line, "remedy": self.remedy}


RULES: t.Final[tuple[Rule, ...]] = (
    *rules.ARGUMENT_RULES,
    *rules.LAYOUT_RULES,
    *rules.MEMORY_RULES,
    *rules.MODEL_RULES,
    *rules_host.NETWORK_RULES,
    *rules_host.GPU_RULES,
    *rules_host.CONTAINER_RULES,
    *rules_host.HOST_RULES,
    *rules_host.WRAPPER_RULES,
)

# What vLLM 0.32.0 logs as an error with a traceback, and then goes on without: the whole of it says nothing.
_HARMLESS: t.Final = re.compile(
    # No NVLink: PCIe cards have none. platforms/cuda.py
    r"NVLink detection (failed|not possible)"
    # Caches that cannot be written, and kernels that are compiled later. models/registry.py, warmup/kernel_warmup.py
    r"|Error saving model info cache|JIT kernel warmup failed"
    # There is another way, which is taken. model_loader, distributed, fused_moe, transformers_utils
    r"|falling back to |use the NCCL fallback|Failed to initialize FlashInfer Allreduce|Failed to import Triton kernels"
    r"|Failed to load NCCL library|Error retrieving file list|Failed to collect processor kwargs"
    r"|Error ignored in |, retrying \d+ of \d+|Error when parsing merged embeddings|Falling back to"
    # What ends, ends. v1/engine, v1/metrics
    r"|Error during metrics cleanup|Failed to shut down"
)

# "(EngineCore pid=7) ERROR 11-30 03:10:24 [core.py:1510] text"; the process tag and the level may be missing. Tags of
# vLLM since 0.10: (Worker_TP0_EP0 pid=7), (EngineCore_DP0 pid=7), (VllmWorker TP0 pid=7), (VllmWorker rank=0 pid=7).
# "[rank0]: text" is a traceback that torch prints. Behind one space the text has its own indentation, which says what
# the line is. "[rank0]:[E1130 03:10:24.123 ProcessGroupNCCL.cpp:632] text" is what C++ code of torch prints.
_PREFIX = re.compile(
    r"^(?P<tag>(?:\([\w-]+(?:(?: [\w=-]+)* pid=\d+)?\) ?)*(?:\[rank\d+\]:(?: |$))?)"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:.]+ \[[^\]]*\] ?"
    r"|(?:\[rank\d+\]:)?\[(?P<letter>[IWEF])\d{4} [\d:.]+ [^\]]*\] )?"
)
# What an error looks like where no logger prefixed it: the last line of a traceback, argparse, pydantic, uvicorn, the
# runtime, systemd, podman.
_RAW_ERROR = re.compile(
    r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Failed|\.\w*error)\b|Exception: |\S+(?: \S+)?: error: |ERROR: +\S"
    r"|Fatal Python error|Segmentation fault|!+ Segfault encountered|Illegal instruction|terminate called"
    r'|Error: |SystemExit: |time="[^"]*" level=(?:error|fatal) '
    r"|(?:\S+: )*\S+\.service: (?:A process of this unit has been killed|Failed (?:at step|to )"
    r"|Failed with result 'oom-kill'|Main process exited, code=(?:killed|dumped)|Start request repeated))"
)
_PYDANTIC = re.compile(rules.PYDANTIC)
# Tracebacks, and what vLLM 0.32.0 was doing when its engine died (logging_utils/dump_input.py).
_NOISE = re.compile(
    r"Traceback \(most recent call last\)|During handling of the above|The above exception was"
    r"|Dumping (?:input data|scheduler (?:output|stats))"
)
# An exception without a message says nothing without the line that raised it.
_BARE = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception):?\s*$")
_SOURCE = re.compile(r'^\s+File "(?:.*/)?(?P<file>[^"/]+)", line (?P<line>\d+), in ')
# No error, but why a start ends that was told to; vLLM then reports a failed engine. Lines of vLLM and of systemd.
_STOPPED = re.compile(r"\[shutdown\] .*trigger received signal=|^systemd: Stopping ")
_LOGGED_ERROR = ("ERROR", "CRITICAL", "E", "F")
_LINE_LIMIT = 2000


def errors(lines: t.Iterable[str]) -> t.Iterator[str]:
    """The texts of the lines that report an error, without their prefix.

    A warning may quote the very words of a fatal line (vLLM warns of "OSError: [Errno 24]" at each start where
    the limit of open files is low), so logged lines below ERROR never count, and plain lines must look like one.
    """
    sources: dict[str, str] = {}  # process -> "file.py:12: the line of code", the last one of its traceback
    ignored = ""
    for line in lines:
        match = _PREFIX.match(line)
        prefix, tag = (match[0], match["tag"]) if match else ("", "")
        text = line[len(prefix) :]
        level = (match["level"] or match["letter"]) if match else None
        if ignored and prefix == ignored:
            continue
        ignored = prefix if level is not None and _HARMLESS.search(text) else ""
        if ignored:
            continue
        _follow(sources, tag, text)
        if _speaks(text, level):
            source = sources.get(tag)
            yield f"{text.strip().rstrip(':')} ({source})" if source and _BARE.match(text) else text


def _follow(sources: dict[str, str], tag: str, text: str) -> None:
    """Keep the last line of code in the traceback of a process."""
    place = _SOURCE.match(text)
    if place is not None:
        sources[tag] = f"{place['file']}:{place['line']}"
    elif text.startswith("    ") and text.strip(" ^~") and sources.get(tag, "").rpartition(":")[2].isdigit():
        sources[tag] += f": {text.strip()}"


def _speaks(text: str, level: str | None) -> bool:
    if level is None:
        return _RAW_ERROR.match(text) is not None or _PYDANTIC.match(text) is not None
    if level not in _LOGGED_ERROR or _NOISE.match(text) or not text.strip():
        return False
    return not text.startswith(" ") or _PYDANTIC.match(text) is not None


_STOPPED_RULE: t.Final = next(rule for rule in RULES if rule.id == "stopped")


def _rank(text: str, kind: Kind) -> int | None:
    return next((i for i, rule in enumerate(RULES) if rule.kind == kind and rule.pattern.search(text)), None)


def _best(texts: t.Iterable[str], kind: Kind) -> Cause | None:
    """The first line of the rule that stands first in the table."""
    best: tuple[int, str] | None = None
    for text in texts:
        rank = _rank(text, kind)
        if rank is not None and (best is None or rank < best[0]):
            best = (rank, text)
    return None if best is None else _cause(RULES[best[0]], best[1])


def _cause(rule: Rule, text: str) -> Cause:
    return Cause(rule.id, text.strip()[:_LINE_LIMIT], rule.remedy)


def fatal(lines: t.Iterable[str]) -> Cause | None:
    """The cause of a start that is lost, while it still runs."""
    return _best(errors(lines), "fatal")


def wrapper(lines: t.Iterable[str]) -> Cause | None:
    """A line that says that the engine failed; the line that says why may still come."""
    return _best(errors(lines), "wrapper")


def postmortem(lines: t.Sequence[str]) -> Cause | None:
    """Why a start that has ended did so: a fatal line, else the last error that is no mere wrapper, else that one.

    One that was told to end, and says no more than that the engine failed, was stopped.
    """
    texts = list(errors(lines))
    found = _best(texts, "fatal")
    if found is not None:
        return found
    last = next((text for text in reversed(texts) if _rank(text, "wrapper") is None), None)
    if last is None:
        stop = next((line for line in lines if _STOPPED.search(line)), None)
        return _best(texts, "wrapper") if stop is None else _cause(_STOPPED_RULE, stop)
    rank = _rank(last, "hint")
    if rank is not None:
        return _cause(RULES[rank], last)
    return Cause("unclassified", last.strip()[:_LINE_LIMIT], "No rule knows this error: the journal has its traceback.")

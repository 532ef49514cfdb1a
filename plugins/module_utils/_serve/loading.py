# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""How far a start is, read from the last line of its log that says so. Lines of vLLM 0.32.0."""

from __future__ import annotations

import re
import typing as t

# pattern -> what it means, with the groups of the match
_STAGES: t.Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    # model_loader/weight_utils.py: one line for each shard; a draft model has shards of its own
    (
        re.compile(r"[Ll]oading .*shards: +(?P<share>\d+)% Completed \| (?P<done>\d+)/(?P<total>\d+)"),
        "loading weights: {done} of {total} shards ({share} %)",
    ),
    (re.compile(r"Loading weights took (?P<seconds>[\d.]+) seconds"), "weights read in {seconds} s"),
    (re.compile(r"Model loading took (?P<gib>[\d.]+) GiB"), "weights loaded: {gib} GiB on a GPU"),
    # compilation/backends.py and monitor.py
    (re.compile(r"for vLLM's torch\.compile|Starting torch\.compile|Compiling a graph for"), "compiling kernels"),
    (re.compile(r"torch\.compile took (?P<seconds>[\d.]+) s in total"), "kernels compiled in {seconds} s"),
    (re.compile(r"Available KV cache memory: (?P<gib>[\d.]+) GiB"), "memory profiled: {gib} GiB for the KV cache"),
    (re.compile(r"KV cache size: (?P<tokens>[\d,]+) tokens"), "KV cache made: {tokens} tokens"),
    # gpu_model_runner.py; a progress bar without line ends, which the journal gets when it is full or finished
    (
        re.compile(r"Capturing [\w -]*CUDA graphs.*\| (?P<done>\d+)/(?P<total>\d+) \["),
        "capturing CUDA graphs: {done} of {total}",
    ),
    (re.compile(r"Graph capturing finished in (?P<seconds>[\d.]+) secs"), "CUDA graphs captured in {seconds} s"),
    (re.compile(r"init engine \([^)]*\) took"), "the engine is up, the API server starts"),
    (re.compile(r"Starting to load model"), "making the model"),
    (re.compile(r"Initializing a V1 LLM engine"), "starting the engine"),
    (re.compile(r"Using max model len"), "reading the configuration of the model"),
    (re.compile(r"Application startup complete"), "the API server is up"),
)


def stage(lines: t.Sequence[str]) -> str:
    """What the start does now, for people; empty when the log says nothing of it."""
    for line in reversed(lines):
        for pattern, text in _STAGES:
            match = pattern.search(line)
            if match is not None:
                return text.format_map(match.groupdict())
    return ""

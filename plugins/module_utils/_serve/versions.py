# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a model asks of the version of vLLM."""

from __future__ import annotations

import re
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, error, warning

_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
# From the first to before the second, vLLM runs the code that config.json names, whatever trust_remote_code says.
# Source: CVE-2026-22807.
UNGUARDED: t.Final = ((0, 10, 1), (0, 14, 0))


def release(version: str) -> tuple[int, int, int] | None:
    """(major, minor, patch) of a version text; None when it has none."""
    match = _RELEASE.search(version)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))


def old_version(version: str, minimum: str) -> list[Finding]:
    """The profile's ``min_vllm`` against a version; nothing is said when either is empty."""
    if not minimum or not version:
        return []
    wanted, installed = release(minimum), release(version)
    if wanted is None:
        raise ModelopsError(f"serve_min_vllm is {minimum!r}, which is no version.", "Write it as 0.32.0.")
    if installed is not None and installed >= wanted:
        return []
    return [
        error(
            "vllm-too-old",
            f"vLLM {version} is too old: the model needs {minimum} or newer.",
            f"Install vLLM {minimum} or newer into another serve_venv, or point serve_vllm_bin at one.",
            installed=version,
            minimum=minimum,
        )
    ]


def bad_version(version: str, known: t.Sequence[t.Mapping[str, t.Any]]) -> list[Finding]:
    """The profile's ``bad_vllm``: a warning, since a report of others is no proof for this node."""
    installed = release(version)
    return [
        warning(
            "vllm-known-bad",
            f"vLLM {version} is known to fail with this model: {bad.get('why', 'no reason is given')}",
            "Install another version into another serve_venv.",
            installed=version,
        )
        for bad in known
        if installed is not None and release(str(bad.get("version", ""))) == installed
    ]


def unguarded(version: str) -> bool:
    """Whether this vLLM may run code of a repository that nobody has trusted."""
    found = release(version)
    return found is not None and UNGUARDED[0] <= found < UNGUARDED[1]

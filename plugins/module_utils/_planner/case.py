# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One layout to judge: what every rule gets."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._findings import Finding
from .gpus import Gpus
from .layout import Layout
from .shape import ModelShape
from .values import Version, version_text

Findings = t.Iterator[Finding]


@dataclass(frozen=True)
class Case:
    """One layout to judge: of which model, on which GPUs, for which vLLM (None is "not known")."""

    shape: ModelShape
    layout: Layout
    gpus: Gpus | None = None
    nodes: int = 1
    version: Version | None = None

    @property
    def vllm(self) -> str:
        """The version in a sentence."""
        return f"vLLM {version_text(self.version)}" if self.version else "vLLM (version not given)"

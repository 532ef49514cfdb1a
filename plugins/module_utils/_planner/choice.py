# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What ``serve_layout: auto`` is: one rule for whoever plans, checks and deploys."""

from __future__ import annotations

import typing as t


def chosen(answer: t.Mapping[str, t.Any], wanted: t.Sequence[str], one_engine: bool = False) -> str:
    """The id of the layout of ``answer`` (a result of layout_info) that is deployed; empty when none is valid.

    The first valid one of ``wanted``, else the recommended one, else the first valid one. ``one_engine`` is one on the
    GPUs of several nodes and uses all of them: replicas and idle GPUs are no choice there.
    """
    valid = [x for x in answer.get("layouts") or [] if x["valid"]]
    if one_engine:
        valid = [x for x in valid if x["replicas"] == 1 and not x["idle_gpus"]]
    ids = [x["id"] for x in valid]
    return next((id_ for id_ in [*wanted, answer.get("recommended"), *ids] if id_ in ids), "")


def preferred(model: t.Mapping[str, t.Any], hardware: t.Mapping[str, t.Any]) -> list[str]:
    """The layout ids that two profiles prefer: those of the hardware, else those of the model for this link between
    GPUs (``layouts_by_link``), else those of the model (``layouts``)."""
    if "layouts" in hardware:
        return list(hardware["layouts"])
    link = (hardware.get("gpus") or {}).get("link")
    by_link = model.get("layouts_by_link") or {}
    return list(by_link.get(link) or model.get("layouts") or [])

# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.modelops.vllm.plugins.module_utils._table import aligned, number

DOCUMENTATION = r"""
name: layout_table
short_description: Layouts as a table for people
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - A table of what M(modelops.vllm.layout_info) returns. First the valid layouts, the recommended one on top and the
    others in the order of its ranking, then the invalid ones with the reason, then what holds for the whole plan.
positional: _input
options:
  _input:
    description: The result of M(modelops.vllm.layout_info).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the layouts
  ansible.builtin.debug:
    msg: "{{ (plan | modelops.vllm.layout_table).splitlines() }}"
"""

RETURN = r"""
_value:
  description: The table.
  type: str
"""

_HEAD = (
    "", "layout", "GPUs", "idle", "weights", "overhead", "KV tokens", "an engine", "longest", "requests", "warnings",
)  # fmt: skip
_LEFT = {0, 1, 10}  # columns of words; the others are numbers, aligned to the right


def layout_table(plan: t.Mapping[str, t.Any]) -> str:
    """Lines for a fixed width font: ``*`` is recommended, ``=`` as good. Sizes are GiB of one GPU.

    An engine is a replica or a data parallel rank; ``longest`` is the longest request in tokens that fits, ``requests``
    how many of the length that was planned with.
    """
    choice = plan.get("recommendation") or {}
    recommended, ties = plan.get("recommended"), choice.get("ties") or []
    place = {entry["id"]: i for i, entry in enumerate(choice.get("ranking") or [])}
    layouts = plan.get("layouts") or []
    valid = [x for x in layouts if x["valid"]]
    valid.sort(key=lambda x: (x["id"] != recommended, place.get(x["id"], len(place)), x["idle_gpus"] or 0))
    lines = aligned([_HEAD, *(_row(x, recommended, ties) for x in valid)], _LEFT) if valid else []
    lines += _refused([x for x in layouts if not x["valid"]])
    lines += ["", f"Recommended for {choice.get('objective', 'this objective')}: {_choice(recommended, choice)}"]
    general = plan.get("findings") or []
    notes = [f"  {f['severity'].upper()} {f['message']} {f['remedy']}".rstrip() for f in general]
    return "\n".join(lines + notes).lstrip("\n")


def _refused(layouts: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Each reason once, with the layouts that it concerns."""
    reasons: dict[str, list[str]] = {}
    for layout in layouts:
        for finding in layout["findings"]:
            if finding["severity"] == "error":
                reasons.setdefault(finding["message"], []).append(layout["id"])
    lines = [f"  {', '.join(ids)}: {message}" for message, ids in reasons.items()]
    return ["", "Not valid:", *lines] if lines else []


def _choice(recommended: str | None, choice: t.Mapping[str, t.Any]) -> str:
    if recommended is None:
        return "none of them."
    ties = choice.get("ties") or []
    text = f"{recommended} ({choice.get('reason', '')}; confidence: {choice.get('confidence', 'not given')})"
    return text + (f", as good by the cost model: {', '.join(ties)}." if ties else ".")


def _row(layout: t.Mapping[str, t.Any], recommended: str | None, ties: t.Sequence[str]) -> tuple[str, ...]:
    id_ = layout["id"]
    return (
        "*" if id_ == recommended else "=" if id_ in ties else "",
        id_,
        str(layout["gpus"]),
        number(layout["idle_gpus"]),
        number(layout["weights_gib_per_gpu"], 2),
        number(layout["overhead_gib_per_gpu"], 1),
        number(layout["kv_tokens_total"]),
        number(layout["kv_tokens"]),
        number(layout["max_model_len_fit"]),
        number(layout["max_concurrency_total"], 1),
        ", ".join(f["id"] for f in layout["findings"] if f["severity"] == "warning"),
    )


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"layout_table": layout_table}

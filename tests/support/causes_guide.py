# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the tables of docs/docsite/rst/guide_readiness.rst from the tables of the code.

PYTHONPATH=.ansible/collections python tests/support/causes_guide.py
"""

from __future__ import annotations

import sys
import typing as t

from ansible_collections.modelops.vllm.plugins.module_utils._serve import deviation, question, rules, rules_host

ENDS = {"fatal": "at once", "hint": "when the unit has ended", "wrapper": "after a minute"}
GROUPS = {
    "Arguments": rules.ARGUMENT_RULES,
    "Layout": rules.LAYOUT_RULES,
    "Memory": rules.MEMORY_RULES,
    "Model and kernels": rules.MODEL_RULES,
    "Network": rules_host.NETWORK_RULES,
    "GPUs": rules_host.GPU_RULES,
    "Containers": rules_host.CONTAINER_RULES,
    "Node and unit": rules_host.HOST_RULES,
    "Engine": rules_host.WRAPPER_RULES,
}


def _table(head: t.Sequence[str], rows: t.Iterable[t.Sequence[str]], widths: str) -> str:
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in (head, *rows):
        lines += [("   * - " if i == 0 else "     - ") + cell for i, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("`", "\\`").replace("|", "\\|")


def tables() -> str:
    """The tables of causes: those of the log, then those of the answers."""
    parts = []
    for title, group in GROUPS.items():
        rows = [(f"``{rule.id}``", ENDS[rule.kind], _text(rule.remedy)) for rule in group]
        parts.append(
            f"{title}\n{'~' * len(title)}\n\n" + _table(("Cause", "Ends the wait", "What to do"), rows, "25 15 60")
        )
    rows = [(f"``{id_}``", _text(remedy)) for id_, remedy in question.REMEDIES.items()]
    title = "Causes in the answers"
    parts.append(f"{title}\n{'-' * len(title)}\n\n" + _table(("Cause", "What to do"), rows, "25 75"))
    return "\n".join(parts)


def deviations() -> str:
    """The table of findings about the plan."""
    rows = [
        (
            f"``{rule.id}``",
            rule.name,
            f"{rule.below:.0%} below to {rule.above:.0%} above" if rule.above else "none",
            _text(rule.remedy),
        )
        for rule in deviation.TOLERANCES
    ]
    return _table(("Finding", "Figure", "Tolerance", "What to do"), rows, "25 25 15 35")


if __name__ == "__main__":
    sys.stdout.write(f"{tables()}\n{deviations()}")

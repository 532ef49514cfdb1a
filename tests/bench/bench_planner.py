# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long all layouts of all known models on the largest machines take in one process, and what is recommended.

With ``--table`` the recommendations are printed as a table in reStructuredText, as the guide on layouts has it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.modelops.vllm.plugins.module_utils._planner.api import layout_info

ROOT = Path(__file__).parents[2]
MODELS = json.loads((ROOT / "tests/unit/fixtures/models.json").read_text(encoding="utf-8"))["models"]
PROFILES = sorted((ROOT / "playbooks/vars/hardware").glob("*.yml"))
MACHINES = ("rtx_pro_6000_x8", "h200_x8", "b200_x8", "h200_x2")
VERSION, ROUNDS, LIMIT_S = "0.32.0", 5, 0.5


def gpus_of(path: Path) -> dict[str, Any]:
    gpus: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["vllm_hardware"]["gpus"]
    return gpus


def plan(model: dict[str, Any], gpus: dict[str, Any]) -> dict[str, Any]:
    return layout_info({"config": model, "gpus": gpus, "vllm_version": VERSION})


def table() -> None:
    """The recommendation for each model on each machine, with its weights and KV tokens."""
    machines = {path.stem: gpus_of(path) for path in PROFILES}
    rows = [("Model", "Hardware", "Layout", "Weights, GiB a GPU", "KV tokens", "Confidence")]
    for model in MODELS:
        for name in MACHINES:
            result = plan(model, machines[name])
            best = next((x for x in result["layouts"] if x["id"] == result["recommended"]), None)
            sizes = (f"{best['weights_gib_per_gpu']:.2f}", f"{best['kv_tokens_total']:,}") if best else ("-", "-")
            rows.append((model["id"], name, best["id"] if best else "none fits", *sizes, confidence(result)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    print("\n".join([rule, lines[0], rule, *lines[1:], rule]))


def confidence(result: dict[str, Any]) -> str:
    choice = result["recommendation"]
    ties = [f"tie with {', '.join(choice['ties'])}"] if choice["ties"] else []
    return ", ".join(([] if choice["confidence"] == "tie" else [choice["confidence"]]) + ties)


def main() -> None:
    if "--table" in sys.argv[1:]:
        table()
        return
    machines = [gpus_of(path) for path in PROFILES if path.stem in MACHINES]
    best = float("inf")
    for _round in range(ROUNDS):
        start = time.perf_counter()
        layouts = sum(len(plan(model, gpus)["layouts"]) for model in MODELS for gpus in machines)
        best = min(best, time.perf_counter() - start)
    print(
        f"planning {layouts} layouts of {len(MODELS)} models on {len(machines)} hardware profiles: {best:.3f} s, "
        f"the limit is {LIMIT_S} s, best of {ROUNDS} rounds"
    )


if __name__ == "__main__":
    main()

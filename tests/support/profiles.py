# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model and hardware profiles, and what the planner says of each model on each hardware.

``python tests/support/profiles.py`` writes the tables of the guide on models and hardware anew.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml
from ansible_collections.modelops.vllm.plugins.module_utils._planner import choice
from ansible_collections.modelops.vllm.plugins.module_utils._planner.api import layout_info

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "docsite" / "rst" / "guide_matrix.rst"
START, END = "..\n    The tables: generated from here ...\n", "..\n    ... to here.\n"
# What the role serve installs unless told otherwise.
VERSION = yaml.safe_load((ROOT / "roles/serve/defaults/main.yml").read_text())["serve_vllm_requirement"].split("==")[1]
# Of the demo, not of a site.
DEMO = {"demo_moe", "cpu_demo"}

Profile = dict[str, t.Any]


def load(kind: str) -> dict[str, Profile]:
    """The profiles of ``models`` or ``hardware`` by name, without those of the demo."""
    files = sorted((ROOT / "playbooks" / "vars" / kind).glob("*.yml"))
    loaded = {f.stem: next(iter(yaml.safe_load(f.read_text(encoding="utf-8")).values())) for f in files}
    return {name: profile for name, profile in loaded.items() if name not in DEMO}


def plan(model: Profile, hardware: Profile) -> dict[str, t.Any]:
    """layout_info with all that the two profiles say, as playbooks/plan.yml asks it."""
    flags = {**hardware["serve_args"], **model["serve_args"]}
    return layout_info(
        {
            "config": model["config"],
            "gpus": hardware["gpus"],
            "nodes": hardware.get("nodes", 1),
            "vllm_version": VERSION,
            "max_model_len": model.get("max_model_len"),
            "max_num_seqs": flags.get("max-num-seqs"),
            "gpu_memory_utilization": flags.get("gpu-memory-utilization"),
            "kv_cache_dtype": flags.get("kv-cache-dtype"),
            "mm_encoder_tp_mode": flags.get("mm-encoder-tp-mode"),
        }
    )


def chosen(model: Profile, hardware: Profile, answer: t.Mapping[str, t.Any]) -> dict[str, t.Any] | None:
    """What serve_layout=auto takes."""
    id_ = choice.chosen(answer, choice.preferred(model, hardware), hardware.get("nodes", 1) > 1)
    return next((x for x in answer["layouts"] if x["id"] == id_), None)


def reason(answer: t.Mapping[str, t.Any]) -> str:
    """Why no layout is valid: the first error of the one that comes closest."""
    closest = min(answer["layouts"], key=lambda x: (x["weights_gib_per_gpu"] or 0, x["id"]))
    return next(f["message"] for f in closest["findings"] if f["severity"] == "error")


def tables() -> str:
    """One table a model, in reStructuredText."""
    parts = []
    for name, model in load("models").items():
        title = f"{name}: {model['repo_id']}"
        parts += [title, "-" * len(title), "", *_model(model), ""]
    return "\n".join(parts)


def _model(model: Profile) -> list[str]:
    if "download_only" in model:
        return [f"For ``playbooks/download.yml`` only. {model['download_only']}"]
    needs = [f"vLLM {model['min_vllm']} or later", *(f"not {bad['version']}" for bad in model.get("bad_vllm", []))]
    needs += [f"{model['disk_bytes'] / 1e9:,.0f} GB on disk", *["code of its repository"] * model["trust_remote_code"]]
    lines = [f"Needs {', '.join(needs)}.", ""]
    rows = [("Hardware", "Layout", "Weights, GiB a GPU", "Longest request", "KV tokens")]
    refused = []
    for name, hardware in load("hardware").items():
        answer = plan(model, hardware)
        best = chosen(model, hardware, answer)
        if best is None:
            refused.append(f"- {name}: {reason(answer)}")
        else:
            tokens = (f"{best['max_model_len_fit']:,}", f"{best['kv_tokens_total']:,}")
            rows.append((name, best["id"], f"{best['weights_gib_per_gpu']:.2f}", *tokens))
    if len(rows) > 1:
        lines += [*_table(rows), ""]
    return lines + (["Not on:", "", *refused] if refused else [])


def _table(rows: t.Sequence[t.Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [rule, lines[0], rule, *lines[1:], rule]


def written(text: str) -> str:
    """The guide with the tables of today."""
    head, rest = text.split(START)
    return f"{head}{START}\n{tables()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    GUIDE.write_text(written(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
